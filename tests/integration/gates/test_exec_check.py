"""Commands as gates, as processes: what they are told. How they end: test_guarded.py."""

import pytest

from greenroom.gates.exec_check import run_command
from greenroom.gates.result import Outcome, Result


async def test_a_command_has_the_environment_of_this_process_and_of_the_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "here")
    told = await run_command(["sh", "-c", 'echo "$MINE $GATE" >&2'], {"GATE": "smoke"}, 20, times_out="")
    assert told == Result(Outcome.PASSED, "here smoke")


async def test_what_is_not_known_of_the_instance_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the runner was started with it, as by a check of another runner's."""
    monkeypatch.setenv("GREENROOM_ADDRESS", "127.0.0.1:1")
    told = await run_command(["sh", "-c", 'echo "${GREENROOM_ADDRESS-unset}" >&2'], {}, 20, times_out="")
    assert told == Result(Outcome.PASSED, "unset")


async def test_what_no_process_can_be_told_is_an_error() -> None:
    """A model's name is its worker's to choose."""
    told = await run_command(["true"], {"DYN_VALIDATION_MODEL": "tiny\0"}, 20, times_out="")
    assert told == Result(Outcome.ERROR, "cannot run 'true': embedded null byte")


async def test_what_is_too_long_for_any_process_is_an_error() -> None:
    told = await run_command(["true", "x" * 2**22], {}, 20, times_out="")
    assert told == Result(Outcome.ERROR, "cannot run 'true': Argument list too long")
