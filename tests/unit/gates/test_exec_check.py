"""Commands as gates: what their ends mean. Processes: tests/integration/gates/test_exec_check.py."""

import asyncio

import pytest

from greenroom.gates.exec_check import _ended, result_of
from greenroom.gates.guarded import Ended
from greenroom.gates.result import Outcome, Result


@pytest.mark.parametrize(
    ("ended", "result"),
    [
        (Ended(0, "12 ms"), Result(Outcome.PASSED, "12 ms")),
        (Ended(75, "noisy"), Result(Outcome.INCONCLUSIVE, "noisy")),
        (Ended(1, "the answer was 5"), Result(Outcome.FAILED, "the answer was 5")),
        (Ended(137, ""), Result(Outcome.FAILED, "it ended with 137, and said nothing on standard error")),
        (Ended(127, "cannot run 'x'", "cannot run 'x'"), Result(Outcome.ERROR, "cannot run 'x'")),
        (Ended(127, "sh: x: not found"), Result(Outcome.FAILED, "sh: x: not found")),
    ],
)
def test_an_exit_code_is_a_verdict(ended: Ended, result: Result) -> None:
    assert result_of(ended) == result


class Asking:
    """A command that has begun, and says no more."""

    stderr = "asking"

    async def ended(self) -> Ended:
        await asyncio.Event().wait()
        raise AssertionError("it never ends")


async def test_at_its_time_it_has_failed_with_its_last_words() -> None:
    told = await _ended(Asking(), 0, "not over after 3 s")  # type: ignore[arg-type]
    assert told == Result(Outcome.FAILED, "not over after 3 s; last: asking")
