"""Commands as gates: what their ends mean."""

import pytest

from greenroom.gates.exec_check import result_of, run_command
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


async def test_a_command_has_the_environment_of_this_process_and_of_the_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "here")
    told = await run_command(["sh", "-c", 'echo "$MINE $GATE" >&2'], {"GATE": "smoke"}, 20, times_out="")
    assert told == Result(Outcome.PASSED, "here smoke")


async def test_what_is_too_long_for_any_process_is_an_error() -> None:
    told = await run_command(["true", "x" * 2**22], {}, 20, times_out="")
    assert told == Result(Outcome.ERROR, "cannot run 'true': Argument list too long")


async def test_at_its_time_it_has_failed_with_its_last_words() -> None:
    told = await run_command(["sh", "-c", "echo asking >&2; sleep 600"], {}, 3, times_out="not over after 3 s")
    assert told == Result(Outcome.FAILED, "not over after 3 s; last: asking")
