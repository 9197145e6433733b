"""From the API's messages to the client's values, and from words to the API's numbers. Pure.

The rule: nothing that a proxy may say is an error here.
"""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from google.protobuf.timestamp_pb2 import Timestamp

from greenroom.client.values import (
    Change,
    ChangeKind,
    Claim,
    Condition,
    Decision,
    Gate,
    GateClaim,
    GatedKey,
    GateState,
    Hold,
    Instance,
    Outcome,
    Phase,
    Preview,
    RemovalReason,
    Selector,
    State,
    Verdict,
)
from greenroom.pb.control.v1 import control_pb2 as pb

EnumT = TypeVar("EnumT", bound=StrEnum)
KEPT_REASON_BYTES = 2048
"""A request of more than 256 KiB is refused, and a check may have said more than that."""
_INSTANCES = "instances/"
_PREVIEWS = "previews/"


def name_of(instance: str) -> str:
    """The resource name of an id."""
    return f"{_INSTANCES}{instance}"


def state_filter(state: State | str | None) -> "pb.InstanceState.ValueType":
    """The number of a state to ask for, or of its word; ValueError for another word, and for UNKNOWN, which no proxy
    can look for."""
    if state is None:
        return pb.INSTANCE_STATE_UNSPECIFIED
    return pb.InstanceState.Value(f"INSTANCE_STATE_{State(state).name}")


def outcome_number(outcome: Outcome | str) -> "pb.Outcome.ValueType":
    """The number of an outcome, or of its word; ValueError for another word."""
    return pb.Outcome.Value(f"OUTCOME_{Outcome(outcome).name}")


def end_of_reason(reason: str) -> str:
    """What the proxy keeps of a reason. Half a letter, as a model may answer in JSON, is no UTF-8 and becomes a `?`."""
    return reason.encode("utf-8", "replace")[-KEPT_REASON_BYTES:].decode("utf-8", "ignore")


def instance_of(message: pb.Instance) -> Instance:
    """An instance as the API shows it."""
    return Instance(
        id=message.id,
        state=_word(State, pb.InstanceState, message.state),
        reason=message.reason,
        hold=_word(Hold, pb.Hold, message.hold),
        namespace=message.namespace,
        component=message.component,
        endpoints=tuple(message.endpoints),
        models=tuple(message.models),
        address=message.address,
        generation=message.generation,
        gated_keys=tuple(GatedKey(key.key, key.live, key.public) for key in message.gated_keys),
        gates=tuple(map(_gate, message.gates)),
        conditions=tuple(map(_condition, message.conditions)),
        rollout_holds=tuple(message.rollout_holds),
        queue_position=message.queue_position,
        dry_run=message.dry_run,
        first_held_time=moment(message.first_held_time),
        release_time=moment(message.release_time),
        record_revision=message.record_revision,
    )


def change_of(event: pb.InstanceEvent) -> Change:
    """An event that is about an instance."""
    kind = _word(ChangeKind, pb.InstanceEventType, event.type)
    reason = _word(RemovalReason, pb.RemovalReason, event.removal_reason) if kind is ChangeKind.REMOVED else None
    return Change(kind, instance_of(event.instance), reason)


def verdict_of(message: pb.ReportVerdictResponse) -> Verdict:
    """The answer to a verdict."""
    decision = _word(Decision, pb.Decision, message.decision)
    return Verdict(instance_of(message.instance), decision, message.repeated_verdict)


def claim_of(message: pb.Claim) -> Claim:
    """A claim, whose name says what it is of."""
    _, instance, _, gate, _ = message.name.split("/")
    return Claim(instance, gate, message.attempt, message.runner, moment(message.expire_time))


def preview_of(message: pb.Preview) -> Preview:
    """A preview that is open."""
    return Preview(message.name.removeprefix(_PREVIEWS), message.address, moment(message.expire_time))


def preview_request(instance: str, selector: Selector | None, ttl_seconds: float, *, only: bool) -> pb.Preview:
    """What to open, but for who asks; a time of 0 is the proxy's own."""
    asked = pb.Preview(instance=name_of(instance) if instance else "", only=only)
    if selector is not None:
        asked.selector.CopyFrom(pb.Selector(**asdict(selector)))
    if ttl_seconds:
        asked.ttl.FromTimedelta(timedelta(seconds=ttl_seconds))
    return asked


def moment(timestamp: Timestamp) -> datetime | None:
    """The time with its zone; None where it is not set."""
    return timestamp.ToDatetime(UTC) if timestamp.seconds else None


def _gate(message: pb.GateStatus) -> Gate:
    claim = message.claim
    return Gate(
        name=message.gate,
        state=_word(GateState, pb.GateState, message.state),
        attempt=message.attempt,
        reason=message.reason,
        reporter=message.reporter,
        phase=_word(Phase, pb.GatePhase, message.phase),
        opened_time=moment(message.opened_time),
        decided_time=moment(message.decided_time),
        deadline_time=moment(message.deadline_time),
        renew_by_time=moment(message.renew_by_time),
        pass_ttl_seconds=message.pass_ttl.ToTimedelta().total_seconds(),
        failures=message.failures,
        failure_limit=message.failure_limit,
        inconclusives=message.inconclusives,
        claim=GateClaim(claim.runner, moment(claim.expire_time)) if message.HasField("claim") else None,
        dry_run=message.dry_run,
    )


def _condition(message: pb.Condition) -> Condition:
    return Condition(message.type, message.status, message.reason, message.message, moment(message.time))


def _word(kind: type[EnumT], names: Any, number: int) -> EnumT:
    """The member that is called as the number is; UNKNOWN for one that has no name here."""
    common = str(names.Name(0)).removesuffix("UNSPECIFIED")
    member = str(names.Name(number)).removeprefix(common) if number in names.values() else ""
    return kind.__members__.get(member, kind["UNKNOWN"])
