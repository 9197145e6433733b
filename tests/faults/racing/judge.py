"""The judge of one instance's life: the guarantees, by what everybody said they did and what etcd shows of it.

The rule: an instance is judged when it is over, with everything that concerned it; rollout holds are its only tie to
others.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.faults.racing.log import Change, RaceLog, public_events, records
from tests.faults.racing.words import Fault, Kind, Round, Touched
from tests.guarantees import broken, none_forgotten
from tests.support.story import (
    Adopted,
    Deleted,
    Event,
    LeaseEnded,
    Operation,
    RolloutHeld,
    RolloutHoldLifted,
    Saw,
    Story,
    Wrote,
    moments,
)


@dataclass(slots=True)
class Life:
    """One instance: its round, and what was done to it as far as its doers said."""

    round: Round
    said: list[Operation] = field(default_factory=list)

    @property
    def instance(self) -> str:
        return self.round.instance

    def last_revision(self) -> int:
        """The newest write that somebody claims."""
        return max((op.revision for op in self.said if not isinstance(op, Saw | Fault)), default=0)


def told(life: Life, log: RaceLog) -> list[Operation]:
    """Every operation of a life: what was said, what only etcd shows, and the rollout holds of its time."""
    changes = log.changes[life.instance]
    gated = life.round.card_key, *life.round.lora_keys, life.round.instance_key
    done: list[Operation] = [op for op in life.said if not isinstance(op, Fault | Touched)]
    done += _adopted(life, changes)
    if not any(isinstance(op, LeaseEnded) for op in done):
        # An expiry is nobody's doing.
        done += [LeaseEnded(revision, life.instance) for revision in _endings(changes)]
    revisions = [op.revision for op in done] + [change.revision for change in changes if change.key in gated]
    first, last = min(revisions, default=0), max(revisions, default=0)
    for hold in log.holds:
        if hold.component in (None, life.round.component) and hold.overlaps(first, last):
            done.append(RolloutHeld(hold.created, hold.hold_id))
            if hold.lifted is not None:
                done.append(RolloutHoldLifted(hold.lifted, hold.hold_id))
    return done


def _adopted(life: Life, changes: Sequence[Change]) -> list[Operation]:
    opening = next(iter(records(list(changes))), None)
    if opening is None or opening[1]["reason"] != "AlreadyPublic":
        return []
    return [Adopted(opening[0], life.instance, frozenset(opening[1]["gates"]))]


def _endings(changes: Sequence[Change]) -> list[int]:
    return [change.revision for change in changes if change.where == "record" and change.value is None]


def forgotten(life: Life, log: RaceLog) -> list[str]:
    """Whether it is ready at the moment, or what it registered later is, and nobody released that.

    An instance without a card waits for one.
    """
    story = Story()
    for moment in moments(told(life, log), _gated_events(life, log)):
        story = moment.after
    standing = story.of(life.instance)
    waits_for_card = not standing.released and not any(life.round.is_card(key) for key in standing.held)
    return [] if waits_for_card else none_forgotten(story)


def verdict_on(life: Life, log: RaceLog, *, all_said: bool = True) -> list[str]:
    """Everything that was wrong with a life, in words; empty where all was well.

    `all_said`: whoever wrote anything said so, the proxies themselves too.
    """
    changes = log.changes[life.instance]
    faults = [f"{op.text} (revision {op.revision})" for op in life.said if isinstance(op, Fault)]
    try:
        for moment in moments(told(life, log), _gated_events(life, log)):
            faults += broken(moment)
    except KeyError as error:
        faults.append(f"the story makes no sense: {error!r} is unknown when it is decided")
    faults += _two_places(changes)
    faults += _record_against_keys(changes)
    faults += _attempts(changes)
    faults += _lost(life, changes)
    if all_said:
        faults += _unexplained(life, changes)
    return faults


def _gated_events(life: Life, log: RaceLog) -> list[Event]:
    """What the public saw of its cards, and of its instance record where that is held too."""
    events = public_events(log.changes[life.instance])
    return [event for event in events if life.round.is_card(event.key) or life.round.kind is Kind.WHOLE]


def _revisions(changes: Sequence[Change]) -> dict[int, list[Change]]:
    found: dict[int, list[Change]] = defaultdict(list)
    for change in changes:
        found[change.revision].append(change)
    return found


def _two_places(changes: Sequence[Change]) -> Iterator[str]:
    """No key is held and public at once, and each lies on its own instance's lease."""
    places: dict[str, set[bytes]] = {"shadow": set(), "public": set()}
    for revision, group in _revisions(changes).items():
        for change in group:
            if change.where in places:
                (places[change.where].add if change.value is not None else places[change.where].discard)(change.key)
            if change.value is not None and change.lease == 0:
                yield f"one lease: {change.key!r} was written under no lease (revision {revision})"
        for key in places["shadow"] & places["public"]:
            yield f"one place: {key!r} is held and public (revision {revision})"


