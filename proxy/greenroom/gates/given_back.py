"""What is somebody else's for as long as a block takes: a claim, a preview, a guarded command.

The rule: what was taken is given back, once, whoever cancels the block, however often, and at whatever moment: also
while it is being taken, and while it is being given back.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

Taken = TypeVar("Taken")
Step = Coroutine[Any, Any, None]


@asynccontextmanager
async def given_back(
    taking: Coroutine[Any, Any, Taken], give_back: Callable[[Taken], Step], patience_seconds: float | None = None
) -> AsyncIterator[Taken]:
    """What `taking` returns, and `give_back` takes after the block.

    Where the block is cancelled before it begins, what is still being taken is waited for, `patience_seconds` at most.
    """
    task = asyncio.ensure_future(taking)
    try:
        taken = await asyncio.shield(task)
    except asyncio.CancelledError:
        await _to_its_end(_taken_back(task, give_back, patience_seconds))
        raise
    try:
        yield taken
    finally:
        await _to_its_end(give_back(taken))


async def _taken_back(
    task: "asyncio.Task[Taken]", give_back: Callable[[Taken], Step], patience_seconds: float | None
) -> None:
    await asyncio.wait([task], timeout=patience_seconds)
    if not task.done():
        task.cancel()
    elif task.exception() is None:
        await give_back(task.result())


async def _to_its_end(step: Step) -> None:
    """Awaits a step, and obeys a cancellation that comes meanwhile only when that is over."""
    task, cancelled = asyncio.ensure_future(step), False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError
