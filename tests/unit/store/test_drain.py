"""The drain: in turn, one at a time, as long as there is room; who fails keeps nobody waiting."""

from datetime import timedelta

import pytest

from greenroom.core.budget import Budget
from greenroom.core.fleet import UNLIMITED, Limits, Turn
from greenroom.core.keyspace import InstanceId
from greenroom.core.policy import ReleasesPolicy
from greenroom.core.verdicts import Effect, Queued, Unchanged
from greenroom.store.drain import LONGEST_RETRY_SECONDS, Drain
from greenroom.store.fenced import CarriedOut
from tests.support.control_side import MovableClock
from tests.support.instances import held_record
from tests.support.known_fleet import KnownFleet

ONE, TWO, THREE = (InstanceId(f"abc{number}") for number in (1, 2, 3))
RECORD = held_record()
SETTLE_SECONDS = 30


class Etcd:
    """Says what becomes of each instance, and who was asked for."""

    def __init__(self, clock: MovableClock, *queue: InstanceId) -> None:
        self.fleet = KnownFleet(turns=[Turn(clock(), instance) for instance in queue])
        self.limits = Limits(ReleasesPolicy(max_in_flight=1, settle_seconds=SETTLE_SECONDS), self.fleet)
        self.asked: list[str] = []
        self.no_room_after, self.failing, self.lost = 99, set[str](), set[str]()

    async def carry_out(self, instance: InstanceId) -> CarriedOut | Unchanged | None:
        self.asked.append(instance)
        if len(self.asked) > self.no_room_after:
            return Queued(RECORD)
        if instance in self.failing:
            return None
        if instance in self.lost:
            return Unchanged(RECORD)
        self.fleet.turns = [turn for turn in self.fleet.turns if turn.instance != instance]
        return CarriedOut(instance, RECORD, RECORD, Effect.RELEASED, 9)

    def drain(self, clock: MovableClock) -> Drain:
        return Drain(lambda: self.limits, self.carry_out, clock=clock)


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


async def test_everybody_in_turn(clock: MovableClock) -> None:
    etcd = Etcd(clock, ONE, TWO, THREE)
    await etcd.drain(clock).run()
    assert etcd.asked == [ONE, TWO, THREE]


async def test_without_room_it_ends_and_does_not_ask_again_at_once(clock: MovableClock) -> None:
    etcd = Etcd(clock, ONE, TWO, THREE)
    etcd.no_room_after = 0
    drain = etcd.drain(clock)
    await drain.run()
    assert etcd.asked == [ONE]
    due = drain.due()
    assert due is not None
    assert clock() < due <= clock() + timedelta(seconds=LONGEST_RETRY_SECONDS)


async def test_nothing_is_due_while_it_runs_or_nobody_waits_or_nothing_is_limited(clock: MovableClock) -> None:
    etcd = Etcd(clock, ONE)
    drain = etcd.drain(clock)
    assert drain.due() is not None
    drain.begins()
    assert drain.due() is None
    await drain.run()
    assert drain.due() is None, "nobody waits any more"
    assert Drain(lambda: UNLIMITED, etcd.carry_out, clock=clock).due() is None


async def test_it_is_due_when_the_oldest_release_has_settled(clock: MovableClock) -> None:
    etcd = Etcd(clock, ONE)
    at = clock()
    etcd.fleet.budget = Budget().with_release(TWO, at)
    drain = etcd.drain(clock)
    assert drain.due() == at + timedelta(seconds=SETTLE_SECONDS)
    etcd.fleet.gone = frozenset({TWO})
    due = drain.due()
    assert due is not None
    assert due <= clock(), "its lease ended"


async def test_who_fails_is_passed_over_until_something_about_him_changes(clock: MovableClock) -> None:
    etcd = Etcd(clock, ONE, TWO)
    etcd.failing = {ONE}
    drain = etcd.drain(clock)
    await drain.run()
    assert etcd.asked == [ONE, TWO]
    assert drain.due() is None
    drain.looked_at({ONE})
    assert drain.due() is not None
    await drain.run()
    assert etcd.asked == [ONE, TWO, ONE]
    clock.advance(60)
    assert drain.due() is not None, "in time he is tried all the same"


async def test_who_is_in_the_queue_no_more_is_asked_for_once_a_run(clock: MovableClock) -> None:
    """The mirror is a little behind: another proxy released him."""
    etcd = Etcd(clock, ONE, TWO)
    etcd.lost = {ONE}
    await etcd.drain(clock).run()
    assert etcd.asked == [ONE, TWO]
