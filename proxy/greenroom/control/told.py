"""What streams tell of an instance: how it is known, and the message of it, made once for all who are told.

The rule: two of these are the same object as long as nothing that the message shows has changed. They live as long as
some stream has told them last, so streams cost memory for each instance once, and nothing remains after the last one.
"""

from collections.abc import Callable
from weakref import WeakValueDictionary

from greenroom.control import views
from greenroom.core import rollout_holds
from greenroom.core.conflicts import Conflict
from greenroom.core.decide import why_in_service
from greenroom.core.fleet import UNLIMITED, Limits, Standing
from greenroom.core.keyspace import InstanceId
from greenroom.core.rollout_holds import RolloutHold
from greenroom.pb.control.v1 import control_pb2
from greenroom.store.mirror import Mirror
from greenroom.store.mirrored import MirroredInstance


class Told:
    """An instance with the rollout holds and conflicts of it. The message is made when it is first asked for."""

    __slots__ = ("__weakref__", "_message", "conflicts", "holds", "in_service", "mirrored", "standing")

    def __init__(
        self,
        mirrored: MirroredInstance,
        holds: tuple[RolloutHold, ...],
        standing: Standing | None = None,
        conflicts: tuple[Conflict, ...] = (),
        in_service: str = "",
    ) -> None:
        self.mirrored, self.standing, self.conflicts, self.in_service = mirrored, standing, conflicts, in_service
        self.holds = rollout_holds.matching(holds, mirrored.current)
        self._message: control_pb2.Instance | None = None

    @property
    def message(self) -> control_pb2.Instance:
        """As the control API shows it; not to be changed, since others are given the same one."""
        if self._message is None:
            self._message = views.mirrored_instance(
                self.mirrored, self.holds, self.standing, self.conflicts, self.in_service
            )
        return self._message

    def shows_the_same(self, other: "Told") -> bool:
        """Whether both messages say the same, as far as revisions can tell."""
        mine, its = self.mirrored, other.mirrored
        return (mine.revision, mine.held, mine.address, mine.claims, self.holds, self.conflicts) == (
            *(its.revision, its.held, its.address, its.claims),
            *(other.holds, other.conflicts),
        )


class Known:
    """What there is to tell of each instance of a mirror.

    Places in the queue are not told: each release changes all that come after it.
    """

    def __init__(self, mirror: Mirror, limits: Callable[[], Limits] = lambda: UNLIMITED) -> None:
        self._mirror, self._limits = mirror, limits
        self._told: WeakValueDictionary[InstanceId, Told] = WeakValueDictionary()

    def now(self, instance: InstanceId) -> Told | None:
        """An instance as it is known now; None where there is no readable record of it."""
        mirrored = self._mirror.instance(instance)
        if mirrored is None:
            return None
        conflicts = self._mirror.conflicts(instance, mirrored.record, mirrored.held)
        limits = self._limits()
        # That a pass lapsed changes nothing that a stream follows; that its gate failed does.
        in_service = why_in_service(instance, mirrored.record, limits)
        fresh = Told(mirrored, self._mirror.rollout_holds, limits.standing_of_all(), conflicts, in_service)
        before = self._told.get(instance)
        if before is not None and before.shows_the_same(fresh):
            return before
        self._told[instance] = fresh
        return fresh
