"""The demonstration as its reader sees it: who did what when, and at the end what was seen to be true."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, sleep

from rich.console import Console

from greenroom.cli.options import painted

WHO_WIDTH = 10
POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Check:
    """One statement about what was to be seen, and whether it was."""

    statement: str
    holds: bool


class Timeline:
    """Prints events with the seconds since its creation; lines may come from several threads."""

    def __init__(self, screen: Console) -> None:
        self._screen = screen
        self._start = monotonic()
        self._lock = threading.Lock()
        self.checks: list[Check] = []

    def chapter(self, title: str) -> None:
        """A headline."""
        self._print("", title)

    def line(self, text: str) -> None:
        """Text as it is."""
        self._print(text)

    def tell(self, who: str, what: str) -> None:
        """One event."""
        self._print(f"{monotonic() - self._start:6.1f} s  {who.ljust(WHO_WIDTH)}  {what}")

    def check(self, statement: str, holds: bool) -> None:  # a check is a statement and its truth
        """Notes a statement for the list at the end; one that is not true is told at once too."""
        self.checks.append(Check(statement, holds))
        if not holds:
            self.tell("CHECK", f"NOT SEEN: {statement}")

    def eventually(self, statement: str, fact: Callable[[], object], timeout_seconds: float = 10.0) -> None:
        """Notes whether something becomes true in time."""
        deadline = monotonic() + timeout_seconds
        while not (holds := bool(fact())) and monotonic() < deadline:
            sleep(POLL_SECONDS)
        self.check(statement, holds)

    def conclude(self) -> bool:
        """The list of all checks; whether all of them hold."""
        missing = sum(not check.holds for check in self.checks)
        self.chapter("Seen")
        for check in self.checks:
            self._print(f"  {'yes' if check.holds else 'no '}  {check.statement}")
        took = f"in {monotonic() - self._start:.1f} s"
        self._print("", f"{len(self.checks) - missing} of {len(self.checks)} as it should be, {took}")
        return missing == 0

    def _print(self, *lines: str) -> None:
        with self._lock:
            self._screen.print(painted(*lines))
