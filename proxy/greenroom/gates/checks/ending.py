"""How a check ends: within its time, with one line, and with the exit code that says which of the three it is.

The rule: the time is that of the whole check, whatever hangs (a name that is not resolved, an answer that trickles):
the check runs in a thread of its own, and who waits for it does not wait for longer.
"""

import threading
from collections.abc import Callable
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


def ended(name: str, check: Check, timeout_seconds: float) -> Ending:
    """Runs a check to its end, or to that of its time. What it raises otherwise is raised here."""
    found: list[Ending | BaseException] = []

    def run() -> None:
        try:
            found.append(_ending(name, check))
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, name=f"check {name}", daemon=True)
    thread.start()
    thread.join(timeout_seconds)
    match found:
        case [Ending() as ending]:
            return ending
        case [BaseException() as error]:
            raise error
        case _:
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
