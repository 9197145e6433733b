"""What a reader is told next: the newest state, of each instance at most once, and only what concerns him."""

import asyncio

import pytest

from greenroom.control.filters import InstanceFilter
from greenroom.control.told import Known, Told
from greenroom.control.watcher import MAX_FRUITLESS, Watcher
from greenroom.core.keyspace import ROLLOUT_HOLDS, InstanceId, record_key
from greenroom.core.record import Record
from greenroom.core.transitions import Outcome, with_verdict
from greenroom.pb.control.v1 import control_pb2 as pb
from greenroom.pb.etcd import kv_pb2
from greenroom.store.mirror import Mirror
from greenroom.store.mirrored import MirroredInstance
from tests.support.control_side import GATED
from tests.support.instance_stream import kind_of, removal_of
from tests.support.mirroring import ONE, TWO, delete_event, held, put_event, record_kv, shadow_kv
from tests.support.registering import card_key, held_record, now

THREE = InstanceId("abc3")
HOLD = ROLLOUT_HOLDS + b"freeze"
FREEZE = b'{"hold_id": "freeze", "reason": "r", "actor": "a"}'
HOLD_OF_NOBODY = b'{"hold_id": "freeze", "reason": "r", "actor": "a", "selector": {"model": "nobody"}}'


class Reading:
    """A mirror, and one reader of it who is told what changes."""

    def __init__(self, *there: InstanceId, wanted: InstanceFilter | None = None) -> None:
        self.mirror = Mirror(GATED)
        self.mirror.replace([kv for instance in there for kv in held(instance)])
        self.known = Known(self.mirror)
        self.watcher = Watcher(self.mirror, self.known, wanted or InstanceFilter())
        self.revision = 10

    def snapshot(self) -> list[tuple[str, str]]:
        return said(self.watcher.existing(self.watcher.start()))

    def apply(self, *events: kv_pb2.Event) -> None:
        self.watcher.add(self.mirror.apply(events))

    def write(self, instance: InstanceId, record: Record | None = None) -> None:
        self.revision += 1
        kv = record_kv(instance, record)
        self.apply(put_event(kv.key, kv.value, self.revision))

    def hold(self, instance: InstanceId) -> None:
        self.apply(*(put_event(kv.key, kv.value) for kv in held(instance)))

    def end(self, instance: InstanceId) -> None:
        self.apply(delete_event(shadow_kv(instance).key), delete_event(record_key(instance)))

    def news(self) -> list[pb.InstanceEvent]:
        return list(self.watcher.news(self.watcher.take()))

    def told(self) -> list[tuple[str, str]]:
        return said(self.news())


def said(events: object) -> list[tuple[str, str]]:
    return [(kind_of(event), event.instance.id) for event in events]  # type: ignore[attr-defined]


def rejected(instance: InstanceId) -> Record:
    return with_verdict(held_record(instance), "smoke", 1, Outcome.FAILED, reason="", reporter="ci", now=now())


def test_the_snapshot_is_everything_there_is() -> None:
    reading = Reading(ONE, TWO)
    assert sorted(reading.snapshot()) == [("EXISTING", ONE), ("EXISTING", TWO)]
    assert reading.told() == []


def test_what_changes_while_the_snapshot_is_told_is_told_once() -> None:
    reading = Reading(ONE, TWO)
    names = reading.watcher.start()
    reading.write(ONE)
    reading.end(TWO)
    reading.hold(THREE)
    assert said(reading.watcher.existing(names)) == [("EXISTING", ONE)]
    assert reading.told() == [("ADDED", THREE)]


def test_one_that_came_changed_and_went_is_told_as_that() -> None:
    reading = Reading()
    reading.snapshot()
    reading.hold(ONE)
    assert reading.told() == [("ADDED", ONE)]
    reading.write(ONE)
    assert reading.told() == [("CHANGED", ONE)]
    reading.end(ONE)
    [gone] = reading.news()
    assert (kind_of(gone), removal_of(gone)) == ("REMOVED", "EXPIRED")
    assert [key.live for key in gone.instance.gated_keys] == [True]
    assert reading.told() == []


def test_many_changes_are_told_as_the_last_one() -> None:
    reading = Reading(ONE)
    reading.snapshot()
    for _ in range(100):
        reading.write(ONE)
    [event] = reading.news()
    assert (kind_of(event), event.instance.record_revision) == ("CHANGED", reading.revision)


def test_one_that_came_and_went_unseen_is_not_told_and_not_kept() -> None:
    """A reader that does not read while many come and go must not cost memory for each of them."""
    reading = Reading()
    reading.snapshot()
    for number in range(50):
        instance = InstanceId(f"{number + 1:x}")
        reading.hold(instance)
        reading.end(instance)
    assert len(reading.watcher._waiting) == 0
    assert reading.told() == []


