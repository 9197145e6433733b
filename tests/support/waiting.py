"""Waiting for facts.

The rule: a test waits for something that can be asked for, under a name and a bound, and never for time to pass.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

# Short beside anything that is waited for, long beside a loopback call.
POLL_SECONDS = 0.01


def wait_for(predicate: Callable[[], T], timeout_seconds: float = 10, describe: str = "") -> T:
    """Asks until the answer is truthy and returns it; AssertionError with what was waited for and the last answer."""
    deadline = time.monotonic() + timeout_seconds
    while not (answer := predicate()):
        _check(deadline, timeout_seconds, describe or predicate.__name__, answer)
        time.sleep(POLL_SECONDS)
    return answer


async def wait_for_async(predicate: Callable[[], Awaitable[T]], timeout_seconds: float = 10, describe: str = "") -> T:
    """`wait_for` for tests that run on an event loop."""
    deadline = time.monotonic() + timeout_seconds
    while not (answer := await predicate()):
        _check(deadline, timeout_seconds, describe or predicate.__name__, answer)
        await asyncio.sleep(POLL_SECONDS)
    return answer


def _check(deadline: float, timeout_seconds: float, describe: str, answer: object) -> None:
    if time.monotonic() > deadline:
        raise AssertionError(f"not within {timeout_seconds:g} s: {describe} (last answer: {answer!r})")
