"""Due times: the latest word on an instance counts."""

import random
from datetime import UTC, datetime, timedelta

from greenroom.core.keyspace import InstanceId
from greenroom.store.schedule import MAX_OLD_ENTRIES, Schedule

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


def test_an_instance_that_changes_thousands_of_times_leaves_no_heap_behind() -> None:
    """Each taint edit sets the instance's due time to now and then back to its deadline, an hour away."""
    schedule = Schedule()
    schedule.at(A, minutes(1))
    for number in range(5_000):
        schedule.at(B, minutes(60) + timedelta(microseconds=number))
    assert len(schedule) == 2
    assert len(schedule._heap) <= 2 * len(schedule) + MAX_OLD_ENTRIES
    assert schedule.pop_due(minutes(60)) == [A]
    assert schedule.next_due() == minutes(60) + timedelta(microseconds=4_999)
    assert schedule.pop_due(minutes(61)) == [B]


def test_however_often_the_heap_is_built_anew_the_latest_word_counts() -> None:
    schedule, chance = Schedule(), random.Random(1)
    latest: dict[str, int] = {}
    for _ in range(2_000):
        name, due = chance.choice("abcdefgh"), chance.randrange(60)
        schedule.at(InstanceId(name), minutes(due))
        latest[name] = due
    for now in range(60):
        assert sorted(schedule.pop_due(minutes(now))) == sorted(name for name, due in latest.items() if due == now)
