"""A plan's steps as calls of our own generated messages, for clients on grpcio, synchronous or not.

The rule: nothing is put into a request that the step does not say, and an answer goes into the log whole.
"""

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from greenroom.pb.etcd import rpc_pb2
from tests.support.plan import Step

Line = dict[str, Any]
SERVICE = "/etcdserverpb."
METHODS: dict[str, tuple[str, type[Message], type[Message]]] = {
    "put": ("KV/Put", rpc_pb2.PutRequest, rpc_pb2.PutResponse),
    "range": ("KV/Range", rpc_pb2.RangeRequest, rpc_pb2.RangeResponse),
    "delete": ("KV/DeleteRange", rpc_pb2.DeleteRangeRequest, rpc_pb2.DeleteRangeResponse),
    "txn": ("KV/Txn", rpc_pb2.TxnRequest, rpc_pb2.TxnResponse),
    "compact": ("KV/Compact", rpc_pb2.CompactionRequest, rpc_pb2.CompactionResponse),
    "grant": ("Lease/LeaseGrant", rpc_pb2.LeaseGrantRequest, rpc_pb2.LeaseGrantResponse),
    "revoke": ("Lease/LeaseRevoke", rpc_pb2.LeaseRevokeRequest, rpc_pb2.LeaseRevokeResponse),
    "time_to_live": ("Lease/LeaseTimeToLive", rpc_pb2.LeaseTimeToLiveRequest, rpc_pb2.LeaseTimeToLiveResponse),
}
COMPARED = {
    "VERSION": "version",
    "CREATE": "create_revision",
    "MOD": "mod_revision",
    "VALUE": "value",
    "LEASE": "lease",
}


@dataclass(slots=True)
class Memory:
    """What the answers so far showed of keys, and the revisions that steps kept."""

    shown: dict[str, tuple[int, int]] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)

    def number(self, given: Any) -> int:
        if not isinstance(given, dict):
            return int(given)
        if "kept" in given:
            return self.kept.get(given["kept"], 0) + int(given["plus"])
        if "shown_mod" in given:
            return self.shown.get(given["shown_mod"], (0, 0))[1]
        return self.shown.get(given["shown_create"], (0, 0))[0]

    def take(self, step: Step, answer: Message) -> None:
        if "keep" in step:
            self.kept[step["keep"]] = answer.header.revision  # type: ignore[attr-defined]
        for kv in _kvs(answer):
            self.shown[kv.key.decode("latin-1")] = (kv.create_revision, kv.mod_revision)

    def take_shown(self, node: Any) -> None:
        """The same of an answer in JSON."""
        if isinstance(node, dict) and int(node.get("mod_revision", 0)):
            key = base64.b64decode(node["key"]).decode("latin-1")
            self.shown[key] = (int(node["create_revision"]), int(node["mod_revision"]))
        elif isinstance(node, (dict, list)):
            for part in node.values() if isinstance(node, dict) else node:
                self.take_shown(part)


def is_put(kv: Line, step: Step) -> bool:
    """Whether a key and value in JSON are those that a step puts."""
    return [base64.b64decode(kv.get(name, "")).decode("latin-1") for name in ("key", "value")] == [
        step["key"],
        step["value"],
    ]


def request_of(step: Step, memory: Memory) -> Any:
    """The request of one step; of the steps that are streams, their first request."""
    options: dict[str, Any] = {
        name: memory.number(value) if isinstance(value, dict) else value
        for name, value in step.get("options", {}).items()
    }
    match step["do"]:
        case "put":
            return rpc_pb2.PutRequest(
                key=_bytes(step["key"]), value=_bytes(step["value"]), lease=int(step["lease"]), **options
            )
        case "range":
            return rpc_pb2.RangeRequest(key=_bytes(step["key"]), range_end=_bytes(step["range_end"]), **options)
        case "delete":
            return rpc_pb2.DeleteRangeRequest(key=_bytes(step["key"]), range_end=_bytes(step["range_end"]), **options)
        case "txn":
            return _txn(step, memory)
        case "compact":
            return rpc_pb2.CompactionRequest(**options)
        case "grant":
            return rpc_pb2.LeaseGrantRequest(ID=int(step["lease"]), TTL=step["ttl"])
        case "revoke":
            return rpc_pb2.LeaseRevokeRequest(ID=int(step["lease"]))
        case "keepalive":
            return rpc_pb2.LeaseKeepAliveRequest(ID=int(step["lease"]))
        case "time_to_live":
            return rpc_pb2.LeaseTimeToLiveRequest(ID=int(step["lease"]), keys=True)
    create = rpc_pb2.WatchCreateRequest(key=_bytes(step["key"]), range_end=_bytes(step["range_end"]), **options)
    return rpc_pb2.WatchRequest(create_request=create)


def answered(answer: Message) -> Line:
    return {"answer": MessageToDict(answer, preserving_proto_field_name=True)}


def failed(error: Any) -> Line:
    """Of an RpcError, synchronous or not."""
    code: grpc.StatusCode = error.code()
    return {"error": [code.name, error.details()]}


def _txn(step: Step, memory: Memory) -> rpc_pb2.TxnRequest:
    return rpc_pb2.TxnRequest(
        compare=[_compare(compare, memory) for compare in step["compare"]],
        success=[_operation(operation, memory) for operation in step["success"]],
        failure=[_operation(operation, memory) for operation in step["failure"]],
    )


def _compare(compare: Step, memory: Memory) -> rpc_pb2.Compare:
    name, value = COMPARED[compare["target"]], compare["value"]
    target: dict[str, Any] = {name: _bytes(value) if name == "value" else memory.number(value)}
    return rpc_pb2.Compare(
        key=_bytes(compare["key"]),
        range_end=_bytes(compare["range_end"]),
        target=compare["target"],
        result=compare["result"],
        **target,
    )


def _operation(step: Step, memory: Memory) -> rpc_pb2.RequestOp:
    request = request_of(step, memory)
    name = {"put": "put", "range": "range", "delete": "delete_range", "txn": "txn"}[step["do"]]
    return rpc_pb2.RequestOp(**{f"request_{name}": request})


def _kvs(answer: Message) -> Iterator[Any]:
    for name in ("kvs", "prev_kvs"):
        yield from getattr(answer, name, ())
    for part in getattr(answer, "responses", ()):
        yield from _kvs(getattr(part, part.WhichOneof("response")))


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")
