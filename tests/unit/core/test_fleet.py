"""The limits that a plan keeps to for the sake of others: room, turns, and the floor under a group."""

from datetime import timedelta

import pytest

from greenroom.core.budget import Budget, encode
from greenroom.core.fleet import UNLIMITED, Admitted, Limits, Standing, Turn, groups_of, turn_of
from greenroom.core.keyspace import InstanceId
from greenroom.core.policy import ReleasesPolicy
from greenroom.core.record import State
from greenroom.core.snapshot import Snapshot
from greenroom.core.transitions import Outcome, with_verdict
from tests.support.instances import INSTANCE, LORA, NOW, I, K, held_record, snapshot
from tests.support.known_fleet import KnownFleet

ONE, TWO = InstanceId("abc1"), InstanceId("abc2")
ONE_AT_ONCE = ReleasesPolicy(max_in_flight=1, settle_seconds=30)
BUSY = Budget().with_release(ONE, NOW)
LATER = NOW + timedelta(seconds=30)
FLOOR = ReleasesPolicy(min_released=2)
READY = with_verdict(held_record(K), "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=NOW)
(GROUP,) = groups_of(READY)


def limits(releases: ReleasesPolicy = ONE_AT_ONCE, **known: object) -> Limits:
    return Limits(releases, KnownFleet(**known))  # type: ignore[arg-type]


def seen(budget: Budget = BUSY) -> Snapshot:
    return snapshot(READY, shadows=(K,), budget_revision=6, budget=encode(budget))


@pytest.mark.parametrize("without", [UNLIMITED, limits(FLOOR)], ids=["no limits", "a floor only"])
def test_without_a_limit_everything_fits_and_nothing_is_written(without: Limits) -> None:
    assert without.admission(seen(), NOW) == Admitted(None)
    assert without.standing(INSTANCE, NOW) is None
    assert without.standing_of_all() is None
    assert not without.queues
    assert without.is_first(snapshot(READY), READY)


def test_a_release_is_counted_until_it_has_settled() -> None:
    assert limits().admission(seen(), NOW) is None
    assert limits().admission(seen(), LATER) == Admitted(Budget().with_release(INSTANCE, LATER))


def test_one_that_is_gone_makes_room_once_that_is_certain() -> None:
    """A mirror that is older than the budget may not have seen the instance yet."""
    gone = frozenset({ONE})
    assert limits(gone=gone, revision=6).admission(seen(), NOW) is not None
    assert limits(gone=gone, revision=5).admission(seen(), NOW) is None


def test_its_own_earlier_release_does_not_count() -> None:
    again = limits().admission(seen(Budget().with_release(INSTANCE, NOW)), NOW)
    assert again == Admitted(Budget().with_release(INSTANCE, NOW))


def test_a_budget_that_cannot_be_read_leaves_no_room() -> None:
    unreadable = snapshot(READY, shadows=(K,), budget_revision=6, budget=b"?")
    assert limits().admission(unreadable, NOW) is None
    assert limits().after_withdrawal(unreadable) is None
    assert limits(FLOOR).floor_under(unreadable, READY) is not None


def test_a_turn_is_the_moment_of_the_last_decision_as_etcd_has_it() -> None:
    two = held_record(K, gates=("smoke", "chat"))
    for seconds, gate in enumerate(("chat", "smoke")):
        at = NOW + timedelta(seconds=seconds, microseconds=1999)
        two = with_verdict(two, gate, 1, Outcome.PASSED, reason="", reporter="ci", now=at)
    assert turn_of(INSTANCE, two) == Turn(NOW + timedelta(seconds=1, milliseconds=1), INSTANCE)


def test_whoever_was_ready_before_comes_first() -> None:
    before, after = Turn(NOW - timedelta(seconds=1), ONE), Turn(NOW + timedelta(seconds=1), ONE)
    assert not limits(turns=[before]).is_first(snapshot(READY), READY)
    assert limits(turns=[after]).is_first(snapshot(READY), READY)
    same_moment = Turn(NOW, InstanceId("0"))
    assert not limits(turns=[same_moment]).is_first(snapshot(READY), READY), "of one moment, by id"
    serving = READY.model_copy(update={"state": State.RELEASED})
    assert limits(turns=[before]).is_first(snapshot(serving), serving), "what comes later to it takes no turn"


def test_in_flight_is_only_what_has_not_settled() -> None:
    own = seen(Budget().with_release(INSTANCE, NOW))
    assert limits().is_in_flight(own, NOW)
    assert not limits().is_in_flight(own, LATER)
    assert not limits().is_in_flight(seen(), NOW)
    assert not UNLIMITED.is_in_flight(own, NOW)


def test_a_withdrawal_writes_the_budget_wherever_there_are_limits() -> None:
    own = seen(Budget().with_release(INSTANCE, NOW))
    assert limits().after_withdrawal(own) == Budget()
    assert limits(FLOOR).after_withdrawal(snapshot(READY)) == Budget(), "others withdraw at the same time"
    assert UNLIMITED.after_withdrawal(own) == Budget(), "another proxy's policy limits releases"
    assert UNLIMITED.after_withdrawal(snapshot(READY)) is None


def test_the_floor_counts_others_of_each_group() -> None:
    assert limits(FLOOR, released={GROUP: 2}).floor_under(snapshot(READY), READY) is None
    why = limits(FLOOR, released={GROUP: 1}).floor_under(snapshot(READY), READY)
    assert why == f"only 1 others of {GROUP} are released, and min_released is 2"
    both = held_record(K, LORA)
    assert len(groups_of(both)) == 2
    assert limits(FLOOR, released={GROUP: 9}).floor_under(snapshot(both), both) is not None
    assert UNLIMITED.floor_under(snapshot(READY), READY) is None
    assert limits(FLOOR, released={GROUP: 1}).floor_as_known(INSTANCE, READY) == why
    assert limits(FLOOR, released={GROUP: 2}, budget=None).floor_as_known(INSTANCE, READY) is not None


def test_groups_are_of_cards() -> None:
    assert groups_of(held_record(K, I)) == groups_of(held_record(K)) == {GROUP}


def test_the_fleet_may_be_older_than_the_budget() -> None:
    assert limits(revision=5).is_behind(seen())
    assert not limits(revision=6).is_behind(seen())


def test_people_are_told_places_and_numbers() -> None:
    turns = [Turn(NOW, ONE), Turn(NOW, TWO)]
    assert limits(turns=turns, budget=BUSY).standing(TWO, NOW) == Standing(1, 1, 2, 2)
    assert limits(turns=turns, budget=BUSY).standing(INSTANCE, LATER) == Standing(1, 0, 0, 2)
    assert limits(budget=BUSY, gone=frozenset({ONE})).standing(TWO, NOW) == Standing(1, 0, 0, 0)
    assert limits(budget=None).standing(TWO, NOW) == Standing(1, readable=False)
    assert limits(turns=turns).standing_of_all() == Standing(1)
