"""A worker's card as Dynamo writes it, as a template: the lease in key, value and lease field, the call in its taints.

The rule: the bytes are the same whether they go to etcd or to the proxy; only the leases' numbers tell which.
"""

import json
from functools import cache
from typing import Any

from greenroom.pb.etcd import rpc_pb2
from tests.bench.templates import Template, template_of
from tests.support.client import get, put, version_is
from tests.support.workers import CARDS, DATA

TTL_SECONDS = 3600


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
def _recorded() -> bytes:
    return (DATA / "card.json").read_bytes()
