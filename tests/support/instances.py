"""One worker's keys and values as real Dynamo wrote them, and snapshots of it in any situation.

The rule: values come from tests/data, where recorded traffic lies; a snapshot is made from an answer of etcd's shape,
by the same function that reads real answers.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf.json_format import ParseDict

from greenroom.core import record as records
from greenroom.core.gating import entry_of
from greenroom.core.keyspace import InstanceId, Key
from greenroom.core.policy import Hold, Policy, Requirements, gates_of
from greenroom.core.record import GatedEntry, Record
from greenroom.core.rollout_holds import RolloutHold
from greenroom.core.rollout_holds import encode as encode_hold
from greenroom.core.snapshot import Snapshot, snapshot_from
from greenroom.core.templates import GatedKey, dynamo_gated_keys
from greenroom.core.transitions import opened
from greenroom.pb.etcd import kv_pb2, rpc_pb2
from tests.support.txn_text import TxnText

DATA = Path(__file__).resolve().parents[1] / "data"
INSTANCE = InstanceId("6177a228983c0b4d")
LEASE = 0x6177A228983C0B4D
PREFIX = b"\x01greenroom/"
RECORD = PREFIX + b"instances/" + INSTANCE.encode()
SHADOWS = PREFIX + b"held/" + INSTANCE.encode() + b"/"

K = Key(b"v1/mdc/dynamo/pyw/generate/6177a228983c0b4d")
LORA = Key(K + b"/lora-a")
I = Key(b"v1/instances/dynamo/pyw/generate/6177a228983c0b4d")  # noqa: E741 - the protocol's own letter
NAMES: Mapping[bytes, str] = {K: "K", LORA: "LORA", I: "I", b"other": "other"}
TEXT = TxnText(INSTANCE, NAMES)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
REVISION = 100
RECORD_REVISION = 7
GATED_KEYS = dynamo_gated_keys(instances=True)


@cache
def recorded(method: str) -> tuple[Mapping[str, Any], ...]:
    """The messages of every recorded request of a method, such as `KV/Txn`."""
    lines = (json.loads(line) for line in (DATA / "recorded.jsonl").read_text().splitlines())
    return tuple(
        line["message"]
        for line in lines
        if line["method"] == f"/etcdserverpb.{method}" and line["direction"] == "request"
    )


def recorded_txns() -> list[rpc_pb2.TxnRequest]:
    """Every recorded Txn, as it was on the wire."""
    return [txn_from(message) for message in recorded("KV/Txn")]


def lora_cards(count: int) -> dict[Key, int]:
    """So many LoRA cards of the worker, with mod_revisions from 20 on."""
    return {Key(K + b"/lora-%d" % number): 20 + number for number in range(count)}


def txn_from(message: Mapping[str, Any]) -> rpc_pb2.TxnRequest:
    """A Txn from the recording, which has keys and values as text where protobuf's JSON has base64."""
    txn = rpc_pb2.TxnRequest()
    for said in message.get("compare", ()):
        compare = {name: value for name, value in said.items() if name not in ("key", "value")}
        ParseDict(compare, txn.compare.add(key=said["key"].encode()))
    for branch in ("success", "failure"):
        for said in message.get(branch, ()):
            ((kind, request),) = said.items()
            plain = {name: value for name, value in request.items() if name not in ("key", "value")}
            operation = getattr(getattr(txn, branch).add(), kind)
            ParseDict(plain, operation)
            operation.key = request["key"].encode()
            if "value" in request:
                operation.value = request["value"].encode()
    return txn


@cache
def value_of(key: Key) -> bytes:
    """The value that the recorded worker first put there; of other LoRA cards, the recorded one by their names."""
    suffix = key.removeprefix(LORA[: -len(b"lora-a")])
    if suffix not in (key, b"lora-a"):
        return value_of(LORA).replace(b"lora-a", suffix)
    for txn in recorded_txns():
        for operation in txn.success:
            if operation.request_put.key == key:
                return operation.request_put.value
    raise KeyError(key)


def edited(key: Key, **card: object) -> bytes:
    """The recorded value with other fields in its card; `taints` go where they belong."""
    value = json.loads(value_of(key))
    if "taints" in card:
        value["card_json"]["runtime_config"]["taints"] = card.pop("taints")
    value["card_json"].update(card)
    return json.dumps(value).encode()


def gated(key: Key) -> GatedKey:
    """The key taken apart."""
    found = GATED_KEYS.classify(key)
    assert isinstance(found, GatedKey)
    return found


def entry(key: Key, value: bytes | None = None) -> GatedEntry:
    """How the record names the key."""
    return entry_of(gated(key), value_of(key) if value is None else value)


def needs(*gates: str, hold: Hold = Hold.CARD, timeout_seconds: float = 900) -> Requirements:
    """What rules ask for."""
    return Requirements(hold, gates_of(dict.fromkeys(gates or ("smoke",), timeout_seconds)))


