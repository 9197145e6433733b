"""What callers of the control API may ask: each request read strictly, every mistake named with its field. Pure.

The rule: what is not understood is refused. A field that this version does not know could be the one that makes the
call harmless.
"""

import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message

from greenroom.control.views import INSTANCES, OUTCOMES, PREVIEWS, ROLLOUT_HOLDS, selector_of
from greenroom.core.decisions import DecisionKind, PersonsDecision
from greenroom.core.keyspace import InstanceId, lease_of
from greenroom.core.policy import GATE_NAME, NO_GATE_NAME
from greenroom.core.record import MAX_REASON_BYTES, bounded_reason
from greenroom.core.selectors import Selector
from greenroom.core.strict import Reading, Schema, schema_of
from greenroom.core.transitions import ITSELF, Outcome
from greenroom.errors import InvalidRequest
from greenroom.pb.control.v1 import control_pb2
from greenroom.preview.previews import NewPreview
from greenroom.store.claims import NewClaim

MAX_NAME_BYTES = 256
"""Reporters and actors are names; a longer one is something else."""
LONGEST_ROLLOUT_HOLD_SECONDS = 366 * 24 * 3600
"""A year: longer is a typing error, and one without expiry can be had."""
SHORTEST_CLAIM_SECONDS = 5
"""A shorter one would end while etcd elects a leader."""
LONGEST_CLAIM_SECONDS = 3600
"""A runner that died keeps its attempt from others for so long; who runs longer renews."""
DEFAULT_PREVIEW_SECONDS = 3600
"""A suite of checks is done by then, and a preview that somebody forgot is a hole that closes."""
LONGEST_PREVIEW_SECONDS = 24 * 3600
DEFAULT_PAGE_SIZE = 100
MAX_PAGE_SIZE = 1000
"""So many fit into an answer as long as they have some KiB each; see paging for those that have more."""
UNNAMED_REPORTER = "unknown"

MAX_SHOWN_CHARACTERS = 80
"""Of a wrong value, in an error. The longest good one, a DNS label in a resource name, is shorter."""

_HOLD_ID = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_HOLD_ID_WORDS = "is not a DNS label (lower-case letters, digits and '-', at most 63)"

MessageT = TypeVar("MessageT", bound=Message)

DecisionRequest = (
    control_pb2.ReleaseInstanceRequest
    | control_pb2.RejectInstanceRequest
    | control_pb2.WithdrawInstanceRequest
    | control_pb2.RetryGatesRequest
    | control_pb2.DropCardsRequest
    | control_pb2.RevokeLeaseRequest
)


class RequestParser:
    """Reads the bytes of one kind of request."""

    def __init__(self, message_type: type[Message]) -> None:
        self._type = message_type
        self._schema: Schema = schema_of(message_type)

    def __call__(self, data: bytes) -> Any:
        """The request; InvalidRequest for what is malformed, not UTF-8, or has fields that are not known here."""
        finding = self._schema.scan(data)
        if finding.reading is Reading.UNKNOWN_FIELD:
            raise InvalidRequest(
                f"field {finding.number} of {finding.message} is not known to this version of Greenroom: "
                "leave it out, or use a proxy that knows it"
            )
        try:
            if finding.reading is Reading.MALFORMED:
                raise DecodeError
            return self._type.FromString(data)
        except DecodeError:
            name = self._type.DESCRIPTOR.full_name
            raise InvalidRequest(f"the request is no {name}, or a text in it is not UTF-8") from None


@dataclass(frozen=True, slots=True)
class VerdictReport:
    """A valid ReportVerdictRequest."""

    instance: InstanceId
    gate: str
    attempt: int
    outcome: Outcome
    reason: str
    reporter: str


@dataclass(frozen=True, slots=True)
class ClaimToken:
    """Which claim somebody says is his, by a valid RenewClaimRequest or ReleaseClaimRequest."""

    instance: InstanceId
    gate: str
    lease: int


@dataclass(frozen=True, slots=True)
class NewRolloutHold:
    """A valid CreateRolloutHoldRequest. `ttl_seconds` None: it stands until lifted."""

    hold_id: str
    reason: str
    actor: str
    selector: Selector
    ttl_seconds: int | None


def instance_of(name: str, field: str = "name") -> InstanceId:
    """The instance of a resource name `instances/{id}`."""
    instance = InstanceId(_id_of(name, INSTANCES, field))
    try:
        lease_of(instance)
    except ValueError:
        words = f"expected '{INSTANCES}' and a lease id in lower-case hexadecimal without leading zeros"
        raise _wrong(field, f"{_shown(name)} names no instance: {words}") from None
    return instance


def rollout_hold_of(name: str) -> str:
    """The id in a resource name `rolloutHolds/{id}`."""
    hold_id = _id_of(name, ROLLOUT_HOLDS)
    if not _HOLD_ID.fullmatch(hold_id):
        raise _wrong("name", f"{_shown(name)} names no rollout hold: what follows '{ROLLOUT_HOLDS}' {_HOLD_ID_WORDS}")
    return hold_id


