"""The story of a run, told from outside: how every instance must stand, revision by revision, by what its callers did.

The rule: nothing of the product is asked here. What took effect comes from those who asked for it, what was published
from a public watcher; `tests/guarantees.py` holds the one against the other.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import EllipsisType
from typing import Any, NamedTuple

# ---- what is known from outside -------------------------------------------------------------------------------------


class Event(NamedTuple):
    """One event of a public watcher, on a gated key; `value` is None for a deletion."""

    revision: int
    instance: str
    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that took effect at `revision`, the header revision of its answer.

    One whose caller never got an answer belongs here too, if it took effect.
    """

    revision: int


@dataclass(frozen=True, slots=True)
class OfInstance(Operation):
    instance: str


@dataclass(frozen=True, slots=True)
class Wrote(OfInstance):
    """A put. `gates`: what the rules ask of the key.

    An instance record is no `card`: nothing that passed is about it, but it waits for the gates of its own rules too.
    """

    key: bytes
    value: bytes
    gates: frozenset[str] = frozenset()
    kept_back: bool = True
    lora: bool = False
    card: bool = True
    over: bytes | EllipsisType | None = ...
    """What the caller made the put depend on being there: a value, or nothing; `...` where it did not ask."""
    unless: bytes | EllipsisType | None = ...
    """What the caller made the put depend on not being there, likewise: the put is in an Else."""
    past_the_proxy: bool = False
    """Straight to etcd: public at once, and nobody promised otherwise. What else is promised holds for it too."""


@dataclass(frozen=True, slots=True)
class Deleted(OfInstance):
    key: bytes


@dataclass(frozen=True, slots=True)
class Saw(OfInstance):
    """What the owner's read of one key showed; None for nothing."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Decided(OfInstance):
    """A verdict, or a deadline. `looked_at`: the revision at which the reporter saw what it then checked."""

    gate: str
    passed: bool
    looked_at: int
    again: bool = False
    """The gate is a continuous one that had passed: it did so again, or does no longer."""


@dataclass(frozen=True, slots=True)
class Overrode(OfInstance):
    pass


@dataclass(frozen=True, slots=True)
class Retried(OfInstance):
    """A retry of these gates; of all that are not through where none is named."""

    gates: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Rejected(OfInstance):
    """By a person, whatever its gates say."""


@dataclass(frozen=True, slots=True)
class Withdrew(OfInstance):
    by_person: bool = True


@dataclass(frozen=True, slots=True)
class Lapsed(OfInstance):
    """The passes of these gates ended, since nobody renewed them: they have to pass again."""

    gates: frozenset[str]


@dataclass(frozen=True, slots=True)
class Dropped(OfInstance):
    """What was held, and nothing of what is public all the same."""


@dataclass(frozen=True, slots=True)
class Adopted(OfInstance):
    """An instance that served already was taken on as released."""

    gates: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LeaseEnded(OfInstance):
    pass


@dataclass(frozen=True, slots=True)
class RolloutHeld(Operation):
    """A rollout hold; `instances` None stops every release."""

    hold_id: str
    instances: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class RolloutHoldLifted(Operation):
    hold_id: str


# ---- the story ------------------------------------------------------------------------------------------------------


class GateStanding(NamedTuple):
    """`since`: the revision at which the attempt that counts began."""

    state: str
    since: int

    @property
    def through(self) -> bool:
        return self.state in ("passed", "overridden")


class Frozen(dict[Any, Any]):
    """A dict that is never changed once made, so that it can be part of a value."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def without(self, *keys: Any) -> "Frozen":
        return Frozen((key, value) for key, value in self.items() if key not in keys)


@dataclass(frozen=True, slots=True)
class Standing:
    """How an instance must stand. `order`: its keys as they were registered, those that are gone too.

    `by_person`: a person withdrew or rejected it, so that no gate brings it back. `later`: of a key that was held when
    its instance was released already, the gates that it waits for by itself.
    """

    order: tuple[bytes, ...] = ()
    held: Mapping[bytes, bytes] = Frozen()
    public: Mapping[bytes, bytes] = Frozen()
    gates: Mapping[str, GateStanding] = Frozen()
    later: Mapping[bytes, frozenset[str]] = Frozen()
    opened: bool = False
    released: bool = False
    by_person: bool = False
    ended: bool = False

    @property
    def waiting(self) -> list[str]:
        """The gates that keep something back and are not through."""
        later = {name for key in self.held for name in self.later.get(key, ())}
        return [name for name, gate in self.gates.items() if not gate.through and (not self.released or name in later)]

    @property
    def open_gates(self) -> list[str]:
        return [f"{name} {self.gates[name].state}" for name in self.waiting]

    def place(self, key: bytes) -> bytes | None:
        """The owner's value of a key."""
        return self.held.get(key, self.public.get(key))


