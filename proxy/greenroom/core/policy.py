"""The policy: which instances need which gates. Operators' input, so it is validated and unknown fields are refused."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from greenroom.core.cards import Attributes
from greenroom.core.selectors import Selector
from greenroom.core.templates import (
    DYNAMO_INSTANCES,
    GatedKey,
    GatedKeys,
    KeyKind,
    Template,
    dynamo_gated_keys,
)

NumberT = TypeVar("NumberT", int, float)

RESERVED_GATE_NAMES = frozenset({"publish"})
LARGEST_TIMEOUT_SECONDS = 30 * 24 * 3600
"""A month: longer is a typing error, and a deadline that far off is no deadline."""

LARGEST_LIMIT = 100
"""Of verdicts that are forgiven or counted, and of claims: more is a typing error."""
SHORTEST_TTL_SECONDS = 5
"""A pass that ends sooner would end while etcd elects a leader."""
LARGEST_CONCURRENCY = 100_000
"""More runners at once than any fleet has: to bound nothing, leave the limit out."""
SETTLE_SECONDS = 30.0
"""What a frontend needs to take a worker in, and its first requests to fail if they do."""
LARGEST_SETTLE_SECONDS = 24 * 3600
"""A day: a drain that waits longer for each step is a rollout hold."""
LARGEST_IN_FLIGHT = 1000
"""Every release writes the names of all that are in flight; more at once is no limit."""
LARGEST_FLOOR = 100_000
"""More instances of one model than anybody runs."""

GATE_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?")
NO_GATE_NAME = "is not a DNS label (lower-case letters, digits, '-' or '_', at most 63)"
"""What is said of a name that GATE_NAME does not match, in a policy and by the control API."""


class Hold(StrEnum):
    """What is kept back until the gates pass, from the least to the most."""

    HEALTH = "health"
    CARD = "card"
    CARD_AND_INSTANCE = "card+instance"

    @property
    def _strength(self) -> int:
        return list(Hold).index(self)

    def stronger(self, other: "Hold") -> "Hold":
        """Whichever of the two keeps back more."""
        return max(self, other, key=lambda hold: hold._strength)


class Phase(StrEnum):
    """When a gate's pass counts: until the release, or only for so long."""

    PRE_RELEASE = "pre-release"
    CONTINUOUS = "continuous"


class Mode(StrEnum):
    """Whether a rule is obeyed, or only watched."""

    ENFORCE = "enforce"
    DRY_RUN = "dry-run"


class OnConflict(StrEnum):
    """What a conflict with a released instance does to one that waits (see `conflicts`), from the least to the most."""

    WARN = "warn"
    QUEUE = "queue"
    REJECT = "reject"

    def stronger(self, other: "OnConflict") -> "OnConflict":
        """Whichever of the two does more."""
        return max(self, other, key=list(OnConflict).index)


def check_gate_name(name: str) -> str:
    """The name itself; ValueError for one that is no DNS label (`_` may stand for `-`) or is reserved."""
    if not GATE_NAME.fullmatch(name):
        raise ValueError(f"gate name {name!r} {NO_GATE_NAME}")
    if name in RESERVED_GATE_NAMES:
        raise ValueError(f"gate name {name!r} is reserved")
    return name


