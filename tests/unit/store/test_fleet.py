"""The fleet as the mirror has it: the queue in its order, and how many of a group are released, change by change."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta

from greenroom.core.attempts import first_attempt
from greenroom.core.fleet import Turn, groups_of, turn_of
from greenroom.core.keyspace import InstanceId
from greenroom.core.policy import GatePolicy, Phase
from greenroom.core.record import Record
from greenroom.core.rollout_holds import RolloutHold, encode
from greenroom.core.selectors import Selector
from greenroom.core.transitions import Outcome, released, with_verdict, withdrawn
from greenroom.pb.etcd import kv_pb2
from greenroom.store.changes import Changes
from greenroom.store.fleet import MirroredFleet
from greenroom.store.mirror import Mirror
from tests.support.control_side import GATED
from tests.support.instances import NOW
from tests.support.mirroring import ONE, TWO, delete_event, held, put_event, record_kv, shadow_kv
from tests.support.registering import held_record
from tests.support.steps_taken import lines_run

THREE = InstanceId("abc3")
HOLD_KEY = b"\x01greenroom/rollout-holds/f"
HOLD = RolloutHold(hold_id="f", reason="r", actor="a", selector=Selector(model="big"))


def ready(instance: InstanceId, seconds: float, model: str = "small") -> Record:
    at = NOW + timedelta(seconds=seconds)
    return with_verdict(
        held_record(instance, model=model, at=NOW), "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=at
    )


class Clock:
    """NOW, and as much later as the test says."""

    def __init__(self) -> None:
        self.time = NOW

    def __call__(self) -> datetime:
        return self.time


def fleet_of(*kvs: kv_pb2.KeyValue, clock: Clock | None = None) -> tuple[Mirror, MirroredFleet]:
    mirror = Mirror(GATED)
    fleet = MirroredFleet(mirror, clock=clock or Clock())
    fleet.add(mirror.replace(kvs, 10))
    return mirror, fleet


def put_all(kvs: Sequence[kv_pb2.KeyValue], revision: int = 11) -> list[kv_pb2.Event]:
    return [put_event(kv.key, kv.value, revision) for kv in kvs]


def test_the_queue_is_in_the_order_of_readiness_then_of_ids() -> None:
    _, fleet = fleet_of(*held(ONE, ready(ONE, 5)), *held(TWO, ready(TWO, 1)), *held(THREE, ready(THREE, 5)))
    assert list(fleet.queue()) == [TWO, ONE, THREE]
    assert (fleet.queue_length(), fleet.revision) == (3, 10)
    turns = [fleet.turn_of(instance) for instance in (TWO, ONE, THREE)]
    assert [fleet.turns_before(turn) for turn in turns if turn] == [0, 1, 2]


def test_who_is_not_ready_has_no_turn() -> None:
    _, fleet = fleet_of(*held(ONE), *held(TWO, released(ready(TWO, 1), NOW)), record_kv(THREE, ready(THREE, 1)))
    assert list(fleet.queue()) == []
    assert fleet.turn_of(THREE) is None, "it has no card to publish"


def test_each_change_moves_what_it_is_about() -> None:
    mirror, fleet = fleet_of(*held(ONE, ready(ONE, 5)), *held(TWO))
    fleet.add(mirror.apply(put_all([record_kv(TWO, ready(TWO, 1))])))
    assert list(fleet.queue()) == [TWO, ONE]
    assert fleet.revision == 11
    fleet.add(mirror.apply(put_all([record_kv(TWO, released(ready(TWO, 1), NOW))], 12)))
    assert list(fleet.queue()) == [ONE]
    fleet.add(mirror.apply([delete_event(record_kv(ONE).key, 13), delete_event(shadow_kv(ONE).key, 13)]))
    assert list(fleet.queue()) == []
    assert not fleet.exists(ONE)


def test_a_turn_that_is_not_in_the_queue_yet_is_counted_without_its_older_self() -> None:
    """A verdict's own record is planned with: the mirror may have an older one of the same instance."""
    _, fleet = fleet_of(*held(ONE, ready(ONE, 1)), *held(TWO, ready(TWO, 2)))
    assert fleet.turns_before(Turn(NOW + timedelta(seconds=9), ONE)) == 1
    assert fleet.turns_before(Turn(NOW, TWO)) == 0
    assert fleet.turns_before(Turn(NOW + timedelta(seconds=9), THREE)) == 2


def test_a_rollout_hold_takes_its_own_out_of_the_queue_and_gives_them_back() -> None:
    mirror, fleet = fleet_of(*held(ONE, ready(ONE, 1, "big")), *held(TWO, ready(TWO, 2)))
    fleet.add(mirror.apply([put_event(HOLD_KEY, encode(HOLD))]))
    assert list(fleet.queue()) == [TWO]
    fleet.add(mirror.apply([delete_event(HOLD_KEY)]))
    assert list(fleet.queue()) == [ONE, TWO]


