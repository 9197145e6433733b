"""Scenarios of released instances that register more: what their gates have not seen is held by itself.

The rule: as for the others, as small as the trouble allows.
"""

from greenroom.core.transitions import Outcome
from tests.support.model_actors import (
    LATER,
    drop,
    hold_rollout,
    lift_rollout_hold,
    override,
    reconcile,
    report,
    retry,
    withdraw,
)
from tests.support.model_fleet import (
    APART,
    BLIND,
    CARD,
    INSTANCE,
    LORA,
    MODEL,
    ONE,
    TINY,
    TWO,
    L,
    card,
    remade,
    tainted,
    untainted,
)
from tests.support.model_scenario import (
    LATENCY,
    LORA_CREATED,
    RELEASED,
    SMOKE,
    SMOKE_FAILS,
    Scenario,
    scenario,
)
from tests.support.model_workers import (
    create,
    create_txn,
    delete,
    delete_txn,
    edit,
    end_lease,
    from_memory,
    look,
    put,
    put_directly,
    put_txn,
)

MODEL_CREATED = create(ONE, MODEL, card(7))
BROUGHT = create(TWO, LORA, card(5))
"""A LoRA card that brings a gate which its instance has not."""

LATER_CARDS: dict[str, Scenario] = {
    "another model registers while a gate that it waits for passes": scenario(
        *RELEASED,
        actors={
            "worker": (MODEL_CREATED, look(ONE, MODEL)),
            "reporter": (SMOKE, SMOKE),
            "one": (reconcile(L),),
        },
    ),
    "another model and a card with another gate register at two proxies": scenario(
        *RELEASED,
        actors={"one": (MODEL_CREATED,), "two": (BROUGHT,), "smoke": (SMOKE, SMOKE), "latency": (LATENCY,)},
    ),
    "another model registers while withdrawn": scenario(
        *RELEASED,
        actors={
            "operator": (withdraw(L, by_person=False),),
            "worker": (MODEL_CREATED, look(ONE, MODEL)),
            "reporter": (SMOKE, SMOKE),
        },
    ),
    "another model is public past the proxy while it registers": scenario(
        *RELEASED,
        actors={"direct": (put_directly(ONE, MODEL, card(8)),), "one": (MODEL_CREATED,), "reporter": (SMOKE,)},
    ),
    "a later card is withdrawn with what is public": scenario(
        *RELEASED,
        MODEL_CREATED,
        actors={
            "operator": (withdraw(L, by_person=False),),
            "worker": (edit(ONE, CARD, tainted), look(ONE, MODEL)),
            "reporter": (SMOKE, SMOKE),
        },
    ),
    "a later card changes while it is withdrawn": scenario(
        *RELEASED,
        MODEL_CREATED,
        actors={
            "operator": (withdraw(L, by_person=False),),
            "worker": (put(ONE, MODEL, card(9)), look(ONE, MODEL)),
            "reporter": (SMOKE,),
        },
    ),
    "a later card's taints change while it passes": scenario(
        *RELEASED,
        MODEL_CREATED,
        actors={"worker": (edit(ONE, MODEL, tainted), look(ONE, MODEL)), "reporter": (SMOKE,), "one": (reconcile(L),)},
    ),
    "a later card changes while it passes": scenario(
        *RELEASED,
        MODEL_CREATED,
        actors={"worker": (edit(ONE, MODEL, remade),), "reporter": (SMOKE, SMOKE), "another": (SMOKE,)},
    ),
    "a later card changes while it fails": scenario(
        *RELEASED,
        MODEL_CREATED,
        actors={"worker": (put(ONE, MODEL, card(9)),), "reporter": (SMOKE_FAILS,), "another": (SMOKE,)},
    ),
    "two edits of a later card at once": scenario(
        *RELEASED,
        MODEL_CREATED,
        actors={"one": (edit(ONE, MODEL, tainted),), "two": (edit(ONE, MODEL, remade),), "reporter": (SMOKE,)},
    ),
    "two edits of a later card's taints at once": scenario(
        *RELEASED,
        MODEL_CREATED,
        actors={"one": (edit(ONE, MODEL, tainted),), "two": (edit(ONE, MODEL, untainted),), "reporter": (SMOKE,)},
    ),
    "a later card's taints and more change at once": scenario(
        *RELEASED,
        MODEL_CREATED,
        actors={
            "one": (put(ONE, MODEL, card(7, "t")),),
            "two": (put(ONE, MODEL, card(2)),),
            "reporter": (SMOKE, SMOKE),
        },
    ),
    "a later card is deleted while it passes": scenario(
        *RELEASED,
        MODEL_CREATED,
        LORA_CREATED,
        actors={"worker": (delete(ONE, MODEL),), "reporter": (SMOKE,), "owner": (look(ONE, MODEL),)},
    ),
    "a later card is deleted while its taints change": scenario(
        *RELEASED,
        MODEL_CREATED,
        LORA_CREATED,
        actors={"one": (delete(ONE, MODEL),), "two": (put(ONE, MODEL, card(7, "t")),), "reporter": (SMOKE,)},
    ),
    "a later card is deleted while it changes": scenario(
        *RELEASED,
        MODEL_CREATED,
        LORA_CREATED,
        actors={"one": (delete(ONE, MODEL),), "two": (put(ONE, MODEL, card(2)),), "reporter": (SMOKE,)},
    ),
    "a later card unregisters and registers again while it passes": scenario(
        *RELEASED,
        MODEL_CREATED,
        actors={"worker": (delete(ONE, MODEL), create(ONE, MODEL, card(2))), "reporter": (SMOKE, SMOKE)},
    ),
    "a later card fails and goes, and another with another gate passes": scenario(
        *RELEASED,
        MODEL_CREATED,
        BROUGHT,
        actors={
            "smoke": (SMOKE_FAILS,),
            "latency": (LATENCY,),
            "worker": (delete(ONE, MODEL),),
            "one": (reconcile(L),),
        },
    ),
    "a later card fails and is retried": scenario(
        *RELEASED,
        MODEL_CREATED,
        actors={"reporter": (SMOKE_FAILS, SMOKE), "operator": (retry(L),), "worker": (LORA_CREATED,)},
    ),
    "a verdict on one gate of a later card while the other fails": scenario(
        *RELEASED,
        create(TWO, MODEL, card(7)),
        actors={"smoke": (SMOKE,), "latency": (report(L, "latency", Outcome.FAILED),), "operator": (retry(L),)},
    ),
    "a later card's deadline passes as its gate does": scenario(
        *RELEASED,
        MODEL_CREATED,
        actors={"one": (reconcile(L, LATER),), "reporter": (SMOKE,), "operator": (retry(L),), "another": (SMOKE,)},
    ),
    "a rollout hold comes while a later card passes": scenario(
        *RELEASED,
        MODEL_CREATED,
        actors={"operator": (hold_rollout(), lift_rollout_hold()), "reporter": (SMOKE,), "one": (reconcile(L),)},
    ),
    "a card registers while a later one is overridden under a rollout hold": scenario(
        *RELEASED,
        MODEL_CREATED,
        hold_rollout(),
        actors={"operator": (override(L), lift_rollout_hold()), "worker": (LORA_CREATED,), "reporter": (SMOKE,)},
    ),
    "a later card is dropped while it passes": scenario(
        *RELEASED,
        MODEL_CREATED,
        actors={"operator": (drop(L),), "reporter": (SMOKE,), "worker": (look(ONE, MODEL), LORA_CREATED)},
    ),
    "a released card goes and comes back as a later one": scenario(
        *RELEASED,
        actors={"one": (delete(ONE, CARD), create(ONE, CARD, card(2))), "two": (look(ONE, CARD),), "smoke": (SMOKE,)},
    ),
    "a live worker registers another model behind two proxies": scenario(
        put_directly(ONE, CARD, card()),
        actors={"one": (MODEL_CREATED,), "two": (edit(ONE, CARD, tainted),), "reporter": (SMOKE,)},
    ),
    "a later card is changed by a replica without its rule while it passes": scenario(
        *RELEASED,
        MODEL_CREATED,
        actors={"blind": (put(BLIND, MODEL, card(9)),), "reporter": (SMOKE, SMOKE), "one": (reconcile(L),)},
    ),
    "an instance record with a gate of its own registers when its card is public": scenario(
        create(APART, CARD, TINY),
        SMOKE,
        actors={
            "one": (create(APART, INSTANCE, b"{}"), delete(APART, INSTANCE)),
            "latency": (LATENCY,),
            "operator": (withdraw(L, by_person=False),),
        },
    ),
    "the lease ends while a later card passes": scenario(
        *RELEASED,
        MODEL_CREATED,
        actors={"etcd": (end_lease(L),), "worker": (LORA_CREATED,), "reporter": (SMOKE,)},
    ),
    "a later card is edited from memory while it is deleted": scenario(
        *RELEASED,
        MODEL_CREATED,
        LORA_CREATED,
        actors={
            "one": (from_memory(ONE, put_txn(ONE, MODEL, card(7, "t"))),),
            "two": (delete(ONE, MODEL),),
            "reporter": (SMOKE,),
        },
    ),
    "a later card is changed from memory while it passes or fails": scenario(
        *RELEASED,
        MODEL_CREATED,
        actors={
            "one": (from_memory(ONE, put_txn(ONE, MODEL, card(9))),),
            "reporter": (SMOKE_FAILS, SMOKE),
            "another": (SMOKE,),
        },
    ),
    "a later card is changed from memory while it is deleted": scenario(
        *RELEASED,
        MODEL_CREATED,
        LORA_CREATED,
        actors={
            "one": (from_memory(ONE, put_txn(ONE, MODEL, card(9))),),
            "two": (delete(ONE, MODEL), create(ONE, MODEL, card(3))),
            "reporter": (SMOKE,),
        },
    ),
    "a later card is deleted from memory while it is written": scenario(
        *RELEASED,
        MODEL_CREATED,
        actors={
            "one": (from_memory(ONE, delete_txn(MODEL)),),
            "two": (put(ONE, MODEL, card(9)),),
            "reporter": (SMOKE,),
        },
    ),
    "a later card is created and deleted from memory while withdrawn": scenario(
        *RELEASED,
        actors={
            "one": (from_memory(ONE, create_txn(ONE, MODEL, card(7)), over=None),),
            "two": (from_memory(ONE, delete_txn(MODEL)),),
            "operator": (withdraw(L, by_person=False),),
            "reporter": (SMOKE, SMOKE),
        },
    ),
}
