"""Instances as the control API shows them, built by hand for tests of what the command line makes of them.

The rule: times are given relative to NOW, so that no test depends on the clock.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from google.protobuf.timestamp_pb2 import Timestamp

from greenroom.pb.control.v1 import control_pb2 as pb

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
CARD_KEY = b"v1/mdc/dynamo/backend/generate/"


def at(seconds: float) -> Timestamp:
    """So many seconds after NOW; negative ones before."""
    stamp = Timestamp()
    stamp.FromDatetime(NOW + timedelta(seconds=seconds))
    return stamp


def shown(
    instance_id: str = "6177a228983c0b2b",
    state: str = "HELD",
    gates: Mapping[str, str] | None = None,
    *,
    models: tuple[str, ...] = ("tiny",),
    address: str = "127.0.0.1:46537",
    reason: str = "",
    failed_because: str = "",
    rollout_hold: str = "",
) -> pb.Instance:
    """An instance first held 200 s ago; `gates` are states by name, smoke PENDING if not given. Deadlines in 840 s."""
    states = {"smoke": "PENDING"} if gates is None else dict(gates)
    missing = [name for name, word in states.items() if word not in ("PASSED", "OVERRIDDEN")]
    return pb.Instance(
        name=f"instances/{instance_id}",
        id=instance_id,
        state=pb.InstanceState.Value(f"INSTANCE_STATE_{state}"),
        reason=reason,
        hold=pb.HOLD_CARD,
        namespace="dynamo",
        component="backend",
        endpoints=["generate"],
        models=models,
        address=address,
        generation=1,
        gated_keys=[pb.GatedKey(key=CARD_KEY + instance_id.encode(), live=True, public=state == "RELEASED")],
        gates=[_gate(name, word, failed_because) for name, word in sorted(states.items())],
        conditions=[
            pb.Condition(type="GatesPassed", status=not missing, message=", ".join(missing) or "every gate passed"),
            pb.Condition(
                type="NotOnHold",
                status=not rollout_hold,
                message=f"rollout hold {rollout_hold} by ann: incident" if rollout_hold else "no rollout hold applies",
            ),
        ],
        transitions=[
            pb.Transition(time=at(-200), actor="greenroom", event="opened", to_state=pb.INSTANCE_STATE_HELD),
        ],
        first_held_time=at(-200),
        record_revision=7,
        rollout_holds=[rollout_hold] if rollout_hold else [],
    )


def _gate(name: str, word: str, failed_because: str) -> pb.GateStatus:
    is_open = word in ("PENDING", "INCONCLUSIVE", "ERROR")
    return pb.GateStatus(
        gate=name,
        state=pb.GateState.Value(f"GATE_STATE_{word}"),
        attempt=2,
        reason=failed_because if word == "FAILED" else "",
        reporter="" if is_open else "tests",
        opened_time=at(-60),
        decided_time=None if is_open else at(-10),
        deadline_time=at(840),
    )


def rollout_hold(hold_id: str, reason: str = "incident", **selector: str) -> pb.RolloutHold:
    """A rollout hold of ann's, created 90 s ago."""
    return pb.RolloutHold(
        name=f"rolloutHolds/{hold_id}",
        reason=reason,
        actor="ann",
        selector=pb.Selector(**selector),
        create_time=at(-90),
    )


def to_be_withdrawn(rollout_hold: str = "") -> pb.Instance:
    """A released instance that only the floor keeps in service."""
    instance = shown(state="RELEASED", gates={"smoke": "FAILED"}, rollout_hold=rollout_hold)
    instance.conditions[0].reason = "ToBeWithdrawn"
    instance.conditions[0].message = "smoke failed; it stays in service"
    return instance
