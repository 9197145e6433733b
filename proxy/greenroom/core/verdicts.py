"""From an operation on an instance and a snapshot of it to the Txn that carries it out.

An operation that makes an instance ready is tried together with the release, as one Txn; only where something
forbids the release, or others come first, is the operation stored alone. Likewise a verdict by which a released
instance is to be withdrawn, where the limits keep it in service.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from greenroom.core import txns
from greenroom.core.conflicts import Conflicts, none_known
from greenroom.core.decide import GiveUp, Lapse, Reject, RejectForConflict, Release, Withdraw, decide
from greenroom.core.fleet import UNLIMITED, Limits
from greenroom.core.keyspace import claim_key
from greenroom.core.publication import drop_txn, record_txn, release_txn, withdrawal_txn
from greenroom.core.record import GateState, Record, State
from greenroom.core.rollout_holds import RolloutHold, stop_after
from greenroom.core.silence import pass_lapsed, worn_out
from greenroom.core.snapshot import Snapshot
from greenroom.core.transitions import (
    ITSELF,
    Outcome,
    conflicted,
    deadline_passed,
    dropped,
    overridden,
    released,
    with_verdict,
    withdrawn,
)
from greenroom.errors import UnknownInstance, WrongState
from greenroom.pb.etcd import rpc_pb2


class Effect(StrEnum):
    """What the Txn does, for logs and metrics."""

    STORED = "stored"
    RELEASED = "released"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"
    PUBLISHED = "published"
    """A released instance's later cards are public too."""
    KEPT_BACK = "kept back"
    """A gate that only a released instance's later cards wait for failed."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A Txn, the record that it leaves, and what it means."""

    txn: rpc_pb2.TxnRequest
    record: Record
    effect: Effect
    stop: RolloutHold | None = None
    """The rollout hold that it creates."""


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Nothing to write: the record says it already."""

    record: Record


@dataclass(frozen=True, slots=True)
class Queued(Unchanged):
    """It is ready, and there is no room in the budget."""


@dataclass(frozen=True, slots=True)
class KeptInService(Unchanged):
    """Automation may not withdraw it, for too few others are released."""

    why: str


@dataclass(frozen=True, slots=True)
class Behind:
    """What is known of other instances is older than the budget: plan again when the mirror has come so far."""


@dataclass(frozen=True, slots=True)
class MoreKeys:
    """The snapshot must cover the record's public cards too: read again with `Snapshot.read_again()`."""


NO_DEADLINE = datetime.max.replace(tzinfo=UTC)

Plan = Planned | Unchanged | MoreKeys | Behind
Planner = Callable[[Snapshot, datetime], Plan]


def verdict(
    gate: str,
    attempt: int,
    outcome: Outcome,
    *,
    reason: str,
    reporter: str,
    limits: Limits = UNLIMITED,
    conflicts: Conflicts = none_known,
) -> Planner:
    """A reporter's answer for one attempt of one gate. `conflicts`: with whom the instance is in one, as a hint."""

    def plan(snapshot: Snapshot, now: datetime) -> Plan:
        before = _record(snapshot)
        after = with_verdict(before, gate, attempt, outcome, reason=reason, reporter=reporter, now=now)
        if after is before:
            return Unchanged(before)
        planned = _stored_or_released(snapshot, after, now, limits, conflicts)
        if isinstance(planned, Planned) and before.gates[gate].claims:
            planned.txn.success.append(txns.delete(claim_key(snapshot.instance, gate)))
        return planned

    return plan


