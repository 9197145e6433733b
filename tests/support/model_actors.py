"""Reporters, operators and reconcilers as programs over the real plans of the core.

The rule: as for workers, in `model_workers`.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from greenroom.core import rollout_holds, txns
from greenroom.core.keyspace import InstanceId, rollout_hold_key
from greenroom.core.record import Record
from greenroom.core.rollout_holds import RolloutHold
from greenroom.core.snapshot import read_request, snapshot_from
from greenroom.core.transitions import Outcome, overridden, rejected, retried
from greenroom.core.verdicts import Behind, Effect, MoreKeys, Planned, Planner, Unchanged
from greenroom.core.verdicts import drop as drop_planner
from greenroom.core.verdicts import edit as edit_planner
from greenroom.core.verdicts import reconcile as reconcile_planner
from greenroom.core.verdicts import verdict as verdict_planner
from greenroom.core.verdicts import withdrawal as withdrawal_planner
from greenroom.errors import GreenroomError
from greenroom.pb.etcd import rpc_pb2
from tests.support import story as told
from tests.support.model_etcd import Refusal
from tests.support.model_explore import Ask, Call, Next, Program
from tests.support.model_workers import NOW

LATER = datetime(2030, 1, 2, tzinfo=UTC)
"""After every deadline."""
_KINDS = {Effect.RELEASED: "release", Effect.WITHDRAWN: "withdraw", Effect.PUBLISHED: "publish what came later"}
"""Whatever leads to one of these, its Txn is the same."""


# ---- reporters, operators, reconcilers ------------------------------------------------------------------------------


def report(
    instance: InstanceId,
    gate: str,
    outcome: Outcome = Outcome.PASSED,
    *,
    said_again: bool = False,
    now: datetime = NOW,
) -> Call:
    """A reporter reads which attempt is open, checks what is there, and reports. Without a record it gives up.

    `said_again`: the next call, another report, is for the same attempt, without another look.
    """

    def call(carry: tuple[int, int] | None) -> Program:
        if carry is None:
            snapshot = snapshot_from(instance, (), (yield Ask("inspect", read_request(instance))))
            if snapshot.record is None or gate not in snapshot.record.gates:
                return Next()
            return Next(again=True, carry=(snapshot.record.gates[gate].attempt, snapshot.revision))
        attempt, looked_at = carry
        planner = verdict_planner(gate, attempt, outcome, reason="because", reporter="a test")

        def did(revision: int, before: Record, planned: Planned) -> tuple[told.Operation, ...]:
            again = before.gates[gate].must_be_renewed
            decided = told.Decided(revision, instance, gate, outcome is Outcome.PASSED, looked_at, again)
            withdrawn = planned.effect is Effect.WITHDRAWN
            return (decided, told.Withdrew(revision, instance, by_person=False)) if withdrawn else (decided,)

        ended = yield from _planned(instance, planner, "verdict", did, now=now)
        return replace(ended, carry=carry if ended.again or said_again else None)

    return call


def reconcile(instance: InstanceId, now: datetime = NOW) -> Call:
    def did(revision: int, before: Record, planned: Planned) -> tuple[told.Operation, ...]:
        match planned.effect:
            case Effect.REJECTED | Effect.KEPT_BACK:
                failed = [name for name, gate in planned.record.gates.items() if gate.state == "FAILED"]
                return tuple(told.Decided(revision, instance, name, False, revision) for name in failed)
            case Effect.WITHDRAWN:
                return (told.Withdrew(revision, instance, by_person=False),)
            case Effect.STORED:
                return (told.Lapsed(revision, instance, lapsed_between(before, planned.record)),)
            case _:
                return ()

    def call(_: Any) -> Program:
        return (yield from _planned(instance, reconcile_planner(None), "reconcile", did, now=now))

    return call


def lapsed_between(before: Record, after: Record) -> frozenset[str]:
    """The gates whose pass ended because nobody renewed it."""
    passed = {name for name, gate in before.gates.items() if gate.must_be_renewed}
    return frozenset(name for name in passed if after.gates[name].attempt != before.gates[name].attempt)


def override(instance: InstanceId) -> Call:
    planner = edit_planner(lambda record, now: overridden(record, "somebody", "because", now))
    return _operated(instance, planner, "override", told.Overrode)


def retry(instance: InstanceId) -> Call:
    planner = edit_planner(lambda record, now: retried(record, (), "somebody", "because", now))
    return _operated(instance, planner, "retry", told.Retried)


def reject(instance: InstanceId) -> Call:
    planner = edit_planner(lambda record, now: rejected(record, "somebody", "because", now))
    return _operated(instance, planner, "reject", told.Rejected)


def withdraw(instance: InstanceId, *, by_person: bool = True) -> Call:
    planner = withdrawal_planner("somebody", "because", by_person=by_person)
    return _operated(instance, planner, "withdraw", lambda at, whose: told.Withdrew(at, whose, by_person))


def drop(instance: InstanceId) -> Call:
    return _operated(instance, drop_planner("somebody", "because"), "drop", told.Dropped)


def hold_rollout(hold_id: str = "stop") -> Call:
    hold = RolloutHold(hold_id=hold_id, reason="because", actor="somebody")

    def call(_: Any) -> Program:
        request = rpc_pb2.TxnRequest(success=[txns.put(rollout_hold_key(hold_id), rollout_holds.encode(hold), 0)])
        answer = yield Ask("rollout hold", request)
        return Next((told.RolloutHeld(answer.header.revision, hold_id),))

    return call


def lift_rollout_hold(hold_id: str = "stop") -> Call:
    def call(_: Any) -> Program:
        answer = yield Ask("lift", rpc_pb2.TxnRequest(success=[txns.delete(rollout_hold_key(hold_id))]))
        return Next((told.RolloutHoldLifted(answer.header.revision, hold_id),))

    return call


def _operated(instance: InstanceId, planner: Planner, kind: str, did: Callable[[int, str], told.Operation]) -> Call:
    def call(_: Any) -> Program:
        return (yield from _planned(instance, planner, kind, lambda at, *_: (did(at, instance),)))

    return call


def _planned(
    instance: InstanceId,
    planner: Planner,
    kind: str,
    did: Callable[[int, Record, Planned], tuple[told.Operation, ...]],
    now: datetime = NOW,
) -> Program:
    """One round of an operation: read, plan, write. `again` where the fence was lost."""
    snapshot = snapshot_from(instance, (), (yield Ask("read", read_request(instance))))
    try:
        while isinstance(plan := planner(snapshot, now), MoreKeys):
            keys = snapshot.read_again()
            snapshot = snapshot_from(instance, keys, (yield Ask("read", read_request(instance, keys))))
        if isinstance(plan, Behind):
            return Next(again=True)
        if isinstance(plan, Unchanged):
            return Next()
        answer = yield Ask(_KINDS.get(plan.effect, kind), plan.txn)
    except (GreenroomError, Refusal):
        return Next()
    before = snapshot.record
    assert before is not None, "a plan was made for an instance without a record"
    return Next(did(answer.header.revision, before, plan)) if answer.succeeded else Next(again=True)
