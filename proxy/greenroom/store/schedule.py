"""When to look at which instance again: a heap of due times in which the latest word on an instance counts."""

import heapq
from datetime import datetime

from greenroom.core.keyspace import InstanceId

MAX_OLD_ENTRIES = 64
"""So many entries of no more use may lie in the heap, besides as many as there are due times."""


class Schedule:
    """One due time an instance at most. Old entries stay in the heap until they come up, or are too many."""

    def __init__(self) -> None:
        self._heap: list[tuple[datetime, InstanceId]] = []
        self._due: dict[InstanceId, datetime] = {}

    def __len__(self) -> int:
        return len(self._due)

    def at(self, instance: InstanceId, due: datetime) -> None:
        """Look at the instance at `due`, whatever was said before."""
        if self._due.get(instance) != due:
            self._due[instance] = due
            heapq.heappush(self._heap, (due, instance))
            self._drop_old_entries()

    def next_due(self) -> datetime | None:
        """The earliest due time; None where nothing is scheduled."""
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: datetime) -> list[InstanceId]:
        """Takes out every instance whose time has come."""
        instances: list[InstanceId] = []
        while (due := self.next_due()) is not None and due <= now:
            instances.append(heapq.heappop(self._heap)[1])
            del self._due[instances[-1]]
        return instances

    def _drop_old_entries(self) -> None:
        """Builds the heap anew where most of it is old: an instance that changes often has a far deadline each time."""
        if len(self._heap) > 2 * len(self._due) + MAX_OLD_ENTRIES:
            self._heap = [(due, instance) for instance, due in self._due.items()]
            heapq.heapify(self._heap)
