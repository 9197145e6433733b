"""Writes the state diagram and its tables into docs/states.md, from the transition table in the code.

The rule: what stands between the two marks is the table's and nobody else's. `--check` only says whether it is current.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from greenroom.core.events import APART, REFUSED, SETTLE, TABLE, Apart, Event, Refused, Settle
from greenroom.core.record import State

PAGE = Path(__file__).resolve().parent.parent / "docs" / "states.md"
BEGIN = "<!-- from the transition table: scripts/state_diagram.py writes what follows -->"
END = "<!-- end of what scripts/state_diagram.py writes -->"

CHOICE = "gates"
"""The node for a pair that the gates decide."""


def main(arguments: list[str]) -> int:
    page = PAGE.read_text()
    current = with_block(page)
    if arguments == ["--check"]:
        if page != current:
            print(f"{PAGE.name} is not what the table says; run scripts/state_diagram.py")
        return int(page != current)
    PAGE.write_text(current)
    return 0


def with_block(page: str) -> str:
    """The page with a fresh block; ValueError where the marks are not there once each and in order."""
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise ValueError(f"{PAGE.name} must have each of the two marks once: {BEGIN} and {END}")
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    return f"{before}{BEGIN}\n\n{block()}\n\n{END}{after}"


def block() -> str:
    """Everything that comes from the table."""
    return f"```mermaid\n{diagram()}\n```\n\n{table()}"


def diagram() -> str:
    """The moves from one state to another; events that leave a state as it is stand in the table only."""
    moves: dict[tuple[str, str], list[str]] = {}
    for (state, event), goal in TABLE.items():
        if goal not in (REFUSED, APART, state):
            moves.setdefault((state, CHOICE if goal == SETTLE else goal), []).append(event)
    lines = [
        "stateDiagram-v2",
        f"    state {CHOICE} <<choice>>",
        f"    [*] --> {State.HELD}: first gated key",
        f"    [*] --> {State.RELEASED}: served before it was seen",
        *(f"    {start} --> {end}: {', '.join(events)}" for (start, end), events in moves.items()),
        f"    {CHOICE} --> {State.HELD}: none failed",
        f"    {CHOICE} --> {State.REJECTED}: one failed",
        *(f"    {state} --> [*]: lease ends" for state in State),
    ]
    return "\n".join(lines)


def table() -> str:
    """Every pair: a row an event, a column a state."""
    return "\n".join(
        [
            _row("event", *State),
            _row(*["---"] * (1 + len(State))),
            *(_row(event, *(_cell(state, TABLE[state, event]) for state in State)) for event in Event),
        ]
    )


CELLS: Mapping[str, str] = {REFUSED: "*refused*", SETTLE: "as the gates say", APART: "later cards only"}


def _cell(state: State, goal: State | Refused | Settle | Apart) -> str:
    return "stays" if goal == state else CELLS.get(goal, goal)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
