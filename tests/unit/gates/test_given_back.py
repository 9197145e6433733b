"""What was taken is given back, whoever is in a hurry."""

import asyncio

import pytest

from greenroom.gates.given_back import given_back
from tests.support.claims import reached


class Thing:
    """Taking it and giving it back end when the test says so."""

    def __init__(self) -> None:
        self.may_be_taken, self.may_be_given_back = asyncio.Event(), asyncio.Event()
        self.steps: list[str] = []
        self.is_refused = False

    async def take(self) -> str:
        self.steps.append("asked")
        await self.may_be_taken.wait()
        if self.is_refused:
            raise OSError("of the taking")
        self.steps.append("taken")
        return "it"

    async def give_back(self, taken: str) -> None:
        self.steps.append(f"giving {taken} back")
        await self.may_be_given_back.wait()
        self.steps.append("given back")

    async def used(self, patience_seconds: float | None = None) -> None:
        async with given_back(self.take(), self.give_back, patience_seconds) as taken:
            self.steps.append(f"used {taken}")


async def hurried(task: "asyncio.Task[None]") -> None:
    """Cancelled twice, as by whoever does not want it any more, and by the end of the program."""
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()


async def test_it_is_given_back_after_the_block() -> None:
    thing = Thing()
    thing.may_be_taken.set()
    thing.may_be_given_back.set()
    await thing.used()
    assert thing.steps == ["asked", "taken", "used it", "giving it back", "given back"]


async def test_what_was_being_taken_is_given_back_unused() -> None:
    thing = Thing()
    task = asyncio.ensure_future(thing.used())
    await reached(thing.steps, "asked")
    await hurried(task)
    thing.may_be_taken.set()
    thing.may_be_given_back.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert thing.steps == ["asked", "taken", "giving it back", "given back"]


async def test_what_is_being_given_back_is_given_back() -> None:
    thing = Thing()
    thing.may_be_taken.set()
    task = asyncio.ensure_future(thing.used())
    await reached(thing.steps, "asked", "taken", "used it", "giving it back")
    await hurried(task)
    thing.may_be_given_back.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert thing.steps[-1] == "given back"


async def test_of_a_cancelled_one_it_does_not_matter_that_it_could_not_be_taken() -> None:
    thing = Thing()
    thing.is_refused = True
    task = asyncio.ensure_future(thing.used())
    await reached(thing.steps, "asked")
    await hurried(task)
    thing.may_be_taken.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert thing.steps == ["asked"]


async def test_there_is_an_end_to_patience() -> None:
    thing = Thing()
    task = asyncio.ensure_future(thing.used(patience_seconds=0.01))
    await reached(thing.steps, "asked")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert thing.steps == ["asked"]


async def test_an_error_of_either_step_comes_out() -> None:
    thing = Thing()
    thing.is_refused = True
    thing.may_be_taken.set()
    with pytest.raises(OSError, match="of the taking"):
        await thing.used()

    async def broken(_: str) -> None:
        raise OSError("of the giving")

    thing.is_refused = False
    with pytest.raises(OSError, match="of the giving"):
        async with given_back(thing.take(), broken):
            pass
