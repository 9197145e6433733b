"""Streams that last: their caller is asked for again, and their number has a bound."""

import asyncio

import pytest

from greenroom.access.refusals import Refusal
from greenroom.control import admitted_streams
from greenroom.control.admitted_streams import MAX_STREAMS, Streams
from greenroom.errors import TooManyWatchers, Unauthenticated


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admitted_streams, "CHECK_SECONDS", 0.0)


class Check:
    """Lets the caller stay so many times."""

    def __init__(self, times: int = 3) -> None:
        self.left, self.asked = times, asyncio.Event()

    def __call__(self) -> None:
        self.asked.set()
        self.left -= 1
        if self.left < 0:
            raise Unauthenticated("gone", cause=Refusal.UNKNOWN)


@pytest.mark.usefixtures("often")
async def test_a_stream_on_which_nothing_happens_ends_with_its_callers_token() -> None:
    streams, check = Streams("health"), Check()
    with pytest.raises(Unauthenticated, match="gone"):
        async with asyncio.timeout(10), streams.one_more(check):
            await asyncio.Event().wait()
    assert check.left == -1


@pytest.mark.usefixtures("often")
async def test_a_caller_that_stays_known_is_not_disturbed() -> None:
    check = Check(1_000_000)
    async with Streams("health").one_more(check):
        for _ in range(3):
            check.asked.clear()
            await asyncio.wait_for(check.asked.wait(), 10)


async def test_what_happens_within_is_let_out_as_it_is() -> None:
    for error in (TimeoutError("its own"), KeyError("one")):
        with pytest.raises(type(error), match="o"):
            async with Streams("health").one_more(Check()):
                raise error


async def test_past_the_bound_the_next_one_is_told_so_until_one_ends() -> None:
    streams = Streams("reflection")
    async with asyncio.TaskGroup() as tasks:
        may_end, running = asyncio.Event(), asyncio.Barrier(MAX_STREAMS + 1)

        async def hold() -> None:
            async with streams.one_more(Check()):
                await running.wait()
                await may_end.wait()

        held = [tasks.create_task(hold()) for _ in range(MAX_STREAMS)]
        await running.wait()
        with pytest.raises(TooManyWatchers, match=f"{MAX_STREAMS} reflection streams are open"):
            async with streams.one_more(Check()):
                raise AssertionError("it had a place")
        held[0].cancel()
        await asyncio.wait(held[:1])
        async with streams.one_more(Check()):
            may_end.set()
