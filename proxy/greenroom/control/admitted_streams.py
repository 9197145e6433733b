"""Streams that last, beside those of the control API itself: how many there may be, and for how long.

The rule: a stream ends once its caller would no longer be let in, also where nothing happens on it; and those who hold
streams of one kind open keep others out of that kind only.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from greenroom.errors import AccessRefused, TooManyWatchers

MAX_STREAMS: Final = 200
"""Of one kind. Clients have one each: for reflection while somebody looks around, for health as long as they live."""
CHECK_SECONDS: Final = 2.0
"""The access file is looked at as often, or so; to find a caller again takes some microseconds."""

Check = Callable[[], object]


class Streams:
    """Those of one kind, which errors call `kind`."""

    def __init__(self, kind: str) -> None:
        self._kind, self._open = kind, 0

    @asynccontextmanager
    async def one_more(self, check: Check) -> AsyncIterator[None]:
        """A stream's whole life. TooManyWatchers where it has no place; AccessRefused as soon as `check` raises it."""
        if self._open >= MAX_STREAMS:
            raise TooManyWatchers(f"{MAX_STREAMS} {self._kind} streams are open here, which is all there may be")
        self._open += 1
        try:
            async with _as_long_as(check):
                yield
        finally:
            self._open -= 1


@asynccontextmanager
async def _as_long_as(check: Check) -> AsyncIterator[None]:
    ends = _End(check)
    try:
        async with asyncio.timeout(None) as ends.limit:
            ends.look_later()
            yield
    except TimeoutError:
        if ends.refused is None:
            raise
        raise ends.refused from None
    finally:
        ends.timer.cancel()


class _End:
    """Asks again and again, and sets the block's limit to now when the answer is a refusal."""

    limit: asyncio.Timeout
    timer: asyncio.TimerHandle

    def __init__(self, check: Check) -> None:
        self._check = check
        self.refused: AccessRefused | None = None

    def look_later(self) -> None:
        """Asks once more, after a while."""
        self.timer = asyncio.get_running_loop().call_later(CHECK_SECONDS, self._look)

    def _look(self) -> None:
        try:
            self._check()
        except AccessRefused as refused:
            self.refused = refused
            self.limit.reschedule(asyncio.get_running_loop().time())
        else:
            self.look_later()
