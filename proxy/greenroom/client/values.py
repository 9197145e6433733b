"""What the client tells: instances, their gates, changes, claims, answers to verdicts. Values, and the words of enums.

The rule: no protobuf here. A word that only a newer proxy knows is `unknown`, so that older programs go on.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class State(StrEnum):
    """Of an instance."""

    HELD = "held"
    RELEASED = "released"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"
    UNKNOWN = "unknown"


class Hold(StrEnum):
    """What is kept back while an instance is held."""

    CARD = "card"
    CARD_AND_INSTANCE = "card+instance"
    HEALTH = "health"
    UNKNOWN = "unknown"


class GateState(StrEnum):
    """Where a gate stands. Inconclusive and error leave its attempt open until the deadline."""

    PENDING = "pending"
    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    ERROR = "error"
    OVERRIDDEN = "overridden"
    UNKNOWN = "unknown"


class Phase(StrEnum):
    """For how long a gate's pass counts."""

    PRE_RELEASE = "pre-release"
    CONTINUOUS = "continuous"
    UNKNOWN = "unknown"


class Outcome(StrEnum):
    """What a verdict says of an attempt."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    ERROR = "error"


class Decision(StrEnum):
    """What followed from a verdict."""

    RECORDED = "recorded"
    """Other gates are still to be decided."""
    QUEUED = "queued"
    """Every gate has passed, and another condition keeps it back."""
    RELEASED = "released"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"
    HELD = "held"
    UNKNOWN = "unknown"


class ChangeKind(StrEnum):
    """What a change says."""

    EXISTING = "existing"
    """It was there when the watch began, or began anew."""
    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"
    UNKNOWN = "unknown"


class RemovalReason(StrEnum):
    """Why an instance was removed."""

    EXPIRED = "expired"
    """Its lease ended; the change shows it as it was at last."""
    NOT_MATCHING = "not_matching"
    """It is there, and no longer what was asked for; the change shows it as it is."""
    UNREADABLE = "unreadable"
    UNKNOWN = "unknown"
    """It went while the watch was away."""


OPEN_GATES = frozenset({GateState.PENDING, GateState.INCONCLUSIVE, GateState.ERROR})


@dataclass(frozen=True, slots=True)
class GateClaim:
    """Who runs a gate's current attempt, and until when unless that is renewed."""

    runner: str
    expire_time: datetime | None


@dataclass(frozen=True, slots=True)
class Gate:
    """Where one gate of one instance stands. Times have their zone; None where they are not set."""

    name: str
    state: GateState
    attempt: int
    """A verdict must name it. A changed card or a retry opens the next one."""
    reason: str
    reporter: str
    phase: Phase
    opened_time: datetime | None
    decided_time: datetime | None
    deadline_time: datetime | None
    """The attempt fails by itself then."""
    renew_by_time: datetime | None
    """By then a continuous gate must have passed again."""
    pass_ttl_seconds: float
    """Of a continuous gate: how long a pass holds; 0 for any other."""
    failures: int
    failure_limit: int
    """So many failures are forgiven."""
    inconclusives: int
    claim: GateClaim | None
    dry_run: bool
    """Only rules in dry run ask for it."""

    @property
    def is_open(self) -> bool:
        """Whether its attempt still waits for a verdict that decides it."""
        return self.state in OPEN_GATES


@dataclass(frozen=True, slots=True)
class Condition:
    """One of the things that must be true before a release."""

    type: str
    """GatesPassed, NotOnHold, BudgetAvailable, NoConflict."""
    status: bool
    reason: str
    """One word, for programs."""
    message: str
    """One sentence, for people."""
    time: datetime | None


@dataclass(frozen=True, slots=True)
class GatedKey:
    """A key that must not be public before the release; whether it still exists, and where everybody sees it."""

    key: bytes
    live: bool
    public: bool


@dataclass(frozen=True, slots=True)
class Instance:
    """One worker as etcd sees it: one lease."""

    id: str
    """The lease in hex."""
    state: State
    reason: str
    hold: Hold
    namespace: str
    component: str
    endpoints: tuple[str, ...]
    models: tuple[str, ...]
    address: str
    """host:port where it says it serves; empty as long as it has registered no instance record."""
    generation: int
    gated_keys: tuple[GatedKey, ...]
    gates: tuple[Gate, ...]
    conditions: tuple[Condition, ...]
    rollout_holds: tuple[str, ...]
    """The ids of those that apply to it."""
    queue_position: int
    """0: not queued; a watch does not tell it."""
    dry_run: bool
    first_held_time: datetime | None
    release_time: datetime | None
    record_revision: int
    """Never goes back."""

    def gate(self, name: str) -> Gate | None:
        """The gate of that name; None where its rules ask for none."""
        return next((gate for gate in self.gates if gate.name == name), None)

    @property
    def waits_for(self) -> str:
        """Its conditions that are not met, in one line; empty where all are."""
        return "; ".join(condition.message for condition in self.conditions if not condition.status)


@dataclass(frozen=True, slots=True)
class Change:
    """One instance's news. `removal_reason` stands with REMOVED only."""

    kind: ChangeKind
    instance: Instance
    removal_reason: RemovalReason | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a verdict: the instance after it, and what followed."""

    instance: Instance
    decision: Decision
    repeated: bool
    """The same had been said before; nothing was written."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A runner's right to run one attempt of one gate, until it ends."""

    instance: str
    """The id."""
    gate: str
    attempt: int
    runner: str
    expire_time: datetime | None


@dataclass(frozen=True, slots=True)
class Selector:
    """Globs that must all match; an empty one matches everything."""

    namespace: str = ""
    component: str = ""
    endpoint: str = ""
    model: str = ""
    suffix: str = ""
    """The part after the instance in a card's key, as a LoRA card has it."""


@dataclass(frozen=True, slots=True)
class Preview:
    """An address where etcd's clients, such as a frontend for checks, see held keys as if they were released."""

    id: str
    address: str
    """host:port; http:// before it is what ETCD_ENDPOINTS takes."""
    expire_time: datetime | None
