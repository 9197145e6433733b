"""The one worker of the model with its keys and values, and the proxies that it may have: each a policy."""

import json

from greenroom.core.keyspace import InstanceId, Key
from greenroom.core.policy import GatePolicy, Hold, Phase, Policy, Rule, gates_for_everything
from greenroom.core.selectors import Selector
from tests.support.model_workers import Proxy

L = InstanceId("7f")
CARD = Key(b"v1/mdc/ns/backend/generate/7f")
LORA = Key(CARD + b"/a-lora")
LORA_2 = Key(CARD + b"/another")
MODEL = Key(b"v1/mdc/ns/backend/complete/7f")
"""Another model of the same worker's, at another endpoint."""
INSTANCE = Key(b"v1/instances/ns/backend/generate/7f")
KEYS = (CARD, LORA, LORA_2, MODEL, INSTANCE)


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

PROBED = Proxy(
    Policy(
        rules=(
            Rule(
                gates={
                    "smoke": GatePolicy(timeout_seconds=900, phase=Phase.CONTINUOUS, ttl_seconds=60),
                    "latency": GatePolicy(timeout_seconds=172_800),
                }
            ),
        )
    )
)
"""`smoke` has to go on passing; `latency` has time until after LATER."""

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