def test_one_that_ended_is_told_as_it_was_at_last_and_not_as_it_was_told() -> None:
    reading = Reading(ONE)
    reading.snapshot()
    reading.write(ONE, rejected(ONE))
    reading.end(ONE)
    [gone] = reading.news()
    assert gone.instance.state == pb.INSTANCE_STATE_REJECTED


def test_a_rollout_hold_is_told_of_those_that_it_is_about() -> None:
    reading = Reading(ONE, TWO)
    reading.snapshot()
    reading.apply(put_event(HOLD, FREEZE))
    assert sorted(reading.told()) == [("CHANGED", ONE), ("CHANGED", TWO)]
    reading.apply(delete_event(HOLD))
    assert sorted(reading.told()) == [("CHANGED", ONE), ("CHANGED", TWO)]


def test_a_rollout_hold_that_came_and_went_unseen_is_nothing() -> None:
    reading = Reading(ONE)
    reading.snapshot()
    reading.apply(put_event(HOLD, FREEZE))
    reading.apply(delete_event(HOLD))
    assert reading.told() == []


def test_filters_add_and_remove() -> None:
    reading = Reading(ONE, TWO, wanted=InstanceFilter(state=pb.INSTANCE_STATE_HELD))
    reading.snapshot()
    reading.write(ONE, rejected(ONE))
    [gone] = reading.news()
    assert (kind_of(gone), removal_of(gone)) == ("REMOVED", "NOT_MATCHING")
    assert gone.instance.state == pb.INSTANCE_STATE_REJECTED
    reading.end(ONE)
    assert reading.told() == []
    reading.write(TWO, rejected(TWO))
    reading.write(TWO)
    assert reading.told() == [("CHANGED", TWO)]


def test_a_record_that_cannot_be_read_is_no_expiry() -> None:
    reading = Reading(ONE)
    reading.snapshot()
    reading.apply(put_event(record_key(ONE), b"{}"))
    [gone] = reading.news()
    assert (kind_of(gone), removal_of(gone)) == ("REMOVED", "UNREADABLE")
    assert gone.instance.record_revision == 7
    reading.write(ONE)
    assert reading.told() == [("ADDED", ONE)]


def was(instance: InstanceId, record: Record | None = None) -> Told:
    return Told(
        MirroredInstance(instance, record or held_record(instance), 5, frozenset({card_key(instance)}), None), ()
    )


def test_a_reader_that_comes_back_is_told_what_may_be_different() -> None:
    reading = Reading(ONE, TWO)
    reading.watcher.resume({ONE: was(ONE), THREE: was(THREE)})
    assert sorted(reading.told()) == [("CHANGED", ONE), ("REMOVED", THREE)]
    reading.write(TWO)
    assert reading.told() == [("CHANGED", TWO)]


def test_a_reader_that_comes_back_is_told_of_those_that_were_not_there() -> None:
    reading = Reading(ONE, TWO)
    reading.watcher.resume({ONE: None, THREE: None})
    assert reading.told() == [("ADDED", ONE)]


def test_a_reader_that_comes_back_with_filters_knew_those_that_matched() -> None:
    reading = Reading(ONE, TWO, THREE, wanted=InstanceFilter(state=pb.INSTANCE_STATE_HELD))
    reading.write(TWO, rejected(TWO))
    reading.news()
    reading.watcher = Watcher(reading.mirror, reading.known, InstanceFilter(state=pb.INSTANCE_STATE_HELD))
    reading.watcher.resume({ONE: was(ONE, rejected(ONE)), TWO: was(TWO)})
    assert sorted(reading.told()) == [("ADDED", ONE), ("REMOVED", TWO)]


async def test_whoever_sends_is_woken_by_a_change() -> None:
    reading = Reading(ONE)
    reading.snapshot()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reading.watcher.some(), 0.001)
    reading.write(ONE)
    await asyncio.wait_for(reading.watcher.some(), 60)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reading.watcher.some(), 0.001)
    reading.watcher.wake()
    await asyncio.wait_for(reading.watcher.some(), 60)


def test_whoever_looks_in_vain_at_many_lets_others_have_their_turn() -> None:
    """A rollout hold that is about nobody has everybody looked at, and nothing told."""
    reading = Reading(*(InstanceId(f"{number:x}") for number in range(1, 2 * MAX_FRUITLESS + 10)))
    reading.snapshot()
    reading.apply(put_event(HOLD, HOLD_OF_NOBODY))
    assert reading.news() == [None, None]
