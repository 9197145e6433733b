"""The record: one instance's state as it lies in etcd, JSON under the instance's own lease.

The record decides, not this proxy's policy file: whoever reads it must come to the same answer. It holds whatever was
promised to reporters and operators, so fields that a newer proxy added are kept as they are, and a schema version
that is not known here is refused rather than guessed at.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, PlainSerializer, ValidationError
from pydantic_core import to_json

from greenroom.core.cards import Attributes
from greenroom.core.keyspace import Key
from greenroom.core.policy import Hold, OnConflict, Phase
from greenroom.core.templates import KeyKind
from greenroom.errors import UnreadableRecord

SCHEMA_VERSION = 1
MAX_REASON_BYTES = 2048
"""A reason's end is what a failing check printed last; more would fill etcd, not help anyone."""
MAX_TRAIL_REASON_BYTES = 256
"""In the audit trail. Whole reasons would grow the record until it did not fit into one request with its cards."""
SPELLED_BYTES = 2
"""What a byte of a reason takes in JSON at most, as in a text of line breaks. Most other control characters take six
bytes, so of a text that is full of them less is kept.
"""
MAX_LINE_BYTES = 1024
"""One line of the audit trail as it is stored: its reason has the room that the actor leaves."""
_LINE_FRAME_BYTES = 160
"""The names of its fields, its time and its states."""
MAX_ACTOR_BYTES = 256
"""Of a reporter's or person's name, which whoever takes it in sees to; no control character is in it."""
MAX_TRANSITIONS = 64
"""The audit trail of one instance; the oldest entries make room, the first (its opening) stays."""
_LONGEST_ESCAPE = len(r"\u0001")
ALREADY_PUBLIC = "AlreadyPublic"
"""Why an instance was opened as released: it served before the proxy saw it."""

Moment = Annotated[AwareDatetime, PlainSerializer(lambda when: when.isoformat(timespec="milliseconds"), str, "json")]
"""A wall-clock time with its zone, kept to the millisecond."""


class State(StrEnum):
    """Where an instance stands."""

    HELD = "HELD"
    RELEASED = "RELEASED"
    REJECTED = "REJECTED"
    WITHDRAWN = "WITHDRAWN"


class GateState(StrEnum):
    """How a gate's current attempt went so far."""

    PENDING = "PENDING"
    PASSED = "PASSED"
    FAILED = "FAILED"
    INCONCLUSIVE = "INCONCLUSIVE"
    ERROR = "ERROR"
    OVERRIDDEN = "OVERRIDDEN"

    @property
    def is_through(self) -> bool:
        """Whether this gate no longer keeps its instance back."""
        return self in (GateState.PASSED, GateState.OVERRIDDEN)

    @property
    def is_open(self) -> bool:
        """Whether the attempt may still be decided."""
        return self in (GateState.PENDING, GateState.INCONCLUSIVE, GateState.ERROR)


