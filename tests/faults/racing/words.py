"""What the racing processes and their judge say to each other, and what every one of them knows of a round.

The rule: a round is one instance's life. All of it follows from the seed and the round's number, so that no process has
to be told more than these.
"""

import json
import random
from dataclasses import dataclass
from enum import StrEnum

from greenroom.core.policy import Policy
from tests.support.story import OfInstance

FIRST_LEASE = 0x7A11_0000_0000_0000
JITTER_SECONDS = 0.006
"""A few calls' time: what happens next in one process may come before or after what happens next in another."""
SLOW_JITTER_SECONDS = 0.6
SLOW_TTL_SECONDS = 2
TTL_SECONDS = 3600

POLICY = Policy.model_validate(
    {
        "rules": [
            {
                "selector": {"component": "smoked"},
                "gates": {
                    "smoke": {"timeout_seconds": 900},
                    "latency": {"timeout_seconds": 600, "phase": "continuous", "ttl_seconds": 900},
                },
            },
            {
                "selector": {"component": "whole"},
                "hold": "card+instance",
                "gates": {"smoke": {"timeout_seconds": 900}},
            },
            {"selector": {"component": "smoked", "suffix": "extra"}, "gates": {"extra": {"timeout_seconds": 900}}},
        ]
    }
)


class Asks(StrEnum):
    """Which policy a proxy has, by the gate that no other one knows."""

    LATENCY = "latency"
    ACCURACY = "accuracy"


OTHER_POLICY = Policy.model_validate(
    {
        "rules": [
            {
                "selector": {"component": "smoked"},
                "gates": {"smoke": {"timeout_seconds": 900}, "accuracy": {"timeout_seconds": 900}},
            },
            {
                "selector": {"component": "whole"},
                "hold": "card+instance",
                "gates": {"smoke": {"timeout_seconds": 900}, "accuracy": {"timeout_seconds": 900}},
            },
        ]
    }
)
"""It names the same components: README.md has the limit of a worker that has a rule at one proxy only."""
POLICIES = {Asks.LATENCY: POLICY, Asks.ACCURACY: OTHER_POLICY}


class Kind(StrEnum):
    """What a round's worker is like."""

    SMOKED = "smoked"  # its cards are held
    WHOLE = "whole"  # so is its instance record
    FREE = "free"  # no rule matches
    LIVE = "live"  # it served before a proxy saw it
    EXPIRING = "expiring"  # nobody keeps its lease alive


_WEIGHTS = {Kind.SMOKED: 50, Kind.WHOLE: 26, Kind.FREE: 8, Kind.LIVE: 14, Kind.EXPIRING: 2}
_SMOKE, _NOTHING = frozenset({"smoke"}), frozenset[str]()
_GATES = {
    Asks.LATENCY: {"smoked": _SMOKE | {"latency"}, "whole": _SMOKE, "free": _NOTHING},
    Asks.ACCURACY: {"smoked": _SMOKE | {"accuracy"}, "whole": _SMOKE | {"accuracy"}, "free": _NOTHING},
}


@dataclass(frozen=True, slots=True)
class Round:
    """One instance and all that is named after it."""

    seed: int
    number: int

    @property
    def lease(self) -> int:
        return FIRST_LEASE + self.number

    @property
    def instance(self) -> str:
        return f"{self.lease:x}"

    @property
    def kind(self) -> Kind:
        return random.Random(f"{self.seed} {self.number} kind").choices([*_WEIGHTS], [*_WEIGHTS.values()])[0]

    @property
    def component(self) -> str:
        held_like = {Kind.LIVE: "smoked", Kind.EXPIRING: "smoked"}
        return held_like.get(self.kind, self.kind.value)

    @property
    def jitter_seconds(self) -> float:
        return SLOW_JITTER_SECONDS if self.kind is Kind.EXPIRING else JITTER_SECONDS

    @property
    def card_key(self) -> bytes:
        return f"v1/mdc/dynamo/{self.component}/generate/{self.instance}".encode()

    @property
    def instance_key(self) -> bytes:
        return f"v1/instances/dynamo/{self.component}/generate/{self.instance}".encode()

    @property
    def lora_keys(self) -> list[bytes]:
        names = (b"/one", b"/two", b"/extra") if self.component == "smoked" else (b"/one", b"/two")
        return [self.card_key + name for name in names]

    @property
    def other_key(self) -> bytes:
        """A key that nobody gates."""
        return f"other/{self.instance}".encode()

    def rng(self, who: str) -> random.Random:
        """Chance for one of the round's actors."""
        return random.Random(f"{self.seed} {self.number} {who}")

    def gates_of(self, key: bytes, asks: Asks = Asks.LATENCY) -> frozenset[str]:
        """What the rules of a proxy's policy ask of a key."""
        is_extra = asks is Asks.LATENCY and key.endswith(b"/extra")
        return _GATES[asks][self.component] | ({"extra"} if is_extra else _NOTHING)

    def is_card(self, key: bytes) -> bool:
        return key.startswith(self.card_key)

    def value(self, key: bytes, mark: str, taints: list[str]) -> bytes:
        """A value as Dynamo's are, but short. `mark` is what gates check."""
        if not self.is_card(key):
            return json.dumps({"instance_id": self.lease, "transport": {"tcp": f"10.0.0.1:{mark}"}}).encode()
        card = {"display_name": "tiny", "runtime_config": {"mark": mark, "taints": taints}}
        return json.dumps({"instance_id": self.lease, "component": self.component, "card_json": card}).encode()


@dataclass(frozen=True, slots=True)
class Touched(OfInstance):
    """A write to the record that changes nothing of what the guarantees are about."""

    what: str


@dataclass(frozen=True, slots=True)
class Fault(OfInstance):
    """What an actor itself saw go wrong."""

    text: str


@dataclass(frozen=True, slots=True)
class Done:
    """An actor's part of a round is over; everything it did was said before."""

    number: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A process has come to its end. `refusals`: how often it was told no, by the words."""

    txns: int
    lost_fences: int
    refusals: dict[str, int]
