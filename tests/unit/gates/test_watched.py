"""A block beside a task that watches: whose error comes out, and who is cancelled."""

import asyncio

import pytest

from greenroom.gates.watched import watched


async def for_ever() -> None:
    await asyncio.sleep(600)


async def fails() -> None:
    raise OSError("of the watch")


async def test_the_error_of_the_watch_comes_out_in_the_blocks_place() -> None:
    with pytest.raises(OSError, match="of the watch"):
        async with watched(fails()):
            await for_ever()


async def test_that_of_the_block_comes_out_as_it_is() -> None:
    with pytest.raises(ValueError, match="of the block"):
        async with watched(for_ever()):
            raise ValueError("of the block")


async def test_who_is_cancelled_does_not_go_on_whatever_the_watch_says_then() -> None:
    """A runner that stops ends its frontends too: the checks that it ends must not be reported as errors."""
    may_fail, began, steps = asyncio.Event(), asyncio.Event(), list[str]()

    async def fails_late() -> None:
        await may_fail.wait()
        raise OSError("of the watch")

    async def block() -> None:
        async with watched(fails_late()):
            began.set()
            try:
                await for_ever()
            finally:
                may_fail.set()
                for _ in range(3):
                    await asyncio.sleep(0)
                steps.append("wound up")
        steps.append("went on")

    task = asyncio.ensure_future(block())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps in (["wound up"], [])
