"""Simulated workers send what recorded ones sent."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from greenroom.demo.workers import card, create_txn, instance_record
from greenroom.pb.etcd import rpc_pb2

RECORDED = Path(__file__).resolve().parents[2] / "data" / "recorded.jsonl"


def recorded_creations(prefix: str) -> Iterator[dict[str, Any]]:
    """The Txns by which real workers created keys under a prefix, as the recording has them."""
    for line in RECORDED.read_text().splitlines():
        entry = json.loads(line)
        if entry["method"].endswith("KV/Txn") and entry["direction"] == "request":
            compare = entry["message"]["compare"][0]
            if compare["key"].startswith(prefix) and "target" not in compare:
                yield entry["message"]


def shape(value: object) -> object:
    """A JSON value's fields, in their order, without what they hold."""
    return [(name, shape(inner)) for name, inner in value.items()] if isinstance(value, dict) else None


def put_of(message: dict[str, Any]) -> dict[str, Any]:
    put: dict[str, Any] = message["success"][0]["request_put"]
    return put


def test_the_create_txn_is_the_recorded_one() -> None:
    for message in recorded_creations("v1/"):
        put = put_of(message)
        ours = create_txn(put["key"].encode(), put["value"].encode(), put["lease"])
        assert ours == from_recording(message)


def from_recording(message: dict[str, Any]) -> rpc_pb2.TxnRequest:
    """The recording writes bytes as text; protobuf's JSON wants them in base64."""
    request = rpc_pb2.TxnRequest()
    json_format.ParseDict(_encoded(message), request)
    return request


def _encoded(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {inner_name: _encoded(inner, inner_name) for inner_name, inner in value.items()}
    if isinstance(value, list):
        return [_encoded(inner) for inner in value]
    return base64.b64encode(value.encode()).decode() if name in ("key", "value") else value


def test_cards_have_the_recorded_fields_in_the_recorded_order() -> None:
    recorded = [json.loads(put_of(message)["value"]) for message in recorded_creations("v1/mdc/dynamo/pyw/")]
    own = [value for value in recorded if "model_suffix" not in value]
    adapters = [value for value in recorded if "model_suffix" in value]
    assert own
    assert adapters
    assert {repr(shape(value)) for value in own} == {repr(shape(card(1, "tiny")))}
    assert {repr(shape(value)) for value in adapters} == {repr(shape(card(1, "lora-a", "lora-a")))}


def test_instance_records_have_the_recorded_fields_in_the_recorded_order() -> None:
    recorded = [json.loads(put_of(message)["value"]) for message in recorded_creations("v1/instances/")]
    assert recorded
    assert {repr(shape(value)) for value in recorded} == {repr(shape(instance_record(1, "127.0.0.1:1")))}


def test_an_instance_record_says_where_it_serves() -> None:
    assert instance_record(0x6177A228983C0B2B, "127.0.0.1:46537")["transport"] == {
        "tcp": "127.0.0.1:46537/6177a228983c0b2b/dynamo/backend/generate"
    }
