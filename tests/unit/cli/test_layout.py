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
    assert printable("ok \x1b[2Jgone\r\nnext") == "ok \ufffd[2Jgone\ufffd\nnext"


def test_indenting() -> None:
    assert indented(["a", "b"]) == ["  a", "  b"]
