"""What the reconciler takes up and what it leaves for when. What it does then is shown in tests/integration."""

import asyncio
from datetime import timedelta

import pytest

from greenroom.core.budget import Budget, encode
from greenroom.core.decide import DEADLINE_GRACE_SECONDS
from greenroom.core.fleet import UNLIMITED, Limits
from greenroom.core.keyspace import BUDGET, InstanceId
from greenroom.core.policy import Phase, ReleasesPolicy
from greenroom.core.transitions import Outcome, with_verdict
from greenroom.pb.etcd import kv_pb2
from greenroom.store.changes import Changes
from greenroom.store.fleet import MirroredFleet
from greenroom.store.follower import Follower
from greenroom.store.reconciler import LONGEST_SLEEP_SECONDS, LOOKED_AT_AT_ONCE, Reconciler
from tests.support.control_side import EventLog, MovableClock
from tests.support.mirroring import ONE, TWO, claim_kv, fed_follower, held, kv_of, unconnected
from tests.support.registering import held_record, now

HOLD = kv_of(b"\x01greenroom/rollout-holds/f", b'{"hold_id": "f", "reason": "r", "actor": "a"}')


class Watched(Reconciler):
    """Says what it would work on."""

    def __init__(self, follower: Follower, clock: MovableClock, limits: Limits = UNLIMITED) -> None:
        super().__init__(unconnected(), follower, clock=clock, log=EventLog(), limits=lambda: limits)
        self.worked: list[str] = []

    async def _work(self, instance: str, subscription: object) -> None:  # type: ignore[override]
        self.worked.append(instance)

    async def look(self, changes: Changes) -> list[str]:
        with self._follower.subscribe() as subscription:
            self._look_at(changes)
            async with asyncio.TaskGroup() as tasks:
                for instance in self._schedule.pop_due(self._clock()):
                    self._start_if_due(instance, tasks, subscription)
        return self.worked


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


