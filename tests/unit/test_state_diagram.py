"""The page about states says what the table says."""

import pytest

from greenroom.core.events import APART, REFUSED, TABLE, Event
from greenroom.core.record import State
from scripts.state_diagram import BEGIN, END, PAGE, block, diagram, main, table, with_block


def test_the_page_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().out


def test_only_what_is_between_the_marks_is_written() -> None:
    page = f"before\n{BEGIN}\nstale\n{END}\nafter\n"
    assert with_block(page) == f"before\n{BEGIN}\n\n{block()}\n\n{END}\nafter\n"
    assert with_block(with_block(page)) == with_block(page)


@pytest.mark.parametrize("page", ["", BEGIN, END, f"{END}{BEGIN}", f"{BEGIN}{BEGIN}{END}"])
def test_a_page_without_its_marks_is_left_alone(page: str) -> None:
    with pytest.raises(ValueError, match="marks"):
        with_block(page)


def test_the_table_has_a_row_for_each_event_and_a_cell_for_each_state() -> None:
    rows = [line.strip("| ").split(" | ") for line in table().splitlines()]
    assert rows[0] == ["event", *State]
    assert [row[0] for row in rows[2:]] == list(Event)
    refused = {(state, event) for event, row in zip(Event, rows[2:], strict=True)
               for state, cell in zip(State, row[1:], strict=True) if cell == "*refused*"}  # fmt: skip
    assert refused == {pair for pair, goal in TABLE.items() if goal == REFUSED}


def test_the_diagram_shows_every_move() -> None:
    drawn = diagram()
    for (state, event), goal in TABLE.items():
        shown = any(
            line.strip().startswith(f"{state} --> ") and event in line.split(": ")[1].split(", ")
            for line in drawn.splitlines()
        )
        assert shown == (goal not in (REFUSED, APART, state)), (state, event)


def test_every_state_and_event_is_explained() -> None:
    page = PAGE.read_text()
    assert all(f"| {state} |" in page for state in State)
    explained = page.split(END)[1]
    assert [event for event in Event if event not in explained] == []
