"""What Greenroom promises, one function a guarantee, judged from outside.

The rule: a guarantee looks at one revision, the operations that took effect there and the public events, and says in
words what they break. So the same functions judge the model, a run on a real etcd, and a race.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from tests.support.story import (
    Decided,
    Deleted,
    Event,
    Moment,
    Operation,
    Saw,
    Story,
    Withdrew,
    Wrote,
    gate_of,
    moments,
    told_of,
)


def never_early(moment: Moment) -> Iterator[str]:
    """No card is public before every gate of its instance passed or was overridden, nor under a rollout hold.

    Nor is another model of a released instance, or a card with a gate that it has not passed, before its own gates did.
    """
    for instance, _, told, _ in moment.instances():
        if published := moment.published(instance):
            reasons = [*told.open_gates, *(f"rollout hold {name}" for name in moment.told.stopped(instance))]
            if told.by_person:
                reasons.append("kept out by a person")
            if reasons:
                yield f"never early: {published[0].key!r} became public while {', '.join(reasons)}"


def only_what_was_checked(moment: Moment) -> Iterator[str]:
    """A verdict counts only for what was there when its reporter looked, and only where the attempt is open."""
    story = moment.before
    for operation in moment.operations:
        if isinstance(operation, Decided):
            gate = gate_of(story.of(operation.instance), operation.gate)
            if operation.looked_at < gate.since:
                yield (
                    f"only what was checked: a verdict of {operation.gate} for what was there at revision "
                    f"{operation.looked_at} counted for what came at {gate.since}"
                )
            elif gate.state != ("passed" if operation.again else "open"):
                yield f"only what was checked: {operation.gate} had {gate.state}, and was decided again"
        story = told_of(story, operation)


def all_at_once(moment: Moment) -> Iterator[str]:
    """All held keys of an instance become public at one revision, or none."""
    for instance, _, told, _ in moment.instances():
        published = {event.key for event in moment.published(instance)}
        if published and (left := told.held.keys() - published):
            yield f"all at once: {sorted(published)} became public, {sorted(left)} did not"


def once_only(moment: Moment) -> Iterator[str]:
    """Nothing becomes public a second time: each event on a public key is one write of its owner's."""
    for instance, _, told, events in moment.instances():
        written = [wrote.key for wrote in _writes(moment, instance)]
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
        for wrote in _writes(moment, instance):
            there = before.place(wrote.key)
            if wrote.over is not ... and wrote.over != there:
                yield f"no lost write: {wrote.key!r} was to be written over {wrote.over!r}, and was over {there!r}"
            if wrote.unless is not ... and wrote.unless == there:
                yield f"no lost write: {wrote.key!r} was to be written unless {there!r} was there, and it was"
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
    """A withdrawal takes everything public of an instance at one revision. (What comes before a release is early.)"""
    for instance, before, _, events in moment.instances():
        gone = {event.key for event in events if event.value is None}
        if any(isinstance(op, Withdrew) and op.instance == instance for op in moment.operations) and (
            left := before.public.keys() - gone
        ):
            yield f"withdrawn whole: {sorted(left)} stayed public"


def never_too_many(moment: Moment) -> Iterator[str]:
    """No release makes it more than `max_in_flight`, where releases take so long to settle that none has."""
    limit = moment.before.max_in_flight
    if limit is not None and any(moment.published(name) for name, *_ in moment.instances()):
        in_flight = moment.after.released
        if len(in_flight) > limit:
            yield f"never too many: {', '.join(in_flight)} are in flight, and at most {limit} may be"


def never_too_few(moment: Moment) -> Iterator[str]:
    """Automation withdraws nobody of whom less than `min_released` others are released."""
    floor = moment.before.min_released
    by_itself = any(isinstance(op, Withdrew) and not op.by_person for op in moment.operations)
    if floor is not None and by_itself and len(moment.after.released) < floor:
        yield f"never too few: automation left {len(moment.after.released)} released, and {floor} have to stay"


@dataclass(frozen=True, slots=True)
class Flight:
    """One release: its revision, its time by the releasing proxy's clock, and when it was taken back or ended."""

    instance: str
    revision: int
    released: datetime
    over: int | None = None

    def is_in_flight(self, at: "Flight", settle: timedelta) -> bool:
        """Whether it has not settled at another's release."""
        begun = self.revision <= at.revision and (self.over is None or self.over > at.revision)
        return begun and at.released - self.released < settle


def never_more_in_flight(flights: Iterable[Flight], max_in_flight: int, settle: timedelta) -> Iterator[str]:
    """At no release are there more than `max_in_flight` that have not settled, this one included."""
    recent: list[Flight] = []
    for flight in sorted(flights, key=lambda one: one.revision):
        recent = [one for one in (*recent, flight) if one.is_in_flight(flight, settle)]
        if len(recent) > max_in_flight:
            names = ", ".join(one.instance for one in recent)
            yield f"never too many: {names} are in flight, at most {max_in_flight} may be (revision {flight.revision})"


def _writes(moment: Moment, instance: str) -> list[Wrote]:
    return [op for op in moment.operations if isinstance(op, Wrote) and op.instance == instance]


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
    never_too_many,
    never_too_few,
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
    """At the end of a run, when everything has come to rest: whoever is ready was released, and what came later too."""
    return [
        f"none forgotten: {instance} is ready, and not released"
        for instance, standing in story.instances.items()
        if standing.held and not standing.by_person and not standing.open_gates and not story.stopped(instance)
    ]


def check(operations: Iterable[Operation], events: Iterable[Event]) -> Story:
    """AssertionError naming every broken guarantee of a run; else how it ended."""
    story, faults = Story(), []
    for moment in moments(operations, events):
        faults += broken(moment)
        story = moment.after
    assert not faults, "\n".join(faults)
    return story
