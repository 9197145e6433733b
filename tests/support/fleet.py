"""A fleet that is held already: as many instances as a test wants, each with a card and a record of real size.

The rule: cards are those of data/, records are the product's own; they are written many at a time, since thousands of
them through the proxy would take longer than what is tested with them.
"""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from greenroom.core import record as records
from greenroom.core.keyspace import instance_id, record_key, shadow_key
from tests.support.client import EtcdClient, put
from tests.support.registering import Held, card_key, held_record, instance_record, instance_record_key

DATA = Path(__file__).parents[1] / "data"
AT_ONCE = 16
# Longer than any test: nobody keeps these alive.
TTL_SECONDS = 3600


def hold_fleet(client: EtcdClient, count: int, *, gates: Sequence[str] = ("smoke",)) -> list[Held]:
    """`count` held instances, each with a card of about 1.7 KB, a record, and a public instance record."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda number: _hold(client, number, dict.fromkeys(gates, 900.0)), range(count)))


def _hold(client: EtcdClient, number: int, gates: dict[str, float]) -> Held:
    lease = client.grant(TTL_SECONDS)
    instance = instance_id(lease)
    record = records.encode(held_record(instance, gates, model="tiny"))
    address = instance_record(instance, f"10.0.{number // 250}.{number % 250}:4242")
    client.txn(
        [],
        [
            put(shadow_key(instance, card_key(instance)), _card(lease), lease),
            put(record_key(instance), record, lease),
            put(instance_record_key(instance), address, lease),
        ],
    )
    return Held(instance, lease)


def _card(lease: int) -> bytes:
    value = json.loads((DATA / "card.json").read_bytes())
    value["instance_id"] = lease
    return json.dumps(value, separators=(",", ":")).encode()