GateName = Annotated[str, AfterValidator(check_gate_name)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GatePolicy(_Strict):
    """One gate of a rule. `timeout_seconds` counts from the opening of each attempt.

    `failure_limit`: failed verdicts that are forgiven, each of which opens the next attempt. `inconclusive_limit`:
    inconclusive verdicts that an attempt may have (None: any number); one more fails it. `max_concurrent`: claims of
    this gate that may be in force at once, over all instances and runners (None: any number). `claim_limit`: claims of
    an attempt that may end without a verdict; then it can be claimed no more. A `continuous` gate passes for
    `ttl_seconds`, then it has to pass again: one that fails, or is not renewed, has its released instance withdrawn.
    """

    timeout_seconds: float = Field(gt=0, le=LARGEST_TIMEOUT_SECONDS, allow_inf_nan=False)
    failure_limit: int = Field(default=0, ge=0, le=LARGEST_LIMIT, strict=True)
    inconclusive_limit: int | None = Field(default=None, ge=0, le=LARGEST_LIMIT, strict=True)
    max_concurrent: int | None = Field(default=None, ge=1, le=LARGEST_CONCURRENCY, strict=True)
    claim_limit: int = Field(default=3, ge=1, le=LARGEST_LIMIT, strict=True)
    phase: Phase = Phase.PRE_RELEASE
    ttl_seconds: float | None = Field(
        default=None, ge=SHORTEST_TTL_SECONDS, le=LARGEST_TIMEOUT_SECONDS, allow_inf_nan=False
    )

    @model_validator(mode="after")
    def _continuous_gates_have_a_ttl(self) -> Self:
        if self.phase is Phase.CONTINUOUS and self.ttl_seconds is None:
            raise ValueError("a gate of phase 'continuous' needs ttl_seconds: how long a pass holds, as 5m")
        if self.phase is Phase.PRE_RELEASE and self.ttl_seconds is not None:
            raise ValueError("ttl_seconds is for gates of phase 'continuous': before a release a pass holds for good")
        return self

    def joined(self, other: "GatePolicy") -> "GatePolicy":
        """What two rules ask of one gate: the longer time, so that no check is cut short; else the stricter."""
        return GatePolicy(
            timeout_seconds=max(self.timeout_seconds, other.timeout_seconds),
            failure_limit=min(self.failure_limit, other.failure_limit),
            inconclusive_limit=_lower(self.inconclusive_limit, other.inconclusive_limit),
            max_concurrent=_lower(self.max_concurrent, other.max_concurrent),
            claim_limit=min(self.claim_limit, other.claim_limit),
            phase=max(self.phase, other.phase, key=list(Phase).index),
            ttl_seconds=_lower(self.ttl_seconds, other.ttl_seconds),
        )


class Rule(_Strict):
    """The gates that matching instances need, and what is kept back meanwhile.

    With mode `dry-run` nothing is: what the rule would have done is recorded.
    """

    name: str = ""
    mode: Mode = Mode.ENFORCE
    selector: Selector = Selector()
    hold: Hold = Hold.CARD
    on_conflict: OnConflict = OnConflict.WARN
    gates: Mapping[GateName, GatePolicy] = Field(min_length=1)

    @model_validator(mode="after")
    def _instances_need_a_component(self) -> Self:
        if self.hold is Hold.CARD_AND_INSTANCE and not (self.selector.component or "").strip("*"):
            raise ValueError(
                "hold 'card+instance' needs a component in its selector: whatever has an endpoint writes an instance "
                "record, a router for one, and without it all of them would be kept back"
            )
        return self

    @property
    def requirements(self) -> "Requirements":
        """What this rule asks of an instance that it matches."""
        is_dry = self.mode is Mode.DRY_RUN
        dry_gates = frozenset(self.gates) if is_dry else frozenset()
        on_conflict = OnConflict.WARN if is_dry else self.on_conflict
        return Requirements(self.keeps, self.gates, dry_gates, is_dry, on_conflict)

    @property
    def keeps(self) -> Hold:
        """What is really kept back."""
        return Hold.HEALTH if self.mode is Mode.DRY_RUN else self.hold

    def matches(self, kind: KeyKind, attributes: Attributes) -> bool:
        """Whether this rule is about a gated key. Instance records concern only rules that hold them."""
        if kind is KeyKind.INSTANCE and self.keeps is not Hold.CARD_AND_INSTANCE:
            return False
        return self.selector.matches(attributes)


class ReleasesPolicy(_Strict):
    """How fast instances are let in, and how few automation may leave.

    A release is *in flight* for `settle_seconds`: at most `max_in_flight` are at once, over all proxies. Automation
    withdraws nobody whose group (namespace, component, endpoint, model) would have less than `min_released` left.
    """

    max_in_flight: int | None = Field(default=None, strict=True, ge=1, le=LARGEST_IN_FLIGHT)
    settle_seconds: float = Field(default=SETTLE_SECONDS, gt=0, le=LARGEST_SETTLE_SECONDS, allow_inf_nan=False)
    min_released: int | None = Field(default=None, strict=True, ge=1, le=LARGEST_FLOOR)

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if self.max_in_flight is None and "settle_seconds" in self.model_fields_set:
            raise ValueError("settle_seconds says how long a release is in flight: it needs max_in_flight beside it")
        if self.max_in_flight is None and self.min_released is None:
            raise ValueError("limits nothing: give max_in_flight, min_released or both")
        return self


class TemplatePolicy(_Strict):
    """A key template of one's own, for services other than the presets'."""

    pattern: str
    kind: KeyKind = KeyKind.CARD

    @model_validator(mode="after")
    def _valid(self) -> Self:
        self.template()
        return self

    def template(self) -> Template:
        """The template; ValueError where the pattern is none."""
        return Template(self.pattern, self.kind)


@dataclass(frozen=True, slots=True)
class Requirements:
    """What one gated key needs, by all the rules that match it.

    `dry_gates`: those that only rules in dry run ask for. `dry_run`: every matching rule is one of these.
    """

    hold: Hold
    gates: Mapping[str, GatePolicy]
    dry_gates: frozenset[str] = frozenset()
    dry_run: bool = False
    on_conflict: OnConflict = OnConflict.WARN

    @property
    def obeyed(self) -> Mapping[str, GatePolicy]:
        """The gates that keep something back."""
        return {name: gate for name, gate in self.gates.items() if name not in self.dry_gates}

    def joined(self, other: "Requirements | None") -> "Requirements":
        """The union of both: every gate, as both ask it of their common ones, and of the rest the stronger.

        A rule in dry run changes nothing of what an obeyed one asks.
        """
        if other is None:
            return self
        gates = {**other.gates, **self.gates}
        for name in self.gates.keys() & other.gates.keys():
            if (name in self.dry_gates) == (name in other.dry_gates):
                gates[name] = self.gates[name].joined(other.gates[name])
            elif name in self.dry_gates:
                gates[name] = other.gates[name]
        enforced = (self.gates.keys() - self.dry_gates) | (other.gates.keys() - other.dry_gates)
        return Requirements(
            self.hold.stronger(other.hold),
            gates,
            frozenset(gates) - enforced,
            self.dry_run and other.dry_run,
            self.on_conflict.stronger(other.on_conflict),
        )


class Policy(_Strict):
    """A whole policy file: `preset: dynamo` or `templates`, the rules, and the limits of releases."""

    preset: Literal["dynamo"] | None = None
    templates: tuple[TemplatePolicy, ...] = ()
    rules: tuple[Rule, ...] = ()
    releases: ReleasesPolicy | None = None

    @field_validator("releases", mode="before")
    @classmethod
    def _not_left_empty(cls, said: object) -> object:
        if said is None:
            raise ValueError("is empty: give max_in_flight, min_released or both, or leave it out")
        return said

    @model_validator(mode="after")
    def _one_source_of_templates(self) -> Self:
        if self.preset and self.templates:
            raise ValueError("give either 'preset' or 'templates', not both")
        if self.rules and not self.gated_keys().templates:
            raise ValueError(
                "these templates gate nothing: give one of kind 'card', or a rule with hold 'card+instance'"
            )
        return self

    @model_validator(mode="after")
    def _names_of_one_rule_each(self) -> Self:
        names = [rule.name for rule in self.rules if rule.name]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two rules are named {twice!r}: give each a name of its own")
        return self

    def gated_keys(self) -> GatedKeys:
        """The templates in force. Instance records are gated only where a rule holds them."""
        instances = any(rule.keeps is Hold.CARD_AND_INSTANCE for rule in self.rules)
        if not self.templates:
            return dynamo_gated_keys(instances=instances)
        own = tuple(template.template() for template in self.templates)
        gated = tuple(template for template in own if instances or template.kind is KeyKind.CARD)
        records = tuple(template for template in own if template.kind is KeyKind.INSTANCE)
        return GatedKeys(gated, records or DYNAMO_INSTANCES)

    def requirements(self, gated: GatedKey, attributes: Attributes) -> Requirements | None:
        """The union of all matching rules, the longest timeout of a gate winning; None where no rule matches."""
        return self.requirements_of(gated.kind, attributes)

    def requirements_of(self, kind: KeyKind, attributes: Attributes) -> Requirements | None:
        """The same for any key of this kind."""
        joined: Requirements | None = None
        for rule in self.rules:
            if rule.matches(kind, attributes):
                joined = rule.requirements.joined(joined)
        return joined

    @property
    def gate_names(self) -> frozenset[str]:
        """All gates that any rule names."""
        return frozenset(name for rule in self.rules for name in rule.gates)

    @property
    def digest(self) -> str:
        """A hash of the policy's meaning: replicas whose digests differ are warned of."""
        meaning = json.dumps(self.model_dump(mode="json", exclude_defaults=True), sort_keys=True)
        return hashlib.sha256(meaning.encode()).hexdigest()


def _lower(one: NumberT | None, other: NumberT | None) -> NumberT | None:
    """The lower of two limits; None is none."""
    given = [limit for limit in (one, other) if limit is not None]
    return min(given, default=None)


def gates_for_everything(timeouts_seconds: Mapping[str, float]) -> Policy:
    """The policy of one rule that matches every instance, as `--gate NAME=TIMEOUT` gives it."""
    gates = gates_of(timeouts_seconds)
    return Policy(rules=(Rule(gates=gates),) if gates else ())


def gates_of(timeouts_seconds: Mapping[str, float]) -> Mapping[str, GatePolicy]:
    """Gates of which only the timeouts are given, by name."""
    return {name: GatePolicy(timeout_seconds=seconds) for name, seconds in timeouts_seconds.items()}
