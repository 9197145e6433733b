"""The ends of `greenroom wait`; what commands show is tested where it is written."""

import pytest
import typer

from greenroom.cli.instances import TIMED_OUT, _ended, _out_of_time, _state
from greenroom.errors import SettingsError
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.shown import shown


@pytest.mark.parametrize(("state", "code"), [("RELEASED", 0), ("REJECTED", 1)])
def test_it_ended_as_wanted_or_otherwise(state: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as raised:
        _ended(shown(state=state), pb.INSTANCE_STATE_RELEASED)
    assert raised.value.exit_code == code
    assert capsys.readouterr().out == f"6177a228983c0b2b is {state}\n"


def test_out_of_time_says_what_was_missing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as raised:
        _out_of_time(None, "tiny", 60)
    assert raised.value.exit_code == TIMED_OUT
    with pytest.raises(typer.Exit):
        _out_of_time(shown(gates={"smoke": "PASSED"}, rollout_hold="h"), "tiny", 1.5)
    assert capsys.readouterr().err.splitlines() == [
        "greenroom: 'tiny' did not appear within 60s",
        "greenroom: 6177a228983c0b2b is still HELD after 1.5s; it waits for a rollout hold to be lifted",
    ]


def test_a_state_that_is_none_is_named_by_its_option() -> None:
    with pytest.raises(SettingsError, match="--state 'queued': is none of held"):
        _state("--state", "queued")
