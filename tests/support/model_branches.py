"""Scenarios of calls that are not just read, planned and written: with an Else that writes, or planned without a read.

The rule: as for the others, as small as the trouble allows.
"""

from tests.support.model_actors import (
    withdraw,
)
from tests.support.model_fleet import (
    CARD,
    LORA,
    ONE,
    L,
    card,
)
from tests.support.model_scenario import CREATED, LORA_CREATED, RELEASED, SMOKE, SMOKE_FAILS, Scenario, scenario
from tests.support.model_workers import (
    as_new,
    create,
    create_txn,
    delete,
    delete_txn,
    from_memory,
    look,
    put,
    put_directly,
    put_txn,
    swap,
)

BRANCHES: dict[str, Scenario] = {
    "taints are swapped, or others written in an Else": scenario(
        CREATED,
        actors={
            "one": (swap(ONE, CARD, card(1, "a"), card(1, "b"), card(1, "c")),),
            "two": (put(ONE, CARD, card(1, "a")),),
            "reporter": (SMOKE,),
        },
    ),
    "a card is swapped, or another written in an Else": scenario(
        CREATED,
        actors={
            "one": (swap(ONE, CARD, card(1, "a"), card(2), card(3)),),
            "two": (put(ONE, CARD, card(1, "a")), delete(ONE, CARD)),
            "reporter": (SMOKE,),
        },
    ),
    "a card is created, or written over in an Else": scenario(
        actors={
            "one": (swap(ONE, CARD, None, card(2), card(3)),),
            "two": (CREATED, delete(ONE, CARD)),
            "reporter": (SMOKE,),
        },
    ),
    "edited from memory while it passes": scenario(
        CREATED,
        actors={
            "one": (from_memory(ONE, put_txn(ONE, CARD, card(1, "t"))),),
            "two": (put(ONE, CARD, card(2)),),
            "reporter": (SMOKE, SMOKE),
        },
    ),
    "changed from memory while it is deleted": scenario(
        CREATED,
        LORA_CREATED,
        actors={
            "one": (from_memory(ONE, put_txn(ONE, CARD, card(2))),),
            "two": (delete(ONE, CARD), create(ONE, CARD, card(3))),
            "reporter": (SMOKE,),
        },
    ),
    "deleted from memory while it is written": scenario(
        CREATED,
        actors={
            "one": (from_memory(ONE, delete_txn(CARD)),),
            "two": (put(ONE, CARD, card(2)),),
            "reporter": (SMOKE,),
        },
    ),
    "written and deleted from memory while withdrawn": scenario(
        *RELEASED,
        actors={
            "one": (from_memory(ONE, put_txn(ONE, CARD, card(2))), look(ONE, CARD)),
            "two": (from_memory(ONE, delete_txn(CARD)),),
            "operator": (withdraw(L, by_person=False),),
            "reporter": (SMOKE,),
        },
    ),
    "a new worker registers by two proxies that know nothing of it": scenario(
        actors={
            "one": (as_new(ONE, create_txn(ONE, CARD, card()), over=None),),
            "two": (as_new(ONE, create_txn(ONE, LORA, card(5)), over=None),),
            "reporter": (SMOKE, SMOKE),
        },
    ),
    "a new worker registers with etcd itself and through a proxy that knows nothing of it": scenario(
        actors={
            "direct": (put_directly(ONE, CARD, card()),),
            "one": (as_new(ONE, create_txn(ONE, CARD, card(2)), over=None),),
            "reporter": (SMOKE,),
        },
    ),
    "edited from memory while it is deleted": scenario(
        CREATED,
        LORA_CREATED,
        actors={
            "one": (from_memory(ONE, put_txn(ONE, CARD, card(1, "t"))),),
            "two": (delete(ONE, CARD),),
            "reporter": (SMOKE,),
        },
    ),
    "changed from memory while it fails": scenario(
        CREATED,
        actors={"one": (from_memory(ONE, put_txn(ONE, CARD, card(2))),), "reporter": (SMOKE_FAILS, SMOKE)},
    ),
}
