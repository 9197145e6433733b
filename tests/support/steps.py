"""Single steps of the gating machine that need none of its state.

The rule: an operator's plan is carried out as a proxy would, straight on etcd; nothing of it is left open afterwards.
"""

import itertools
import json
from typing import Any

from greenroom.core.keyspace import InstanceId
from greenroom.core.verdicts import Planner
from greenroom.pb.control.v1 import control_pb2
from greenroom.pb.etcd import kv_pb2
from greenroom.store.fenced import CarriedOut, carry_out
from greenroom.store.upstream import Upstream
from tests.faults.racing.log import RaceLog, records
from tests.support.client import Compare
from tests.support.control_side import MovableClock


async def carried_out(port: int, instance: str, planner: Planner) -> CarriedOut | None:
    upstream = Upstream([("127.0.0.1", port)])
    try:
        done = await carry_out(upstream, InstanceId(instance), planner, clock=MovableClock())
    finally:
        await upstream.close()
    return done if isinstance(done, CarriedOut) else None


def as_read(seen: kv_pb2.KeyValue, by: int) -> Compare:
    """That a key is as it was read, by one of what an owner knows of it."""
    compare = Compare(key=seen.key, target=by, result=Compare.EQUAL)  # type: ignore[arg-type]  # enums are ints here
    match by:
        case Compare.MOD:
            compare.mod_revision = seen.mod_revision
        case Compare.CREATE:
            compare.create_revision = seen.create_revision
        case Compare.VALUE:
            compare.value = seen.value
        case _:
            compare.lease = seen.lease
    return compare


def states(log: RaceLog, instance: str) -> list[str]:
    """The states that an instance came to, one after the other."""
    found = [record["state"] for _, record in records(log.changes[instance])]
    return [state for state, _ in itertools.groupby(found)]


def tainted(card: bytes, taint: str) -> bytes:
    """The card with one taint, and nothing else of it changed."""
    parsed = json.loads(card)
    parsed["card_json"]["runtime_config"]["taints"] = [taint]
    return json.dumps(parsed).encode()


def verdict_request(name: str, status: Any, outcome: str) -> control_pb2.ReportVerdictRequest:
    """A verdict on the attempt that a status of a gate shows."""
    return control_pb2.ReportVerdictRequest(
        name=name,
        gate=status.gate,
        attempt=status.attempt,
        outcome=control_pb2.Outcome.Value(f"OUTCOME_{outcome.upper()}"),
        reporter="machine",
    )


def hold_request(hold_id: str, component: str) -> control_pb2.CreateRolloutHoldRequest:
    """A rollout hold on one component; on everything where it is empty."""
    hold = control_pb2.RolloutHold(reason="the machine says so", actor="machine")
    hold.selector.component = component
    return control_pb2.CreateRolloutHoldRequest(rollout_hold=hold, rollout_hold_id=hold_id)
