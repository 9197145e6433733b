"""A gate of the kind `exec`: a command, whose exit code is the verdict, and its last words on stderr the reason.

The rule: when it returns, or is cancelled, nothing that the command started runs any more.
"""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence

from greenroom.gates.environment import Variable
from greenroom.gates.guarded import INCONCLUSIVE, Ended, Run, guarded
from greenroom.gates.result import Outcome, Result, with_last_words


async def run_command(
    command: Sequence[str], environment: Mapping[str, str], seconds: float, *, times_out: str
) -> Result:
    """Runs it with this process's environment and that of the gate; `times_out` says what was over after `seconds`."""
    # What is not known of the instance must not look as if it were.
    ours = {name: value for name, value in os.environ.items() if name not in set(Variable)}
    try:
        async with guarded(command, {**ours, **environment}, stdout=sys.stderr.fileno()) as run:
            return await _ended(run, seconds, times_out)
    # Of the guard itself: no process more may be started, or the command is too long; or a variable cannot be said to
    # any process, as the name of a model can be that a worker has chosen.
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        return Result(Outcome.ERROR, f"cannot run {command[0]!r}: {why}")


async def _ended(run: Run, seconds: float, times_out: str) -> Result:
    try:
        async with asyncio.timeout(seconds):
            return result_of(await run.ended())
    except TimeoutError:
        return Result(Outcome.FAILED, with_last_words(times_out, run.stderr))


def result_of(ended: Ended) -> Result:
    """The verdict that an end is."""
    if ended.cannot_start:
        return Result(Outcome.ERROR, ended.cannot_start)
    if ended.code == 0:
        return Result(Outcome.PASSED, ended.stderr)
    outcome = Outcome.INCONCLUSIVE if ended.code == INCONCLUSIVE else Outcome.FAILED
    return Result(outcome, ended.stderr or f"it ended with {ended.code}, and said nothing on standard error")
