"""When each connection is looked at again for what time alone brings about.

Thousands of idle clients have nothing to time for seconds on end, and asking each of them twice a second would be most
of what they cost. Rule: a connection says itself after how long it wants to be asked again, and until then is left
alone.
"""

import math
from typing import Protocol

TURN_SECONDS = 0.5


class Ticked(Protocol):
    """Something that is asked now and then. `turn` belongs to the rounds."""

    turn: int

    def tick(self, now: float) -> float | None:
        """Do what is due at `now`. Returns after how many seconds to be asked again, None for never."""


class Rounds:
    """All that are to be asked, by the turn in which they are due. Times are seconds on any one monotonic clock."""

    def __init__(self) -> None:
        self._due: dict[int, dict[Ticked, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._due.values()))

    def add(self, ticked: Ticked, now: float, seconds: float = 0.0) -> None:
        """Ask it `seconds` after `now`, not sooner, and at least a turn later."""
        ticked.turn = max(math.ceil((now + seconds) / TURN_SECONDS), math.floor(now / TURN_SECONDS) + 1)
        self._due.setdefault(ticked.turn, {})[ticked] = None

    def remove(self, ticked: Ticked) -> None:
        """Ask it no more. Nothing happens if it is not there."""
        self._due.get(ticked.turn, {}).pop(ticked, None)

    def ask(self, now: float) -> None:
        """Ask all that are due by `now`; each of them may remove itself or any other meanwhile."""
        for turn in sorted(turn for turn in self._due if turn * TURN_SECONDS <= now):
            asked = self._due[turn]
            while asked:
                ticked, _ = asked.popitem()
                again = ticked.tick(now)
                if again is not None:
                    self.add(ticked, now, again)
            del self._due[turn]