def verdict_report(request: control_pb2.ReportVerdictRequest) -> VerdictReport:
    """The verdict; InvalidRequest names the field. Of a reason that is too long the end is kept."""
    instance = instance_of(request.name)
    gate = _gate(request.gate)
    if request.attempt < 1:
        raise _wrong("attempt", "is required, and counts from 1: the one that was checked, as GetInstance gives it")
    outcome = OUTCOMES.get(request.outcome)
    if outcome is None:
        known = ", ".join(
            control_pb2.Outcome.Name(value) for value in control_pb2.Outcome.values() if value in OUTCOMES
        )
        raise _wrong("outcome", f"is required, one of: {known}")
    reporter = _name("reporter", request.reporter) or UNNAMED_REPORTER
    return VerdictReport(instance, gate, request.attempt, outcome, bounded_reason(request.reason), reporter)


def persons_decision(kind: DecisionKind, request: DecisionRequest) -> PersonsDecision:
    """What a person decided; InvalidRequest names the field. A reason that is too long is the person's to shorten."""
    instance = instance_of(request.name)
    if isinstance(request, control_pb2.ReleaseInstanceRequest) and not request.override:
        raise _wrong(
            "override",
            "must be true: whoever releases by hand sets aside every gate that has not passed; "
            "gates that pass release by themselves",
        )
    if not request.reason.strip():
        raise _wrong("reason", "is required: it is all that others will see of why")
    if (size := len(request.reason.encode())) > MAX_REASON_BYTES:
        raise _wrong("reason", f"has {size} bytes, and may have {MAX_REASON_BYTES}: shorten it")
    if not request.actor.strip():
        raise _wrong("actor", "is required: who decides")
    gates = request.gates if isinstance(request, control_pb2.RetryGatesRequest) else ()
    return PersonsDecision(
        kind=kind,
        instance=instance,
        actor=_name("actor", request.actor),
        reason=request.reason,
        gates=tuple(dict.fromkeys(_gate(gate, "gates") for gate in gates)),
    )


def new_claim(request: control_pb2.ClaimGateRequest) -> NewClaim:
    """The claim to make; InvalidRequest names the field."""
    instance = instance_of(request.name)
    gate = _gate(request.gate)
    if request.attempt < 1:
        raise _wrong("attempt", "is required, and counts from 1: the one to run, as GetInstance gives it")
    if not request.runner.strip():
        raise _wrong("runner", "is required: whoever asks why the gate is not free is told this name")
    return NewClaim(instance, gate, request.attempt, _name("runner", request.runner), _claim_seconds(request))


def claim_token(request: control_pb2.RenewClaimRequest | control_pb2.ReleaseClaimRequest) -> ClaimToken:
    """The claim and its token; InvalidRequest names the field."""
    match request.name.split("/"):
        case ["instances", instance, "gates", gate, "claim"]:
            named = instance_of(f"{INSTANCES}{instance}"), _gate(gate)
        case _:
            form = f"'{INSTANCES}{{id}}/gates/{{gate}}/claim', as ClaimGate gives it"
            raise _wrong("name", f"{_shown(request.name)} is not of the form {form}")
    try:
        return ClaimToken(*named, lease_of(InstanceId(request.lease)))
    except ValueError:
        words = "is the lease of the claim, in lower-case hexadecimal, as ClaimGate gives it"
        raise _wrong(
            "lease", f"{_shown(request.lease)} {words}" if request.lease else f"is required: it {words}"
        ) from None


def new_rollout_hold(request: control_pb2.CreateRolloutHoldRequest, now: datetime) -> NewRolloutHold:
    """The rollout hold to create; InvalidRequest names the field."""
    hold = request.rollout_hold
    if not hold.reason.strip():
        raise _wrong("rollout_hold.reason", "is required: it is all that others will see of why")
    if not hold.actor.strip():
        raise _wrong("rollout_hold.actor", "is required: who asks for it")
    if hold.name or hold.HasField("create_time"):
        raise _wrong("rollout_hold", "name and create_time are the proxy's to set; choose a name by rollout_hold_id")
    actor = _name("rollout_hold.actor", hold.actor)
    return NewRolloutHold(
        _new_hold_id(request.rollout_hold_id),
        bounded_reason(hold.reason),
        actor,
        selector_of(hold.selector),
        _ttl_seconds(hold, now),
    )


def preview_of(name: str) -> str:
    """The id in a resource name `previews/{id}`."""
    return _id_of(name, PREVIEWS)


