"""A claim that renews itself, against answers that are given. No test depends on how long anything takes."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from time import monotonic
from typing import Self

import pytest

from greenroom.client import claims
from greenroom.client.claims import KeptClaim
from greenroom.errors import ControlError
from greenroom.pb.control.v1 import control_pb2 as pb

CLAIM = pb.Claim(name="instances/7f/gates/smoke/claim", lease="9", attempt=2, runner="r")
AWAY = ControlError("nobody answers", ControlError.UNREACHABLE)
ENDED = ControlError("no such claim", "UNKNOWN_CLAIM")
LONG_SECONDS = 3600.0
SHORT_SECONDS = 0.03
WAIT_SECONDS = 60


class Proxy:
    """Answers to renewals by what it was given, the last of it for ever."""

    def __init__(self, *answers: ControlError | None) -> None:
        self._answers = list(answers)
        self.released: list[str] = []
        self.renewed, self.deadlines = Event(), list[float]()
        self.refusal: ControlError | None = None

    def until(self, deadline: float) -> Self:
        self.deadlines.append(deadline)
        return self

    def renew_claim(self, claim: pb.Claim) -> pb.Claim:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is not None:
            raise answer
        self.renewed.set()
        return claim

    def release_claim(self, claim: pb.Claim) -> None:
        self.released.append(claim.lease)
        if self.refusal:
            raise self.refusal


@contextmanager
def kept(proxy: Proxy, ttl_seconds: float) -> Iterator[KeptClaim]:
    claim = KeptClaim(proxy, CLAIM, ttl_seconds, claims.monotonic())  # type: ignore[arg-type]
    try:
        yield claim
    finally:
        claim.close()


def test_it_is_given_back_at_its_end_at_once() -> None:
    """Not after the third of an hour that a renewal is away."""
    proxy = Proxy(None)
    with kept(proxy, LONG_SECONDS) as claim:
        assert (claim.claim.instance, claim.claim.gate, claim.claim.attempt) == ("7f", "smoke", 2)
    assert (proxy.released, claim.lost.is_set(), proxy.renewed.is_set()) == (["9"], False, False)


def test_it_is_renewed_and_an_outage_within_its_time_is_outlasted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "monotonic", lambda: 0.0)
    proxy = Proxy(AWAY, None)
    with kept(proxy, SHORT_SECONDS) as claim:
        assert proxy.renewed.wait(WAIT_SECONDS)
    assert not claim.lost.is_set()
    assert proxy.released == ["9"]


def test_one_that_has_ended_is_lost_at_once_and_not_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """By another runner, or a verdict of one's own; its time is not over."""
    monkeypatch.setattr(claims, "monotonic", lambda: 0.0)
    proxy = Proxy(ENDED)
    with kept(proxy, SHORT_SECONDS) as claim:
        assert claim.lost.wait(WAIT_SECONDS)
    assert (claim.why_lost, proxy.released) == ("no such claim", [])
    assert repr(claim) == "KeptClaim(7f smoke 2, no such claim)"


def test_one_that_could_not_be_renewed_in_time_is_lost() -> None:
    """etcd has ended it then, whoever answers or not."""
    with kept(proxy := Proxy(AWAY), SHORT_SECONDS) as claim:
        assert claim.lost.wait(WAIT_SECONDS)
    assert (claim.why_lost, proxy.released) == ("nobody answers", [])


def test_nothing_is_asked_beyond_its_time() -> None:
    began = monotonic()
    with kept(proxy := Proxy(AWAY), SHORT_SECONDS) as claim:
        assert claim.lost.wait(WAIT_SECONDS)
    assert max(proxy.deadlines, default=0.0) <= began + SHORT_SECONDS + 1


@pytest.mark.parametrize("refusal", [AWAY, ENDED])
def test_what_it_is_given_back_for_is_not_undone_by_a_refusal(refusal: ControlError) -> None:
    """The check's verdict is out: that a claim ends by itself instead is nothing to fail for."""
    proxy = Proxy(None)
    proxy.refusal = refusal
    with kept(proxy, LONG_SECONDS):
        pass
    assert proxy.released == ["9"]
