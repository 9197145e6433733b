"""The budget's value: who is in flight, for how long, and when the next one fits."""

import json
from datetime import timedelta

import pytest

from greenroom.core.budget import Budget, InFlight, decode, encode
from greenroom.core.keyspace import InstanceId
from greenroom.core.policy import ReleasesPolicy
from tests.support.instances import NOW

ONE, TWO = InstanceId("abc1"), InstanceId("abc2")
TWO_AT_ONCE = ReleasesPolicy(max_in_flight=2, settle_seconds=30)
BOTH = Budget().with_release(ONE, NOW).with_release(TWO, NOW + timedelta(seconds=10))


def named(budget: Budget) -> list[str]:
    return [one.instance for one in budget.in_flight]


def test_the_stored_form_is_this() -> None:
    assert json.loads(encode(BOTH)) == {
        "schema_version": 1,
        "in_flight": [
            {"instance": "abc1", "released": "2026-03-01T12:00:00.000+00:00"},
            {"instance": "abc2", "released": "2026-03-01T12:00:10.000+00:00"},
        ],
    }
    assert decode(encode(BOTH)) == BOTH


def test_what_a_newer_proxy_added_stays() -> None:
    budget = decode(b'{"colour": "red", "in_flight": []}')
    assert budget is not None
    assert json.loads(encode(budget.with_release(ONE, NOW)))["colour"] == "red"


@pytest.mark.parametrize("value", [b"", b"{", b'{"schema_version": 2}', b'{"in_flight": [{"instance": "a"}]}'])
def test_what_cannot_be_read_is_no_budget(value: bytes) -> None:
    assert decode(value) is None


@pytest.mark.parametrize(
    ("seconds", "left"), [(-5, ["abc1", "abc2"]), (29.9, ["abc1", "abc2"]), (30, ["abc2"]), (40, [])]
)
def test_a_release_settles(seconds: float, left: list[str]) -> None:
    """Of a release that another proxy's clock puts in the future, the time is counted from there."""
    assert named(BOTH.unsettled(NOW + timedelta(seconds=seconds), 30)) == left


def test_an_instance_that_is_gone_does_not_count() -> None:
    assert named(BOTH.unsettled(NOW, 30, exists=lambda instance: instance == TWO)) == ["abc2"]


def test_an_instance_is_named_once() -> None:
    again = BOTH.with_release(ONE, NOW + timedelta(seconds=20))
    assert named(again) == ["abc2", "abc1"]
    assert again.has(ONE)
    assert not again.without(ONE).has(ONE)
    assert named(again.without(ONE)) == ["abc2"]


def test_the_next_fits_when_enough_have_settled() -> None:
    assert Budget().room_from(TWO_AT_ONCE) is None
    assert BOTH.without(ONE).room_from(TWO_AT_ONCE) is None
    assert BOTH.room_from(TWO_AT_ONCE) == NOW + timedelta(seconds=30)
    smaller = TWO_AT_ONCE.model_copy(update={"max_in_flight": 1})
    assert BOTH.room_from(smaller) == NOW + timedelta(seconds=40), "the policy was made smaller meanwhile"


def test_settling_is_counted_from_the_release() -> None:
    assert InFlight(instance=ONE, released=NOW).settles(2.5) == NOW + timedelta(seconds=2.5)
