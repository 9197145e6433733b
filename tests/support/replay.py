"""A recording of real clients played once more, call by call, and what was answered, as bytes.

The rule: requests are those of the recording, revisions and all: the store is brought to the recording's own before it
starts. Only the grant of a lease says which id it wants, since recorded keys and values have it in them. What the
recording waited for, the expiry of a killed worker's lease, is done beside it at once.
"""

import json
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import Message

from greenroom.pb.etcd import rpc_pb2
from tests.support.client import CHANNEL_OPTIONS, EtcdClient, put
from tests.support.waiting import wait_for

PATH = Path(__file__).parents[1] / "data" / "recorded.jsonl"
FIRST_REVISION = 16
"""That of the recording's store when it began."""
LAST_REVISION = 50
CALL_SECONDS = 30
KILLED = "worker 1 SIGKILL"
KILLED_GRANT = 1
"""Of the recording's grants, which one is that worker's."""
MARKS = (b"v1/mdc/~", b"v1/instances/~", b"v1/event_channels/~")
"""A last key for each watched prefix, written at the end: who has seen it has seen all before it."""
WATCH = "/etcdserverpb.Watch/Watch"
STREAMS: dict[str, type[Message]] = {
    WATCH: rpc_pb2.WatchRequest,
    "/etcdserverpb.Lease/LeaseKeepAlive": rpc_pb2.LeaseKeepAliveRequest,
}
UNARY: dict[str, type[Message]] = {
    "/etcdserverpb.KV/Range": rpc_pb2.RangeRequest,
    "/etcdserverpb.KV/Txn": rpc_pb2.TxnRequest,
    "/etcdserverpb.KV/DeleteRange": rpc_pb2.DeleteRangeRequest,
    "/etcdserverpb.Lease/LeaseGrant": rpc_pb2.LeaseGrantRequest,
    "/etcdserverpb.Lease/LeaseRevoke": rpc_pb2.LeaseRevokeRequest,
}
Answer = bytes | tuple[str, str]
"""A message, or an error's code and text."""
Sees = Callable[[bytes], bool]
"""Whether a watch that starts at a key is told of events."""


@dataclass(slots=True)
class Call:
    method: str
    request: Any
    answer: Answer


class Stream:
    """One stream, read by a thread into `answers`."""

    def __init__(self, method: str, call: Any) -> None:
        self.method = method
        self.requests: list[Any] = []
        self.answers: list[bytes] = []
        self.error: tuple[str, str] | None = None
        self._awaited = 0
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._call = call(iter(self._outgoing.get, None))
        self._reader = threading.Thread(target=self._read, name="replayed stream", daemon=True)
        self._reader.start()

    def send(self, request: Any) -> None:
        self.requests.append(request)
        self._outgoing.put(request.SerializeToString())

    def wait_next(self) -> None:
        self._awaited += 1
        self.wait(lambda: len(self.answers) >= self._awaited, f"answer {self._awaited}")

    def wait(self, fact: Callable[[], bool], what: str) -> None:
        wait_for(lambda: fact() or self.error, CALL_SECONDS, f"{what} to {self.requests}")
        assert fact(), f"{self.requests} ended with {self.error}"

    def end(self) -> None:
        self._call.cancel()
        self._outgoing.put(None)
        self._reader.join(CALL_SECONDS)

    def _read(self) -> None:
        try:
            for answer in self._call:
                self.answers.append(answer)
        except grpc.RpcError:
            self.error = (self._call.code().name, self._call.details())


@dataclass(slots=True)
class Played:
    """What was answered: to each unary call by the number of its line, and on each stream."""

    calls: dict[int, Call] = field(default_factory=dict)
    streams: dict[int, Stream] = field(default_factory=dict)


def play(address: str, store: EtcdClient, sees: Sees = lambda key: True) -> Played:
    """Plays the recording at `address`; `store` speaks to the etcd behind it."""
    player = _Player(address, store, sees)
    try:
        return player.play()
    finally:
        player.end()


