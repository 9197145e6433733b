"""One worker before the proxy and its twin before a plain etcd: the same calls, and the same answers but for revisions.

The rule: a revision of one side is turned into the other's by the write that it was, never by guessing. A key that a
release or a withdrawal moved was written anew on the proxy's side only: there its revisions stand for those that the
twin's key has had all along, and a compare with one from before the move holds on neither side.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import grpc
from google.protobuf.message import Message

from greenroom.pb.etcd import kv_pb2, rpc_pb2
from tests.support.client import CALL_SECONDS, EtcdClient

SHADOWS = b"\x01greenroom/held/"
NEVER = 1
"""etcd's first revision, at which nothing was ever written."""

Call = rpc_pb2.PutRequest | rpc_pb2.DeleteRangeRequest | rpc_pb2.TxnRequest | rpc_pb2.RangeRequest
Answer = rpc_pb2.PutResponse | rpc_pb2.DeleteRangeResponse | rpc_pb2.TxnResponse | rpc_pb2.RangeResponse
Refused = tuple[grpc.StatusCode, str]
Kind = TypeVar("Kind", bound=Message)


class Written(NamedTuple):
    """A key's standing on one side."""

    create_revision: int
    mod_revision: int
    version: int


def written(kv: kv_pb2.KeyValue) -> Written:
    return Written(kv.create_revision, kv.mod_revision, kv.version)


@dataclass(slots=True)
class Twins:
    """The standing of every gated key on both sides, fed with all of the proxy's etcd's events in order."""

    plain: EtcdClient
    now: dict[bytes, Written] = field(default_factory=dict)
    past: dict[tuple[bytes, int], tuple[Written, Written]] = field(default_factory=dict)

    def take(self, event: kv_pb2.Event) -> None:
        """One event of the proxy's side, before the twin's calls of later revisions."""
        key = event.kv.key
        if key.startswith(SHADOWS):
            key = key.removeprefix(SHADOWS).partition(b"/")[2]
        elif key < b"\x02":
            return
        if event.type == kv_pb2.Event.DELETE:
            # One half of a move is a deletion too; the other half tells.
            if key in self.now and self.now[key].mod_revision < event.kv.mod_revision:
                del self.now[key]
            return
        self.now[key] = written(event.kv)
        self.stands_as(key)

    def stands_as(self, key: bytes) -> None:
        """What the key is on the twin's side at this moment is what it now is on the proxy's."""
        twin = self.plain.get(key)
        if key in self.now and twin is not None:
            self.past[key, self.now[key].mod_revision] = self.now[key], written(twin)

    def call(self, call: Call) -> Call:
        """The call as the twin must make it, by how the keys stood before it."""
        if not isinstance(call, rpc_pb2.TxnRequest):
            return call
        turned = rpc_pb2.TxnRequest()
        turned.CopyFrom(call)
        for compare in turned.compare:
            if compare.WhichOneof("target_union") == "mod_revision" and compare.mod_revision:
                compare.mod_revision = self._turned(compare.key, compare.mod_revision, "mod_revision")
            elif compare.WhichOneof("target_union") == "create_revision" and compare.create_revision:
                compare.create_revision = self._turned(compare.key, compare.create_revision, "create_revision")
        return turned

    def _turned(self, key: bytes, revision: int, name: str) -> int:
        now = self.now.get(key)
        if now is None or getattr(now, name) != revision:
            return NEVER
        return int(getattr(self.past[key, now.mod_revision][1], name))

    def answer(self, answer: Answer) -> Answer:
        """The proxy's answer as the twin must get it; AssertionError where it is not even right on its own side."""
        turned = deepcopy(answer)
        for kv in every(turned, kv_pb2.KeyValue):
            assert (kv.key, kv.mod_revision) in self.past, f"{kv.key!r} was never written at {kv.mod_revision}"
            here, there = self.past[kv.key, kv.mod_revision]
            assert written(kv) == here, f"{kv.key!r} is answered as {written(kv)}, in etcd it was {here}"
            kv.create_revision, kv.mod_revision, kv.version = there
        return without_header(turned)


def without_header(answer: Answer) -> Answer:
    """The answer without who gave it and at which revision; of inner headers stays whether they say the same."""
    outer = answer.header.revision
    turned = deepcopy(answer)
    for header in every(turned, rpc_pb2.ResponseHeader):
        same = header.revision == outer
        header.Clear()
        header.revision = int(same)
    return turned


def every(message: Message, kind: type[Kind]) -> list[Kind]:
    """Every message of one type in a message, the message itself left out."""
    found: list[Kind] = []
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        for part in value if descriptor.is_repeated else [value]:
            found += [part, *every(part, kind)] if isinstance(part, kind) else every(part, kind)
    return found


def answer_of(client: EtcdClient, call: Call) -> Answer | Refused:
    """What a client gets for a call."""
    ways: dict[type[Message], Callable[..., Answer]] = {
        rpc_pb2.PutRequest: client.kv.Put,
        rpc_pb2.DeleteRangeRequest: client.kv.DeleteRange,
        rpc_pb2.TxnRequest: client.kv.Txn,
        rpc_pb2.RangeRequest: client.kv.Range,
    }
    try:
        return ways[type(call)](call, timeout=CALL_SECONDS)
    except grpc.RpcError as error:
        return refusal(error)


def refusal(error: grpc.RpcError) -> Refused:
    """Code and text of a call's error."""
    assert isinstance(error, grpc.Call), f"not the error of a call: {error!r}"
    return error.code(), str(error.details())


def paired(call: Call, answer: Answer) -> list[tuple[Call, Answer]]:
    """What was done of a call, each part with its answer."""
    if not isinstance(call, rpc_pb2.TxnRequest):
        return [(call, answer)]
    assert isinstance(answer, rpc_pb2.TxnResponse)
    done = call.success if answer.succeeded else call.failure
    return [
        (getattr(operation, str(operation.WhichOneof("request"))), getattr(said, str(said.WhichOneof("response"))))
        for operation, said in zip(done, answer.responses, strict=True)
    ]


def has_written(call: Call, answer: Answer) -> bool:
    """Whether a call changed anything, by its answer."""
    return any(
        isinstance(said, rpc_pb2.PutResponse) or (isinstance(said, rpc_pb2.DeleteRangeResponse) and said.deleted > 0)
        for _, said in paired(call, answer)
    )
