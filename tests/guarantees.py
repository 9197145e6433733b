"""What Greenroom promises, one function a guarantee, told from outside: a public watcher's events and what callers did.

The rule: nothing of the product is asked here. A `Story` is told revision by revision from the operations that took
effect, as their callers know them, and every revision's events are held against it. So the same functions judge the
model, a run on a real etcd, and a race.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
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
    """A put. `gates`: what the rules ask of the key. An instance record is checked by no gate, so it is no `card`."""

    key: bytes
    value: bytes
    gates: frozenset[str] = frozenset()
    kept_back: bool = True
    lora: bool = False
    card: bool = True
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


@dataclass(frozen=True, slots=True)
class Overrode(OfInstance):
    pass


@dataclass(frozen=True, slots=True)
class Retried(OfInstance):
    """A retry of these gates; of all that are not through where none is named."""

    gates: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Withdrew(OfInstance):
    by_person: bool = True


@dataclass(frozen=True, slots=True)
class Dropped(OfInstance):
    pass


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
    """How an instance must stand. `order`: its keys as they were registered, those that are gone too."""

    order: tuple[bytes, ...] = ()
    held: Mapping[bytes, bytes] = Frozen()
    public: Mapping[bytes, bytes] = Frozen()
    gates: Mapping[str, GateStanding] = Frozen()
    opened: bool = False
    released: bool = False
    withdrawn: bool = False
    by_person: bool = False
    ended: bool = False

    @property
    def open_gates(self) -> list[str]:
        return [f"{name} {gate.state}" for name, gate in self.gates.items() if not gate.through]

    def place(self, key: bytes) -> bytes | None:
        """The owner's value of a key."""
        return self.held.get(key, self.public.get(key))


@dataclass(frozen=True, slots=True)
class Story:
    """Everything so far."""

    instances: Mapping[str, Standing] = Frozen()
    holds: Mapping[str, frozenset[str] | None] = Frozen()

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
        told = _told(told, operation)
    moment = Moment(revision, done, seen, before, told, told)
    after = told
    for instance, _, standing, own in moment.instances():
        after = after.with_standing(instance, _followed(standing, own, moment.published(instance)))
    return replace(moment, after=after)


def moments(operations: Iterable[Operation], events: Iterable[Event]) -> Iterator[Moment]:
    """The story of a run, from the first revision on."""
    by_revision: dict[int, tuple[list[Operation], list[Event]]] = {}
    for operation in operations:
        by_revision.setdefault(operation.revision, ([], []))[0].append(operation)
    for event in events:
        by_revision.setdefault(event.revision, ([], []))[1].append(event)
    story = Story()
    for revision in sorted(by_revision):
        moment = next_moment(story, *by_revision[revision], revision)
        yield moment
        story = moment.after


def _told(story: Story, operation: Operation) -> Story:
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
            decided = GateStanding("passed" if operation.passed else "failed", standing.gates[operation.gate].since)
            return replace(standing, gates=Frozen({**standing.gates, operation.gate: decided}))
        case Overrode():
            gates = {
                name: gate if gate.through else gate._replace(state="overridden")
                for name, gate in standing.gates.items()
            }
            return replace(standing, gates=Frozen(gates), by_person=False)
        case Retried():
            names = operation.gates or {name for name, gate in standing.gates.items() if not gate.through}
            return replace(standing, gates=_opened(standing, operation.revision, names), by_person=False)
        case Withdrew():
            return _taken_back(standing, operation)
        case Dropped():
            return replace(standing, held=Frozen(), order=())
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


def _written(standing: Standing, wrote: Wrote) -> Standing:
    key, value = wrote.key, wrote.value
    order = (*(other for other in standing.order if other != key), key)
    if key in standing.public or wrote.past_the_proxy:
        order = standing.order if key in standing.order else order
        return replace(standing, public=Frozen({**standing.public, key: value}), order=order)
    if key in standing.held:
        changed = replace(standing, held=Frozen({**standing.held, key: value}))
        same = checked_part(standing.held[key]) == checked_part(value)
        return changed if same or not wrote.card else _checked_anew(changed, wrote)
    if standing.released or not (standing.opened or wrote.kept_back):
        gates = standing.gates if standing.released else _checked_anew(standing, wrote).gates
        return replace(standing, public=Frozen({**standing.public, key: value}), order=order, gates=gates)
    added = replace(standing, held=Frozen({**standing.held, key: value}), order=order, opened=True)
    return _checked_anew(added, wrote) if wrote.card or not standing.opened else added


