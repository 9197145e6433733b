"""Small fleets in trouble: who is there already, and who acts at once.

The rule: as small as the trouble allows. Every interleaving of the actors is looked at, and each one more doubles them.
"""

import json
from dataclasses import dataclass

from greenroom.core.keyspace import InstanceId, Key
from greenroom.core.policy import GatePolicy, Hold, Policy, Rule, gates_for_everything
from greenroom.core.selectors import Selector
from greenroom.core.transitions import Outcome
from tests.support.model_actors import (
    LATER,
    Proxy,
    create,
    delete,
    drop,
    edit,
    end_lease,
    hold_rollout,
    lift_rollout_hold,
    look,
    override,
    put,
    put_directly,
    reconcile,
    report,
    retry,
    withdraw,
)
from tests.support.model_explore import Actor, Call

L = InstanceId("7f")
CARD = Key(b"v1/mdc/ns/backend/generate/7f")
LORA = Key(CARD + b"/a-lora")
LORA_2 = Key(CARD + b"/another")
INSTANCE = Key(b"v1/instances/ns/backend/generate/7f")
KEYS = (CARD, LORA, LORA_2, INSTANCE)


def card(version: int = 1, *taints: str) -> bytes:
    return json.dumps({"card_json": {"made": version, "runtime_config": {"taints": taints}}}).encode()


def tainted(value: bytes) -> bytes:
    parsed = json.loads(value)
    parsed["card_json"]["runtime_config"]["taints"] = ["drained"]
    return json.dumps(parsed).encode()


def untainted(value: bytes) -> bytes:
    return value.replace(b'"taints": []', b'"taints": [ ]')


def remade(value: bytes) -> bytes:
    parsed = json.loads(value)
    parsed["card_json"]["made"] += 1
    return json.dumps(parsed).encode()


def _rule(hold: Hold, component: str = "backend") -> Policy:
    gates = {"smoke": GatePolicy(timeout_seconds=900)}
    return Policy(rules=(Rule(selector=Selector(component=component), hold=hold, gates=gates),))


ONE = Proxy(gates_for_everything({"smoke": 900}))
TWO = Proxy(gates_for_everything({"smoke": 900, "latency": 600}))
BLIND = Proxy(_rule(Hold.CARD, "another"))
"""A replica with another policy file, whose rules match nothing here."""
WHOLE = Proxy(_rule(Hold.CARD_AND_INSTANCE))
HEALTH = Proxy(_rule(Hold.HEALTH))

APART = Proxy(
    Policy(
        rules=(
            Rule(selector=Selector(model="tiny"), gates={"smoke": GatePolicy(timeout_seconds=900)}),
            Rule(
                selector=Selector(component="backend", model="another"),
                hold=Hold.CARD_AND_INSTANCE,
                gates={"latency": GatePolicy(timeout_seconds=600)},
            ),
        )
    )
)
"""One rule is about the card alone, the other about the instance record alone, which names no model."""
TINY = json.dumps({"card_json": {"display_name": "tiny", "made": 1, "runtime_config": {"taints": []}}}).encode()

CREATED = create(ONE, CARD, card())
LORA_CREATED = create(ONE, LORA, card(5))
SMOKE = report(L, "smoke")
LATENCY = report(L, "latency")
SMOKE_FAILS = report(L, "smoke", Outcome.FAILED)
LATENCY_FAILS = report(L, "latency", Outcome.FAILED)


@dataclass(frozen=True)
class Scenario:
    """`before` happens one after the other, then all `actors` act at once."""

    before: tuple[Call, ...]
    actors: tuple[Actor, ...]


def _scenario(*before: Call, actors: dict[str, tuple[Call, ...]], mortal: tuple[str, ...] = ()) -> Scenario:
    return Scenario(before, tuple(Actor(name, calls, name in mortal) for name, calls in actors.items()))


_RELEASED = (CREATED, SMOKE)
_BOTH_RELEASED = (CREATED, LORA_CREATED, SMOKE)

