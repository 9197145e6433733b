"""What a scenario of the model is, and what happens before and in many of them."""

from dataclasses import dataclass

from greenroom.core.transitions import Outcome
from tests.support.model_actors import (
    report,
)
from tests.support.model_explore import Actor, Call
from tests.support.model_fleet import (
    CARD,
    LORA,
    ONE,
    L,
    card,
)
from tests.support.model_workers import (
    create,
)

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


def scenario(*before: Call, actors: dict[str, tuple[Call, ...]], mortal: tuple[str, ...] = ()) -> Scenario:
    return Scenario(before, tuple(Actor(name, calls, name in mortal) for name, calls in actors.items()))


RELEASED = (CREATED, SMOKE)
BOTH_RELEASED = (CREATED, LORA_CREATED, SMOKE)