def new_preview(request: control_pb2.OpenPreviewRequest) -> NewPreview:
    """The preview to open; InvalidRequest names the field."""
    asked = request.preview
    if asked.name or asked.address or asked.HasField("create_time") or asked.HasField("expire_time"):
        raise _wrong(
            "preview", "name, address, create_time and expire_time are the proxy's to set; ttl is the caller's"
        )
    if not asked.actor.strip():
        raise _wrong("preview.actor", "is required: who asks for it")
    if asked.instance and asked.HasField("selector"):
        raise _wrong("preview.selector", "is for many instances, and preview.instance names one; give one of the two")
    if asked.only and not asked.instance:
        raise _wrong("preview.only", "is for a preview of one instance: give preview.instance")
    return NewPreview(
        actor=_name("preview.actor", asked.actor),
        ttl_seconds=_preview_seconds(asked),
        instance=instance_of(asked.instance, "preview.instance") if asked.instance else None,
        selector=selector_of(asked.selector) if asked.HasField("selector") else None,
        only=asked.only,
    )


def page_size(asked: int) -> int:
    """How many to give at most; 0 is our choice, and more than we give at once is cut."""
    if asked < 0:
        raise _wrong("page_size", f"{asked} is negative")
    return min(asked or DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)


def _id_of(name: str, collection: str, field: str = "name") -> str:
    found = name.removeprefix(collection)
    if found == name or not found or "/" in found:
        raise _wrong(field, f"{_shown(name)} is not of the form '{collection}{{id}}'")
    return found


def _gate(name: str, field: str = "gate") -> str:
    """What no policy can name is refused before anything is looked up; reserved names are just not there."""
    if not name:
        raise _wrong(field, "is required")
    if not GATE_NAME.fullmatch(name):
        raise _wrong(field, f"{_shown(name)} {NO_GATE_NAME}")
    return name


def _name(field: str, value: str) -> str:
    name = value.strip()
    if len(name.encode()) > MAX_NAME_BYTES or not name.isprintable():
        raise _wrong(field, f"is a name of at most {MAX_NAME_BYTES} bytes, without line breaks")
    if name == ITSELF:
        raise _wrong(field, f"{name!r} is the proxy's own name in the trail: say who it really is")
    return name


def _new_hold_id(asked: str) -> str:
    if not asked:
        return f"hold-{secrets.token_hex(4)}"
    if not _HOLD_ID.fullmatch(asked):
        raise _wrong("rollout_hold_id", f"{_shown(asked)} {_HOLD_ID_WORDS}")
    return asked


def _ttl_seconds(hold: control_pb2.RolloutHold, now: datetime) -> int | None:
    """Whole seconds, rounded up: a hold must not end before it was asked to."""
    field = hold.WhichOneof("expiration")
    if field is None:
        return None
    try:
        asked = hold.ttl.ToTimedelta() if field == "ttl" else hold.expire_time.ToDatetime(UTC) - now
    except (ValueError, OverflowError):
        raise _wrong(f"rollout_hold.{field}", "is out of range") from None
    seconds = -(-asked // timedelta(seconds=1))
    if not 0 < seconds <= LONGEST_ROLLOUT_HOLD_SECONDS:
        words = f"must lie in the future, by at most {LONGEST_ROLLOUT_HOLD_SECONDS} s"
        raise _wrong(f"rollout_hold.{field}", words)
    return seconds


def _claim_seconds(request: control_pb2.ClaimGateRequest) -> int:
    """Whole seconds, rounded up."""
    bounds = f"must be {SHORTEST_CLAIM_SECONDS} s to {LONGEST_CLAIM_SECONDS} s"
    if not request.HasField("ttl"):
        raise _wrong("ttl", f"is required: how long the claim stands without a renewal; it {bounds}")
    try:
        seconds = -(-request.ttl.ToTimedelta() // timedelta(seconds=1))
    except (ValueError, OverflowError):
        raise _wrong("ttl", "is out of range") from None
    if not SHORTEST_CLAIM_SECONDS <= seconds <= LONGEST_CLAIM_SECONDS:
        raise _wrong("ttl", bounds)
    return seconds


def _preview_seconds(asked: control_pb2.Preview) -> float:
    """An hour where nothing is said."""
    try:
        seconds = asked.ttl.ToTimedelta().total_seconds()
    except (ValueError, OverflowError):
        raise _wrong("preview.ttl", "is out of range") from None
    if not 0 <= seconds <= LONGEST_PREVIEW_SECONDS:
        raise _wrong("preview.ttl", f"must be at most {LONGEST_PREVIEW_SECONDS} s; 0 is {DEFAULT_PREVIEW_SECONDS} s")
    return seconds or DEFAULT_PREVIEW_SECONDS


def _shown(value: str) -> str:
    """A wrong value, quoted, and short enough for an error that travels in headers."""
    return repr(value if len(value) <= MAX_SHOWN_CHARACTERS else f"{value[: MAX_SHOWN_CHARACTERS - 1]}…")


def _wrong(field: str, words: str) -> InvalidRequest:
    """The mistake in one field, which programs find by its name and people read first."""
    return InvalidRequest(f"{field}: {words}", field=field)
