"""What one stream of WatchInstances sends: events in responses of a bearable size, each with the token that is true.

The rule: a token names a place that everything before was told of. So within a round of changes it stays at the place
before the round, and the round's last response moves it on; where more was told already, it says so, for whoever was
told of what came and went since cannot be helped by history. Pure: it is driven from outside.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from greenroom.control import tokens
from greenroom.control.tokens import ResumeToken
from greenroom.control.watcher import Watcher
from greenroom.pb.control.v1 import control_pb2
from greenroom.pb.control.v1.control_pb2 import InstanceEvent, WatchInstancesResponse

MAX_RESPONSE_EVENTS = 50
"""An instance's message takes about 0.1 ms to make, and meanwhile the workers' calls wait."""
MAX_RESPONSE_BYTES = 1024 * 1024
"""gRPC's clients refuse an answer of more than 4 MiB unless told otherwise, and one instance is far below the rest."""

SYNCED = InstanceEvent(type=control_pb2.INSTANCE_EVENT_TYPE_SYNCED)
BOOKMARK = InstanceEvent(type=control_pb2.INSTANCE_EVENT_TYPE_BOOKMARK)

Responses = Iterator[WatchInstancesResponse | None]
"""None is nothing to send: others should have their turn before the next is taken."""


@dataclass(frozen=True, slots=True)
class Place:
    """Up to where etcd is known; see ResumeToken."""

    revision: int
    newest: int
    addresses: tuple[int, ...]


class WatchStream:
    """Each method gives the responses of one round. They are made as they are taken, and `check` can end them.

    `place` is where the proxy's knowledge of etcd stands, `filters` any text of what the stream is about.
    """

    def __init__(self, watcher: Watcher, place: Callable[[], Place], check: Callable[[], None], filters: str) -> None:
        self._watcher, self._place, self._check, self._filters = watcher, place, check, filters
        self._cluster = 0
        self._reached: Place | None = None

    def snapshot(self, cluster: int) -> Responses:
        """Everything there is, and SYNCED; `cluster` is etcd's id."""
        self._cluster = cluster
        self._check()
        return self._round(self._watcher.existing(self._watcher.start()), SYNCED)

    def resumption(self, token: ResumeToken) -> Responses:
        """What is different from where the token stands, and SYNCED."""
        self._cluster = token.cluster
        self._reached = Place(token.revision, token.newest, token.addresses)
        return self._round(self._watcher.news(self._watcher.take()), SYNCED)

    def changes(self) -> Responses:
        """What changed since the last round; nothing at all where none of it concerns the reader."""
        self._check()
        return self._round(self._watcher.news(self._watcher.take()))

    def bookmark(self) -> Responses:
        """BOOKMARK, and whatever changed at the last moment."""
        self._check()
        return self._round(self._watcher.news(self._watcher.take()), BOOKMARK)

    def _round(self, events: Iterator[InstanceEvent | None], *closing: InstanceEvent) -> Responses:
        """Not a generator itself: the place is that of now, not of when the first response is taken."""
        return self._responses(chain(events, closing), self._further(self._place()))

    def _responses(self, events: Iterator[InstanceEvent | None], reached: Place) -> Responses:
        batch: list[InstanceEvent] = []
        for following in _batches(events):
            if batch and following:
                yield self._response(batch)
            elif not following:
                yield None
            batch = following or batch
        self._reached = reached
        if batch:
            yield self._response(batch)

    def _response(self, batch: list[InstanceEvent]) -> WatchInstancesResponse:
        self._check()
        return WatchInstancesResponse(events=batch, resume_token=self._token())

    def _further(self, place: Place) -> Place:
        """The place, but never before the one that was told already: another proxy may have known more."""
        if self._reached is None:
            return place
        before = self._reached
        return Place(max(place.revision, before.revision), max(place.newest, before.newest), place.addresses)

    def _token(self) -> str:
        """Empty before the first place is reached: a snapshot that broke off is of no use."""
        if self._reached is None:
            return ""
        reached, now = self._reached, self._further(self._place())
        whole = now.newest <= reached.revision and now.addresses == reached.addresses
        token = ResumeToken(self._cluster, reached.revision, now.newest, reached.addresses, whole)
        return tokens.encode(token, self._filters)


def _batches(events: Iterator[InstanceEvent | None]) -> Iterator[list[InstanceEvent]]:
    """As many at a time as a response may have; none at all where there is only somebody else's turn."""
    batch: list[InstanceEvent] = []
    size_bytes = 0
    for event in events:
        if event is None:
            yield []
            continue
        event_bytes = event.ByteSize()
        if batch and (len(batch) == MAX_RESPONSE_EVENTS or size_bytes + event_bytes > MAX_RESPONSE_BYTES):
            yield batch
            batch, size_bytes = [], 0
        batch.append(event)
        size_bytes += event_bytes
    if batch:
        yield batch
