"""The ends of `greenroom wait`; what commands show is tested where it is written."""

import pytest
import typer

from greenroom.cli import instances
from greenroom.cli.choose import Wanted
from greenroom.cli.instances import TIMED_OUT, _ended, _followed, _out_of_time, _state
from greenroom.errors import ControlError, SettingsError
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
        _out_of_time(None, "model 'tiny'", 60)
    assert raised.value.exit_code == TIMED_OUT
    with pytest.raises(typer.Exit):
        _out_of_time(shown(gates={"smoke": "PASSED"}, rollout_hold="h"), "tiny", 1.5)
    with pytest.raises(typer.Exit):
        _out_of_time(None, "model 'tiny'", 60, "no control API answers")
    with pytest.raises(typer.Exit):
        _out_of_time(shown(), "tiny", 60, "etcd does not answer")
    assert capsys.readouterr().err.splitlines() == [
        "greenroom: model 'tiny' did not appear within 60s",
        "greenroom: 6177a228983c0b2b is still HELD after 1.5s; it waits for rollout hold h to be lifted",
        "greenroom: model 'tiny' did not appear within 60s: no control API answers",
        "greenroom: 6177a228983c0b2b was HELD when last seen, and after 60s etcd does not answer",
    ]


class Scripted:
    """A control API whose calls take so many seconds each and then find an instance, or hang until their deadline."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *calls: float | None) -> None:
        self.now, self.deadline, self._calls = 0.0, 0.0, list(calls)
        monkeypatch.setattr(instances, "monotonic", lambda: self.now)
        monkeypatch.setattr(instances, "sleep", self._sleep)

    def instances(self) -> list[pb.Instance]:
        return [self.instance("")]

    def instance(self, _: str) -> pb.Instance:
        seconds = self._calls.pop(0) if self._calls else 0.0
        self.now = min(self.deadline, self.now + (10 if seconds is None else seconds))
        if seconds is None or self.now >= self.deadline:
            raise ControlError("nobody answers", ControlError.UNREACHABLE)
        return shown()

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def end(self, seconds: float, capsys: pytest.CaptureFixture[str]) -> str:
        """What is said when the time is up, which it is at the deadline."""
        with pytest.raises(typer.Exit) as raised:
            list(_followed(self, seconds, Wanted("6177")))  # type: ignore[arg-type]
        assert (raised.value.exit_code, self.now) == (TIMED_OUT, pytest.approx(seconds))
        return capsys.readouterr().err


def test_a_wait_ends_in_time_at_a_proxy_that_hangs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Scripted(monkeypatch, None).end(1, capsys) == (
        "greenroom: id '6177' did not appear within 1s: nobody answers\n"
    )
    assert "was HELD when last seen, and after 20s nobody answers" in Scripted(monkeypatch, 0, None, None).end(
        20, capsys
    )


def test_a_call_that_the_end_of_the_time_cut_short_says_nothing_of_the_proxy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = Scripted(monkeypatch, 0, 0.2, 0.2).end(1, capsys)
    assert said == "greenroom: 6177a228983c0b2b is still HELD after 1s; it waits for smoke (overdue)\n"


def test_a_state_that_is_none_is_named_by_its_option() -> None:
    with pytest.raises(SettingsError, match="--state 'queued': is none of held"):
        _state("--state", "queued")
