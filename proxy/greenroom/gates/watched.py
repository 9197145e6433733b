"""A block for as long as something goes well that a task beside it watches.

The rule: the task's error comes out in the block's place, as it is. A cancellation from outside stays one, whatever
goes wrong while the block obeys it: who is cancelled must not go on.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def watched(watch: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Cancels the block where `watch` fails, which does not end otherwise; and `watch` where the block is over."""
    task = asyncio.current_task()
    assert task is not None, "a block runs in a task"
    before = task.cancelling()
    try:
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(watch)
            yield
            watching.cancel()
    except BaseExceptionGroup as several:
        if task.cancelling() > before:  # The group's own cancellation of the block is taken back by now.
            raise asyncio.CancelledError from None
        raise several.exceptions[0] from None