def reconcile(
    no_rejection_before: datetime | None,
    claimed: Collection[str] | None = None,
    limits: Limits = UNLIMITED,
    conflicts: Conflicts = none_known,
) -> Planner:
    """Whatever is due by itself: a release that nothing forbids any more, a rejection for a deadline or a conflict.

    A withdrawal too. `claimed` are the gates that runners have claimed, as far as the mirror knows; None: it was not
    asked. Whose turn it is was for the caller to see to.
    """

    def plan(snapshot: Snapshot, now: datetime) -> Plan:
        record = _record(snapshot)
        if record.publishes_at_once and snapshot.lacks_cards():
            return MoreKeys()
        decision = decide(
            record,
            live_cards=snapshot.live_cards,
            rollout_holds=snapshot.rollout_holds,
            now=now,
            no_rejection_before=no_rejection_before,
            claimed=claimed,
            conflicts=conflicts(record, snapshot.shadows.keys()),
        )
        match decision:
            case Release():
                return _release(snapshot, record, now, limits) or Queued(record)
            case Reject(gate):
                rejected = deadline_passed(record, gate, now)
                return Planned(record_txn(snapshot, rejected), rejected, _stored(record, rejected))
            case RejectForConflict(why):
                return _rejected_for(why, snapshot, record, now)
            case Lapse(gate):
                lapsed = pass_lapsed(record, gate, now)
                return Planned(record_txn(snapshot, lapsed), lapsed, Effect.STORED)
            case Withdraw(_, reason):
                return _withdrawal(snapshot, record, ITSELF, reason, now, limits, by_person=False)
            case GiveUp(gate):
                given_up = worn_out(record, gate, now)
                txn = record_txn(snapshot, given_up)
                txn.compare.append(txns.unchanged(claim_key(snapshot.instance, gate), 0))
                return Planned(txn, given_up, Effect.STORED)
            case _:
                return Unchanged(record)

    return plan


def withdrawal(actor: str, reason: str, *, by_person: bool, limits: Limits = UNLIMITED) -> Planner:
    """Everything public of a released instance goes back to being held. Automation leaves `min_released` in service."""

    def plan(snapshot: Snapshot, now: datetime) -> Plan:
        return _withdrawal(snapshot, _record(snapshot), actor, reason, now, limits, by_person=by_person)

    return plan


def edit(
    change: Callable[[Record, datetime], Record], limits: Limits = UNLIMITED, conflicts: Conflicts = none_known
) -> Planner:
    """Any other change of the record, such as a retry or an override; released with it where that makes it ready."""

    def plan(snapshot: Snapshot, now: datetime) -> Plan:
        return _stored_or_released(snapshot, change(_record(snapshot), now), now, limits, conflicts)

    return plan


def override(actor: str, reason: str, limits: Limits = UNLIMITED, conflicts: Conflicts = none_known) -> Planner:
    """Sets aside every gate that is not through. Refused where there is no card: the first one would undo it."""
    planner = edit(lambda record, now: overridden(record, actor, reason, now), limits, conflicts)

    def plan(snapshot: Snapshot, now: datetime) -> Plan:
        planned = planner(snapshot, now)
        if isinstance(planned, Planned) and not snapshot.live_cards:
            raise WrongState(
                "override is refused: no card of the instance waits to be released, and one that comes opens new "
                "attempts of its gates; override it then",
                state=_record(snapshot).state,
            )
        return planned

    return plan


def drop(actor: str, reason: str) -> Planner:
    """Forgets what is held. Cards that are public though the instance is not released stay, in the record too."""

    def plan(snapshot: Snapshot, now: datetime) -> Plan:
        record = _record(snapshot)
        if snapshot.lacks_cards():
            return MoreKeys()
        public = tuple(entry for entry in record.cards if entry.gated_key in snapshot.public)
        after = dropped(record, actor, reason, now, public)
        if not snapshot.shadows:
            why = "what it registered is public" if public else "it has no card at the moment"
            raise WrongState(f"drop is refused: nothing of the instance is held, {why}", state=record.state)
        return Planned(drop_txn(snapshot, after), after, Effect.STORED)

    return plan


def note(change: Callable[[Record, datetime], Record]) -> Planner:
    """A change of the record that nothing follows from, not even where the instance is ready."""

    def plan(snapshot: Snapshot, now: datetime) -> Plan:
        after = change(_record(snapshot), now)
        return Planned(record_txn(snapshot, after), after, Effect.STORED)

    return plan


