"""What commands know of the instances, and how it changes, from one stream to the next.

The rule: where a stream starts anew, what it shows is compared with what was known, so that nobody is told twice of
what is as it was, nor misses what went meanwhile.
"""

from dataclasses import dataclass
from enum import StrEnum

from greenroom.pb.control.v1 import control_pb2
from greenroom.pb.control.v1.control_pb2 import Instance, InstanceEvent, WatchInstancesResponse


class News(StrEnum):
    """What happened to an instance, in the words that are printed."""

    SEEN = "seen"
    CHANGED = "changed"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Change:
    """One that left the filters has changed, and is shown as it is now; one whose lease ended is as it was at last."""

    news: News
    instance: Instance


class KnownInstances:
    """The instances by id, as the responses of one stream after another told of them."""

    def __init__(self) -> None:
        self.now: dict[str, Instance] = {}
        self.token = ""
        self._snapshot: dict[str, Instance] | None = None
        self._complete = False

    @property
    def complete(self) -> bool:
        """Whether all that there are have been told of once."""
        return self._complete

    def begin(self) -> str:
        """A stream begins: the token to resume from, empty for the first one."""
        self._snapshot = None if self.token else {}
        return self.token

    def forget_token(self) -> None:
        """It is of no use: the next stream starts anew."""
        self.token = ""

    def take(self, response: WatchInstancesResponse) -> list[Change]:
        """What a response changes. A snapshot's part changes nothing before the whole of it is known."""
        changes = [change for event in response.events for change in self._take(event)]
        self.token = response.resume_token or self.token
        return changes

    def _take(self, event: InstanceEvent) -> list[Change]:
        if event.type == control_pb2.INSTANCE_EVENT_TYPE_SYNCED:
            self._complete = True
            return self._compare()
        if not event.HasField("instance"):
            return []
        if self._snapshot is not None:
            self._snapshot[event.instance.id] = event.instance
            return []
        if event.type == control_pb2.INSTANCE_EVENT_TYPE_REMOVED:
            return self._remove(event)
        return self._put(event.instance)

    def _compare(self) -> list[Change]:
        """The snapshot takes the place of what was known."""
        if self._snapshot is None:
            return []
        before, snapshot, self._snapshot = self.now, self._snapshot, None
        self.now = {name: one for name, one in before.items() if name in snapshot}
        gone = [Change(News.GONE, one) for name, one in before.items() if name not in snapshot]
        return [change for one in snapshot.values() for change in self._put(one)] + gone

    def _put(self, instance: Instance) -> list[Change]:
        before = self.now.get(instance.id)
        self.now[instance.id] = instance
        if before == instance:
            return []
        return [Change(News.SEEN if before is None else News.CHANGED, instance)]

    def _remove(self, event: InstanceEvent) -> list[Change]:
        if self.now.pop(event.instance.id, None) is None:
            return []
        is_there = event.removal_reason == control_pb2.REMOVAL_REASON_NOT_MATCHING
        return [Change(News.CHANGED if is_there else News.GONE, event.instance)]
