"""What one run of a check found."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from greenroom.core.record import MAX_REASON_BYTES, bounded_reason

_AND_LAST: Final = "; last: "


class Outcome(StrEnum):
    """The words of verdicts, and one for a run that came to none."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    ERROR = "error"
    STOPPED = "stopped"

    @property
    def is_decided(self) -> bool:
        """Whether the attempt ends with it."""
        return self in (Outcome.PASSED, Outcome.FAILED)


@dataclass(frozen=True, slots=True)
class Result:
    """An outcome, and why."""

    outcome: Outcome
    reason: str = ""


def with_last_words(what: str, last: str) -> str:
    """What happened, and the end of what was said last, if anything; within the length that a reason may have."""
    if not last:
        return what
    room = MAX_REASON_BYTES - len(f"{what}{_AND_LAST}".encode())
    return f"{what}{_AND_LAST}{bounded_reason(last, max(0, room))}"
