"""Turns of handlers: how many are at work, whose turn it is, and what becomes of those that never end."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from greenroom.relay.turns import Line, Turns

LONG_SECONDS = 3_600.0


class Work:
    """Handlers that are at work until they are told to be done; by the name of whoever called."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._done: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def call(self, line: Line, *names: str) -> None:
        for name in names:
            self._done[name] = asyncio.Event()
            self._tasks[name] = asyncio.create_task(self._work(line, name))
        await settled()

    async def _work(self, line: Line, name: str) -> None:
        async with line.turn():
            self.begun.append(name)
            await self._done[name].wait()

    async def end(self, *names: str) -> None:
        for name in names:
            self._done[name].set()
            await self._tasks[name]
        await settled()

    async def cancel(self, *names: str) -> None:
        for name in names:
            self._tasks[name].cancel()
        await settled()

    def take(self) -> list[str]:
        """Who began since it was last asked."""
        begun, self.begun = self.begun, []
        return begun


async def settled() -> None:
    """Everybody who can go on has gone on."""
    for _ in range(5):
        await asyncio.sleep(0)


def names(who: str, count: int) -> list[str]:
    return [f"{who}{number}" for number in range(count)]


async def test_a_connection_has_so_many_at_work_and_the_others_in_order() -> None:
    work, line = Work(), Turns(100, LONG_SECONDS).line(2)
    await work.call(line, *names("a", 5))
    assert work.take() == ["a0", "a1"]
    await work.end("a1")
    assert work.take() == ["a2"]
    await work.end("a0", "a2", "a3", "a4")
    assert work.take() == ["a3", "a4"]


async def test_all_together_have_so_many_at_work() -> None:
    """However many clients there are: each handler may hold an answer of a MiB."""
    work, turns = Work(), Turns(8, LONG_SECONDS)
    for number in range(20):
        await work.call(turns.line(4), f"{number}")
    assert len(work.take()) == turns.taken.used == 8


async def test_blocked_calls_of_one_client_leave_room_for_the_others() -> None:
    """A client's calls hang, as many as it may have; the next client's calls are answered all the same."""
    work, turns = Work(), Turns(8, LONG_SECONDS)
    for hog in "abc":
        await work.call(turns.line(100), *names(hog, 50))
    assert work.take() == ["a0", "a1", "a2", "a3", "b0", "b1", "c0"]
    await work.call(turns.line(100), "other")
    assert work.take() == ["other"]


async def test_a_free_turn_goes_round_between_connections() -> None:
    """One that asked for hundreds before the others came does not get them all first."""
    work, turns = Work(), Turns(1, LONG_SECONDS)
    first, second, third = (turns.line(100) for _ in range(3))
    await work.call(first, *names("a", 4))
    await work.call(second, *names("b", 2))
    await work.call(third, "c0")
    order = []
    while begun := work.take():
        order += begun
        await work.end(*begun)
    assert order == ["a0", "a1", "b0", "c0", "a2", "b1", "a3"]


async def test_who_is_cancelled_while_waiting_takes_no_turn() -> None:
    work, turns = Work(), Turns(1, LONG_SECONDS)
    line, other = turns.line(1), turns.line(1)
    await work.call(line, *names("a", 3))
    await work.call(other, "b0")
    await work.cancel("a1", "b0")
    await work.end("a0")
    assert work.take() == ["a0", "a2"]
    await work.end("a2")
    assert turns.taken.used == 0


async def test_a_turn_that_comes_together_with_the_end_of_its_call_is_passed_on() -> None:
    work, turns = Work(), Turns(1, LONG_SECONDS)
    line = turns.line(1)
    await work.call(line, *names("a", 3))
    line.give_back()  # as the end of a0 does it; a1 is called and, before it can begin, cancelled
    await work.cancel("a1")
    assert work.take() == ["a0", "a2"]


async def test_a_cancelled_handler_gives_its_turn_back() -> None:
    work, turns = Work(), Turns(1, LONG_SECONDS)
    await work.call(turns.line(1), "a")
    await work.call(turns.line(1), "b")
    await work.cancel("a")
    assert work.take() == ["a", "b"]


@contextmanager
def timers(called: list[Callable[[], object]]) -> Iterator[None]:
    """Collects what is to happen later instead of waiting for it."""
    loop = asyncio.get_running_loop()
    original = loop.call_later

    def call_later(delay: float, callback: Callable[[], object], *_: object, **__: object) -> asyncio.TimerHandle:
        called.append(callback)
        return original(LONG_SECONDS, callback)

    loop.call_later = call_later  # type: ignore[assignment]
    try:
        yield
    finally:
        loop.call_later = original  # type: ignore[method-assign]


async def test_handlers_that_hang_keep_nobody_from_work_for_long() -> None:
    """They wait for a lock's holder, say, whose own call waits behind them. They go on waiting, and count no more."""
    over: list[Callable[[], object]] = []
    work, turns = Work(), Turns(2, LONG_SECONDS)
    with timers(over):
        hanging, others = turns.line(2), turns.line(2)
        await work.call(hanging, *names("a", 3))
        await work.call(others, *names("b", 3))
        assert work.take() == ["a0", "b0"]
        for callback in over[:2]:
            callback()
        await settled()
        assert work.take() == ["a1", "b1"]
        await work.end("a0", "b0")
        assert turns.taken.used == 2, "their turns were over already"