def _record_against_keys(changes: Sequence[Change]) -> Iterator[str]:
    """RELEASED means that nothing is held but what it marks as later, any other state that nothing named is public."""
    state, named, later = "", set[bytes](), set[bytes]()
    places: dict[str, set[bytes]] = {"shadow": set(), "public": set(), "other": set(), "record": set()}
    for revision, group in _revisions(changes).items():
        for change in group:
            (places[change.where].add if change.value is not None else places[change.where].discard)(change.key)
            if change.where == "record":
                state, named, later = _state_and_cards(change.value)
        if state == "RELEASED" and (held := places["shadow"] - later):
            yield f"state of the record: RELEASED, and {sorted(held)} are held (revision {revision})"
        if state and state != "RELEASED" and later:
            yield f"state of the record: {state}, and {sorted(later)} wait by themselves (revision {revision})"
        if state and state != "RELEASED" and (shown := places["public"] & named):
            yield f"state of the record: {state}, and {sorted(shown)} are public (revision {revision})"
        if state and (unnamed := places["shadow"] - named):
            yield f"the record's cards: {sorted(unnamed)} are held and not named (revision {revision})"
        if not state and places["shadow"]:
            yield f"state of the record: none, and {sorted(places['shadow'])} are held (revision {revision})"


def _state_and_cards(record: bytes | None) -> tuple[str, set[bytes], set[bytes]]:
    """Also the cards that are marked as later ones."""
    if record is None:
        return "", set(), set()
    found = json.loads(record)
    later = {card["key"].encode() for card in found["cards"] if card["later_gates"]}
    return found["state"], {card["key"].encode() for card in found["cards"]}, later


def _attempts(changes: Sequence[Change]) -> Iterator[str]:
    """Attempts never go down while the lease lives."""
    highest: dict[str, int] = {}
    for revision, record in records(list(changes)):
        for name, gate in record["gates"].items():
            if gate["attempt"] < highest.get(name, 0):
                yield f"attempts never go down: {name} from {highest[name]} to {gate['attempt']} (revision {revision})"
            highest[name] = gate["attempt"]


def _lost(life: Life, changes: Sequence[Change]) -> Iterator[str]:
    """Whatever somebody did was written."""
    seen = _revisions(changes)
    for op in life.said:
        keys = {change.key for change in seen.get(op.revision, ())}
        if isinstance(op, Wrote | Deleted) and op.key not in keys:
            yield f"no lost write: {op} is nowhere in etcd"


def _unexplained(life: Life, changes: Sequence[Change]) -> Iterator[str]:
    """Whatever was written was somebody's doing."""
    seen = _revisions(changes)
    claimed = {op.revision for op in life.said if not isinstance(op, Saw | Fault)}
    derived = set(_endings(changes)) | {op.revision for op in _adopted(life, changes)}
    for revision in seen.keys() - claimed - derived:
        yield f"nobody did this: {seen[revision]} (revision {revision})"
