"""One stream of WatchInstances, without the stream: what its reader was told, and what there is to tell him next.

The rule: the newest state is told, not each step. What waits is a set of instances, none twice and only such as exist
or were told of, so a reader who is slow, or stops, costs a bounded amount of memory. Pure, but for the event that wakes
whoever sends.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping

from greenroom.control.filters import InstanceFilter
from greenroom.control.told import Known, Told
from greenroom.core.keyspace import InstanceId
from greenroom.pb.control.v1 import control_pb2
from greenroom.pb.control.v1.control_pb2 import InstanceEvent
from greenroom.store.changes import Changes
from greenroom.store.mirror import Mirror
from greenroom.store.mirrored import MirroredInstance

MAX_FRUITLESS = 50
"""To look at one instance takes some 30 us, and meanwhile the workers' calls wait."""

Waiting = dict[InstanceId, MirroredInstance | None]
"""Instances to look at, with the last state of those that are gone."""


class Watcher:
    """What is told comes from `known`, which shows `mirror`."""

    def __init__(self, mirror: Mirror, known: Known, wanted: InstanceFilter) -> None:
        self._mirror, self._known, self._wanted = mirror, known, wanted
        self._told: dict[InstanceId, Told] = {}
        self._waiting: Waiting = {}
        self._look_at_all = False
        self._some = asyncio.Event()

    def add(self, changes: Changes) -> None:
        """More to tell, when the reader takes it."""
        self._look_at_all |= changes.everything
        for instance in changes.instances:
            if instance in self._told or self._mirror.instance(instance) is not None:
                self._waiting.setdefault(instance, None)
            else:
                self._waiting.pop(instance, None)
        for expired in changes.expired:
            if expired.instance in self._told:
                self._waiting[expired.instance] = expired.last
        self._some.set()

    def wake(self) -> None:
        """Makes `some` return."""
        self._some.set()

    async def some(self) -> None:
        """Returns when something may have changed since the last call."""
        await self._some.wait()
        self._some.clear()

    def start(self) -> list[InstanceId]:
        """From nothing: every instance that is known now and wanted, in the order of lists."""
        return [mirrored.instance for mirrored in self._mirror.in_order(matching=self._wanted.matches)]

    def resume(self, before: Mapping[InstanceId, Told | None]) -> None:
        """From where the reader stands: `before` is how those were that may be different now, None: not there.

        All others he was told of as they are now.
        """
        for mirrored in self._mirror.instances():
            if mirrored.instance not in before and (now := self._known.now(mirrored.instance)) is not None:
                self._was_told(now)
        for instance, told in before.items():
            if told is not None:
                self._was_told(told)
            self._waiting[instance] = None

    def take(self) -> Waiting:
        """What is to be looked at, which waits no longer."""
        taken, self._waiting = self._waiting, {}
        if self._look_at_all:
            self._look_at_all = False
            for instance in (*self._told, *(mirrored.instance for mirrored in self._mirror.instances())):
                taken.setdefault(instance, None)
        return taken

    def existing(self, instances: Iterable[InstanceId]) -> Iterator[InstanceEvent]:
        """EXISTING, for those that are still there and wanted."""
        for instance in instances:
            now = self._known.now(instance)
            if now is not None and self._wanted.matches(now.mirrored.record):
                self._told[instance] = now
                yield _event(control_pb2.INSTANCE_EVENT_TYPE_EXISTING, now)

    def news(self, taken: Waiting) -> Iterator[InstanceEvent | None]:
        """ADDED, CHANGED and REMOVED, for those of which the reader was told something else.

        None after every MAX_FRUITLESS others: others should have their turn.
        """
        fruitless = 0
        for instance, last in taken.items():
            event = self._news_of(instance, last)
            fruitless += event is None
            if event is not None or fruitless % MAX_FRUITLESS == 0:
                yield event

    def _news_of(self, instance: InstanceId, last: MirroredInstance | None) -> InstanceEvent | None:
        now, before = self._known.now(instance), self._told.get(instance)
        if now is not None and self._wanted.matches(now.mirrored.record):
            self._told[instance] = now
            if before is None:
                return _event(control_pb2.INSTANCE_EVENT_TYPE_ADDED, now)
            return None if now is before else _event(control_pb2.INSTANCE_EVENT_TYPE_CHANGED, now)
        if before is None:
            return None
        del self._told[instance]
        if now is not None:
            return _removed(now, control_pb2.REMOVAL_REASON_NOT_MATCHING)
        if instance in self._mirror.unreadable:
            return _removed(before, control_pb2.REMOVAL_REASON_UNREADABLE)
        return _removed(
            Told(last, before.holds, before.standing) if last else before, control_pb2.REMOVAL_REASON_EXPIRED
        )

    def _was_told(self, told: Told) -> None:
        if self._wanted.matches(told.mirrored.record):
            self._told[told.mirrored.instance] = told


def _event(kind: "control_pb2.InstanceEventType.ValueType", told: Told) -> InstanceEvent:
    return InstanceEvent(type=kind, instance=told.message)


def _removed(told: Told, reason: "control_pb2.RemovalReason.ValueType") -> InstanceEvent:
    event = _event(control_pb2.INSTANCE_EVENT_TYPE_REMOVED, told)
    event.removal_reason = reason
    return event
