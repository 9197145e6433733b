"""How a step is brought to its end whoever is in a hurry. Processes: tests/integration/test_guarded.py."""

import asyncio

import pytest

from greenroom.gates.guarded import _to_its_end


async def test_a_cancellation_is_obeyed_once_the_step_is_over() -> None:
    may_end, ended = asyncio.Event(), list[bool]()

    async def step() -> None:
        await may_end.wait()
        ended.append(True)

    task = asyncio.ensure_future(_to_its_end(step()))
    for _ in range(2):  # Whoever is in a hurry asks twice, and gets no other answer.
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


async def test_an_error_of_the_step_comes_out() -> None:
    async def step() -> None:
        raise OSError("of the step")

    with pytest.raises(OSError, match="of the step"):
        await _to_its_end(step())
