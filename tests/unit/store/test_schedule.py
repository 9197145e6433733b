"""Due times: the latest word on an instance counts."""

from datetime import UTC, datetime, timedelta

from greenroom.core.keyspace import InstanceId
from greenroom.store.schedule import Schedule

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
A, B, C = InstanceId("a"), InstanceId("b"), InstanceId("c")


def minutes(number: int) -> datetime:
    return NOON + timedelta(minutes=number)


def test_they_come_in_the_order_of_their_times_and_only_once() -> None:
    schedule = Schedule()
    for instance, due in ((B, 2), (A, 1), (C, 3)):
        schedule.at(instance, minutes(due))
    assert schedule.next_due() == minutes(1)
    assert schedule.pop_due(minutes(2)) == [A, B]
    assert schedule.pop_due(minutes(2)) == []
    assert schedule.pop_due(minutes(3)) == [C]
    assert schedule.next_due() is None


def test_a_later_word_replaces_the_earlier_one_in_both_directions() -> None:
    schedule = Schedule()
    schedule.at(A, minutes(1))
    schedule.at(A, minutes(5))
    schedule.at(B, minutes(5))
    schedule.at(B, minutes(1))
    assert schedule.pop_due(minutes(4)) == [B]
    assert schedule.pop_due(minutes(5)) == [A]


def test_a_forgotten_one_does_not_come() -> None:
    schedule = Schedule()
    schedule.at(A, minutes(1))
    schedule.forget(A)
    schedule.forget(B)
    assert (schedule.next_due(), len(schedule)) == (None, 0)
    assert schedule.pop_due(minutes(9)) == []


def test_one_that_was_forgotten_may_be_named_again() -> None:
    schedule = Schedule()
    schedule.at(A, minutes(1))
    schedule.forget(A)
    schedule.at(A, minutes(1))
    assert schedule.pop_due(minutes(1)) == [A]
    assert schedule.pop_due(minutes(1)) == []
