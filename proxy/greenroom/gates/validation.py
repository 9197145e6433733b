"""What a runner answers to probes: whether the instances that it is for are released, and if not, why.

The rule: healthy is one who has at least one instance, all of which serve. A runner beside one worker is thereby that
worker's readiness; of a runner for a whole fleet nobody should ask it (its /live says that it runs).
"""

from collections.abc import Collection
from typing import Any, Final

from greenroom.gates.plan import waits_for_a_person
from greenroom.gates.selection import Selection
from greenroom.pb.control.v1 import control_pb2
from greenroom.pb.control.v1.control_pb2 import GateStatus, Instance

NONE: Final = "NONE"
"""The state where there is no instance."""
_THROUGH: Final = frozenset({control_pb2.GATE_STATE_PASSED, control_pb2.GATE_STATE_OVERRIDDEN})
_WORST_FIRST: Final = (
    control_pb2.INSTANCE_STATE_REJECTED,
    control_pb2.INSTANCE_STATE_WITHDRAWN,
    control_pb2.INSTANCE_STATE_HELD,
    control_pb2.INSTANCE_STATE_RELEASED,
)


def answer(instances: Collection[Instance], selection: Selection, away: str) -> dict[str, Any]:
    """The answer of /health. `away`: why what is known may be old; empty where it is new."""
    told = [_told(instance, selection) for instance in instances]
    reasons = [reason for one in told for reason in one["reasons"]]
    if not told:
        reasons = [f"no instance that this runner is for has one of its gates: {', '.join(selection.gates)}"]
    return {
        "healthy": bool(told) and all(map(serves, instances)),
        "validation": {
            "state": _state(instances),
            "gates": _gates(instances),
            "reasons": [*reasons, *([f"as last known: {away}"] if away else [])],
        },
        "instances": told,
    }


def serves(instance: Instance) -> bool:
    """Whether it is to have traffic: released, or in dry run and kept out by nobody."""
    if instance.state == control_pb2.INSTANCE_STATE_RELEASED:
        return True
    return instance.dry_run and not waits_for_a_person(instance)


def gate_value(status: GateStatus) -> int:
    """0: not decided; 1: no longer in the way; -1: failed."""
    if status.state in _THROUGH:
        return 1
    return -1 if status.state == control_pb2.GATE_STATE_FAILED else 0


def _told(instance: Instance, selection: Selection) -> dict[str, Any]:
    wrong = selection.why_not(instance)
    unmet = [] if serves(instance) else [one.message for one in instance.conditions if not one.status]
    return {
        "instance": instance.id,
        "state": _word(control_pb2.InstanceState.Name(instance.state)),
        "models": list(instance.models),
        "gates": {status.gate: _gate_word(status) for status in instance.gates},
        "reasons": [*([wrong] if wrong else []), *unmet],
    }


def _state(instances: Collection[Instance]) -> str:
    """That of the one that is furthest from being released."""
    states = {instance.state for instance in instances}
    return next((_word(control_pb2.InstanceState.Name(state)) for state in _WORST_FIRST if state in states), NONE)


def _gates(instances: Collection[Instance]) -> dict[str, str]:
    """Each gate's state; of several instances' that which is furthest from a pass."""
    worst: dict[str, GateStatus] = {}
    for instance in instances:
        for status in instance.gates:
            known = worst.setdefault(status.gate, status)
            if gate_value(status) < gate_value(known):
                worst[status.gate] = status
    return {name: _gate_word(status) for name, status in sorted(worst.items())}


def _gate_word(status: GateStatus) -> str:
    return control_pb2.GateState.Name(status.state).removeprefix("GATE_STATE_")


def _word(state: str) -> str:
    return state.removeprefix("INSTANCE_STATE_")
