"""Columns and lines."""

from greenroom.cli.layout import indented, printable, shortened, table, width


def test_columns_are_aligned_and_end_with_their_text() -> None:
    assert table(("A", "LONGER"), [("aaa", "b"), ("c", "dd")]) == ["A    LONGER", "aaa  b", "c    dd"]


def test_the_width_is_the_longest_lines() -> None:
    assert (width(["a", "abc"]), width([])) == (3, 0)


def test_a_long_reason_becomes_one_short_line() -> None:
    assert shortened("first\n  second", 40) == "first second"
    assert shortened("abcdef", 4) == "abc…"


def test_a_reason_cannot_move_the_cursor() -> None:
    """A check's output may hold terminal codes; whoever reads it must not have their screen rewritten."""
    assert printable("ok \x1b[2Jgone\r\nnext\u202e") == "ok \ufffd[2Jgone\ufffd\ufffdnext\ufffd"


def test_a_name_with_line_breaks_is_one_row_all_the_same() -> None:
    """Its second line could look like another instance that is RELEASED."""
    assert table(("A", "B"), [("x\ny", "z")]) == ["A    B", "x\ufffdy  z"]


def test_letters_that_take_two_columns_are_counted_as_two() -> None:
    assert table(("A", "B"), [("模型", "x"), ("ab", "y")]) == ["A     B", "模型  x", "ab    y"]
    assert width(["模型"]) == 4


def test_indenting() -> None:
    assert indented(["a", "b"]) == ["  a", "  b"]
