"""How much Python does for something, counted in steps: the same on a busy machine and on an idle one.

The rule: what must not be done too often is counted, never timed.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps_of(work: Callable[[], object]) -> int:
    """Lines that were run for it, and calls that were made."""
    steps = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        steps += 1
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return steps
