"""The ends of `greenroom wait`."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from greenroom.cli import waiting
from greenroom.cli.choose import Wanted
from greenroom.cli.waiting import TIMED_OUT, _out_of_time, awaited, end
from greenroom.errors import ControlError, TooManyWatchers
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.shown import shown
from tests.support.told import event, response, snapshot


@pytest.mark.parametrize(("state", "code"), [("RELEASED", 0), ("REJECTED", 1)])
def test_it_ended_as_wanted_or_otherwise(state: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as raised:
        end(shown(state=state), pb.INSTANCE_STATE_RELEASED)
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
    """A control API, and the time: each step of a stream takes so many seconds, and None hangs until the deadline."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *streams: list[Any]) -> None:
        self.now, self.deadline, self._streams = 0.0, 0.0, list(streams)
        monkeypatch.setattr(waiting, "monotonic", lambda: self.now)
        monkeypatch.setattr(waiting, "sleep", self._pass)

    def watch_instances(self, *_: Any, **__: Any) -> Iterator[pb.WatchInstancesResponse]:
        answered = False
        for step in self._streams.pop(0) if self._streams else [None]:
            if isinstance(step, pb.WatchInstancesResponse):
                answered = True
                yield step
            elif isinstance(step, float):
                self._pass(step)
            else:
                self.now = self.deadline
            if self.now >= self.deadline:
                break
        if not answered:
            raise ControlError("nobody answers", ControlError.UNREACHABLE)

    def _pass(self, seconds: float) -> None:
        self.now = min(self.deadline, self.now + seconds)

    def states(self, seconds: float, text: str = "6177") -> Iterator[str]:
        return (pb.InstanceState.Name(one.state)[15:] for one in awaited(self, seconds, Wanted(text)))  # type: ignore[arg-type]

    def end(self, seconds: float, capsys: pytest.CaptureFixture[str]) -> str:
        """What is said when the time is up, which it is at the deadline."""
        with pytest.raises(typer.Exit) as raised:
            list(self.states(seconds))
        assert (raised.value.exit_code, self.now) == (TIMED_OUT, pytest.approx(seconds))
        return capsys.readouterr().err


def test_it_is_followed_from_its_appearing_on(monkeypatch: pytest.MonkeyPatch) -> None:
    news = [response(event("ADDED", shown())), response(event("CHANGED", shown(state="RELEASED")))]
    states = Scripted(monkeypatch, [snapshot(), *news]).states(60)
    assert [next(states), next(states)] == ["HELD", "RELEASED"]


def test_a_snapshot_is_read_to_its_end_before_anything_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two that fit, the first one told must not be taken for the only one."""
    parts = [response(event("EXISTING", shown("6177a"))), snapshot(shown("6177b"))]
    with pytest.raises(ControlError, match="ambiguous"):
        next(Scripted(monkeypatch, parts).states(60))


def test_it_ends_with_the_lease(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    gone = response(event("REMOVED", shown(), "EXPIRED"))
    states = Scripted(monkeypatch, [snapshot(shown()), gone]).states(60)
    assert next(states) == "HELD"
    with pytest.raises(typer.Exit) as raised:
        next(states)
    assert raised.value.exit_code == 1
    assert capsys.readouterr().err == "6177a228983c0b2b expired: its lease ended while it was HELD\n"


def test_it_ends_with_the_lease_also_where_that_ended_while_nobody_answered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The proxy was away, and etcd has compacted what happened meanwhile."""
    states = Scripted(monkeypatch, [snapshot(shown(), token=""), 1.0], [snapshot(token="")]).states(60)
    with pytest.raises(typer.Exit) as raised:
        list(states)
    assert raised.value.exit_code == 1
    assert "expired" in capsys.readouterr().err


def test_a_wait_ends_in_time_at_a_proxy_that_hangs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Scripted(monkeypatch, [None]).end(1, capsys) == (
        "greenroom: id '6177' did not appear within 1s: nobody answers\n"
    )
    away = Scripted(monkeypatch, [snapshot(shown()), 1.0], [None])
    assert "was HELD when last seen, and after 20s nobody answers" in away.end(20, capsys)


def test_a_call_that_the_end_of_the_time_cut_short_says_nothing_of_the_proxy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = Scripted(monkeypatch, [snapshot(shown()), 0.2], [0.5, None]).end(1, capsys)
    assert said == "greenroom: 6177a228983c0b2b is still HELD after 1s; it waits for smoke (overdue)\n"


def test_a_stream_that_was_good_until_the_end_of_the_time_is_no_trouble(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = Scripted(monkeypatch, [snapshot(shown()), None]).end(20, capsys)
    assert "is still HELD after 20s" in said


def test_a_proxy_without_room_for_one_more_stream_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A thousand workers start at once, each with a `greenroom wait`: those that find no place must not give up."""
    scripted = Scripted(monkeypatch, [snapshot(shown(state="RELEASED"))])
    refused = iter((True,))
    answers = scripted.watch_instances

    def watch_instances(*arguments: Any, **filters: Any) -> Iterator[pb.WatchInstancesResponse]:
        if next(refused, False):
            raise ControlError("500 streams are open here", TooManyWatchers.reason)
        return answers(*arguments, **filters)

    monkeypatch.setattr(scripted, "watch_instances", watch_instances, raising=False)
    assert next(scripted.states(60)) == "RELEASED"
