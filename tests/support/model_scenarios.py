"""Small fleets in trouble: who is there already, and who acts at once.

The rule: as small as the trouble allows. Every interleaving of the actors is looked at, and each one more doubles them.
"""

from tests.support.model_actors import (
    LATER,
    drop,
    hold_rollout,
    lift_rollout_hold,
    override,
    reconcile,
    reject,
    report,
    retry,
    withdraw,
)
from tests.support.model_branches import BRANCHES
from tests.support.model_fleet import (
    APART,
    BLIND,
    CARD,
    HEALTH,
    INSTANCE,
    LORA,
    ONE,
    PROBED,
    TINY,
    TWO,
    WHOLE,
    L,
    card,
    remade,
    tainted,
    untainted,
)
from tests.support.model_later import LATER_CARDS
from tests.support.model_scenario import (
    BOTH_RELEASED,
    CREATED,
    LATENCY,
    LATENCY_FAILS,
    LORA_CREATED,
    RELEASED,
    SMOKE,
    SMOKE_FAILS,
    Scenario,
    scenario,
)
from tests.support.model_workers import (
    create,
    delete,
    edit,
    end_lease,
    look,
    put,
    put_directly,
)

SCENARIOS: dict[str, Scenario] = {
    **BRANCHES,
    **LATER_CARDS,
    "two proxies register cards of one worker at once": scenario(
        actors={"one": (CREATED,), "two": (LORA_CREATED,), "reporter": (SMOKE, SMOKE)},
    ),
    "two proxies register the same card at once": scenario(
        actors={"one": (CREATED,), "two": (create(ONE, CARD, card(2)),), "reporter": (SMOKE,)},
    ),
    "two gates pass at once": scenario(
        create(TWO, CARD, card()),
        actors={"smoke": (SMOKE,), "latency": (LATENCY,), "one": (reconcile(L),), "two": (reconcile(L),)},
    ),
    "one gate fails while the other passes": scenario(
        create(TWO, CARD, card()),
        LATENCY,
        actors={"smoke": (SMOKE,), "again": (SMOKE_FAILS,), "operator": (retry(L),), "worker": (look(TWO, CARD),)},
    ),
    "a verdict on one gate while the other fails": scenario(
        create(TWO, CARD, card()),
        actors={"smoke": (SMOKE,), "latency": (LATENCY_FAILS,), "operator": (retry(L),)},
    ),
    "a card registers while it passes": scenario(
        CREATED,
        actors={"worker": (LORA_CREATED,), "reporter": (SMOKE, SMOKE), "owner": (look(ONE, LORA),)},
    ),
    "taints change while it passes": scenario(
        CREATED,
        actors={"worker": (edit(ONE, CARD, tainted), look(ONE, CARD)), "reporter": (SMOKE,), "one": (reconcile(L),)},
    ),
    "a card changes while it passes": scenario(
        CREATED,
        actors={"worker": (edit(ONE, CARD, remade),), "reporter": (SMOKE, SMOKE), "another": (SMOKE,)},
    ),
    "a card changes while it fails": scenario(
        CREATED,
        actors={"worker": (edit(ONE, CARD, remade),), "reporter": (SMOKE_FAILS,), "another": (SMOKE,)},
    ),
    "two edits of a held card at once": scenario(
        CREATED,
        actors={"one": (edit(ONE, CARD, tainted),), "two": (edit(ONE, CARD, remade),), "reporter": (SMOKE,)},
    ),
    "two edits of a held card's taints at once": scenario(
        CREATED,
        actors={"one": (edit(ONE, CARD, tainted),), "two": (edit(ONE, CARD, untainted),), "reporter": (SMOKE,)},
    ),
    "two edits of a public card at once": scenario(
        *RELEASED,
        actors={"one": (edit(ONE, CARD, tainted),), "two": (edit(ONE, CARD, remade),)},
    ),
    "two edits of a card that no rule matches": scenario(
        create(BLIND, CARD, card()),
        actors={"one": (edit(BLIND, CARD, tainted),), "two": (edit(BLIND, CARD, remade),)},
    ),
    "taints and more change at once": scenario(
        CREATED,
        actors={"one": (put(ONE, CARD, card(1, "t")),), "two": (put(ONE, CARD, card(2)),), "reporter": (SMOKE, SMOKE)},
    ),
    "a card is deleted while it passes": scenario(
        CREATED,
        LORA_CREATED,
        actors={"worker": (delete(ONE, CARD),), "reporter": (SMOKE,), "owner": (look(ONE, CARD),)},
    ),
    "a card is deleted while its taints change": scenario(
        CREATED,
        LORA_CREATED,
        actors={"one": (delete(ONE, CARD),), "two": (put(ONE, CARD, card(1, "t")),), "reporter": (SMOKE,)},
    ),
    "a card is deleted while it changes": scenario(
        CREATED,
        LORA_CREATED,
        actors={"one": (delete(ONE, CARD),), "two": (put(ONE, CARD, card(2)),), "reporter": (SMOKE,)},
    ),
    "a card unregisters and registers again while it passes": scenario(
        CREATED,
        LORA_CREATED,
        actors={"worker": (delete(ONE, CARD), create(ONE, CARD, card(2))), "reporter": (SMOKE, SMOKE)},
    ),
    "a verdict comes twice, and a card between": scenario(
        CREATED,
        actors={
            "worker": (delete(ONE, CARD), create(ONE, CARD, card(2))),
            "reporter": (report(L, "smoke", said_again=True), SMOKE),
        },
    ),
    "a rollout hold comes while it passes": scenario(
        CREATED,
        actors={"operator": (hold_rollout(), lift_rollout_hold()), "reporter": (SMOKE,), "one": (reconcile(L),)},
    ),
    "a rollout hold is lifted and made again": scenario(
        CREATED,
        hold_rollout(),
        SMOKE,
        actors={"operator": (lift_rollout_hold(), hold_rollout()), "one": (reconcile(L),), "two": (reconcile(L),)},
    ),
    "an override under a rollout hold": scenario(
        create(TWO, CARD, card()),
        SMOKE_FAILS,
        actors={"operator": (override(L),), "another": (hold_rollout(), lift_rollout_hold()), "one": (reconcile(L),)},
    ),
    "the lease ends while it passes": scenario(
        CREATED,
        actors={
            "etcd": (end_lease(L),),
            "worker": (edit(ONE, CARD, tainted), LORA_CREATED),
            "reporter": (SMOKE,),
        },
    ),
    "proxies die": scenario(
        actors={"one": (CREATED,), "two": (CREATED, LORA_CREATED), "reporter": (SMOKE, SMOKE)},
        mortal=("one", "reporter"),
    ),
    "a deadline passes as its gate does": scenario(
        CREATED,
        actors={"one": (reconcile(L, LATER),), "reporter": (SMOKE,), "operator": (retry(L),), "another": (SMOKE,)},
    ),
    "a card registers while its deadline passes": scenario(
        CREATED,
        actors={"one": (reconcile(L, LATER),), "worker": (LORA_CREATED,), "reporter": (SMOKE,)},
    ),
    "a release while it is dropped": scenario(
        CREATED,
        actors={"operator": (drop(L),), "reporter": (SMOKE,), "worker": (look(ONE, CARD),)},
    ),
    "a card registers again while it is dropped": scenario(
        CREATED,
        actors={
            "operator": (drop(L),),
            "worker": (put(ONE, CARD, card(2)), delete(ONE, CARD), create(ONE, CARD, card(3))),
            "reporter": (SMOKE,),
        },
    ),
    "edited and deleted while released": scenario(
        *RELEASED,
        actors={"one": (delete(ONE, CARD),), "two": (put(ONE, CARD, card(2)),), "owner": (look(ONE, CARD),)},
    ),
    "a card registers while a failed gate is retried": scenario(
        CREATED,
        SMOKE_FAILS,
        actors={"operator": (retry(L),), "worker": (LORA_CREATED,), "reporter": (SMOKE,)},
    ),
    "a card registers while it is overridden under a rollout hold": scenario(
        CREATED,
        hold_rollout(),
        actors={"operator": (override(L), lift_rollout_hold()), "worker": (LORA_CREATED,), "reporter": (SMOKE,)},
    ),
    "a person rejects it while it passes, and somebody brings it back": scenario(
        CREATED,
        actors={"operator": (reject(L),), "another": (retry(L),), "reporter": (SMOKE, SMOKE), "one": (reconcile(L),)},
    ),
    "a card registers while a person rejects it": scenario(
        CREATED,
        actors={"operator": (reject(L), override(L)), "worker": (LORA_CREATED,), "reporter": (SMOKE,)},
    ),
    "withdrawn, rejected by a person, and passed again": scenario(
        *BOTH_RELEASED,
        actors={
            "operator": (withdraw(L, by_person=False), reject(L)),
            "worker": (edit(ONE, CARD, tainted), look(ONE, CARD)),
            "reporter": (SMOKE,),
            "another": (retry(L),),
        },
    ),
    "a card of an unknown worker is deleted while it registers": scenario(
        actors={"one": (delete(ONE, CARD),), "two": (CREATED,), "reporter": (SMOKE,)},
    ),
    "a card that is not there is deleted while it registers": scenario(
        CREATED,
        actors={"one": (delete(ONE, LORA),), "two": (LORA_CREATED,), "reporter": (SMOKE,)},
    ),
    "written while withdrawn": scenario(
        *BOTH_RELEASED,
        actors={"operator": (withdraw(L),), "worker": (put(ONE, CARD, card(2)), look(ONE, CARD)), "again": (retry(L),)},
    ),
    "edited while withdrawn": scenario(
        *BOTH_RELEASED,
        actors={
            "operator": (withdraw(L),),
            "worker": (edit(ONE, CARD, tainted), look(ONE, CARD)),
            "again": (retry(L),),
        },
    ),
    "deleted while withdrawn": scenario(
        *BOTH_RELEASED,
        actors={
            "operator": (withdraw(L, by_person=False),),
            "worker": (delete(ONE, CARD),),
            "reporter": (SMOKE,),
        },
    ),
    "a LoRA card registers while withdrawn": scenario(
        *RELEASED,
        actors={"operator": (withdraw(L),), "worker": (LORA_CREATED, look(ONE, LORA)), "reporter": (SMOKE,)},
    ),
    "withdrawn, and passed again": scenario(
        CREATED,
        LORA_CREATED,
        actors={
            "reporter": (report(L, "smoke", said_again=True), SMOKE),
            "operator": (withdraw(L, by_person=False), withdraw(L)),
            "another": (SMOKE,),
        },
    ),
    "a live worker is put behind two proxies": scenario(
        put_directly(ONE, CARD, card()),
        actors={
            "one": (edit(ONE, CARD, tainted),),
            "two": (create(ONE, LORA, card(5)),),
            "operator": (withdraw(L),),
            "reporter": (SMOKE,),
        },
    ),
    "a live worker unregisters behind two proxies": scenario(
        put_directly(ONE, CARD, card()),
        actors={"one": (delete(ONE, CARD),), "two": (create(ONE, LORA, card(5)),), "reporter": (SMOKE,)},
    ),
    "a worker registers with etcd itself and through the proxy": scenario(
        actors={"direct": (put_directly(ONE, CARD, card()),), "one": (CREATED,), "reporter": (SMOKE,)},
    ),
    "a card comes past the proxy while it registers": scenario(
        CREATED,
        actors={"direct": (put_directly(ONE, LORA, card(6)),), "one": (LORA_CREATED,), "reporter": (SMOKE,)},
    ),
    "a live worker writes past the proxy while it is taken on": scenario(
        put_directly(ONE, CARD, card()),
        actors={
            "direct": (put_directly(ONE, CARD, card(3)),),
            "one": (LORA_CREATED,),
            "reporter": (SMOKE,),
            "operator": (withdraw(L),),
        },
    ),
    "a live worker unregisters while it is taken on": scenario(
        put_directly(ONE, CARD, card()),
        actors={"blind": (delete(BLIND, CARD),), "one": (LORA_CREATED,), "reporter": (SMOKE,)},
    ),
    "two replicas with different policies": scenario(
        actors={
            "one": (CREATED,),
            "blind": (create(BLIND, LORA, card(5)), put(BLIND, LORA, card(6))),
            "reporter": (SMOKE,),
        },
    ),
    "a card that another replica has no rule for is deleted while it registers": scenario(
        actors={"one": (delete(ONE, CARD),), "blind": (create(BLIND, CARD, card()),), "reporter": (SMOKE,)},
    ),
    "an instance record that was public before": scenario(
        put_directly(WHOLE, INSTANCE, b"{}"),
        create(WHOLE, CARD, card()),
        actors={
            "one": (put(WHOLE, INSTANCE, b'{"new":1}'),),
            "two": (delete(WHOLE, INSTANCE),),
            "reporter": (SMOKE,),
        },
    ),
    "a card and its instance record": scenario(
        actors={
            "one": (create(WHOLE, INSTANCE, b"{}"),),
            "two": (create(WHOLE, CARD, card()),),
            "reporter": (SMOKE,),
        },
    ),
    "a card and its instance record are withdrawn": scenario(
        actors={
            "one": (create(WHOLE, INSTANCE, b"{}"), delete(WHOLE, INSTANCE)),
            "two": (create(WHOLE, CARD, card()),),
            "reporter": (SMOKE,),
            "operator": (withdraw(L),),
        },
    ),
    "an instance record brings a gate of its own": scenario(
        actors={
            "one": (create(APART, CARD, TINY), edit(APART, CARD, remade)),
            "two": (create(APART, INSTANCE, b"{}"),),
            "smoke": (SMOKE, SMOKE),
            "latency": (LATENCY,),
        },
    ),
    "an instance record with a gate of its own registers while withdrawn": scenario(
        create(APART, CARD, TINY),
        SMOKE,
        actors={
            "one": (create(APART, INSTANCE, b"{}"), delete(APART, INSTANCE)),
            "operator": (withdraw(L, by_person=False),),
            "smoke": (SMOKE,),
            "latency": (LATENCY,),
        },
    ),
    "a card registers while an instance that held nothing back is withdrawn": scenario(
        create(HEALTH, CARD, card()),
        SMOKE,
        actors={
            "operator": (withdraw(L),),
            "worker": (create(HEALTH, LORA, card(5)), look(HEALTH, LORA)),
            "again": (retry(L),),
            "reporter": (SMOKE,),
        },
    ),
    "a continuous gate fails while its card is written": scenario(
        create(PROBED, CARD, card()),
        LATENCY,
        SMOKE,
        actors={
            "probe": (SMOKE_FAILS,),
            "worker": (put(PROBED, CARD, card(2)), look(PROBED, CARD)),
            "again": (SMOKE, LATENCY),
        },
    ),
    "a pass lapses while it is renewed, and another fails it": scenario(
        create(PROBED, CARD, card()),
        LATENCY,
        SMOKE,
        actors={
            "one": (reconcile(L, LATER),),
            "probe": (report(L, "smoke", now=LATER), report(L, "smoke", now=LATER)),
            "another": (SMOKE_FAILS,),
        },
    ),
    "a pass lapses while the last gate passes": scenario(
        create(PROBED, CARD, card()),
        SMOKE,
        actors={
            "one": (reconcile(L, LATER),),
            "latency": (report(L, "latency", now=LATER),),
            "probe": (report(L, "smoke", now=LATER),),
            "worker": (edit(PROBED, CARD, tainted),),
        },
    ),
    "everything at once": scenario(
        CREATED,
        actors={
            "one": (LORA_CREATED,),
            "two": (delete(ONE, CARD),),
            "reporter": (SMOKE,),
            "operator": (hold_rollout(),),
            "etcd": (end_lease(L),),
        },
    ),
    "only the health answer waits": scenario(
        actors={
            "one": (create(HEALTH, CARD, card()), edit(HEALTH, CARD, remade)),
            "two": (create(HEALTH, LORA, card(5)),),
            "reporter": (SMOKE,),
        },
    ),
}
