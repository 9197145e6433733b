"""What a plan for one instance may know of the others, and the limits that it has to keep to for their sake.

The rule: what is known of others comes from the mirror and is only a hint. Where a limit must hold exactly it holds
because the mirror has seen the budget's last write, which the plan's Txn compares and replaces.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

from greenroom.core.budget import Budget
from greenroom.core.keyspace import InstanceId
from greenroom.core.policy import ReleasesPolicy
from greenroom.core.record import Record, State
from greenroom.core.snapshot import Snapshot
from greenroom.core.templates import KeyKind

_NEVER = datetime.min.replace(tzinfo=UTC)


class Turn(NamedTuple):
    """The order of the queue: who was ready first, and of those of one moment by id."""

    ready: datetime
    instance: InstanceId


class Group(NamedTuple):
    """The instances that serve the same: a floor under their number is kept for each group by itself."""

    namespace: str | None
    component: str | None
    endpoint: str | None
    model: str | None

    def __str__(self) -> str:
        path = ".".join(part or "?" for part in (self.namespace, self.component, self.endpoint))
        return f"{path}, model {self.model or '?'}"


class Fleet(Protocol):
    """The other instances, as far as they are known."""

    @property
    def revision(self) -> int:
        """etcd's revision up to which everything here is known."""

    @property
    def budget(self) -> Budget | None:
        """The budget as it was then; None where it cannot be read."""

    def exists(self, instance: InstanceId) -> bool:
        """Whether its lease lives."""

    def queue(self) -> Iterator[InstanceId]:
        """Whoever is ready and stopped by no rollout hold, in the order of their turns."""

    def queue_length(self) -> int:
        """How many these are."""

    def turns_before(self, turn: Turn) -> int:
        """How many of them come before this turn."""

    def turn_of(self, instance: InstanceId) -> Turn | None:
        """The turn of one of them; None for anybody else."""

    def released_beside(self, instance: InstanceId, group: Group) -> int:
        """How many others of a group are released."""


class Nobody:
    """The fleet of whoever knows no other instance."""

    revision = 0
    budget: Budget | None = Budget()

    def exists(self, _: InstanceId) -> bool:
        """Nobody's lease is known to have ended."""
        return True

    def queue(self) -> Iterator[InstanceId]:
        """Empty."""
        return iter(())

    def queue_length(self) -> int:
        """None."""
        return 0

    def turns_before(self, _: Turn) -> int:
        """None."""
        return 0

    def turn_of(self, _: InstanceId) -> Turn | None:
        """Nobody has one."""
        return None

    def released_beside(self, _: InstanceId, __: Group) -> int:
        """None."""
        return 0