@dataclass(frozen=True, slots=True)
class Story:
    """Everything so far."""

    instances: Mapping[str, Standing] = Frozen()
    holds: Mapping[str, frozenset[str] | None] = Frozen()
    max_in_flight: int | None = None
    """So many may be released at once in a story in which no release ever settles; None: nobody limits it."""
    min_released: int | None = None
    """So many have to stay, whatever automation does."""

    @property
    def released(self) -> list[str]:
        """Whoever is in service."""
        return [name for name, standing in self.instances.items() if standing.released and not standing.ended]

    def of(self, instance: str) -> Standing:
        return self.instances.get(instance) or Standing()

    def stopped(self, instance: str) -> list[str]:
        """The rollout holds that stop an instance."""
        return [name for name, whom in self.holds.items() if whom is None or instance in whom]

    def with_standing(self, instance: str, standing: Standing) -> "Story":
        return replace(self, instances=Frozen({**self.instances, instance: standing}))


@dataclass(frozen=True, slots=True)
class Moment:
    """One revision. `told` is the story with its operations; `after` also follows what was published."""

    revision: int
    operations: tuple[Operation, ...]
    events: tuple[Event, ...]
    before: Story
    told: Story
    after: Story

    def instances(self) -> Iterator[tuple[str, Standing, Standing, list[Event]]]:
        """Every instance it concerns: how it stood, how it stands by the operations, and its events."""
        concerned = {op.instance: None for op in self.operations if isinstance(op, OfInstance)}
        for name in concerned | {event.instance: None for event in self.events}:
            yield name, self.before.of(name), self.told.of(name), [e for e in self.events if e.instance == name]

    def published(self, instance: str) -> list[Event]:
        """Held keys that became public, in order. What its worker itself put there past the proxy is not meant."""
        past = {op.key for op in self.operations if isinstance(op, Wrote) and op.past_the_proxy}
        held = self.told.of(instance).held.keys() - past
        return [e for e in self.events if e.instance == instance and e.value is not None and e.key in held]


def next_moment(before: Story, operations: Iterable[Operation], events: Iterable[Event], revision: int) -> Moment:
    done = tuple(sorted(operations, key=lambda operation: isinstance(operation, Saw)))
    seen = tuple(events)
    told = before
    for operation in done:
        told = told_of(told, operation)
    moment = Moment(revision, done, seen, before, told, told)
    after = told
    for instance, _, standing, own in moment.instances():
        after = after.with_standing(instance, _followed(standing, own, moment.published(instance)))
    return replace(moment, after=after)


def moments(operations: Iterable[Operation], events: Iterable[Event], story: Story | None = None) -> Iterator[Moment]:
    """The story of a run, from the first revision on; `story` is where it begins."""
    by_revision: dict[int, tuple[list[Operation], list[Event]]] = {}
    for operation in operations:
        by_revision.setdefault(operation.revision, ([], []))[0].append(operation)
    for event in events:
        by_revision.setdefault(event.revision, ([], []))[1].append(event)
    story = story or Story()
    for revision in sorted(by_revision):
        moment = next_moment(story, *by_revision[revision], revision)
        yield moment
        story = moment.after


def told_of(story: Story, operation: Operation) -> Story:
    """The story with one operation more."""
    match operation:
        case RolloutHeld():
            return replace(story, holds=Frozen({**story.holds, operation.hold_id: operation.instances}))
        case RolloutHoldLifted():
            return replace(story, holds=Frozen(story.holds).without(operation.hold_id))
        case OfInstance():
            return story.with_standing(operation.instance, _changed(story.of(operation.instance), operation))
    return story


def _changed(standing: Standing, operation: OfInstance) -> Standing:
    match operation:
        case Wrote():
            return _written(standing, operation)
        case Deleted(key=key):
            return replace(
                standing, held=Frozen(standing.held).without(key), public=Frozen(standing.public).without(key)
            )
        case Decided():
            decided = GateStanding("passed" if operation.passed else "failed", gate_of(standing, operation.gate).since)
            return replace(standing, gates=Frozen({**standing.gates, operation.gate: decided}))
        case Overrode():
            gates = {name: standing.gates[name]._replace(state="overridden") for name in standing.waiting}
            return replace(standing, gates=Frozen({**standing.gates, **gates}), by_person=False)
        case Retried():
            names = operation.gates or standing.waiting
            return replace(standing, gates=_opened(standing, operation.revision, names), by_person=False)
        case Rejected():
            return replace(standing, by_person=True)
        case Lapsed(gates=names):
            return replace(standing, gates=_opened(standing, operation.revision, names))
        case Withdrew():
            return _taken_back(standing, operation)
        case Dropped():
            return replace(
                standing, held=Frozen(), order=tuple(key for key in standing.order if key in standing.public)
            )
        case Adopted() if standing.public:
            gates = Frozen((name, GateStanding("overridden", operation.revision)) for name in sorted(operation.gates))
            return replace(
                standing,
                gates=gates,
                opened=True,
                released=True,
                order=tuple(key for key in standing.order if key in standing.public),
            )
        case LeaseEnded():
            return replace(standing, held=Frozen(), public=Frozen(), ended=True)
    return standing


