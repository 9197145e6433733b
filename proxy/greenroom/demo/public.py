"""What everybody sees: a watcher on etcd itself, beside the proxy, as frontends have one."""

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import grpc

from greenroom.demo.workers import CALL_SECONDS, CARDS
from greenroom.errors import StartError
from greenroom.pb.etcd import kv_pb2, rpc_pb2, rpc_pb2_grpc

EVERYTHING = (b"\0", b"\0")


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one answer of the watch brought: keys in their order, at the revisions that they have."""

    appeared: tuple[bytes, ...]
    gone: tuple[bytes, ...]
    revisions: frozenset[int]


class PublicWatcher:
    """Watches all cards from now on; `on_sighting` is told from a thread of its own. `with` ends it."""

    def __init__(self, etcd: str, on_sighting: Callable[[Sighting], None]) -> None:
        self.sightings: list[Sighting] = []
        self._on_sighting = on_sighting
        self._channel = grpc.insecure_channel(etcd, options=(("grpc.enable_http_proxy", 0),))
        self._kv = rpc_pb2_grpc.KVStub(self._channel)
        self._done = threading.Event()
        self._created = threading.Event()
        self._answers = rpc_pb2_grpc.WatchStub(self._channel).Watch(self._requests(), wait_for_ready=True)
        self._reader = threading.Thread(target=self._read, name="public watcher", daemon=True)
        self._reader.start()
        if not self._created.wait(CALL_SECONDS):
            raise StartError(f"the demonstration's etcd gave no watch within {CALL_SECONDS:g} s")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._answers.cancel()
        self._reader.join(CALL_SECONDS)
        self._channel.close()

    def cards(self) -> list[bytes]:
        """The keys of all cards that are public now."""
        request = rpc_pb2.RangeRequest(key=CARDS[0], range_end=CARDS[1], keys_only=True)
        return [found.key for found in self._kv.Range(request, timeout=CALL_SECONDS).kvs]

    def keys_about(self, instance: str) -> list[bytes]:
        """Every key of the store that names an instance, the reserved area included."""
        request = rpc_pb2.RangeRequest(key=EVERYTHING[0], range_end=EVERYTHING[1], keys_only=True)
        found = self._kv.Range(request, timeout=CALL_SECONDS).kvs
        return [entry.key for entry in found if instance.encode() in entry.key]

    def of(self, instance: str) -> list[Sighting]:
        """The sightings that name an instance."""
        name = instance.encode()
        return [seen for seen in self.sightings if any(name in key for key in (*seen.appeared, *seen.gone))]

    def _requests(self) -> Iterator[rpc_pb2.WatchRequest]:
        create = rpc_pb2.WatchCreateRequest(key=CARDS[0], range_end=CARDS[1], prev_kv=True)
        yield rpc_pb2.WatchRequest(create_request=create)
        self._done.wait()

    def _read(self) -> None:
        try:
            for answer in self._answers:
                self._created.set()
                if answer.events:
                    self._seen(answer)
        except grpc.RpcError:
            return

    def _seen(self, answer: rpc_pb2.WatchResponse) -> None:
        sighting = sighting_of(answer.events)
        self.sightings.append(sighting)
        self._on_sighting(sighting)


def sighting_of(events: Iterable[kv_pb2.Event]) -> Sighting:
    """One answer's events, taken together."""
    listed = list(events)
    puts = tuple(event.kv.key for event in listed if event.type == kv_pb2.Event.PUT)
    gone = tuple(event.kv.key for event in listed if event.type == kv_pb2.Event.DELETE)
    return Sighting(puts, gone, frozenset(event.kv.mod_revision for event in listed))
