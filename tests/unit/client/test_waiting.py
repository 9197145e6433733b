"""The ends of a wait, and what it outlasts."""

from typing import Any, Self

import pytest

from greenroom.client import waiting
from greenroom.client.values import Instance, State
from greenroom.client.waiting import Wait
from greenroom.errors import ControlError, NoSuchInstanceError, RejectedError, TimedOutError
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.shown import shown

AWAY = ControlError("nobody answers", ControlError.UNREACHABLE)
GONE = NoSuchInstanceError("no record of a1", "UNKNOWN_INSTANCE")
SECONDS = 5
Said = pb.Instance | ControlError


def in_state(state: str = "HELD", **options: Any) -> pb.Instance:
    return shown("a1", state, {"smoke": "PASSED"} if state == "RELEASED" else None, **options)


class Scripted:
    """A control API, and the time: what is answered, after how long if that is said; the last of it for ever."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Said | tuple[float, Said]) -> None:
        self.now, self.deadline, self.asked = 0.0, 0.0, 0
        self.changes: tuple[float, Said] | None = None
        """From when on there is another answer, and which."""
        self._answers = list(answers)
        monkeypatch.setattr(waiting, "monotonic", lambda: self.now)
        monkeypatch.setattr(waiting, "sleep", self.passes)

    def until(self, deadline: float) -> Self:
        self.deadline = deadline
        return self

    def instance(self, name: str) -> pb.Instance:
        assert (name, self.deadline) == ("instances/a1", SECONDS), "no call goes on beyond the time"
        self.asked += 1
        if self.changes is not None and self.now >= self.changes[0]:
            self._answers = [self.changes[1]]
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        seconds, said = answer if isinstance(answer, tuple) else (0.0, answer)
        self.passes(seconds)
        if isinstance(said, ControlError):
            raise said
        return said

    def result(self, until: State | str = State.RELEASED) -> Instance:
        return Wait(self, "a1", until, SECONDS).result()  # type: ignore[arg-type]

    def passes(self, seconds: float) -> None:
        self.now += seconds


def test_what_is_so_already_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Scripted(monkeypatch, in_state("RELEASED"))
    assert calls.result().state is State.RELEASED
    assert (calls.asked, calls.now) == (1, 0.0)
    assert Scripted(monkeypatch, in_state("RELEASED")).result("released").state is State.RELEASED


def test_it_is_looked_at_until_it_is_so_and_an_outage_is_outlasted(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Scripted(monkeypatch, AWAY, in_state(), AWAY, in_state("RELEASED"))
    assert calls.result().state is State.RELEASED
    assert calls.asked == 4


def test_the_longer_it_takes_the_less_often_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Scripted(monkeypatch, in_state())
    with pytest.raises(TimedOutError):
        calls.result()
    assert (5 < calls.asked < 20, calls.now) == (True, SECONDS)


def test_what_comes_just_before_the_end_of_the_time_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would be said to be held still, which it is no more."""
    calls = Scripted(monkeypatch, in_state())
    calls.changes = (SECONDS - 0.15, in_state("RELEASED"))
    assert calls.result().state is State.RELEASED


def test_a_rejection_ends_the_wait_for_a_release_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rejected = shown("a1", "REJECTED", {"smoke": "FAILED", "latency": "PENDING"}, failed_because="answers nonsense")
    with pytest.raises(RejectedError, match=r"^a1 is rejected: smoke failed: answers nonsense$") as raised:
        Scripted(monkeypatch, in_state(), rejected).result()
    assert raised.value.reason == "REJECTED"
    silent = shown("a1", "REJECTED", {"smoke": "FAILED"})
    with pytest.raises(RejectedError, match=r"^a1 is rejected: smoke failed$"):
        Scripted(monkeypatch, silent).result()
    with pytest.raises(RejectedError, match=r"^a1 is rejected: smoke$"):
        Scripted(monkeypatch, in_state("REJECTED")).result()
    assert Scripted(monkeypatch, in_state(), rejected).result(State.REJECTED).state is State.REJECTED


@pytest.mark.parametrize(
    ("answers", "said"),
    [([GONE], "no record of a1"), ([in_state(), GONE], "a1 expired: its lease ended while it was held")],
)
def test_one_that_is_gone_ends_the_wait_at_once(
    monkeypatch: pytest.MonkeyPatch, answers: list[Said], said: str
) -> None:
    with pytest.raises(NoSuchInstanceError, match=f"^{said}$") as raised:
        Scripted(monkeypatch, *answers).result()
    assert raised.value.reason == "UNKNOWN_INSTANCE"


def test_what_asking_again_cannot_help_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ControlError, match="cannot be read"):
        Scripted(monkeypatch, in_state(), ControlError("its record cannot be read", "UNREADABLE_RECORD")).result()


@pytest.mark.parametrize(
    ("answers", "until", "said"),
    [
        (
            [in_state(rollout_hold="h")],
            State.RELEASED,
            "a1 is still held after 5s; it waits for smoke; rollout hold h by ann",
        ),
        ([in_state()], State.WITHDRAWN, "a1 is still held after 5s, not withdrawn"),
        ([in_state(), AWAY], State.RELEASED, "a1 was held when last seen, and after 5s nobody answers"),
        ([AWAY], State.RELEASED, "nothing is known of a1 after 5s: nobody answers"),
    ],
)
def test_out_of_time_says_what_was_missing(
    monkeypatch: pytest.MonkeyPatch, answers: list[Said], until: State, said: str
) -> None:
    with pytest.raises(TimedOutError) as raised:
        Scripted(monkeypatch, *answers).result(until)
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize(
    ("seconds", "said"), [(4.5, "a1 is still held after 5s"), (3.0, "a1 was held when last seen, and after 5s nobody")]
)
def test_a_call_that_the_end_of_the_time_cut_short_says_nothing(
    monkeypatch: pytest.MonkeyPatch, seconds: float, said: str
) -> None:
    """It comes as a proxy that does not answer; one that had more time than that says so truly."""
    with pytest.raises(TimedOutError, match=f"^{said}"):
        Scripted(monkeypatch, (seconds, in_state()), (SECONDS - seconds, AWAY)).result()
