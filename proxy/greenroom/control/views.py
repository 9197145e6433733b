"""Records and rollout holds as messages of the control API. Pure."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from greenroom.core.claims import Claim
from greenroom.core.conflicts import Conflict
from greenroom.core.decide import Condition, conditions, deadline_counts, waits_its_turn
from greenroom.core.fleet import Standing
from greenroom.core.keyspace import InstanceId, Key
from greenroom.core.policy import Hold, Phase
from greenroom.core.record import Gate, GatedEntry, GateState, Record, State, Transition
from greenroom.core.rollout_holds import RolloutHold, matching
from greenroom.core.selectors import Selector
from greenroom.core.snapshot import Snapshot
from greenroom.core.templates import KeyKind
from greenroom.core.transitions import Outcome
from greenroom.pb.control.v1 import control_pb2
from greenroom.store.claims import HeldClaim
from greenroom.store.mirrored import MirroredInstance

INSTANCES = "instances/"
ROLLOUT_HOLDS = "rolloutHolds/"
PREVIEWS = "previews/"

STATES: Mapping[State, "control_pb2.InstanceState.ValueType"] = {
    State.HELD: control_pb2.INSTANCE_STATE_HELD,
    State.RELEASED: control_pb2.INSTANCE_STATE_RELEASED,
    State.REJECTED: control_pb2.INSTANCE_STATE_REJECTED,
    State.WITHDRAWN: control_pb2.INSTANCE_STATE_WITHDRAWN,
}
HOLDS: Mapping[Hold, "control_pb2.Hold.ValueType"] = {
    Hold.CARD: control_pb2.HOLD_CARD,
    Hold.CARD_AND_INSTANCE: control_pb2.HOLD_CARD_AND_INSTANCE,
    Hold.HEALTH: control_pb2.HOLD_HEALTH,
}
GATE_STATES: Mapping[GateState, "control_pb2.GateState.ValueType"] = {
    GateState.PENDING: control_pb2.GATE_STATE_PENDING,
    GateState.PASSED: control_pb2.GATE_STATE_PASSED,
    GateState.FAILED: control_pb2.GATE_STATE_FAILED,
    GateState.INCONCLUSIVE: control_pb2.GATE_STATE_INCONCLUSIVE,
    GateState.ERROR: control_pb2.GATE_STATE_ERROR,
    GateState.OVERRIDDEN: control_pb2.GATE_STATE_OVERRIDDEN,
}
PHASES: Mapping[Phase, "control_pb2.GatePhase.ValueType"] = {
    Phase.PRE_RELEASE: control_pb2.GATE_PHASE_PRE_RELEASE,
    Phase.CONTINUOUS: control_pb2.GATE_PHASE_CONTINUOUS,
}
OUTCOMES: Mapping[int, Outcome] = {
    control_pb2.OUTCOME_PASSED: Outcome.PASSED,
    control_pb2.OUTCOME_FAILED: Outcome.FAILED,
    control_pb2.OUTCOME_INCONCLUSIVE: Outcome.INCONCLUSIVE,
    control_pb2.OUTCOME_ERROR: Outcome.ERROR,
}


def mirrored_instance(
    mirrored: MirroredInstance,
    rollout_holds: Sequence[RolloutHold],
    standing: Standing | None = None,
    conflicts: Sequence[Conflict] = (),
    in_service: str = "",
) -> control_pb2.Instance:
    """An instance as the mirror has it. Of a released one every registered key that is not held is taken for public."""
    return instance_message(
        mirrored.instance,
        mirrored.record,
        revision=mirrored.revision,
        live=mirrored.live_keys,
        public=mirrored.public_keys,
        rollout_holds=rollout_holds,
        conflicts=conflicts,
        address=mirrored.address,
        claims=mirrored.claims,
        standing=standing,
        in_service=in_service,
    )


def read_instance(
    snapshot: Snapshot,
    record: Record,
    address: str | None,
    standing: Standing | None = None,
    *,
    revision: int,
    claims: Mapping[str, Claim] | None = None,
    conflicts: Sequence[Conflict] = (),
    in_service: str = "",
) -> control_pb2.Instance:
    """An instance with a record that etcd had at `revision`. The snapshot must cover the record's cards."""
    return instance_message(
        snapshot.instance,
        record,
        revision=revision,
        live=snapshot.shadows.keys() | snapshot.public.keys(),
        public=_public(snapshot, record),
        rollout_holds=snapshot.rollout_holds,
        conflicts=conflicts,
        address=address,
        claims=claims,
        standing=standing,
        in_service=in_service,
    )


