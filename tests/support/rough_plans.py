"""Plans that strain a connection: values of a megabyte, and calls that are given up as soon as they are made.

The rule: what they strain is a connection that goes on to be used as ever, and whose answers are compared.
"""

import json
from random import Random

from tests.support import plan
from tests.support.plan import Step
from tests.support.planned_worker import PlannedWorker

BIG = 1_000_000
"""Bytes of a value; six of them are more than any client takes by default, and etcd takes one at a time."""
BIG_KEYS = 6
LEASE = 0x2ABC_DEF0_1234_5678
STORMS = 6
CALLS_OF_A_STORM = 25
"""All storms together stay below the 200 calls that a client may reset before it is taken for a flood."""
SHORT_SECONDS = 0.001


def big_values() -> list[Step]:
    """A held card of a megabyte and edits of it, six plain values of that size read and watched together."""
    worker = PlannedWorker(LEASE)
    first, second = (_padded(worker, edits) for edits in (0, 1))
    card = worker.card_key
    edit = plan.txn(
        [plan.compare(card, "MOD", plan.shown_mod(card))], [plan.put(card, second, LEASE)], [plan.read(card)]
    )
    last = plan.put("big/last", "x" * BIG)
    return [
        plan.grant(LEASE),
        plan.create(f"v1/event_channels/{worker.path}", "x", LEASE),
        plan.watch("big", "big/", prev_kv=True),
        plan.create(card, first, LEASE),
        *(plan.put(f"big/{number}", str(number) * BIG) for number in range(BIG_KEYS)),
        *(plan.read(card), edit, plan.read(card), edit, plan.create(card, first, LEASE)),
        plan.read_prefix("big/"),
        plan.put("big/0", "y" * BIG, prev_kv=True),
        plan.put("app/0", "x" * (BIG * 2)),
        plan.put(card, _padded(worker, 2, BIG * 2), LEASE),
        plan.put(card, first, LEASE, prev_kv=True),
        plan.txn([], [plan.read(card), plan.read_prefix("big/")]),
        last,
        *(plan.events("big", last), plan.unwatch("big")),
        *(plan.delete(card, prev_kv=True), plan.delete("big/", "big0", prev_kv=True), plan.of_lease("revoke", LEASE)),
    ]


def storms(seed: int) -> list[Step]:
    """A worker's calls and plain ones, with a deadline that none can keep or cancelled as they are made, in turn."""
    random, worker = Random(seed), PlannedWorker(LEASE)
    steps = [plan.grant(LEASE), plan.create(worker.card_key, worker.card(), LEASE)]
    for number in range(STORMS):
        worker.taints = number + 1
        kinds = [
            plan.read(worker.card_key),
            plan.put(worker.card_key, worker.card(), LEASE),
            plan.create(worker.lora_key("polite"), worker.lora_card("polite"), LEASE),
            plan.put("storm/0", "x" * 100_000),
            plan.read_prefix("storm/"),
            plan.delete(worker.lora_key("polite")),
        ]
        chosen = [random.choice(kinds) for _ in range(CALLS_OF_A_STORM)]
        timeout = None if number % 2 else SHORT_SECONDS
        steps.append({"do": "storm", "steps": chosen, "watches": 5, "timeout": timeout, "cancel": bool(number % 2)})
    return steps


def _padded(worker: PlannedWorker, edits: int, size: int = BIG) -> str:
    """Its card with a field of that many bytes."""
    worker.edits = edits
    value = json.loads(worker.card())
    value["card_json"]["padding"] = "x" * size
    return json.dumps(value, separators=(",", ":"))
