"""Where a gated key is to be written and read at the moment: in its shadow, or at its public place.

A key is looked for, and stays where it is found: a new rule takes no card away from a worker that serves already. Only
for a key that is in neither place it is asked what to keep back: of a withdrawn instance that is every card, whatever
its rules say; of a released one only a *later card*, one that nothing that passed here was about.
"""

from collections.abc import Iterator
from enum import StrEnum

from greenroom.core import txns
from greenroom.core.keyspace import Key, shadow_key
from greenroom.core.policy import Hold, Requirements
from greenroom.core.snapshot import Snapshot
from greenroom.core.templates import GatedKey, KeyKind
from greenroom.pb.etcd import kv_pb2


class Place(StrEnum):
    """The two places of a gated key."""

    SHADOW = "shadow"
    PUBLIC = "public"


def place_of(gated: GatedKey, snapshot: Snapshot, needs: Requirements | None) -> Place:
    """The place of a key. `needs` is what the rules ask of it, None where none matches."""
    if gated.key in snapshot.shadows:
        return Place.SHADOW
    if gated.key in snapshot.public:
        return Place.PUBLIC
    if snapshot.is_released:
        return Place.SHADOW if gates_to_pass(gated, snapshot, needs) else Place.PUBLIC
    taken_back = gated.kind is KeyKind.CARD and snapshot.record is not None and snapshot.record.is_taken_back
    return Place.SHADOW if taken_back or keeps_back(effective_hold(snapshot, needs), gated.kind) else Place.PUBLIC


def gates_to_pass(gated: GatedKey, snapshot: Snapshot, needs: Requirements | None) -> tuple[str, ...]:
    """The gates that a new key of a released instance waits for by itself; none: it is published at once.

    A card that is no LoRA card is another model: its gates have not seen it, though they passed.
    """
    if snapshot.record is None or needs is None or not keeps_back(effective_hold(snapshot, needs), gated.kind):
        return ()
    if gated.kind is KeyKind.CARD and not gated.suffix:
        return tuple(needs.obeyed)
    return tuple(name for name in needs.obeyed if not snapshot.record.is_through(name))


def effective_hold(snapshot: Snapshot, needs: Requirements | None) -> Hold | None:
    """What is kept back for a new key: by the record, or more by this key's own rules; None without either."""
    if snapshot.record is None:
        return needs.hold if needs else None
    return snapshot.record.hold.stronger(needs.hold) if needs else snapshot.record.hold


def keeps_back(hold: Hold | None, kind: KeyKind) -> bool:
    """Whether this hold (None: no rule matches) keeps keys of a kind out of sight."""
    if kind is KeyKind.INSTANCE:
        return hold is Hold.CARD_AND_INSTANCE
    return hold in (Hold.CARD, Hold.CARD_AND_INSTANCE)


def where(gated: GatedKey, place: Place) -> Key:
    """The key in etcd that stands for a gated key in this place."""
    return shadow_key(gated.instance, gated.key) if place is Place.SHADOW else gated.key


def place_compares(gated: GatedKey, place: Place, snapshot: Snapshot) -> Iterator[txns.Compare]:
    """What must still be so for this to be the key's place, beside the unchanged record."""
    shadow = shadow_key(gated.instance, gated.key)
    held, public = snapshot.shadows.get(gated.key), snapshot.public.get(gated.key)
    if place is Place.SHADOW:
        yield _there(shadow, held, snapshot) if held else txns.absent(gated.key)
    elif snapshot.is_released:
        if public:
            yield _there(gated.key, public, snapshot)
    else:
        yield txns.absent(shadow)
        yield _there(gated.key, public, snapshot) if public else txns.absent(gated.key)


def _there(key: Key, kv: kv_pb2.KeyValue, snapshot: Snapshot) -> txns.Compare:
    """The key exists. One that was not read for this must be what it was, too: its value had a part in the decision."""
    return txns.unchanged(key, kv.mod_revision) if snapshot.remembered else txns.exists(key)