def policy(*gates: str, hold: Hold = Hold.CARD, **selector: str) -> Policy:
    """A policy of one rule; without gates, of none."""
    if not gates:
        return Policy()
    rule = {"selector": selector, "hold": hold, "gates": {gate: {"timeout_seconds": 900} for gate in gates}}
    return Policy.model_validate({"rules": [rule]})


def held_record(*keys: Key, gates: tuple[str, ...] = ("smoke",), hold: Hold = Hold.CARD) -> Record:
    """A freshly opened record of these keys (K where none is given), every gate at its first attempt."""
    first = opened(entry((keys or (K,))[0]), needs(*gates, hold=hold), NOW)
    return first.model_copy(update={"cards": tuple(entry(key) for key in keys or (K,))})


def snapshot(
    record: Record | None = None,
    *,
    shadows: Mapping[Key, int] | tuple[Key, ...] = (),
    public: Mapping[Key, int] | tuple[Key, ...] = (),
    asked: tuple[Key, ...] = (K, LORA, I),
    values: Mapping[Key, bytes] | None = None,
    rollout_holds: tuple[RolloutHold, ...] = (),
    budget_revision: int = 0,
    budget: bytes = b"{}",
) -> Snapshot:
    """What one read saw at revision 100. `shadows` and `public`: keys with their mod_revisions (or 20, 21, ...)."""
    said = values or {}
    answer = rpc_pb2.TxnResponse(succeeded=True, header=rpc_pb2.ResponseHeader(revision=REVISION))
    found: list[list[kv_pb2.KeyValue]] = [
        [_kv(RECORD, records.encode(record), RECORD_REVISION, LEASE)] if record else [],
        [_kv(SHADOWS + key, said.get(key) or value_of(key), at, LEASE) for key, at in _numbered(shadows, 20).items()],
        [_kv(PREFIX + b"rollout-holds/" + hold.hold_id.encode(), encode_hold(hold), 5, 0) for hold in rollout_holds],
        [_kv(PREFIX + b"budget", budget, budget_revision, 0)] if budget_revision else [],
    ]
    places = _numbered(public, 40)
    found += [[_kv(key, said.get(key) or value_of(key), places[key], LEASE)] if key in places else [] for key in asked]
    for kvs in found:
        answer.responses.add().response_range.CopyFrom(rpc_pb2.RangeResponse(kvs=kvs, count=len(kvs)))
    return snapshot_from(INSTANCE, asked, answer)


def _numbered(keys: Mapping[Key, int] | tuple[Key, ...], first: int) -> Mapping[Key, int]:
    return keys if isinstance(keys, Mapping) else {key: first + index for index, key in enumerate(keys)}


def _kv(key: bytes, value: bytes, mod_revision: int, lease: int) -> kv_pb2.KeyValue:
    return kv_pb2.KeyValue(
        key=key, value=value, mod_revision=mod_revision, create_revision=mod_revision, version=1, lease=lease
    )


def put(key: bytes, value: bytes | None = None, **options: Any) -> rpc_pb2.RequestOp:
    """A put as the worker makes it, under its own lease."""
    said = value_of(Key(key)) if value is None else value
    return rpc_pb2.RequestOp(request_put=rpc_pb2.PutRequest(**{"key": key, "value": said, "lease": LEASE, **options}))


def get(key: bytes, **options: Any) -> rpc_pb2.RequestOp:
    """A read of one key."""
    return rpc_pb2.RequestOp(request_range=rpc_pb2.RangeRequest(key=key, **options))


def delete(key: bytes, range_end: bytes = b"", **options: Any) -> rpc_pb2.RequestOp:
    """A deletion of a key or range."""
    return rpc_pb2.RequestOp(request_delete_range=rpc_pb2.DeleteRangeRequest(key=key, range_end=range_end, **options))


def version(key: bytes, number: int = 0) -> rpc_pb2.Compare:
    """Dynamo's compare before a create."""
    return rpc_pb2.Compare(key=key, target=rpc_pb2.Compare.VERSION, version=number)


def mod(key: bytes, revision: int) -> rpc_pb2.Compare:
    """Dynamo's compare before an edit of taints."""
    return rpc_pb2.Compare(key=key, target=rpc_pb2.Compare.MOD, mod_revision=revision)


def create_txn(key: Key, value: bytes | None = None) -> rpc_pb2.TxnRequest:
    """The Txn with which Dynamo registers: absent, then put, else get."""
    return rpc_pb2.TxnRequest(compare=[version(key)], success=[put(key, value)], failure=[get(key)])


def edit_txn(key: Key, revision: int, value: bytes) -> rpc_pb2.TxnRequest:
    """The Txn with which Dynamo edits taints: unchanged since read, then put the whole card, else get."""
    return rpc_pb2.TxnRequest(compare=[mod(key, revision)], success=[put(key, value)], failure=[get(key)])