def _public(snapshot: Snapshot, record: Record) -> Collection[Key]:
    """The keys that everybody sees; none where they were published only after the moment that the record tells of."""
    if snapshot.is_released and record.state is not State.RELEASED:
        return ()
    return snapshot.public.keys() - snapshot.shadows.keys()


def instance_message(
    instance: InstanceId,
    record: Record,
    *,
    revision: int,
    live: Collection[Key],
    public: Collection[Key] | None = None,
    rollout_holds: Sequence[RolloutHold],
    conflicts: Sequence[Conflict] = (),
    address: str | None,
    claims: Mapping[str, Claim] | None = None,
    standing: Standing | None = None,
    in_service: str = "",
) -> control_pb2.Instance:
    """One instance. `live` are its keys that exist, held or public.

    `public` are those of them that everybody sees; None: not looked at, so what the record says counts. `claims` are
    those in force, by their gates' names. `standing` None: releases are not limited. `in_service`: see
    `why_in_service`.
    """
    if public is None:
        public = live if record.publishes_at_once else ()
    live_cards = [entry.gated_key for entry in record.cards if entry.kind is KeyKind.CARD and entry.gated_key in live]
    outside = () if record.publishes_at_once else tuple(key for key in live_cards if key in public)
    waiting_cards = len(live_cards) - len(outside)
    current = record.with_held({*live} - {*public})
    said = conditions(
        current,
        live_cards=waiting_cards,
        outside=outside,
        rollout_holds=rollout_holds,
        standing=standing,
        conflicts=conflicts,
        in_service=in_service,
    )
    is_queued = waits_its_turn(current, live_cards=waiting_cards, rollout_holds=rollout_holds, conflicts=conflicts)
    return control_pb2.Instance(
        name=f"{INSTANCES}{instance}",
        id=instance,
        state=STATES[record.state],
        reason=_reason(record),
        hold=HOLDS[record.hold],
        namespace=", ".join(record.distinct("namespace")),
        component=", ".join(record.distinct("component")),
        endpoints=record.distinct("endpoint"),
        models=record.distinct("model"),
        address=address or "",
        generation=record.generation,
        gated_keys=[_gated_key(entry, live, public) for entry in record.cards],
        gates=[
            _gate(name, gate, (claims or {}).get(name), has_deadline=deadline_counts(current, name))
            for name, gate in sorted(record.gates.items())
        ],
        conditions=[_condition(condition) for condition in said],
        transitions=[_transition(line) for line in record.transitions],
        first_held_time=timestamp(record.first_held),
        release_time=timestamp(record.released),
        record_revision=revision,
        rollout_holds=[hold.hold_id for hold in matching(rollout_holds, current)],
        queue_position=standing.position if standing and is_queued else 0,
        dry_run=record.dry_run,
    )


def claim_message(held: HeldClaim) -> control_pb2.Claim:
    """One claim, for whom it belongs to: its lease is its token."""
    return control_pb2.Claim(
        name=f"{INSTANCES}{held.instance}/gates/{held.gate}/claim",
        lease=f"{held.lease:x}",
        attempt=held.claim.attempt,
        runner=held.claim.runner,
        expire_time=timestamp(held.claim.expires),
    )


def rollout_hold_message(hold: RolloutHold) -> control_pb2.RolloutHold:
    """One rollout hold."""
    message = control_pb2.RolloutHold(
        name=f"{ROLLOUT_HOLDS}{hold.hold_id}",
        reason=hold.reason,
        actor=hold.actor,
        create_time=timestamp(hold.created),
        expire_time=timestamp(hold.expires),
    )
    if (selector := selector_message(hold.selector)) is not None:
        message.selector.CopyFrom(selector)
    return message


def selector_message(selector: Selector) -> control_pb2.Selector | None:
    """A selector; None for one that matches everything."""
    given = selector.model_dump(exclude_none=True)
    return control_pb2.Selector(**given) if given else None


