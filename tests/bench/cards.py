"""A worker's card as Dynamo writes it, as a template: the lease in key, value and lease field, the call in its taints.

The rule: the bytes are the same whether they go to etcd or to the proxy; only the leases' numbers tell which.
"""

import json
from functools import cache
from typing import Any

from greenroom.pb.control.v1 import control_pb2
from greenroom.pb.etcd import rpc_pb2
from tests.bench.templates import Template, template_of
from tests.support.client import get, put, version_is
from tests.support.workers import CARDS, DATA, INSTANCES

TTL_SECONDS = 3600
GATE = "smoke"


def card_key(lease: int) -> bytes:
    return CARDS + b"dynamo/backend/generate/%x" % lease


def card(lease: int, taint: int) -> bytes:
    """The recorded card, of this worker and with this taint."""
    value: Any = json.loads(_recorded())
    value["instance_id"] = lease
    value["card_json"]["runtime_config"]["taints"] = [f"{taint:012d}"]
    return json.dumps(value, separators=(",", ":")).encode()


@cache
def edit() -> Template:
    """A Put of the card whose taints are the call's."""
    return template_of(
        lambda lease, call: rpc_pb2.PutRequest(
            key=card_key(lease), value=card(lease, call), lease=lease
        ).SerializeToString(),
        keys_are_leases=True,
    )


@cache
def registration() -> Template:
    """Dynamo's Txn: the card where there is none, else read it."""
    return template_of(_registration, keys_are_leases=True)


def _registration(lease: int, call: int) -> bytes:
    key = card_key(lease)
    return rpc_pb2.TxnRequest(
        compare=[version_is(key, 0)], success=[put(key, card(lease, call), lease)], failure=[get(key)]
    ).SerializeToString()


@cache
def address() -> Template:
    """A Put of the worker's public instance record, which says where it listens."""
    return template_of(
        lambda lease, _: rpc_pb2.PutRequest(
            key=INSTANCES + b"dynamo/backend/generate/%x" % lease, value=_address(lease), lease=lease
        ).SerializeToString(),
        keys_are_leases=True,
    )


def _address(lease: int) -> bytes:
    value: Any = json.loads((DATA / "instance.json").read_bytes())
    value["instance_id"] = lease
    value["transport"]["tcp"] = f"127.0.0.1:4242/{lease:x}/dynamo/backend/generate"
    return json.dumps(value, separators=(",", ":")).encode()


@cache
def verdict() -> Template:
    """A report that the worker's one gate has passed."""
    return template_of(
        lambda lease, _: control_pb2.ReportVerdictRequest(
            name=f"instances/{lease:x}", gate=GATE, attempt=1, outcome=control_pb2.OUTCOME_PASSED, reporter="bench"
        ).SerializeToString(),
        keys_are_leases=True,
    )


@cache
def _recorded() -> bytes:
    return (DATA / "card.json").read_bytes()
