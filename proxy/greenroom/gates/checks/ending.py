"""How a check ends: within its time, with one line, and with the exit code that says which of the three it is.

The rule: the time is that of the whole check, whatever hangs (an answer that trickles, a regular expression that never
ends). So the check runs in the main thread, where a signal comes through to either.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from greenroom.core.record import MAX_REASON_BYTES
from greenroom.errors import CheckFailed, CheckInconclusive

Check = Callable[[], str]
"""Runs to its end, and says in one sentence what is fine; CheckFailed, CheckInconclusive."""
ELLIPSIS: Final = "…"


class Code(IntEnum):
    """What a check exits with. Two is for a wrong call of it."""

    PASSED = 0
    FAILED = 1
    INCONCLUSIVE = 75


@dataclass(frozen=True, slots=True)
class Ending:
    """What became of a check: its code, and one line of at most 2 KiB."""

    code: Code
    line: str


class _Over(BaseException):
    """The time is up. No exception of a check's own, so that nothing in a check takes it for one."""


def ended(name: str, check: Check, timeout_seconds: float) -> Ending:
    """Runs a check to its end, or to that of its time. What it raises otherwise is raised here. In the main thread."""
    try:
        with _alarm(timeout_seconds):
            return _ending(name, check)
    except _Over:
        return not_over(name, timeout_seconds)


def not_over(name: str, timeout_seconds: float) -> Ending:
    """How a check ends that has used up its time."""
    return Ending(Code.FAILED, line(name, "failed", f"it is not over after {timeout_seconds:g} s"))


def line(name: str, outcome: str, said: str) -> str:
    """`completion failed: …`, on one line; of too long a story the beginning."""
    text = " ".join(f"{name} {outcome}: {said}".split())
    if len(text.encode("utf-8", "replace")) <= MAX_REASON_BYTES:
        return text
    kept = text.encode("utf-8", "replace")[: MAX_REASON_BYTES - len(ELLIPSIS.encode())]
    return f"{kept.decode('utf-8', 'ignore')}{ELLIPSIS}"


def _ending(name: str, check: Check) -> Ending:
    try:
        return Ending(Code.PASSED, line(name, "passed", check()))
    except CheckFailed as error:
        return Ending(Code.FAILED, line(name, "failed", str(error)))
    except CheckInconclusive as error:
        return Ending(Code.INCONCLUSIVE, line(name, "inconclusive", str(error)))


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Raises _Over in the block when the time is up; a timer that ran before goes on afterwards."""

    def over(*_: object) -> None:
        raise _Over

    before, left = signal.signal(signal.SIGALRM, over), signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *left)
        signal.signal(signal.SIGALRM, before)
