"""What a stream of instances tells, passed on to a plan: who is new or changed, and who is gone.

The rule: where a stream starts anew, whoever was known and is not in it any more is gone.
"""

from dataclasses import dataclass, field

from greenroom.gates.plan import Plan
from greenroom.pb.control.v1 import control_pb2
from greenroom.pb.control.v1.control_pb2 import InstanceEvent, WatchInstancesResponse


@dataclass(slots=True)
class Telling:
    """One stream after another. `is_synced`: all that there is has been told of once."""

    plan: Plan
    is_synced: bool = False
    _token: str = ""
    _known: set[str] = field(default_factory=set)
    _snapshot: set[str] | None = None

    def begin(self) -> str:
        """A stream begins: the token to resume from, empty for a new start."""
        self._snapshot = None if self._token else set()
        return self._token

    def forget_token(self) -> None:
        """It is of no use: the next stream starts anew."""
        self._token = ""

    def take(self, response: WatchInstancesResponse) -> None:
        """What a response tells."""
        for event in response.events:
            self._take(event)
        self._token = response.resume_token or self._token

    def _take(self, event: InstanceEvent) -> None:
        if event.type == control_pb2.INSTANCE_EVENT_TYPE_SYNCED:
            self._compare()
        elif event.type == control_pb2.INSTANCE_EVENT_TYPE_REMOVED:
            self._known.discard(event.instance.id)
            self.plan.gone(event.instance.id)
        elif event.HasField("instance"):
            if self._snapshot is None:
                self._known.add(event.instance.id)
            else:
                self._snapshot.add(event.instance.id)
                self.plan.gone(event.instance.id)  # An etcd that was set back has an older record than is known.
            self.plan.told(event.instance)

    def _compare(self) -> None:
        """The snapshot takes the place of what was known."""
        self.is_synced = True
        if self._snapshot is None:
            return
        for instance_id in self._known - self._snapshot:
            self.plan.gone(instance_id)
        self._known, self._snapshot = self._snapshot, None
