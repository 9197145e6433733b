"""A reader of WatchInstances: what was told, in order, and the map that a reader makes of it.

The rule: it obeys the stream as the proto says a reader should, and holds the stream to what the proto promises:
SYNCED once, nothing EXISTING afterwards, no ADDED of what is there, no CHANGED or REMOVED of what is not (but where it
resumes: that may be told again), revisions that never go back. A break of that is an AssertionError of whoever waits.
"""

import queue
import threading
from collections.abc import Callable
from typing import Any, Self

import grpc

from greenroom.pb.control.v1 import control_pb2 as pb

WAIT_SECONDS = 30


class InstanceStream:
    """One stream, read by a thread of its own from its making on; `with` ends it.

    `known` is what a reader before it knew, where this one resumes; it is taken over and kept up to date.
    """

    def __init__(
        self,
        stub: Any,
        *,
        resume_token: str = "",
        known: dict[str, pb.Instance] | None = None,
        reads: bool = True,
        **filters: Any,
    ) -> None:
        request = pb.WatchInstancesRequest(resume_token=resume_token, **filters)
        self.call = stub.WatchInstances(request)
        self.known = {} if known is None else known
        self.events: list[pb.InstanceEvent] = []
        self.tokens: list[str] = [resume_token]
        self.synced = False
        self._resumed = bool(resume_token)
        self._queue: queue.Queue[pb.WatchInstancesResponse | grpc.RpcError] = queue.Queue()
        self._thread = threading.Thread(target=self._read, daemon=True)
        if reads:
            self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.call.cancel()
        if self._thread.is_alive():
            self._thread.join(WAIT_SECONDS)

    @property
    def token(self) -> str:
        """The newest."""
        return self.tokens[-1]

    @property
    def ids(self) -> set[str]:
        return set(self.known)

    def begin_reading(self) -> None:
        """For one that was made with `reads=False`."""
        self._thread.start()

    def until(self, holds: Callable[[], bool], what: str = "") -> Self:
        """Takes in what is told until that is so."""
        while not holds():
            self.take(what)
        return self

    def until_synced(self) -> Self:
        return self.until(lambda: self.synced, "SYNCED")

    def until_told(self, kind: str, instance: str = "", **fields: Any) -> pb.InstanceEvent:
        """The first event of this kind, from the beginning on, about this instance, with these of its fields."""
        wanted = pb.InstanceEventType.Value(f"INSTANCE_EVENT_TYPE_{kind}")
        seen = 0
        while True:
            for event in self.events[seen:]:
                seen += 1
                has = all(getattr(event.instance, name) == value for name, value in fields.items())
                if event.type == wanted and event.instance.id == instance and has:
                    return event
            self.take(f"{kind} {instance} {fields}")

    def error(self) -> grpc.RpcError:
        """What the stream ends with; whatever is told before is taken in."""
        while True:
            said = self._next("the end of the stream")
            if isinstance(said, grpc.RpcError):
                return said
            self._take_in(said)

    def take(self, what: str = "") -> None:
        """Takes in one response."""
        said = self._next(what)
        if isinstance(said, grpc.RpcError):
            raise said
        self._take_in(said)

    def kinds(self, instance: str) -> list[str]:
        """What was told of one instance."""
        return [kind_of(event) for event in self.events if event.instance.id == instance]

    def _next(self, what: str) -> pb.WatchInstancesResponse | grpc.RpcError:
        try:
            return self._queue.get(timeout=WAIT_SECONDS)
        except queue.Empty:
            raise AssertionError(f"not told within {WAIT_SECONDS} s: {what}; last: {self.events[-3:]}") from None

    def _read(self) -> None:
        try:
            for response in self.call:
                self._queue.put(response)
        except grpc.RpcError as error:
            self._queue.put(error)

    def _take_in(self, response: pb.WatchInstancesResponse) -> None:
        assert response.events, "a response without events"
        for event in response.events:
            self.events.append(event)
            self._obey(event)
        if response.resume_token:
            self.tokens.append(response.resume_token)
        else:
            assert not self.synced, "a response without a token after SYNCED"

    def _obey(self, event: pb.InstanceEvent) -> None:
        kind, instance = kind_of(event), event.instance
        if kind in ("SYNCED", "BOOKMARK"):
            assert not event.HasField("instance")
            assert self.synced == (kind == "BOOKMARK"), f"{kind} at the wrong time"
            self.synced = True
            return
        before = self.known.get(instance.id)
        fits = (kind in ("CHANGED", "REMOVED")) == (before is not None)
        assert fits or (self._resumed and not self.synced), f"{kind} {instance.id}, known: {before}"
        assert kind != "EXISTING" or not (self.synced or self._resumed), f"EXISTING {instance.id} at the wrong time"
        assert before is None or instance.record_revision >= before.record_revision, f"{instance.id} went back"
        assert (kind == "REMOVED") == bool(event.removal_reason)
        if kind == "REMOVED":
            self.known.pop(instance.id, None)
        else:
            self.known[instance.id] = instance


def kind_of(event: pb.InstanceEvent) -> str:
    """EXISTING, ADDED, …"""
    return pb.InstanceEventType.Name(event.type).removeprefix("INSTANCE_EVENT_TYPE_")


def removal_of(event: pb.InstanceEvent) -> str:
    """EXPIRED, NOT_MATCHING or UNREADABLE."""
    return pb.RemovalReason.Name(event.removal_reason).removeprefix("REMOVAL_REASON_")
