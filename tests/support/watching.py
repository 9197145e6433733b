"""What a watcher has seen so far.

The rule: nothing is left out or put together. Each answer is kept as it came, so that a test can ask for one response,
one revision, or the order of events.
"""

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Self

import grpc

from greenroom.pb.etcd import kv_pb2, rpc_pb2, rpc_pb2_grpc

WAIT_SECONDS = 10
Metadata = tuple[tuple[str, str], ...]


class WatchLog:
    """One watch on a stream of its own, read by a thread; `with` or `close` ends it."""

    def __init__(
        self, stub: rpc_pb2_grpc.WatchStub, create: rpc_pb2.WatchCreateRequest, metadata: Metadata = ()
    ) -> None:
        self.responses: list[rpc_pb2.WatchResponse] = []
        self.error: grpc.RpcError | None = None
        self.ended = False
        self._changed = threading.Condition()
        self._requests: queue.SimpleQueue[rpc_pb2.WatchRequest | None] = queue.SimpleQueue()
        self._requests.put(rpc_pb2.WatchRequest(create_request=create))
        self._answers = stub.Watch(iter(self._requests.get, None), metadata=metadata)
        self._reader = threading.Thread(target=self._read, name="watch log", daemon=True)
        self._reader.start()
        self._wait(lambda: bool(self.responses) or self.ended, WAIT_SECONDS, "the watch is created")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def events(self) -> list[kv_pb2.Event]:
        return [event for response in list(self.responses) for event in response.events]

    @property
    def changes(self) -> list[tuple[str, bytes]]:
        """(PUT or DELETE, key), in order: short enough to be compared in one line."""
        return [(kv_pb2.Event.EventType.Name(event.type), event.kv.key) for event in self.events]

    def batches(self) -> Iterator[list[bytes]]:
        """The keys of each response that has events."""
        return ([event.kv.key for event in response.events] for response in list(self.responses) if response.events)

    def send(self, request: rpc_pb2.WatchRequest) -> None:
        """One more request on the same stream."""
        self._requests.put(request)

    def request_progress(self) -> None:
        self.send(rpc_pb2.WatchRequest(progress_request=rpc_pb2.WatchProgressRequest()))

    def half_close(self) -> None:
        """Sends no more requests; answers go on."""
        self._requests.put(None)

    def wait_events(self, count: int, timeout_seconds: float = WAIT_SECONDS) -> list[kv_pb2.Event]:
        """At least `count` events."""
        self._wait(lambda: len(self.events) >= count, timeout_seconds, f"{count} events")
        return self.events

    def wait_revision(self, revision: int, timeout_seconds: float = WAIT_SECONDS) -> list[kv_pb2.Event]:
        """All events up to `revision`, which must be that of an event or of a progress answer."""
        self._wait(lambda: self._seen() >= revision, timeout_seconds, f"revision {revision}")
        return self.events

    def wait_end(self, timeout_seconds: float = WAIT_SECONDS) -> grpc.RpcError | None:
        """The error that the stream ended with; None after a clean end."""
        self._wait(lambda: self.ended, timeout_seconds, "the stream ends")
        return self.error

    def wait_canceled(self, timeout_seconds: float = WAIT_SECONDS) -> rpc_pb2.WatchResponse:
        self._wait(lambda: any(r.canceled for r in self.responses), timeout_seconds, "the watch is canceled")
        return next(response for response in self.responses if response.canceled)

    def close(self) -> None:
        self._answers.cancel()
        self._requests.put(None)
        self._reader.join(WAIT_SECONDS)

    def _seen(self) -> int:
        # The answer to the creation bears the store's revision too, but says nothing of events before it.
        return max((r.header.revision for r in self.responses if not r.created), default=0)

    def _read(self) -> None:
        error = None
        try:
            for response in self._answers:
                with self._changed:
                    self.responses.append(response)
                    self._changed.notify_all()
        except grpc.RpcError as raised:
            error = raised
        with self._changed:
            self.error, self.ended = error, True
            self._changed.notify_all()

    def _wait(self, fact: Callable[[], bool], timeout_seconds: float, what: str) -> None:
        with self._changed:
            reached = self._changed.wait_for(lambda: fact() or self.ended, timeout_seconds) and fact()
        if not reached:
            raise AssertionError(f"not seen: {what} (changes so far: {self.changes}, error: {self.error!r})")
