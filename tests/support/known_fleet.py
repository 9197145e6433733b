"""A fleet that a test makes up: what a plan is told of the other instances, without a mirror."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from greenroom.core.budget import Budget
from greenroom.core.fleet import Group, Turn
from greenroom.core.keyspace import InstanceId


@dataclass
class KnownFleet:
    """Who is known to wait (`turns`, sorted), to be released beside the instance, and to be gone."""

    revision: int = 1_000_000
    budget: Budget | None = field(default_factory=Budget)
    turns: list[Turn] = field(default_factory=list)
    released: Mapping[Group, int] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()

    def exists(self, instance: InstanceId) -> bool:
        return instance not in self.gone

    def queue(self) -> Iterator[InstanceId]:
        return (turn.instance for turn in self.turns)

    def queue_length(self) -> int:
        return len(self.turns)

    def turns_before(self, turn: Turn) -> int:
        return bisect_left(self.turns, turn)

    def turn_of(self, instance: InstanceId) -> Turn | None:
        return next((turn for turn in self.turns if turn.instance == instance), None)

    def released_beside(self, _: InstanceId, group: Group) -> int:
        return self.released.get(group, 0)
