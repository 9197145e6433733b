"""Which PINGs pass, and when the relay asks upstream itself."""

import pytest

from greenroom.http2.frames import ACK, PING, Fault
from greenroom.relay.limits import Limits
from greenroom.relay.pings import Pings, answered
from tests.support.h2_peers import Frame, frames_in


def pings() -> Pings:
    return Pings(Limits(upstream_silence_seconds=10, upstream_ping_seconds=5, ping_spacing_seconds=5), 0.0)


def test_without_a_hand_over_every_ping_passes() -> None:
    made = pings()
    assert all(made.may_pass(now / 10) for now in range(20))


def test_after_a_hand_over_one_ping_passes_for_each_thing_upstream_says() -> None:
    made = pings()
    made.handed_over = True
    assert made.may_pass(1)
    assert not made.may_pass(2)
    made.upstream_spoke = True
    assert made.may_pass(3)
    assert not made.may_pass(4)


def test_silent_upstream_is_asked_and_given_up_when_it_does_not_answer() -> None:
    made = pings()
    assert made.tick(9.9) is None
    asked = made.tick(10)
    assert asked is not None
    assert made.tick(14.9) is None
    with pytest.raises(Fault, match="upstream does not answer"):
        made.tick(15)


def test_an_answer_or_any_other_byte_shows_life() -> None:
    made = pings()
    asked = made.tick(10)
    assert asked is not None
    payload = frames_in(asked)[0].payload
    made.heard = 14.0
    assert made.tick(18.9) is None
    assert made.is_own_answer(payload)
    assert not made.is_own_answer(payload), "settled already"
    made.heard = 18.9
    assert made.tick(28) is None
    assert made.tick(29) is not None


def test_an_answer_to_the_clients_ping_is_not_ours() -> None:
    made = pings()
    made.tick(10)
    assert not made.is_own_answer(b"clients!")


def test_clients_pings_and_our_own_keep_the_distance_that_etcd_wants() -> None:
    made = pings()
    assert made.may_pass(8)
    assert made.tick(10) is None, "too soon after the client's"
    assert made.tick(13) is not None
    assert not made.may_pass(17), "too soon after ours"
    assert made.may_pass(18)


def test_a_ping_is_answered_with_its_own_payload() -> None:
    assert frames_in(answered(b"12345678")) == [Frame(PING, ACK, 0, b"12345678")]