def _withdrawal(
    snapshot: Snapshot, record: Record, actor: str, reason: str, now: datetime, limits: Limits, *, by_person: bool
) -> Planned | MoreKeys | Behind | KeptInService:
    """The withdrawal of `record`, which is the snapshot's, or that with the verdict that leads to it."""
    if snapshot.lacks_cards():
        return MoreKeys()
    after = withdrawn(record, actor, reason, now, by_person=by_person)
    if record.dry_run and not by_person:
        return Planned(record_txn(snapshot, after), after, Effect.WITHDRAWN)
    if not by_person and (kept := _kept_in_service(snapshot, record, limits)):
        return kept
    stop = _stop(snapshot, record, actor, reason, now) if limits.is_in_flight(snapshot, now) else None
    txn = withdrawal_txn(snapshot, after, budget=limits.after_withdrawal(snapshot), stop=stop)
    return Planned(txn, after, Effect.WITHDRAWN, stop)


def _stop(snapshot: Snapshot, record: Record, actor: str, reason: str, now: datetime) -> RolloutHold:
    return stop_after(snapshot.instance, record, actor, reason, now, snapshot.rollout_holds)


def _kept_in_service(snapshot: Snapshot, record: Record, limits: Limits) -> KeptInService | Behind | None:
    if limits.releases is None or limits.releases.min_released is None:
        return None
    if limits.is_behind(snapshot):
        return Behind()
    why = limits.floor_under(snapshot, record)
    return KeptInService(record, why) if why else None


def _stored_or_released(snapshot: Snapshot, after: Record, now: datetime, limits: Limits, conflicts: Conflicts) -> Plan:
    if after.state is not State.RELEASED and after.publishes_at_once and snapshot.lacks_cards():
        return MoreKeys()
    decision = decide(
        after,
        live_cards=snapshot.live_cards,
        rollout_holds=snapshot.rollout_holds,
        now=now,
        # What is due by a deadline is the reconciler's: it knows whether others' verdicts may be on their way.
        no_rejection_before=NO_DEADLINE,
        conflicts=conflicts(after, snapshot.shadows.keys()),
    )
    match decision:
        case Release() if limits.is_first(snapshot, after):
            followed: Plan | None = _release(snapshot, after, now, limits)
        case RejectForConflict(why):
            followed = _rejected_for(why, snapshot, after, now)
        case Withdraw(_, reason):
            followed = _withdrawal(snapshot, after, ITSELF, reason, now, limits, by_person=False)
        case _:
            followed = None
    # Whom the floor keeps in service the reconciler withdraws as soon as enough others are released.
    if followed is not None and not isinstance(followed, KeptInService):
        return followed
    return Planned(record_txn(snapshot, after), after, _stored(_record(snapshot), after))


def _rejected_for(conflict: str, snapshot: Snapshot, record: Record, now: datetime) -> Planned:
    rejected = conflicted(record, conflict, now)
    return Planned(record_txn(snapshot, rejected), rejected, Effect.REJECTED)


def _stored(before: Record, after: Record) -> Effect:
    """What a record means that was only rewritten."""
    if after.state is State.REJECTED and before.state is not State.REJECTED:
        return Effect.REJECTED
    failed = {name for name, gate in after.waited_for.items() if gate.state is GateState.FAILED}
    newly = any(before.gates[name].state is not GateState.FAILED for name in failed & before.gates.keys())
    return Effect.KEPT_BACK if after.state is State.RELEASED and newly else Effect.STORED


def _release(snapshot: Snapshot, record: Record, now: datetime, limits: Limits) -> Planned | None:
    """What is held becomes public: of a ready instance, None where there is no room for it, or later cards."""
    if record.state is State.RELEASED:
        return Planned(release_txn(snapshot, record, now), released(record, now), Effect.PUBLISHED)
    admitted = limits.admission(snapshot, now)
    if admitted is None:
        return None
    txn = release_txn(snapshot, record, now, budget=admitted.budget)
    return Planned(txn, released(record, now), Effect.RELEASED)


def _record(snapshot: Snapshot) -> Record:
    """The record as it stands: later cards that were deleted have no part in anything."""
    if snapshot.record is None:
        raise UnknownInstance(
            f"no instance {snapshot.instance}: it never registered through a proxy, or its lease ended",
            instance=snapshot.instance,
        )
    return snapshot.record.with_held(snapshot.shadows)