def test_released_instances_are_counted_by_group() -> None:
    out = {one: released(ready(one, 1, "big" if one is THREE else "small"), NOW) for one in (ONE, TWO, THREE)}
    mirror, fleet = fleet_of(*(record_kv(one, record) for one, record in out.items()))
    (small,), (big,) = groups_of(out[ONE]), groups_of(out[THREE])
    assert (fleet.released_beside(ONE, small), fleet.released_beside(THREE, small)) == (1, 2)
    assert fleet.released_beside(THREE, big) == 0
    taken = withdrawn(out[TWO], "alice", "x", NOW, by_person=True)
    fleet.add(mirror.apply(put_all([record_kv(TWO, taken)])))
    assert fleet.released_beside(ONE, small) == 0
    fleet.add(mirror.apply([delete_event(record_kv(ONE).key)]))
    assert fleet.released_beside(THREE, small) == 0


def test_many_changes_leave_what_a_whole_reading_finds() -> None:
    """Incrementally as from nothing: nobody is lost, none is there twice, and the order is right."""
    rng = random.Random(4)
    mirror, fleet = fleet_of()
    instances = [InstanceId(f"a{number:x}") for number in range(1, 60)]
    states = (held_record, lambda one: ready(one, rng.randrange(9)), lambda one: released(ready(one, 1), NOW))
    for step in range(300):
        one = rng.choice(instances)
        if rng.random() < 0.2:
            fleet.add(mirror.apply([delete_event(record_kv(one).key, 11 + step)]))
        else:
            fleet.add(mirror.apply(put_all(held(one, rng.choice(states)(one)), 11 + step)))
    anew = MirroredFleet(mirror, clock=Clock())
    anew.add(Changes(everything=True))
    assert list(fleet.queue()) == list(anew.queue())
    assert 0 < fleet.queue_length() < 60
    for one in mirror.instances():
        (group,) = groups_of(one.record)
        assert fleet.released_beside(one.instance, group) == anew.released_beside(one.instance, group)
    assert all(fleet.turn_of(one.instance) in (None, turn_of(one.instance, one.record)) for one in mirror.instances())


def probed(instance: InstanceId, *seconds: float) -> Record:
    """Whose one gate passed, and must each time pass again within a minute."""
    probe = GatePolicy(timeout_seconds=60, phase=Phase.CONTINUOUS, ttl_seconds=60)
    record = held_record(instance, model="small", at=NOW)
    record = record.model_copy(update={"gates": {"probe": first_attempt(probe, NOW)}})
    for later in seconds:
        at = NOW + timedelta(seconds=later)
        record = with_verdict(record, "probe", 1, Outcome.PASSED, reason="", reporter="ci", now=at)
    return record


def test_who_must_pass_again_has_no_turn_until_then() -> None:
    """Nobody has written yet that the pass lapsed: the next one need not wait for that."""
    clock = Clock()
    mirror, fleet = fleet_of(*held(ONE, probed(ONE, 1)), *held(TWO, ready(TWO, 2)), clock=clock)
    assert list(fleet.queue()) == [ONE, TWO]
    turn = fleet.turn_of(TWO)
    assert turn is not None
    clock.time = NOW + timedelta(seconds=61)
    assert (fleet.turns_before(turn), list(fleet.queue()), fleet.queue_length()) == (0, [TWO], 1)
    assert fleet.turn_of(ONE) is None
    fleet.add(mirror.apply(put_all(held(ONE, probed(ONE, 1, 62)))))
    assert list(fleet.queue()) == [ONE, TWO]


def test_a_renewed_pass_keeps_its_place() -> None:
    mirror, fleet = fleet_of(*held(ONE, probed(ONE, 1)), *held(TWO, ready(TWO, 2)))
    fleet.add(mirror.apply(put_all(held(ONE, probed(ONE, 1, 30)))))
    assert list(fleet.queue()) == [ONE, TWO]


def test_who_is_in_dry_run_serves_already_and_has_no_turn() -> None:
    _, fleet = fleet_of(*held(ONE, ready(ONE, 1).model_copy(update={"dry_run": True})))
    assert fleet.queue_length() == 0


def test_what_nobody_asks_for_is_not_looked_at() -> None:
    """A rollout hold has everybody looked at, but where releases are not limited no answer hangs on it."""
    mirror, fleet = fleet_of(*(kv for number in range(1, 100) for kv in held(InstanceId(f"{number:x}"))))
    assert fleet.queue_length() == 0
    changes = mirror.apply([put_event(HOLD_KEY, encode(HOLD))])
    assert lines_run(lambda: fleet.add(changes)) < 10
    fleet.add(mirror.apply(put_all(held(ONE, ready(ONE, 1)))))
    assert list(fleet.queue()) == [ONE]
    (group,) = groups_of(ready(ONE, 1))
    fleet.add(mirror.apply(put_all([record_kv(ONE, released(ready(ONE, 1), NOW))])) | changes)
    assert fleet.released_beside(TWO, group) == 1