def selector_of(message: control_pb2.Selector) -> Selector:
    """A selector as the core has it: an empty glob is none."""
    given = {field.name: value for field, value in message.ListFields()}
    return Selector(**given)


def decision_of(record: Record) -> "control_pb2.Decision.ValueType":
    """What a verdict led to, by the record that it left; of a released instance for the later cards that wait."""
    if record.state is State.RELEASED and not record.later:
        return control_pb2.DECISION_RELEASED
    gates = record.waited_for.values()
    if record.state is State.REJECTED or (record.later and any(gate.state is GateState.FAILED for gate in gates)):
        return control_pb2.DECISION_REJECTED
    through = all(gate.state.is_through for gate in gates)
    return control_pb2.DECISION_QUEUED if through else control_pb2.DECISION_RECORDED


def decision_afterwards(record: Record) -> "control_pb2.Decision.ValueType":
    """What a person's decision led to, by the record that it left."""
    if record.state is State.WITHDRAWN:
        return control_pb2.DECISION_WITHDRAWN
    decision = decision_of(record)
    return control_pb2.DECISION_HELD if decision == control_pb2.DECISION_RECORDED else decision


def timestamp(moment: datetime | None) -> Timestamp | None:
    """A moment as protobuf has it; None stays unset."""
    if moment is None:
        return None
    message = Timestamp()
    message.FromDatetime(moment.astimezone(UTC))
    return message


def _reason(record: Record) -> str:
    """Why it is in its state: what the record says, else what led there."""
    if record.reason:
        return record.reason
    moves = (line for line in reversed(record.transitions) if line.from_state is not line.to_state)
    last = next(moves, None)
    if last is None:
        return ""
    return f"{last.event}: {last.reason}" if last.reason else last.event


def _gated_key(entry: GatedEntry, live: Collection[Key], public: Collection[Key]) -> control_pb2.GatedKey:
    key = entry.gated_key
    is_card = entry.kind is KeyKind.CARD
    return control_pb2.GatedKey(
        key=key,
        live=key in live,
        public=key in public,
        model=(entry.model or "") if is_card else "",
        configuration=entry.configuration,
    )


def _gate(name: str, gate: Gate, claim: Claim | None, *, has_deadline: bool) -> control_pb2.GateStatus:
    return control_pb2.GateStatus(
        gate=name,
        state=GATE_STATES[gate.state],
        attempt=gate.attempt,
        reason=gate.reason,
        reporter=gate.reporter,
        opened_time=timestamp(gate.started),
        decided_time=timestamp(gate.decided),
        deadline_time=timestamp(gate.deadline) if has_deadline else None,
        phase=PHASES[gate.phase],
        renew_by_time=timestamp(gate.deadline) if gate.must_be_renewed else None,
        failures=gate.failures,
        inconclusives=gate.inconclusives,
        claim=_claim(gate, claim),
        dry_run=gate.dry_run,
        failure_limit=gate.failure_limit,
        pass_ttl=None if gate.ttl_seconds is None else _duration(gate.ttl_seconds),
    )


def _duration(seconds: float) -> Duration:
    message = Duration()
    message.FromTimedelta(timedelta(seconds=seconds))
    return message


def _claim(gate: Gate, claim: Claim | None) -> control_pb2.GateClaim | None:
    """One on an attempt that is over says nothing of this one."""
    if claim is None or claim.attempt != gate.attempt:
        return None
    return control_pb2.GateClaim(runner=claim.runner, expire_time=timestamp(claim.expires))


def _condition(condition: Condition) -> control_pb2.Condition:
    return control_pb2.Condition(
        type=condition.type,
        status=condition.status,
        reason=condition.reason,
        message=condition.message,
        time=timestamp(condition.time),
    )


def _transition(line: Transition) -> control_pb2.Transition:
    return control_pb2.Transition(
        time=timestamp(line.time),
        actor=line.actor,
        event=line.event,
        from_state=STATES[line.from_state] if line.from_state else control_pb2.INSTANCE_STATE_UNSPECIFIED,
        to_state=STATES[line.to_state],
        reason=line.reason,
    )