def _checked_anew(standing: Standing, wrote: Wrote) -> Standing:
    """A card was registered or changed: whatever passed so far was about something else."""
    known = {name for name, gate in standing.gates.items() if gate.state != "failed"}
    return replace(standing, gates=_opened(standing, wrote.revision, known | (wrote.gates - standing.gates.keys())))


def _opened(standing: Standing, revision: int, names: Iterable[str]) -> Frozen:
    return Frozen({**standing.gates, **{name: GateStanding("open", revision) for name in sorted(names)}})


def _taken_back(standing: Standing, withdrew: Withdrew) -> Standing:
    return replace(
        standing,
        held=Frozen({**standing.held, **standing.public}),
        public=Frozen(),
        gates=_opened(standing, withdrew.revision, standing.gates),
        released=False,
        withdrawn=True,
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
    moved = replace(standing, held=held, public=Frozen(public))
    return replace(moved, released=True, withdrawn=False, by_person=False) if published else moved


@cache
def checked_part(value: bytes) -> str | bytes:
    """All of a card but its taints."""
    try:
        parsed = json.loads(value)
        parsed["card_json"]["runtime_config"].pop("taints", None)
    except (ValueError, TypeError, KeyError, AttributeError):
        return value
    return json.dumps(parsed, sort_keys=True)


# ---- the guarantees -------------------------------------------------------------------------------------------------


def never_early(moment: Moment) -> Iterator[str]:
    """No card is public before every gate of its instance passed or was overridden, nor under a rollout hold."""
    for instance, before, told, _ in moment.instances():
        if published := moment.published(instance):
            reasons = [*told.open_gates, *(f"rollout hold {name}" for name in moment.told.stopped(instance))]
            if told.by_person:
                reasons.append("withdrawn by a person")
            if reasons:
                yield f"never early: {published[0].key!r} became public while {', '.join(reasons)}"
        for wrote in moment.operations:
            if isinstance(wrote, Wrote) and wrote.instance == instance and _needed_gates(before, wrote):
                yield f"never early: {wrote.key!r} became public in a released instance, and its gates never passed"


def _needed_gates(before: Standing, wrote: Wrote) -> bool:
    """Whether a put made a new card public for which the gates of a released instance do not stand in."""
    if not (before.released and wrote.card and wrote.gates) or wrote.key in before.public:
        return False
    through = all(name in before.gates and before.gates[name].through for name in wrote.gates)
    return not (wrote.lora and through)


def only_what_was_checked(moment: Moment) -> Iterator[str]:
    """A verdict counts only for what was there when its reporter looked."""
    story = moment.before
    for operation in moment.operations:
        if isinstance(operation, Decided):
            since = story.of(operation.instance).gates[operation.gate].since
            if operation.looked_at < since:
                yield (
                    f"only what was checked: a verdict of {operation.gate} for what was there at revision "
                    f"{operation.looked_at} counted for what came at {since}"
                )
        story = _told(story, operation)


def all_at_once(moment: Moment) -> Iterator[str]:
    """All held keys of an instance become public at one revision, or none."""
    for instance, _, told, _ in moment.instances():
        published = {event.key for event in moment.published(instance)}
        if published and (left := told.held.keys() - published):
            yield f"all at once: {sorted(published)} became public, {sorted(left)} did not"


def once_only(moment: Moment) -> Iterator[str]:
    """Nothing becomes public a second time: each event on a public key is one write of its owner's."""
    for instance, _, told, events in moment.instances():
        written = [op.key for op in moment.operations if isinstance(op, Wrote) and op.instance == instance]
        seen = [event.key for event in events if event.value is not None]
        for key in dict.fromkeys(seen):
            again = key in told.public and key not in told.held and key not in written
            if again or seen.count(key) > 1:
                yield f"once only: {key!r} was published again, and nobody wrote it"


def in_order(moment: Moment) -> Iterator[str]:
    """A release shows an instance's cards in the order of their registration."""
    for instance, _, told, _ in moment.instances():
        shown = [event.key for event in moment.published(instance)]
        registered = [key for key in told.order if key in shown]
        if shown != registered:
            yield f"in order of registration: {shown}, registered as {registered}"


def no_lost_write(moment: Moment) -> Iterator[str]:
    """What was acknowledged is there: held or public, and public with its last value."""
    for instance, before, told, events in moment.instances():
        shown = {event.key: event.value for event in events}
        for event in moment.published(instance):
            if event.value != told.held[event.key]:
                yield f"no lost write: {event.key!r} was published as {event.value!r}, not {told.held[event.key]!r}"
        for key, value in told.public.items():
            if before.public.get(key) != value and shown.get(key) != value:
                yield f"no lost write: {key!r} was acknowledged as {value!r}, and the public does not see it"
            if key in shown and shown[key] is None:
                yield f"no lost write: {key!r} was taken from the public, and nobody deleted it"
        for saw in _sights(moment, instance):
            if (expected := told.place(saw.key)) is not None and saw.value != expected:
                yield f"no lost write: {saw.key!r} was acknowledged as {expected!r}, its owner sees {saw.value!r}"


def no_resurrected_delete(moment: Moment) -> Iterator[str]:
    """What was deleted is gone, and does not come back."""
    for instance, before, told, events in moment.instances():
        gone = {event.key for event in events if event.value is None}
        for event in events:
            if event.value is not None and told.place(event.key) is None and not told.ended:
                yield f"no resurrected delete: {event.key!r} became public, and is not registered"
        for operation in moment.operations:
            deleted = isinstance(operation, Deleted) and operation.instance == instance
            if deleted and operation.key in before.public.keys() - gone:  # type: ignore[attr-defined]
                yield f"no resurrected delete: {operation.key!r} was deleted, and is still public"  # type: ignore[attr-defined]
        for saw in _sights(moment, instance):
            if told.place(saw.key) is None and saw.value is not None:
                yield f"no resurrected delete: {saw.key!r} was deleted, its owner sees {saw.value!r}"


def nothing_left_after_the_lease(moment: Moment) -> Iterator[str]:
    """When a lease ends, all of its instance is gone, and nothing comes after it."""
    for instance, before, told, events in moment.instances():
        gone = {event.key for event in events if event.value is None}
        if told.ended and (left := before.public.keys() - gone):
            yield f"nothing left after the lease: {sorted(left)} of {instance} stayed public"
        if told.ended and (told.held or told.public or any(event.value is not None for event in events)):
            yield f"nothing left after the lease: something of {instance} was written after its end"


def withdrawn_whole(moment: Moment) -> Iterator[str]:
    """A withdrawal takes everything public of an instance at one revision, and nothing is public until a release."""
    for instance, before, told, events in moment.instances():
        gone = {event.key for event in events if event.value is None}
        if any(isinstance(op, Withdrew) and op.instance == instance for op in moment.operations) and (
            left := before.public.keys() - gone
        ):
            yield f"withdrawn whole: {sorted(left)} stayed public"
        if told.withdrawn and told.public:
            yield f"withdrawn whole: {sorted(told.public)} became public while withdrawn"


def _sights(moment: Moment, instance: str) -> list[Saw]:
    return [op for op in moment.operations if isinstance(op, Saw) and op.instance == instance]


GUARANTEES: tuple[Callable[[Moment], Iterator[str]], ...] = (
    never_early,
    only_what_was_checked,
    all_at_once,
    once_only,
    in_order,
    no_lost_write,
    no_resurrected_delete,
    nothing_left_after_the_lease,
    withdrawn_whole,
)


def broken(moment: Moment) -> list[str]:
    """Every guarantee that a revision breaks, in words; empty where all is well."""
    return [f"{fault} (revision {moment.revision})" for guarantee in GUARANTEES for fault in guarantee(moment)]


def none_left_over(story: Story, remaining: Iterable[tuple[str, bytes]]) -> list[str]:
    """At the end of a run: `remaining` are all keys in etcd, ours too, each with the instance it belongs to."""
    return [
        f"nothing left after the lease: {key!r} of {instance}"
        for instance, key in remaining
        if story.of(instance).ended
    ]


def none_forgotten(story: Story) -> list[str]:
    """At the end of a run, when everything has come to rest: whoever is ready was released."""
    return [
        f"none forgotten: {instance} is ready, and not released"
        for instance, standing in story.instances.items()
        if standing.held
        and not standing.released
        and not standing.by_person
        and not standing.open_gates
        and not story.stopped(instance)
    ]


def check(operations: Iterable[Operation], events: Iterable[Event]) -> Story:
    """AssertionError naming every broken guarantee of a run; else how it ended."""
    story, faults = Story(), []
    for moment in moments(operations, events):
        faults += broken(moment)
        story = moment.after
    assert not faults, "\n".join(faults)
    return story
