"""Instances in the order of lists: by when they were first seen, which never changes, and then by name.

The rule: the order is kept, never made for a reader. Whoever reads a large fleet page by page would else have it sorted
for each page, which is the fleet's square in all.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

from greenroom.core.keyspace import InstanceId
from greenroom.core.record import Record

MANY = 64
"""So many new ones are sorted in with all others: to put each in its place moves all that come after it."""

Place = tuple[str, str]
"""Where an instance stands: a moment as text, and its name."""


def place_of(instance: InstanceId, record: Record) -> Place:
    """The place of an instance; the moment is that of the record's first line, which is never dropped."""
    return (record.transitions[0].time.isoformat() if record.transitions else "", instance)


class InOrder:
    """Who is known, in that order."""

    def __init__(self) -> None:
        self._places: dict[InstanceId, Place] = {}
        self._order: list[Place] = []
        self._new: list[Place] = []

    def clear(self) -> None:
        """Nobody is known."""
        for known in (self._places, self._order, self._new):
            known.clear()

    def put(self, instance: InstanceId, record: Record | None) -> None:
        """An instance as it is now; None: it is gone."""
        before, now = self._places.get(instance), place_of(instance, record) if record else None
        if before == now:
            return
        if before is not None:
            self._put_in_order()
            del self._places[instance]
            del self._order[bisect_left(self._order, before)]
        if now is not None:
            self._places[instance] = now
            self._new.append(now)

    def after(self, place: tuple[str, ...] | None = None) -> Iterator[InstanceId]:
        """Everybody who comes after a place, or everybody. Nothing may change before the last one is taken."""
        self._put_in_order()
        begin = 0 if place is None else bisect_right(self._order, place)
        return (InstanceId(self._order[at][1]) for at in range(begin, len(self._order)))

    def _put_in_order(self) -> None:
        if len(self._new) < MANY:
            for place in self._new:
                insort(self._order, place)
        else:
            self._order = sorted((*self._order, *self._new))
        self._new.clear()