class Stored(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class Gate(Stored):
    """One gate of one instance. `started` is the opening of the attempt, `deadline` its latest end.

    Of a continuous gate that passed, `deadline` is when it must have passed again.

    The settings are those of GatePolicy, as its rules had them. `failures` counts the failed attempts since the last
    pass or fresh start, `inconclusives` the verdicts of that kind on this attempt where they are limited; `forgiven` is
    the last failed attempt that another followed by itself, 0 for none. `claims` counts those made since the last
    verdict. `decided` is the last deciding verdict's time, and `passed` the first's where a pass must be renewed.
    """

    state: GateState = GateState.PENDING
    attempt: int = Field(default=1, ge=1)
    timeout_seconds: float
    failure_limit: int = Field(default=0, ge=0)
    inconclusive_limit: int | None = Field(default=None, ge=0)
    max_concurrent: int | None = Field(default=None, ge=1)
    claim_limit: int = Field(default=3, ge=1)
    phase: Phase = Phase.PRE_RELEASE
    ttl_seconds: float | None = None
    failures: int = Field(default=0, ge=0)
    inconclusives: int = Field(default=0, ge=0)
    forgiven: int = Field(default=0, ge=0)
    claims: int = Field(default=0, ge=0)
    started: Moment
    deadline: Moment
    decided: Moment | None = None
    passed: Moment | None = None
    reason: str = ""
    reporter: str = ""
    dry_run: bool = False
    """Only rules in dry run ask for it."""

    @property
    def ready(self) -> datetime | None:
        """Since when it keeps nobody back; None for never. To have a pass renewed loses no place in a queue."""
        return self.passed if self.must_be_renewed and self.passed else self.decided

    @property
    def must_be_renewed(self) -> bool:
        """Whether it has passed, and only for as long as its deadline says."""
        return self.phase is Phase.CONTINUOUS and self.state is GateState.PASSED

    def has_lapsed(self, now: datetime) -> bool:
        """Whether its pass was not renewed in time."""
        return self.must_be_renewed and self.deadline <= now

    @property
    def is_worn_out(self) -> bool:
        """Whether no runner may claim the attempt again: too many went away without a verdict."""
        return self.claims >= self.claim_limit


class GatedEntry(Stored):
    """One gated key of the instance with what rules and rollout holds select by (None: could not be read)."""

    key: str
    kind: KeyKind = KeyKind.CARD
    namespace: str | None = None
    component: str | None = None
    endpoint: str | None = None
    model: str | None = None
    suffix: str | None = ""
    configuration: str = ""
    """Of a card: what frontends compare of it (see `configuration`), as it was when the record was written."""
    later_gates: tuple[str, ...] = ()
    """Of a later card, one that came when its instance was released: the gates that it waits for by itself."""

    @property
    def attributes(self) -> Attributes:
        """The same for selectors."""
        return Attributes(self.namespace, self.component, self.endpoint, self.model, self.suffix)

    @property
    def gated_key(self) -> Key:
        """The key as etcd has it."""
        return Key(self.key.encode())


class Transition(Stored):
    """One line of the audit trail: who did what, when and why. `from_state` is None for the opening."""

    time: Moment
    actor: str
    event: str
    from_state: State | None = None
    to_state: State
    reason: str = ""


class Record(Stored):
    """All that is stored of an instance. `cards` is ordered, and may name keys that are gone."""

    schema_version: Literal[1] = 1
    state: State
    hold: Hold
    reason: str = ""
    generation: int = Field(default=1, ge=1)
    cards: tuple[GatedEntry, ...] = ()
    gates: Mapping[str, Gate] = Field(default_factory=dict)
    first_held: Moment | None = None
    released: Moment | None = None
    withdrawn_by: str = ""
    rejected_by: str = ""
    dry_run: bool = False
    """Every rule that matched is in dry run: it goes through its states, and serves all the while."""
    on_conflict: OnConflict = OnConflict.WARN
    conflict: str = ""
    """The conflict that it was rejected for; empty where it was not, or somebody, or a change of a card, ended that."""
    transitions: tuple[Transition, ...] = ()

    def entry(self, key: bytes) -> GatedEntry | None:
        """The entry of a key, or None where it was never registered or dropped."""
        return next((entry for entry in self.cards if entry.gated_key == key), None)

    @property
    def keys(self) -> tuple[Key, ...]:
        """The gated keys in the order of their registration."""
        return tuple(entry.gated_key for entry in self.cards)

    @property
    def attributes(self) -> tuple[Attributes, ...]:
        """What selectors are tried on: the cards', and the instance records' (which name no model) where no card is."""
        return _attributes(self.cards)

    @property
    def attributes_to_publish(self) -> tuple[Attributes, ...]:
        """The same of what a release would publish: where later cards wait it is those alone."""
        return _attributes(self.later or self.cards)

    @property
    def later(self) -> tuple[GatedEntry, ...]:
        """The later cards that were held: what a released instance registered and is checked by itself."""
        return tuple(entry for entry in self.cards if entry.later_gates)

    @property
    def waited_for(self) -> Mapping[str, Gate]:
        """The gates that keep something back: of a released instance those of its later cards, else all that count."""
        if self.state is not State.RELEASED:
            return self.binding
        names = {name for entry in self.later for name in entry.later_gates}
        return {name: gate for name, gate in self.gates.items() if name in names}

    def is_through(self, gate: str) -> bool:
        """Whether a gate no longer keeps anything back; False for one that the instance has not."""
        return gate in self.gates and self.gates[gate].state.is_through

    def is_reopened(self, gate: str) -> bool:
        """Whether a later card opened a new attempt of a continuous gate, and it has not passed again.

        The card may be gone. The gate is decided and retried all the same, or nobody would look at the instance again.
        """
        found = self.gates.get(gate)
        if found is None or self.state is not State.RELEASED or found.phase is not Phase.CONTINUOUS:
            return False
        return found.passed is None and found.state is not GateState.OVERRIDDEN

    def with_held(self, held: Container[Key]) -> "Record":
        """The record without the marks of later cards that are not held (any more: a delete does not write it)."""
        if all(entry.gated_key in held for entry in self.later):
            return self
        unmarked = {"later_gates": ()}
        cards = (entry if entry.gated_key in held else entry.model_copy(update=unmarked) for entry in self.cards)
        return self.model_copy(update={"cards": tuple(cards)})

    def distinct(self, name: Literal["namespace", "component", "endpoint", "model"]) -> tuple[str, ...]:
        """The different values of one attribute, in the order of registration."""
        values: Iterable[str | None] = (getattr(entry, name) for entry in self.cards)
        return tuple(dict.fromkeys(value for value in values if value))

    @property
    def binding(self) -> Mapping[str, Gate]:
        """The gates that move it. Where an obeyed rule asks for any, those of rules in dry run are only noted."""
        return self.gates if self.dry_run else {name: gate for name, gate in self.gates.items() if not gate.dry_run}

    @property
    def publishes_at_once(self) -> bool:
        """Whether new values go straight to their public place, but for those of later cards."""
        return self.state is State.RELEASED or self.hold is Hold.HEALTH

    @property
    def is_taken_back(self) -> bool:
        """Whether it was withdrawn, and neither released since nor, where a person did it, given another chance."""
        return bool(self.withdrawn_by) or (self.state is State.WITHDRAWN and not self.dry_run)

    @property
    def serves(self) -> bool:
        """Whether it is to have traffic: released, or in dry run and kept out by nobody."""
        return self.state is State.RELEASED or (self.dry_run and not (self.withdrawn_by or self.rejected_by))

    def with_transition(self, time: datetime, actor: str, event: str, to_state: State, reason: str = "") -> "Record":
        """The record in another state, with the line that says why."""
        room = (MAX_LINE_BYTES - _LINE_FRAME_BYTES - _json_bytes(actor) - _json_bytes(event)) // SPELLED_BYTES
        why = bounded_reason(reason, max(0, min(MAX_TRAIL_REASON_BYTES, room)))
        line = Transition(time=time, actor=actor, event=event, from_state=self.state, to_state=to_state, reason=why)
        return self.model_copy(update={"state": to_state, "transitions": bounded((*self.transitions, line))})


def _attributes(entries: Sequence[GatedEntry]) -> tuple[Attributes, ...]:
    cards = tuple(entry.attributes for entry in entries if entry.kind is KeyKind.CARD)
    return cards or tuple(entry.attributes for entry in entries)


def bounded(transitions: tuple[Transition, ...]) -> tuple[Transition, ...]:
    """The trail within its bound: the opening and the newest lines."""
    if len(transitions) <= MAX_TRANSITIONS:
        return transitions
    return (transitions[0], *transitions[1 - MAX_TRANSITIONS :])


def bounded_reason(reason: str, limit_bytes: int = MAX_REASON_BYTES) -> str:
    """The last 2 KiB of a reason, cut between characters: the end of a check's output says what went wrong.

    Less where JSON, which the record is, would spell that in more than SPELLED_BYTES for each byte of the limit.
    """
    encoded = reason.encode("utf-8", "replace")
    kept = encoded[max(0, len(encoded) - limit_bytes) :].decode("utf-8", "ignore")
    while (surplus := _json_bytes(kept) - SPELLED_BYTES * limit_bytes) > 0:
        kept = kept[-(-surplus // _LONGEST_ESCAPE) :]
    return kept


def _json_bytes(text: str) -> int:
    """How many bytes a text takes in the record, between its quotes."""
    return len(to_json(text)) - 2


def encode(record: Record) -> bytes:
    """The record as etcd stores it."""
    return record.model_dump_json().encode()


def decode(value: bytes, place: str) -> Record:
    """The record from etcd's value; `place` is its key, for the error. UnreadableRecord for anything else."""
    try:
        return Record.model_validate_json(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UnreadableRecord(f"{place}: field {where or '(whole)'}: {first['msg']}") from error
