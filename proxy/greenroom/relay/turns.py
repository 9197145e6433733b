"""Which handlers are at work, of all that calls were handed over to: a few of each connection, some of the process.

Each may hold an answer of a MiB in several forms, so what clients ask for at once must not all be read at once; the
others wait. Rule: connections take turns, and one that has many gets no more while it has as many as are left for all
others. A handler that works for long waits for somebody else, a lock's holder or an etcd that stands still, and its
turn ends before it does: calls that wait never keep all others waiting.
"""

import asyncio
from collections import deque
from types import TracebackType

from .limits import Bound


class Turns:
    """The turns of the process: `total` at once. Each of them lasts `seconds` at most."""

    __slots__ = ("_waiting", "seconds", "taken")

    def __init__(self, total: int, seconds: float) -> None:
        self.taken = Bound(total)
        self.seconds = seconds
        self._waiting: dict[Line, None] = {}

    def line(self, at_once: int) -> "Line":
        """One connection's share: `at_once` at most."""
        return Line(self, Bound(at_once, self.taken))

    def queue(self, line: "Line") -> None:
        """Somebody waits in `line`."""
        self._waiting[line] = None

    def call_next(self) -> None:
        """A turn is free: it goes to the line that waits longest and may have it, which is then the last one."""
        for line in list(self._waiting):
            if not self.taken.left:
                return
            if not line.is_waiting:
                del self._waiting[line]
            elif line.let_in():
                del self._waiting[line]
                self._waiting[line] = None


class Line:
    """The handlers of one connection, in the order in which their calls came."""

    __slots__ = ("_taken", "_turns", "_waiting")

    def __init__(self, turns: Turns, taken: Bound) -> None:
        self._turns = turns
        self._taken = taken
        self._waiting: deque[asyncio.Future[None]] = deque()

    def turn(self) -> "Turn":
        """What a handler is to be at work in: `async with` waits until it may begin."""
        return Turn(self, self._turns.seconds)

    @property
    def is_waiting(self) -> bool:
        while self._waiting and self._waiting[0].done():  # cancelled
            self._waiting.popleft()
        return bool(self._waiting)

    def let_in(self) -> bool:
        """Give a turn to the first that waits, if this line may have one more."""
        if not self._taken.take(1):
            return False
        self._waiting.popleft().set_result(None)
        return True

    async def take(self) -> None:
        """Wait for a turn, which is then the caller's to give back."""
        if not self.is_waiting and self._taken.take(1):
            return
        called = asyncio.get_running_loop().create_future()
        self._waiting.append(called)
        self._turns.queue(self)
        try:
            await called
        except asyncio.CancelledError:
            if called.done() and not called.cancelled():  # its turn and its end came together
                self.give_back()
            raise

    def give_back(self) -> None:
        self._taken.give_back(1)
        self._turns.call_next()


class Turn:
    """One handler's turn."""

    __slots__ = ("_end", "_line", "_seconds")

    def __init__(self, line: Line, seconds: float) -> None:
        self._line = line
        self._seconds = seconds
        self._end: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        await self._line.take()
        self._end = asyncio.get_running_loop().call_later(self._seconds, self._over)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._end is not None:
            self._end.cancel()
            self._over()

    def _over(self) -> None:
        if self._end is not None:
            self._end = None
            self._line.give_back()