def gate_of(standing: Standing, name: str) -> GateStanding:
    """A gate as it stands; open from the beginning where no rule was seen to ask for it."""
    return standing.gates.get(name, GateStanding("open", 0))


def _written(standing: Standing, wrote: Wrote) -> Standing:
    key, value = wrote.key, wrote.value
    order = (*(other for other in standing.order if other != key), key)
    if key in standing.public or wrote.past_the_proxy:
        order = standing.order if key in standing.order else order
        return replace(standing, public=Frozen({**standing.public, key: value}), order=order)
    if key in standing.held:
        changed = replace(standing, held=Frozen({**standing.held, key: value}))
        if checked_part(standing.held[key]) == checked_part(value):
            return changed
        if standing.released:
            return _waits_later(changed, wrote, standing.later[key] | _not_seen(standing, wrote))
        return _checked_anew(changed, wrote) if wrote.card else _asked_for_more(changed, wrote)
    if standing.released and (gates_to_pass := _not_seen(standing, wrote)):
        added = replace(standing, held=Frozen({**standing.held, key: value}), order=order)
        return _waits_later(added, wrote, gates_to_pass)
    if standing.released or not (standing.opened or wrote.kept_back):
        gates = standing.gates if standing.released else _checked_anew(standing, wrote).gates
        return replace(standing, public=Frozen({**standing.public, key: value}), order=order, gates=gates)
    added = replace(standing, held=Frozen({**standing.held, key: value}), order=order, opened=True)
    if wrote.card or not standing.opened:
        return _checked_anew(added, wrote)
    return _asked_for_more(added, wrote)


def _not_seen(standing: Standing, wrote: Wrote) -> frozenset[str]:
    """The gates of a released instance that something new has to pass: a card that is no LoRA card is another model."""
    if not wrote.kept_back:
        return frozenset()
    is_model = wrote.card and not wrote.lora
    return frozenset(name for name in wrote.gates if is_model or not gate_of(standing, name).through)


def _waits_later(standing: Standing, wrote: Wrote, gates: frozenset[str]) -> Standing:
    """Held by itself in a released instance: its gates have to check it, and nothing else."""
    anew = [
        name for name in gates if name not in standing.gates or (wrote.card and standing.gates[name].state != "failed")
    ]
    later = Frozen({**standing.later, wrote.key: gates})
    return replace(standing, gates=_opened(standing, wrote.revision, anew), later=later)


def _checked_anew(standing: Standing, wrote: Wrote) -> Standing:
    """A card was registered or changed: whatever passed so far was about something else."""
    known = {name for name, gate in standing.gates.items() if gate.state != "failed"}
    return replace(standing, gates=_opened(standing, wrote.revision, known | (wrote.gates - standing.gates.keys())))


def _asked_for_more(standing: Standing, wrote: Wrote) -> Standing:
    """An instance record came or changed: nothing that passed was about it, but its own gates have to pass too."""
    return replace(standing, gates=_opened(standing, wrote.revision, wrote.gates - standing.gates.keys()))


def _opened(standing: Standing, revision: int, names: Iterable[str]) -> Frozen:
    return Frozen({**standing.gates, **{name: GateStanding("open", revision) for name in sorted(names)}})


def _taken_back(standing: Standing, withdrew: Withdrew) -> Standing:
    return replace(
        standing,
        held=Frozen({**standing.held, **standing.public}),
        public=Frozen(),
        later=Frozen(),
        gates=_opened(standing, withdrew.revision, standing.gates),
        opened=True,
        released=False,
        by_person=withdrew.by_person,
    )


def _followed(standing: Standing, events: list[Event], published: list[Event]) -> Standing:
    """The standing after what was seen, whether it was right or not: one fault is to be told once."""
    public = dict(standing.public)
    for event in events:
        if event.value is None:
            public.pop(event.key, None)
        else:
            public[event.key] = event.value
    held = Frozen(standing.held).without(*(event.key for event in published))
    later = Frozen(standing.later).without(*(key for key in standing.later if key not in held))
    moved = replace(standing, held=held, public=Frozen(public), later=later)
    return replace(moved, released=True, by_person=False) if published else moved


@cache
def checked_part(value: bytes) -> str | bytes:
    """All of a card but its taints."""
    try:
        parsed = json.loads(value)
        parsed["card_json"]["runtime_config"].pop("taints", None)
    except (ValueError, TypeError, KeyError, AttributeError):
        return value
    return json.dumps(parsed, sort_keys=True)
