"""What a watch tells its caller, from one stream to the next. Pure.

The rule: everything of a stream that is resumed is told as it comes. One that starts anew tells all that there are
again, and then of those that went meanwhile: a caller who keeps a map need not know which it was.
"""

from greenroom.client.reading import change_of
from greenroom.client.values import Change, ChangeKind, Instance, RemovalReason
from greenroom.pb.control.v1 import control_pb2 as pb


class Told:
    """The changes in the responses of one stream after another."""

    def __init__(self) -> None:
        self._token = ""
        self._known: dict[str, Instance] = {}
        self._snapshot: set[str] | None = None
        """The ids in the one that is being told."""

    def begin(self) -> str:
        """A stream begins: the token to resume from, empty for a new start."""
        self._snapshot = None if self._token else set()
        return self._token

    def forget_token(self) -> None:
        """It is of no use: the next stream starts anew."""
        self._token = ""

    def take(self, response: pb.WatchInstancesResponse) -> list[Change]:
        """What a response tells."""
        changes = [change for event in response.events for change in self._take(event)]
        self._token = response.resume_token or self._token
        return changes

    def _take(self, event: pb.InstanceEvent) -> list[Change]:
        if event.type == pb.INSTANCE_EVENT_TYPE_SYNCED:
            return self._gone_meanwhile()
        if not event.HasField("instance"):
            return []
        change = change_of(event)
        if change.kind is ChangeKind.REMOVED:
            self._known.pop(change.instance.id, None)
        else:
            self._known[change.instance.id] = change.instance
        if self._snapshot is not None:
            self._snapshot.add(change.instance.id)
        return [change]

    def _gone_meanwhile(self) -> list[Change]:
        shown, self._snapshot = self._snapshot, None
        gone = [name for name in self._known if shown is not None and name not in shown]
        return [Change(ChangeKind.REMOVED, self._known.pop(name), RemovalReason.UNKNOWN) for name in gone]
