"""The instances that a proxy wrote for last, as it left them: most of what a worker writes are edits of its own card.

The rule: it may be wrong at any time, and may forget at any time (see `core.remembered`). But it never outlives the
history that it is of: an etcd that was set back to a backup repeats its revisions, and then a plan that is made of what
was remembered before passes every compare.
"""

from collections import OrderedDict
from collections.abc import Callable

from greenroom.core.keyspace import InstanceId
from greenroom.core.snapshot import Snapshot

MAX_INSTANCES = 1024
"""About 15 KB each, a record and a card of some KB; 150 KB where the record has a long history."""
MAX_VALUE_BYTES = 64 * 1024
"""Of one instance; what is larger is read again each time."""


class Memory:
    """Of each instance the last snapshot, of the MAX_INSTANCES that were written for last.

    `history` tells which of etcd's histories is followed without a gap, as a number; None while none is.
    """

    def __init__(self, history: Callable[[], int | None]) -> None:
        self._snapshots: OrderedDict[InstanceId, Snapshot] = OrderedDict()
        self._history = history
        self._of = history()

    def __len__(self) -> int:
        return len(self._snapshots)

    def recall(self, instance: InstanceId) -> Snapshot | None:
        """The instance as it was left; None where that is not known, or no more."""
        self._forget_what_is_past()
        return self._snapshots.get(instance)

    def keep(self, instance: InstanceId, snapshot: Snapshot | None) -> None:
        """How the instance was left; None: nobody knows."""
        self._forget_what_is_past()
        self._snapshots.pop(instance, None)
        if snapshot is None or self._of is None or _value_bytes(snapshot) > MAX_VALUE_BYTES:
            return
        self._snapshots[instance] = snapshot
        if len(self._snapshots) > MAX_INSTANCES:
            self._snapshots.popitem(last=False)

    def _forget_what_is_past(self) -> None:
        if self._of != self._history():
            self._snapshots.clear()
            self._of = self._history()


def _value_bytes(snapshot: Snapshot) -> int:
    return sum(len(kv.value) for kv in (*snapshot.shadows.values(), *snapshot.public.values()))
