"""The ends of a wait, and what it outlasts."""

from collections.abc import Iterator
from typing import Any, Self

import pytest

from greenroom.client import waiting
from greenroom.client.values import Instance, State
from greenroom.client.waiting import Wait
from greenroom.errors import ControlError, NoSuchInstanceError, RejectedError, TimedOutError
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.shown import shown
from tests.support.told import event, response, snapshot

AWAY = ControlError("nobody answers", ControlError.UNREACHABLE)
GONE = NoSuchInstanceError("no record of a1", "UNKNOWN_INSTANCE")
PASSED = {"smoke": "PASSED"}


def at(revision: int, state: str = "HELD", **options: Any) -> pb.Instance:
    message = shown("a1", state, PASSED if state == "RELEASED" else None, **options)
    message.record_revision = revision
    return message


class Scripted:
    """A control API, and the time: reads and streams are given; a script that ends takes all of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, reads: list[Any], *streams: list[Any]) -> None:
        self.now, self.deadline = 0.0, 0.0
        self._reads, self._streams = reads, list(streams)
        self.asked: list[str] = []
        monkeypatch.setattr(waiting, "monotonic", lambda: self.now)
        monkeypatch.setattr(waiting, "sleep", self._pass)

    def until(self, deadline: float) -> Self:
        self.deadline = deadline
        return self

    def instance(self, name: str) -> pb.Instance:
        assert name == "instances/a1"
        said = self._reads.pop(0) if len(self._reads) > 1 else self._reads[0]
        if isinstance(said, ControlError):
            raise said
        assert isinstance(said, pb.Instance)
        return said

    def watch_instances(self, resume_token: str = "", **_: Any) -> Iterator[pb.WatchInstancesResponse]:
        self.asked.append(resume_token)
        for said in self._streams.pop(0) if self._streams else []:
            if isinstance(said, ControlError):
                raise said
            yield said
        self.now = self.deadline

    def result(self, until: State = State.RELEASED) -> Instance:
        return Wait(self, "a1", until, 5).result()  # type: ignore[arg-type]

    def _pass(self, seconds: float) -> None:
        self.now += seconds


def test_what_is_so_already_is_not_watched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Scripted(monkeypatch, [at(7, "RELEASED")])
    assert calls.result().state is State.RELEASED
    assert calls.asked == []


def test_it_is_followed_until_it_is_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others change all the while."""
    news = response(event("CHANGED", shown("b2")), event("CHANGED", at(8, "RELEASED")), token="t2")
    assert Scripted(monkeypatch, [at(7)], [snapshot(at(7)), news]).result().record_revision == 8


def test_an_outage_is_outlasted_and_the_stream_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Scripted(
        monkeypatch,
        [AWAY, at(7), AWAY, at(7)],
        [snapshot(at(7)), AWAY],
        [response(event("CHANGED", at(8, "RELEASED")))],
    )
    assert calls.result().state is State.RELEASED
    assert calls.asked == ["", "t1"]


def test_a_stream_that_is_behind_what_was_read_takes_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was retried just now; the list still shows the rejection."""
    behind = snapshot(at(6, "REJECTED"))
    news = response(event("CHANGED", at(8, "RELEASED")))
    assert Scripted(monkeypatch, [at(7)], [behind, news]).result().record_revision == 8


def test_a_rejection_ends_the_wait_for_a_release_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rejected = shown("a1", "REJECTED", {"smoke": "FAILED", "latency": "PENDING"}, failed_because="answers nonsense")
    rejected.record_revision = 8
    with pytest.raises(RejectedError, match=r"^a1 is rejected: smoke failed: answers nonsense$") as raised:
        Scripted(monkeypatch, [at(7)], [snapshot(rejected)]).result()
    assert raised.value.reason == "REJECTED"
    with pytest.raises(RejectedError, match=r"^a1 is rejected: smoke$"):
        Scripted(monkeypatch, [at(8, "REJECTED")]).result()
    assert Scripted(monkeypatch, [at(7)], [snapshot(rejected)]).result(State.REJECTED).record_revision == 8


def test_one_that_is_gone_ends_the_wait_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoSuchInstanceError, match=r"^no record of a1$") as raised:
        Scripted(monkeypatch, [GONE]).result()
    assert raised.value.reason == "UNKNOWN_INSTANCE"
    expired = response(event("REMOVED", at(7), "EXPIRED"))
    with pytest.raises(NoSuchInstanceError, match=r"^a1 expired: its lease ended while it was held$"):
        Scripted(monkeypatch, [at(7)], [snapshot(at(7)), expired]).result()


def test_one_that_the_list_does_not_show_yet_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list follows etcd, and may be a moment behind; if it goes before it is ever shown, that is noticed too."""
    news = response(event("ADDED", at(8, "RELEASED")))
    assert Scripted(monkeypatch, [at(7)], [snapshot(), news]).result().record_revision == 8
    with pytest.raises(NoSuchInstanceError):
        Scripted(monkeypatch, [at(7), GONE], [snapshot()]).result()


def test_one_that_cannot_be_read_from_the_list_is_read_from_etcd(monkeypatch: pytest.MonkeyPatch) -> None:
    unreadable = response(event("REMOVED", at(7), "UNREADABLE"))
    unread = ControlError("its record cannot be read", "UNREADABLE_RECORD")
    with pytest.raises(ControlError, match="cannot be read"):
        Scripted(monkeypatch, [at(7), unread], [snapshot(at(7)), unreadable]).result()


def test_out_of_time_for_another_state_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TimedOutError, match=r"^a1 is still held after 5s, not withdrawn$"):
        Scripted(monkeypatch, [at(7)], [snapshot(at(7))]).result(State.WITHDRAWN)


@pytest.mark.parametrize(
    ("reads", "streams", "said"),
    [
        (
            [at(7, rollout_hold="h")],
            [[snapshot(at(7, rollout_hold="h"))]],
            "a1 is still held after 5s; it waits for smoke; rollout hold h by ann",
        ),
        ([at(7)], [[snapshot(at(7)), AWAY]], "a1 was held when last seen, and after 5s nobody answers"),
        ([AWAY], [], "nothing is known of a1 after 5s: nobody answers"),
    ],
)
def test_out_of_time_says_what_was_missing(
    monkeypatch: pytest.MonkeyPatch, reads: list[Any], streams: list[list[Any]], said: str
) -> None:
    if streams and AWAY in streams[0]:
        reads = [*reads, AWAY]
    with pytest.raises(TimedOutError) as raised:
        Scripted(monkeypatch, reads, *streams).result()
    assert str(raised.value).startswith(said)