class _Player:
    def __init__(self, address: str, store: EtcdClient, sees: Sees) -> None:
        self._address, self._store, self._sees = address, store, sees
        self._channels: dict[int, grpc.Channel] = {}
        self._ids = dict(_granted())
        self._stopped = False
        self._played = Played()

    def play(self) -> Played:
        while (revision := self._store.put(b"before the recording").header.revision) < FIRST_REVISION:
            pass
        assert revision == FIRST_REVISION, f"the store is at {revision} already"
        for number, line in enumerate(recorded()):
            self._line(number, line)
        self._see_the_end()
        return self._played

    def end(self) -> None:
        for stream in self._played.streams.values():
            stream.end()
        for channel in self._channels.values():
            channel.close()

    def _line(self, number: int, line: dict[str, Any]) -> None:
        match line["direction"]:
            case "recorder":
                # The recording's clients lost their streams here, and made new ones; ours go on, to see more.
                self._stopped = self._stopped or "stopped" in line["message"]
            case "mark":
                self._mark(line["message"])
            case "request" if line["method"] in UNARY:
                self._call(number, line)
            case "request":
                self._stream(line).send(filled(STREAMS[line["method"]](), line["message"]))
            case "response" if line["method"] in STREAMS:
                self._await(self._stream(line), line["message"])
            case "status" if line["message"]["code"] == "CANCELLED_BY_CLIENT" and not self._stopped:
                self._stream(line).end()

    def _mark(self, text: str) -> None:
        """The recorded leases last 30 s; on a slow machine playing may take longer."""
        for lease in self._store.leases():
            self._store.keep_alive_once(lease)
        if text == KILLED:
            self._store.revoke(list(self._ids.values())[KILLED_GRANT])

    def _call(self, number: int, line: dict[str, Any]) -> None:
        request = filled(UNARY[line["method"]](), line["message"])
        if isinstance(request, rpc_pb2.LeaseGrantRequest):
            request.ID = self._ids[line["stream"]]
        method: Any = self._channel(line["conn"]).unary_unary(line["method"])
        self._played.calls[number] = Call(line["method"], request, _answer(method, request.SerializeToString()))

    def _await(self, stream: Stream, recorded_answer: dict[str, Any]) -> None:
        if "events" not in recorded_answer or self._sees(stream.requests[0].create_request.key):
            stream.wait_next()

    def _see_the_end(self) -> None:
        """Every watch that is open gets the last event, and so has had all others."""
        self._store.txn([], [put(key, b"") for key in MARKS])
        for stream in self._played.streams.values():
            if stream.method == WATCH and stream.error is None:
                stream.wait(partial(_has_mark, stream.answers), "the last event")

    def _stream(self, line: dict[str, Any]) -> Stream:
        number, method = line["stream"], line["method"]
        if number not in self._played.streams:
            call: Any = self._channel(line["conn"]).stream_stream(method)
            self._played.streams[number] = Stream(method, call)
        return self._played.streams[number]

    def _channel(self, connection: int) -> grpc.Channel:
        if connection not in self._channels:
            options = (*CHANNEL_OPTIONS, ("grpc.use_local_subchannel_pool", 1))
            self._channels[connection] = grpc.insecure_channel(self._address, options=options)
        return self._channels[connection]


def _answer(method: Any, request: bytes) -> Answer:
    call = method.future(request, timeout=CALL_SECONDS)
    if call.exception() is None:
        return bytes(call.result())
    return call.code().name, str(call.details())


def recorded() -> Iterator[dict[str, Any]]:
    with PATH.open() as lines:
        yield from map(json.loads, lines)


def _granted() -> Iterator[tuple[int, int]]:
    """Which stream was granted which lease."""
    for line in recorded():
        if line["direction"] == "response" and line["method"] == "/etcdserverpb.Lease/LeaseGrant":
            yield line["stream"], line["message"]["ID"]


def filled(message: Any, recorded_fields: dict[str, Any]) -> Any:
    """The message of recorded fields; bytes were recorded as text."""
    for name, value in recorded_fields.items():
        described = message.DESCRIPTOR.fields_by_name[name]
        if described.message_type is not None and described.is_repeated:
            for part in value:
                filled(getattr(message, name).add(), part)
        elif described.message_type is not None:
            getattr(message, name).SetInParent()
            filled(getattr(message, name), value)
        else:
            setattr(
                message, name, value.encode() if described.type == described.TYPE_BYTES else _value(described, value)
            )
    return message


def _value(described: Any, value: Any) -> Any:
    """Enums were recorded by name."""
    if described.enum_type is not None and isinstance(value, str):
        return described.enum_type.values_by_name[value].number
    return value


def _has_mark(answers: list[bytes]) -> bool:
    return any(event.kv.key in MARKS for event in rpc_pb2.WatchResponse.FromString(answers[-1]).events)
