"""The instances that a proxy wrote for last, as it left them: most of what a worker writes are edits of its own card.

The rule: it may be wrong at any time, and may forget at any time (see `core.remembered`).
"""

from collections import OrderedDict

from greenroom.core.keyspace import InstanceId
from greenroom.core.snapshot import Snapshot

MAX_INSTANCES = 1024
"""About 15 KB each, a record and a card of some KB; 150 KB where the record has a long history."""
MAX_VALUE_BYTES = 64 * 1024
"""Of one instance; what is larger is read again each time."""


class Memory:
    """Of each instance the last snapshot, of the MAX_INSTANCES that were written for last."""

    def __init__(self) -> None:
        self._snapshots: OrderedDict[InstanceId, Snapshot] = OrderedDict()

    def __len__(self) -> int:
        return len(self._snapshots)

    def recall(self, instance: InstanceId) -> Snapshot | None:
        """The instance as it was left; None where that is not known, or no more."""
        return self._snapshots.get(instance)

    def keep(self, instance: InstanceId, snapshot: Snapshot | None) -> None:
        """How the instance was left; None: nobody knows."""
        self._snapshots.pop(instance, None)
        if snapshot is None or _value_bytes(snapshot) > MAX_VALUE_BYTES:
            return
        self._snapshots[instance] = snapshot
        if len(self._snapshots) > MAX_INSTANCES:
            self._snapshots.popitem(last=False)


def _value_bytes(snapshot: Snapshot) -> int:
    return sum(len(kv.value) for kv in (*snapshot.shadows.values(), *snapshot.public.values()))
