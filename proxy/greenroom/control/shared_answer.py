"""One answer for all who ask a question at about the same time.

The rule: however many ask, the question is put to others once at a time, and no answer is given that is older than
FRESH_SECONDS, good or bad.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

FRESH_SECONDS: Final = 1.0
"""Probes ask every few seconds; who recovers is not to wait for longer than one of them."""

Answer = TypeVar("Answer")


class SharedAnswer(Generic[Answer]):
    """`ask` puts the question. `clock` is monotonic seconds."""

    def __init__(self, ask: Callable[[], Awaitable[Answer]], *, clock: Callable[[], float]) -> None:
        self._ask, self._clock = ask, clock
        self._one_at_a_time = asyncio.Lock()
        self._last: tuple[float, Answer] | None = None

    async def get(self) -> Answer:
        """The answer, from now or from up to FRESH_SECONDS ago. Whatever `ask` raises is raised, and not kept."""
        async with self._one_at_a_time:
            if self._last is None or self._clock() - self._last[0] >= FRESH_SECONDS:
                answer = await self._ask()
                self._last = self._clock(), answer
            return self._last[1]
