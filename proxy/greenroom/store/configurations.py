"""Which configurations of each model there are, and who has them: the mirror's instances, sorted by model and endpoint.

The rule: no change costs a look at everybody. What an instance has is put where it belongs, and others are told only
when a configuration appears at an endpoint or is gone from it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from greenroom.core.configuration import differences, set_of
from greenroom.core.conflicts import Conflict
from greenroom.core.keyspace import InstanceId, Key
from greenroom.core.policy import Hold
from greenroom.core.record import GatedEntry, Record, State
from greenroom.core.templates import KeyKind
from greenroom.store.mirrored import MirroredInstance

Place = tuple[str, str | None, str | None, str | None, tuple[str, str]]
"""A model, the namespace, component and endpoint that serve it, and the types of model and worker."""
Group = tuple[str, bool]
"""A configuration, and whether the cards that have it are public."""


class Configurations:
    """Of each place its groups, and in each group the instances, the longest known first."""

    def __init__(self) -> None:
        self._places: defaultdict[Place, dict[Group, dict[InstanceId, None]]] = defaultdict(dict)
        self._of: dict[InstanceId, frozenset[tuple[Place, Group]]] = {}

    def clear(self) -> None:
        """Nobody is known."""
        self._places.clear()
        self._of.clear()

    def update(self, instance: InstanceId, mirrored: MirroredInstance | None) -> frozenset[InstanceId]:
        """An instance as it is now, None: it is gone. The others that are in another conflict by that."""
        before, now = self._of.pop(instance, frozenset()), frozenset(_groups(mirrored) if mirrored else ())
        if now:
            self._of[instance] = now
        touched = {*self._left(instance, before - now), *self._joined(instance, now - before)}
        return frozenset(touched - {instance})

    def conflicts(self, instance: InstanceId, record: Record, held: Collection[Key]) -> tuple[Conflict, ...]:
        """Those that an instance with this record would be in, of whose keys these are held; public cards first."""
        found = dict.fromkeys(
            conflict for entry in _waiting(record, held) for conflict in self._conflicts_of(instance, entry)
        )
        return tuple(sorted(found, key=lambda conflict: not conflict.is_public))

    def _left(self, instance: InstanceId, groups: Iterable[tuple[Place, Group]]) -> Iterator[InstanceId]:
        for place, group in groups:
            members = self._places[place][group]
            del members[instance]
            if not members:
                del self._places[place][group]
                yield from self._others(place, group)
            if not self._places[place]:
                del self._places[place]

    def _joined(self, instance: InstanceId, groups: Iterable[tuple[Place, Group]]) -> Iterator[InstanceId]:
        for place, group in groups:
            members = self._places[place].setdefault(group, {})
            if not members:
                yield from self._others(place, group)
            members[instance] = None

    def _conflicts_of(self, instance: InstanceId, entry: GatedEntry) -> Iterator[Conflict]:
        for (configuration, is_public), members in self._places.get(_place(entry), {}).items():
            other = next((one for one in members if one != instance), None)
            if other is not None and configuration != entry.configuration:
                different = differences(entry.configuration, configuration)
                yield Conflict(str(entry.model), other, is_public, different)

    def _others(self, place: Place, group: Group) -> Iterator[InstanceId]:
        """Who waits at a place with another configuration."""
        for (configuration, is_public), members in self._places[place].items():
            if not is_public and configuration != group[0]:
                yield from members


def _groups(mirrored: MirroredInstance) -> Iterator[tuple[Place, Group]]:
    """Where an instance belongs. What is rejected or withdrawn is in nobody's way, as long as it is."""
    public, record = mirrored.public_keys, mirrored.record
    for entry in filter(_is_compared, record.cards):
        is_public = entry.gated_key in public
        if is_public or (record.state in (State.HELD, State.RELEASED) and entry.gated_key in mirrored.held):
            yield _place(entry), (entry.configuration, is_public)


def _waiting(record: Record, held: Collection[Key]) -> Iterator[GatedEntry]:
    """The cards that are to be published; with hold `health`, those whose instance is to be released."""
    if record.state is State.RELEASED:
        yield from (entry for entry in record.later if _is_compared(entry) and entry.gated_key in held)
    else:
        is_health = record.hold is Hold.HEALTH
        yield from (e for e in record.cards if _is_compared(e) and (is_health or e.gated_key in held))


def _is_compared(entry: GatedEntry) -> bool:
    return entry.kind is KeyKind.CARD and entry.model is not None and bool(entry.configuration)


def _place(entry: GatedEntry) -> Place:
    return (str(entry.model), entry.namespace, entry.component, entry.endpoint, set_of(entry.configuration))
