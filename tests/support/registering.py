"""Held instances as the proxy writes them, for tests of what comes after the registration.

The rule: records and shadows are made by the product's own functions and written with a plain client, in one Txn.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from greenroom.core import record as records
from greenroom.core.keyspace import InstanceId, Key, instance_id, record_key, shadow_key
from greenroom.core.policy import Hold, Requirements, gates_of
from greenroom.core.record import GatedEntry, Record
from greenroom.core.transitions import opened
from tests.support.client import EtcdClient, put

GATES: Mapping[str, float] = {"smoke": 900.0}
NAMESPACE, COMPONENT, ENDPOINT, MODEL = "dynamo", "backend", "generate", "Qwen/Qwen3-0.6B"


def now() -> datetime:
    return datetime.now(UTC)


def card_key(instance: str, suffix: str = "") -> Key:
    tail = f"/{suffix}" if suffix else ""
    return Key(f"v1/mdc/{NAMESPACE}/{COMPONENT}/{ENDPOINT}/{instance}{tail}".encode())


def instance_record_key(instance: str) -> bytes:
    return f"v1/instances/{NAMESPACE}/{COMPONENT}/{ENDPOINT}/{instance}".encode()


def instance_record(instance: str, address: str) -> bytes:
    said = {"instance_id": int(instance, 16), "transport": {"tcp": f"{address}/{instance}/{ENDPOINT}"}}
    return json.dumps(said).encode()


def card_value(model: str = MODEL) -> bytes:
    return json.dumps({"card_json": {"display_name": model}}).encode()


def entry(instance: str, suffix: str = "", model: str = MODEL) -> GatedEntry:
    return GatedEntry(
        key=card_key(instance, suffix).decode(),
        namespace=NAMESPACE,
        component=COMPONENT,
        endpoint=ENDPOINT,
        model=model,
        suffix=suffix,
    )


def held_record(
    instance: str,
    gates: Mapping[str, float] = GATES,
    *,
    hold: Hold = Hold.CARD,
    model: str = MODEL,
    at: datetime | None = None,
) -> Record:
    return opened(entry(instance, model=model), Requirements(hold, gates_of(gates)), at or now())


@dataclass(frozen=True, slots=True)
class Held:
    """An instance on a lease of its own, with one card."""

    instance: InstanceId
    lease: int

    @property
    def card(self) -> Key:
        return card_key(self.instance)

    @property
    def name(self) -> str:
        """As the control API names it."""
        return f"instances/{self.instance}"


def register(
    client: EtcdClient,
    gates: Mapping[str, float] = GATES,
    *,
    hold: Hold = Hold.CARD,
    model: str = MODEL,
    ttl_seconds: int = 60,
    at: datetime | None = None,
) -> Held:
    """Holds a new instance's card; with hold `health` the card is public at once."""
    lease = client.grant(ttl_seconds)
    instance = instance_id(lease)
    record = held_record(instance, gates, hold=hold, model=model, at=at)
    place = card_key(instance) if hold is Hold.HEALTH else shadow_key(instance, card_key(instance))
    client.txn(
        [],
        [put(place, card_value(model), lease), put(record_key(instance), records.encode(record), lease)],
    )
    return Held(instance, lease)


def stored_record(client: EtcdClient, instance: InstanceId) -> Record:
    """The record as it lies in etcd."""
    kv = client.get(record_key(instance))
    assert kv is not None, f"no record of {instance}"
    return records.decode(kv.value, instance)