def passed(instance: str) -> list[kv_pb2.KeyValue]:
    record = held_record(instance)
    after = with_verdict(record, "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=now())
    return held(instance, after)  # type: ignore[arg-type]


async def test_what_is_ready_is_taken_up_and_what_waits_is_not(clock: MovableClock) -> None:
    reconciler = Watched(fed_follower([*passed(ONE), *held(TWO)], clock=clock), clock)
    assert await reconciler.look(Changes(everything=True)) == [ONE]


async def test_only_what_changed_is_looked_at(clock: MovableClock) -> None:
    reconciler = Watched(fed_follower([*passed(ONE), *passed(TWO)], clock=clock), clock)
    assert await reconciler.look(Changes(frozenset({TWO}))) == [TWO]


async def test_an_attempt_is_given_up_when_its_last_claim_is_gone(clock: MovableClock) -> None:
    record = held_record(ONE)
    gate = record.gates["smoke"].model_copy(update={"claims": 3})
    kvs = held(ONE, record.model_copy(update={"gates": {"smoke": gate}}))
    claimed = Watched(fed_follower([*kvs, claim_kv(ONE)], clock=clock), clock)
    assert await claimed.look(Changes(everything=True)) == []
    free = Watched(fed_follower(kvs, clock=clock), clock)
    assert await free.look(Changes(everything=True)) == [ONE]


async def test_a_rollout_hold_keeps_it_from_trying(clock: MovableClock) -> None:
    reconciler = Watched(fed_follower([*passed(ONE), HOLD], clock=clock), clock)
    assert await reconciler.look(Changes(everything=True)) == []


async def test_a_deadline_is_waited_for_and_the_grace_after_a_start_too(clock: MovableClock) -> None:
    record = held_record(ONE, {"smoke": 1.0})
    reconciler = Watched(fed_follower(held(ONE, record), clock=clock), clock)
    clock.advance(2)
    assert await reconciler.look(Changes(everything=True)) == []
    due = reconciler._schedule.next_due()
    assert due is not None
    assert abs(due - clock() - timedelta(seconds=DEADLINE_GRACE_SECONDS - 2)) < timedelta(seconds=1)
    clock.advance(DEADLINE_GRACE_SECONDS)
    assert await reconciler.look(Changes(frozenset({ONE}))) == [ONE]


async def test_while_etcd_is_away_nothing_is_tried(clock: MovableClock) -> None:
    follower = fed_follower(passed(ONE), clock=clock)
    reconciler = Watched(follower, clock)
    follower.went_away("gone")
    assert await reconciler.look(Changes(everything=True)) == []


async def test_it_wakes_when_something_is_due_and_sometimes_anyway(clock: MovableClock) -> None:
    reconciler = Watched(fed_follower([], clock=clock), clock)
    assert reconciler._sleep_seconds() == LONGEST_SLEEP_SECONDS
    reconciler._schedule.at(ONE, clock() + timedelta(seconds=1))
    assert 0.5 < reconciler._sleep_seconds() <= 1
    reconciler._schedule.at(ONE, clock() - timedelta(seconds=9))
    assert reconciler._sleep_seconds() == 0


def queueing(follower: Follower, clock: MovableClock) -> Limits:
    fleet = MirroredFleet(follower.mirror, clock=clock)
    fleet.add(Changes(everything=True))
    return Limits(ReleasesPolicy(max_in_flight=1), fleet)


async def test_under_a_limit_who_is_ready_is_left_to_the_drain(clock: MovableClock) -> None:
    follower = fed_follower([*passed(ONE), *held(TWO)], clock=clock)
    reconciler = Watched(follower, clock, queueing(follower, clock))
    assert await reconciler.look(Changes(everything=True)) == []
    assert list(reconciler.limits().fleet.queue()) == [ONE]
    assert reconciler._sleep_seconds() == 0, "the drain is due at once"


async def test_who_queued_is_taken_up_when_a_new_policy_has_no_queue(clock: MovableClock) -> None:
    follower = fed_follower(passed(ONE), clock=clock)
    reconciler = Watched(follower, clock, queueing(follower, clock))
    assert await reconciler.look(Changes(everything=True)) == []
    reconciler._notice_other_limits()
    assert await reconciler.look(Changes()) == [], "nothing is different yet"
    reconciler.limits = lambda: UNLIMITED
    reconciler._notice_other_limits()
    assert await reconciler.look(Changes()) == [ONE]


async def test_a_dry_run_is_released_beside_the_queue(clock: MovableClock) -> None:
    record = with_verdict(held_record(ONE), "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=clock())
    follower = fed_follower(held(ONE, record.model_copy(update={"dry_run": True})), clock=clock)
    assert await Watched(follower, clock, queueing(follower, clock)).look(Changes(everything=True)) == [ONE]


async def test_it_wakes_when_the_next_release_has_settled(clock: MovableClock) -> None:
    busy = Budget().with_release(TWO, clock())
    follower = fed_follower([*passed(ONE), *held(TWO), kv_of(BUDGET, encode(busy))], clock=clock)
    reconciler = Watched(follower, clock, queueing(follower, clock))
    assert reconciler._sleep_seconds() == LONGEST_SLEEP_SECONDS
    clock.advance(28)
    assert 0 < reconciler._sleep_seconds() < 2.5


async def test_while_etcd_is_away_the_drain_is_not_due_and_the_loop_sleeps(clock: MovableClock) -> None:
    follower = fed_follower(passed(ONE), clock=clock)
    reconciler = Watched(follower, clock, queueing(follower, clock))
    follower.went_away("gone")
    assert reconciler._sleep_seconds() == LONGEST_SLEEP_SECONDS


async def test_under_a_limit_a_pass_that_lapses_in_the_queue_is_taken_up(clock: MovableClock) -> None:
    """Its turn may never come: the gate's next attempt has to open all the same."""
    record = with_verdict(held_record(ONE), "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=clock())
    lapses = {"phase": Phase.CONTINUOUS, "ttl_seconds": 600, "deadline": clock() + timedelta(seconds=600)}
    record = record.model_copy(update={"gates": {"smoke": record.gates["smoke"].model_copy(update=lapses)}})
    follower = fed_follower(held(ONE, record), clock=clock)
    reconciler = Watched(follower, clock, queueing(follower, clock))
    assert await reconciler.look(Changes(everything=True)) == []
    clock.advance(601)
    assert await reconciler.look(Changes()) == [ONE]


async def test_a_large_fleet_is_looked_at_in_portions(clock: MovableClock) -> None:
    """Between them whatever else the loop has to do is done: workers' calls, above all."""
    fleet = [InstanceId(f"{number:x}") for number in range(1, 2 * LOOKED_AT_AT_ONCE + 2)]
    reconciler = Watched(fed_follower([kv for one in fleet for kv in passed(one)], clock=clock), clock)
    running = asyncio.create_task(reconciler.run())
    looked_at = []
    while len(reconciler.worked) < len(fleet):
        await asyncio.sleep(0)
        looked_at.append(len(reconciler._busy))
    running.cancel()
    assert sorted(set(looked_at)) == [LOOKED_AT_AT_ONCE, 2 * LOOKED_AT_AT_ONCE, len(fleet)]
    assert sorted(reconciler.worked) == sorted(fleet)