NOBODY = Nobody()


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an instance stands, for people. `position` counts from 1; 0: it is not known to be queued.

    `in_flight` None: the number is not told here, since it changes without the instance.
    """

    max_in_flight: int
    in_flight: int | None = None
    position: int = 0
    length: int = 0
    readable: bool = True


@dataclass(frozen=True, slots=True)
class Admitted:
    """There is room. `budget` is what the release has to write; None: releases are not limited, or it is a dry run."""

    budget: Budget | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The policy's limits, with the fleet that they are about."""

    releases: ReleasesPolicy | None = None
    fleet: Fleet = NOBODY

    @property
    def queues(self) -> bool:
        """Whether releases wait for each other."""
        return self.releases is not None and self.releases.max_in_flight is not None

    def admission(self, snapshot: Snapshot, now: datetime) -> Admitted | None:
        """Whether there is room for one release more; None: there is none."""
        releases, is_dry = self.releases, snapshot.record is not None and snapshot.record.dry_run
        if releases is None or releases.max_in_flight is None or is_dry:
            return Admitted()
        if snapshot.budget is None:
            return None
        # An instance is only known to be gone by who has seen everything up to the budget's last write.
        knows = self.fleet.revision >= snapshot.budget_revision
        exists = self.fleet.exists if knows else lambda _: True
        left = snapshot.budget.unsettled(now, releases.settle_seconds, exists=exists).without(snapshot.instance)
        if left.room_from(releases) is not None:
            return None
        return Admitted(left.with_release(snapshot.instance, now))

    def is_first(self, snapshot: Snapshot, record: Record) -> bool:
        """Whether nobody else is known whose turn comes before that of this ready record."""
        takes_turns = self.queues and not record.dry_run and record.state is not State.RELEASED
        return not takes_turns or self.fleet.turns_before(turn_of(snapshot.instance, record)) == 0

    def after_withdrawal(self, snapshot: Snapshot) -> Budget | None:
        """The budget that a withdrawal has to write; None: none, since nobody limits anything or it is unreadable."""
        if snapshot.budget is None or (self.releases is None and not snapshot.budget_revision):
            return None
        return snapshot.budget.without(snapshot.instance)

    def is_in_flight(self, snapshot: Snapshot, now: datetime) -> bool:
        """Whether the instance was released so shortly ago that others wait for how it goes."""
        releases = self.releases
        if releases is None or releases.max_in_flight is None or snapshot.budget is None:
            return False
        return snapshot.budget.unsettled(now, releases.settle_seconds).has(snapshot.instance)

    def is_behind(self, snapshot: Snapshot) -> bool:
        """Whether what is known of others may lack what the budget's last writer did."""
        return self.fleet.revision < snapshot.budget_revision

    def floor_under(self, snapshot: Snapshot, record: Record) -> str | None:
        """Why automation must leave this released instance in service; None where it need not."""
        return self._floor(snapshot.instance, record, snapshot.budget)

    def floor_as_known(self, instance: InstanceId, record: Record) -> str | None:
        """The same by what the mirror has, for people."""
        return self._floor(instance, record, self.fleet.budget)

    def _floor(self, instance: InstanceId, record: Record, budget: Budget | None) -> str | None:
        if self.releases is None or not self.releases.min_released:
            return None
        if budget is None:
            return "the budget cannot be read, so nobody knows how many others are released"
        for group in sorted(groups_of(record), key=str):
            others = self.fleet.released_beside(instance, group)
            if others < self.releases.min_released:
                return f"only {others} others of {group} are released, and min_released is {self.releases.min_released}"
        return None

    def standing(self, instance: InstanceId, now: datetime) -> Standing | None:
        """Where an instance stands at `now`; None where releases are not limited."""
        return self.standings(now)(instance)

    def standings(self, now: datetime) -> Callable[[InstanceId], Standing | None]:
        """The same for many: what is in flight is counted once."""
        if (releases := self.releases) is None or (most := releases.max_in_flight) is None:
            return lambda _: None
        if (budget := self.fleet.budget) is None:
            return lambda _: Standing(most, readable=False)
        in_flight = len(budget.unsettled(now, releases.settle_seconds, exists=self.fleet.exists).in_flight)
        length = self.fleet.queue_length()

        def standing(instance: InstanceId) -> Standing:
            turn = self.fleet.turn_of(instance)
            return Standing(most, in_flight, self.fleet.turns_before(turn) + 1 if turn else 0, length)

        return standing

    def standing_of_all(self) -> Standing | None:
        """What can be said of every instance alike."""
        if (releases := self.releases) is None or releases.max_in_flight is None:
            return None
        return Standing(releases.max_in_flight)


UNLIMITED = Limits()


def turn_of(instance: InstanceId, record: Record) -> Turn:
    """When an instance became ready: with the last decision about its gates, to the millisecond as etcd has it."""
    ready = max((gate.ready for gate in record.binding.values() if gate.ready), default=_NEVER)
    return Turn(ready.replace(microsecond=ready.microsecond // 1000 * 1000), instance)


def groups_of(record: Record) -> frozenset[Group]:
    """The groups that an instance serves in, by its cards: not by later ones that are held."""
    cards = (entry for entry in record.cards if entry.kind is KeyKind.CARD and not entry.later_gates)
    return frozenset(Group(entry.namespace, entry.component, entry.endpoint, entry.model) for entry in cards)