SCENARIOS: dict[str, Scenario] = {
    "two proxies register cards of one worker at once": _scenario(
        actors={"one": (CREATED,), "two": (LORA_CREATED,), "reporter": (SMOKE, SMOKE)},
    ),
    "two proxies register the same card at once": _scenario(
        actors={"one": (CREATED,), "two": (create(ONE, CARD, card(2)),), "reporter": (SMOKE,)},
    ),
    "two gates pass at once": _scenario(
        create(TWO, CARD, card()),
        actors={"smoke": (SMOKE,), "latency": (LATENCY,), "one": (reconcile(L),), "two": (reconcile(L),)},
    ),
    "one gate fails while the other passes": _scenario(
        create(TWO, CARD, card()),
        LATENCY,
        actors={"smoke": (SMOKE,), "again": (SMOKE_FAILS,), "operator": (retry(L),), "worker": (look(TWO, CARD),)},
    ),
    "a verdict on one gate while the other fails": _scenario(
        create(TWO, CARD, card()),
        actors={"smoke": (SMOKE,), "latency": (LATENCY_FAILS,), "operator": (retry(L),)},
    ),
    "a card registers while it passes": _scenario(
        CREATED,
        actors={"worker": (LORA_CREATED,), "reporter": (SMOKE, SMOKE), "owner": (look(ONE, LORA),)},
    ),
    "taints change while it passes": _scenario(
        CREATED,
        actors={"worker": (edit(ONE, CARD, tainted), look(ONE, CARD)), "reporter": (SMOKE,), "one": (reconcile(L),)},
    ),
    "a card changes while it passes": _scenario(
        CREATED,
        actors={"worker": (edit(ONE, CARD, remade),), "reporter": (SMOKE, SMOKE), "another": (SMOKE,)},
    ),
    "a card changes while it fails": _scenario(
        CREATED,
        actors={"worker": (edit(ONE, CARD, remade),), "reporter": (SMOKE_FAILS,), "another": (SMOKE,)},
    ),
    "two edits of a held card at once": _scenario(
        CREATED,
        actors={"one": (edit(ONE, CARD, tainted),), "two": (edit(ONE, CARD, remade),), "reporter": (SMOKE,)},
    ),
    "two edits of a held card's taints at once": _scenario(
        CREATED,
        actors={"one": (edit(ONE, CARD, tainted),), "two": (edit(ONE, CARD, untainted),), "reporter": (SMOKE,)},
    ),
    "two edits of a public card at once": _scenario(
        *_RELEASED,
        actors={"one": (edit(ONE, CARD, tainted),), "two": (edit(ONE, CARD, remade),)},
    ),
    "two edits of a card that no rule matches": _scenario(
        create(BLIND, CARD, card()),
        actors={"one": (edit(BLIND, CARD, tainted),), "two": (edit(BLIND, CARD, remade),)},
    ),
    "taints and more change at once": _scenario(
        CREATED,
        actors={"one": (put(ONE, CARD, card(1, "t")),), "two": (put(ONE, CARD, card(2)),), "reporter": (SMOKE, SMOKE)},
    ),
    "a card is deleted while it passes": _scenario(
        CREATED,
        LORA_CREATED,
        actors={"worker": (delete(ONE, CARD),), "reporter": (SMOKE,), "owner": (look(ONE, CARD),)},
    ),
    "a card is deleted while its taints change": _scenario(
        CREATED,
        LORA_CREATED,
        actors={"one": (delete(ONE, CARD),), "two": (put(ONE, CARD, card(1, "t")),), "reporter": (SMOKE,)},
    ),
    "a card is deleted while it changes": _scenario(
        CREATED,
        LORA_CREATED,
        actors={"one": (delete(ONE, CARD),), "two": (put(ONE, CARD, card(2)),), "reporter": (SMOKE,)},
    ),
    "a card unregisters and registers again while it passes": _scenario(
        CREATED,
        LORA_CREATED,
        actors={"worker": (delete(ONE, CARD), create(ONE, CARD, card(2))), "reporter": (SMOKE, SMOKE)},
    ),
    "a verdict comes twice, and a card between": _scenario(
        CREATED,
        actors={
            "worker": (delete(ONE, CARD), create(ONE, CARD, card(2))),
            "reporter": (report(L, "smoke", said_again=True), SMOKE),
        },
    ),
    "a rollout hold comes while it passes": _scenario(
        CREATED,
        actors={"operator": (hold_rollout(), lift_rollout_hold()), "reporter": (SMOKE,), "one": (reconcile(L),)},
    ),
    "a rollout hold is lifted and made again": _scenario(
        CREATED,
        hold_rollout(),
        SMOKE,
        actors={"operator": (lift_rollout_hold(), hold_rollout()), "one": (reconcile(L),), "two": (reconcile(L),)},
    ),
    "an override under a rollout hold": _scenario(
        create(TWO, CARD, card()),
        SMOKE_FAILS,
        actors={"operator": (override(L),), "another": (hold_rollout(), lift_rollout_hold()), "one": (reconcile(L),)},
    ),
    "the lease ends while it passes": _scenario(
        CREATED,
        actors={
            "etcd": (end_lease(L),),
            "worker": (edit(ONE, CARD, tainted), LORA_CREATED),
            "reporter": (SMOKE,),
        },
    ),
    "proxies die": _scenario(
        actors={"one": (CREATED,), "two": (CREATED, LORA_CREATED), "reporter": (SMOKE, SMOKE)},
        mortal=("one", "reporter"),
    ),
    "a deadline passes as its gate does": _scenario(
        CREATED,
        actors={"one": (reconcile(L, LATER),), "reporter": (SMOKE,), "operator": (retry(L),), "another": (SMOKE,)},
    ),
    "a card registers while its deadline passes": _scenario(
        CREATED,
        actors={"one": (reconcile(L, LATER),), "worker": (LORA_CREATED,), "reporter": (SMOKE,)},
    ),
    "a release while it is dropped": _scenario(
        CREATED,
        actors={"operator": (drop(L),), "reporter": (SMOKE,), "worker": (look(ONE, CARD),)},
    ),
    "a card registers again while it is dropped": _scenario(
        CREATED,
        actors={
            "operator": (drop(L),),
            "worker": (put(ONE, CARD, card(2)), delete(ONE, CARD), create(ONE, CARD, card(3))),
            "reporter": (SMOKE,),
        },
    ),
    "edited and deleted while released": _scenario(
        *_RELEASED,
        actors={"one": (delete(ONE, CARD),), "two": (put(ONE, CARD, card(2)),), "owner": (look(ONE, CARD),)},
    ),
    "a card registers while a failed gate is retried": _scenario(
        CREATED,
        SMOKE_FAILS,
        actors={"operator": (retry(L),), "worker": (LORA_CREATED,), "reporter": (SMOKE,)},
    ),
    "a card registers while it is overridden under a rollout hold": _scenario(
        CREATED,
        hold_rollout(),
        actors={"operator": (override(L), lift_rollout_hold()), "worker": (LORA_CREATED,), "reporter": (SMOKE,)},
    ),
    "a card of an unknown worker is deleted while it registers": _scenario(
        actors={"one": (delete(ONE, CARD),), "two": (CREATED,), "reporter": (SMOKE,)},
    ),
    "a card that is not there is deleted while it registers": _scenario(
        CREATED,
        actors={"one": (delete(ONE, LORA),), "two": (LORA_CREATED,), "reporter": (SMOKE,)},
    ),
    "written while withdrawn": _scenario(
        *_BOTH_RELEASED,
        actors={"operator": (withdraw(L),), "worker": (put(ONE, CARD, card(2)), look(ONE, CARD)), "again": (retry(L),)},
    ),
    "edited while withdrawn": _scenario(
        *_BOTH_RELEASED,
        actors={
            "operator": (withdraw(L),),
            "worker": (edit(ONE, CARD, tainted), look(ONE, CARD)),
            "again": (retry(L),),
        },
    ),
    "deleted while withdrawn": _scenario(
        *_BOTH_RELEASED,
        actors={
            "operator": (withdraw(L, by_person=False),),
            "worker": (delete(ONE, CARD),),
            "reporter": (SMOKE,),
        },
    ),
    "a LoRA card registers while withdrawn": _scenario(
        *_RELEASED,
        actors={"operator": (withdraw(L),), "worker": (LORA_CREATED, look(ONE, LORA)), "reporter": (SMOKE,)},
    ),
    "withdrawn, and passed again": _scenario(
        CREATED,
        LORA_CREATED,
        actors={
            "reporter": (report(L, "smoke", said_again=True), SMOKE),
            "operator": (withdraw(L, by_person=False), withdraw(L)),
            "another": (SMOKE,),
        },
    ),
    "a live worker is put behind two proxies": _scenario(
        put_directly(ONE, CARD, card()),
        actors={
            "one": (edit(ONE, CARD, tainted),),
            "two": (create(ONE, LORA, card(5)),),
            "operator": (withdraw(L),),
            "reporter": (SMOKE,),
        },
    ),
    "a live worker unregisters behind two proxies": _scenario(
        put_directly(ONE, CARD, card()),
        actors={"one": (delete(ONE, CARD),), "two": (create(ONE, LORA, card(5)),), "reporter": (SMOKE,)},
    ),
    "a worker registers with etcd itself and through the proxy": _scenario(
        actors={"direct": (put_directly(ONE, CARD, card()),), "one": (CREATED,), "reporter": (SMOKE,)},
    ),
    "a card comes past the proxy while it registers": _scenario(
        CREATED,
        actors={"direct": (put_directly(ONE, LORA, card(6)),), "one": (LORA_CREATED,), "reporter": (SMOKE,)},
    ),
    "a live worker writes past the proxy while it is taken on": _scenario(
        put_directly(ONE, CARD, card()),
        actors={
            "direct": (put_directly(ONE, CARD, card(3)),),
            "one": (LORA_CREATED,),
            "reporter": (SMOKE,),
            "operator": (withdraw(L),),
        },
    ),
    "a live worker unregisters while it is taken on": _scenario(
        put_directly(ONE, CARD, card()),
        actors={"blind": (delete(BLIND, CARD),), "one": (LORA_CREATED,), "reporter": (SMOKE,)},
    ),
    "two replicas with different policies": _scenario(
        actors={
            "one": (CREATED,),
            "blind": (create(BLIND, LORA, card(5)), put(BLIND, LORA, card(6))),
            "reporter": (SMOKE,),
        },
    ),
    "an instance record that was public before": _scenario(
        put_directly(WHOLE, INSTANCE, b"{}"),
        create(WHOLE, CARD, card()),
        actors={
            "one": (put(WHOLE, INSTANCE, b'{"new":1}'),),
            "two": (delete(WHOLE, INSTANCE),),
            "reporter": (SMOKE,),
        },
    ),
    "a card and its instance record": _scenario(
        actors={
            "one": (create(WHOLE, INSTANCE, b"{}"),),
            "two": (create(WHOLE, CARD, card()),),
            "reporter": (SMOKE,),
        },
    ),
    "a card and its instance record are withdrawn": _scenario(
        actors={
            "one": (create(WHOLE, INSTANCE, b"{}"), delete(WHOLE, INSTANCE)),
            "two": (create(WHOLE, CARD, card()),),
            "reporter": (SMOKE,),
            "operator": (withdraw(L),),
        },
    ),
    "an instance record brings a gate of its own": _scenario(
        actors={
            "one": (create(APART, CARD, TINY), edit(APART, CARD, remade)),
            "two": (create(APART, INSTANCE, b"{}"),),
            "smoke": (SMOKE, SMOKE),
            "latency": (LATENCY,),
        },
    ),
    "an instance record with a gate of its own registers while withdrawn": _scenario(
        create(APART, CARD, TINY),
        SMOKE,
        actors={
            "one": (create(APART, INSTANCE, b"{}"), delete(APART, INSTANCE)),
            "operator": (withdraw(L, by_person=False),),
            "smoke": (SMOKE,),
            "latency": (LATENCY,),
        },
    ),
    "a card registers while an instance that held nothing back is withdrawn": _scenario(
        create(HEALTH, CARD, card()),
        SMOKE,
        actors={
            "operator": (withdraw(L),),
            "worker": (create(HEALTH, LORA, card(5)), look(HEALTH, LORA)),
            "again": (retry(L),),
            "reporter": (SMOKE,),
        },
    ),
    "everything at once": _scenario(
        CREATED,
        actors={
            "one": (LORA_CREATED,),
            "two": (delete(ONE, CARD),),
            "reporter": (SMOKE,),
            "operator": (hold_rollout(),),
            "etcd": (end_lease(L),),
        },
    ),
    "only the health answer waits": _scenario(
        actors={
            "one": (create(HEALTH, CARD, card()), edit(HEALTH, CARD, remade)),
            "two": (create(HEALTH, LORA, card(5)),),
            "reporter": (SMOKE,),
        },
    ),
}
