"""The fleet as the mirror has it: who waits in which order, and how many of each group are released.

The rule: each change costs what it changes. Only when everything may be different, as after a rollout hold came or
ended, is everything looked at, and not before somebody asks: where no limits are set nobody does.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime

from greenroom.core.budget import Budget
from greenroom.core.decide import is_ready, lapses_at, waits_its_turn
from greenroom.core.fleet import Group, Turn, groups_of, turn_of
from greenroom.core.keyspace import InstanceId
from greenroom.core.record import State
from greenroom.store.changes import Changes
from greenroom.store.mirror import Mirror
from greenroom.store.mirrored import MirroredInstance
from greenroom.store.schedule import Schedule


class MirroredFleet:
    """A `Fleet` that is told of each change of `mirror` at once, as a listener of its follower.

    Whose pass was not renewed is out of the queue by `clock`, though nobody may have written that yet.
    """

    def __init__(self, mirror: Mirror, *, clock: Callable[[], datetime]) -> None:
        self._mirror, self._clock = mirror, clock
        self._queue: list[Turn] = []
        self._turns: dict[InstanceId, Turn] = {}
        self._lapses = Schedule()
        self._released: defaultdict[Group, set[InstanceId]] = defaultdict(set)
        self._groups: dict[InstanceId, frozenset[Group]] = {}
        self._is_old = False

    @property
    def revision(self) -> int:
        """etcd's revision up to which everything here is known."""
        return max(self._mirror.newest, self._mirror.read_at)

    @property
    def budget(self) -> Budget | None:
        """The budget as it was then; None where it cannot be read."""
        return self._mirror.budget

    def exists(self, instance: InstanceId) -> bool:
        """Whether its lease lives."""
        return self._mirror.exists(instance)

    def queue(self) -> Iterator[InstanceId]:
        """Whoever is ready and stopped by no rollout hold, in the order of their turns."""
        self._catch_up()
        return (turn.instance for turn in self._queue)

    def queue_length(self) -> int:
        """How many these are."""
        self._catch_up()
        return len(self._queue)

    def turns_before(self, turn: Turn) -> int:
        """How many of them come before this turn."""
        self._catch_up()
        known = self._turns.get(turn.instance)
        return bisect_left(self._queue, turn) - (known is not None and known < turn)

    def turn_of(self, instance: InstanceId) -> Turn | None:
        """The turn of one of them; None for anybody else."""
        self._catch_up()
        return self._turns.get(instance)

    def released_beside(self, instance: InstanceId, group: Group) -> int:
        """How many others of a group are released."""
        self._catch_up()
        released = self._released.get(group, set())
        return len(released) - (instance in released)

    def add(self, changes: Changes) -> None:
        """What changed in the mirror."""
        self._is_old |= changes.everything
        if self._is_old:
            return
        for instance in changes.instances:
            mirrored = self._mirror.instance(instance)
            self._queue_up(instance, self._turn(mirrored))
            self._group(instance, self._groups_now(mirrored))

    def _catch_up(self) -> None:
        """Looks at what may be different since it was last asked for."""
        if self._is_old:
            self._is_old = False
            self._look_at_all()
        for instance in self._lapses.pop_due(self._clock()):
            self._queue_up(instance, self._turn(self._mirror.instance(instance)))

    def _look_at_all(self) -> None:
        self._turns.clear()
        self._released.clear()
        self._groups.clear()
        for mirrored in self._mirror.instances():
            if (turn := self._turn(mirrored)) is not None:
                self._turns[mirrored.instance] = turn
            self._group(mirrored.instance, self._groups_now(mirrored))
        self._queue = sorted(self._turns.values())

    def _turn(self, mirrored: MirroredInstance | None) -> Turn | None:
        if mirrored is None or not is_ready(mirrored.record, live_cards=mirrored.live_cards):
            return None  # As nearly everybody is who has no turn: it is not even compared with others.
        record = mirrored.record
        waits = waits_its_turn(
            record,
            live_cards=mirrored.live_cards,
            rollout_holds=self._mirror.rollout_holds,
            now=self._clock(),
            conflicts=self._mirror.conflicts(mirrored.instance, record, mirrored.held),
        )
        if not waits:
            return None
        if (lapses := lapses_at(record)) is not None:
            self._lapses.at(mirrored.instance, lapses)
        return turn_of(mirrored.instance, record)

    def _groups_now(self, mirrored: MirroredInstance | None) -> frozenset[Group]:
        is_released = mirrored is not None and mirrored.record.state is State.RELEASED
        return groups_of(mirrored.record) if mirrored and is_released else frozenset()

    def _queue_up(self, instance: InstanceId, turn: Turn | None) -> None:
        before = self._turns.get(instance)
        if before == turn:
            return
        if before is not None:
            del self._queue[bisect_left(self._queue, before)]
            del self._turns[instance]
        if turn is not None:
            insort(self._queue, turn)
            self._turns[instance] = turn

    def _group(self, instance: InstanceId, groups: frozenset[Group]) -> None:
        for group in self._groups.pop(instance, frozenset()) - groups:
            self._released[group].discard(instance)
            if not self._released[group]:
                del self._released[group]
        for group in groups:
            self._released[group].add(instance)
        if groups:
            self._groups[instance] = groups
