"""From a client's call and a snapshot to the Txn that is sent instead.

The client's compares and operations stay flat and in place; gated keys among them are mapped to where they are at the
moment. The *fence* joins the compares, and one small read for each of its compares joins the Else: by these reads,
which are of the same revision as the decision, a lost fence is told from a compare of the client's that failed.
A client's own operations are never wrapped in a nested Txn: older etcd check no permissions inside. An Else that writes
never comes here: it is a call of its own by then (see `alternatives`).

So what is ours takes room in etcd's 128: among the compares, and again in the Else, one for the record, up to two for
each gated key, one more where the record is opened; in the Then one for a record that is written, and one for each
range delete within one instance. A call that leaves less room is refused by etcd, in its own words, without effect.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import reduce

from greenroom.core import record as records
from greenroom.core import txns
from greenroom.core.cards import Content, Value, attributes, differ_only_in_taints, read
from greenroom.core.configuration import configuration
from greenroom.core.keyspace import Key, record_key, shadow_key
from greenroom.core.place import Place, effective_hold, gates_to_pass, keeps_back, place_compares, place_of, where
from greenroom.core.policy import Hold, Policy, Requirements
from greenroom.core.ranges import TOO_MANY_OPERATIONS
from greenroom.core.record import (
    MAX_ACTOR_BYTES,
    MAX_LINE_BYTES,
    MAX_REASON_BYTES,
    MAX_TRANSITIONS,
    SPELLED_BYTES,
    GatedEntry,
    Record,
)
from greenroom.core.snapshot import Snapshot
from greenroom.core.templates import GatedKey, GatedKeys, KeyKind
from greenroom.core.transitions import card_added, card_changed, card_published, opened
from greenroom.core.worker_calls import REQUEST_TOO_LARGE, Uses
from greenroom.errors import EtcdRefusal, NewCardNeedsGates
from greenroom.pb.etcd import kv_pb2, rpc_pb2

MAX_CARDS = 120
"""Cards of one instance: a release needs a compare for each and four more, of etcd's 128."""
MANY_CARDS = 100
"""From so many listed on, those that are gone make room: a worker may load and unload adapters for ever."""
MAX_RELEASE_BYTES = 3 << 19
"""A release is one request, and etcd takes 1.5 MiB."""
CARD_BYTES = 100
"""What a card takes in a release beside its value and its key, which is compared and written: a shadow's prefix, a
lease, revisions.
"""
GATE_GROWTH_BYTES = SPELLED_BYTES * (MAX_REASON_BYTES + MAX_ACTOR_BYTES) + 128
"""What a gate in the record can still grow by: a reason, a reporter, when it was decided, and what is counted."""
TRAIL_BYTES = MAX_TRANSITIONS * MAX_LINE_BYTES
"""The whole audit trail at its longest: what it has now makes room for longer lines."""


@dataclass(frozen=True, slots=True)
class LookAtLease:
    """Before a record is opened, the lease's own keys must be seen: the instance may serve already."""


@dataclass(frozen=True, slots=True)
class Gated:
    """A Txn to send, and what is needed to read its answer."""

    txn: rpc_pb2.TxnRequest
    fence: tuple[txns.Compare, ...]
    widths: tuple[int, ...]
    """For each operation of the client's Then, how many operations stand for it."""
    opens: bool
    """Whether the record is new with this Txn."""
    record: Record | None
    """The record that the Txn writes, if it writes one."""

    def holds_later(self, snapshot: Snapshot) -> bool:
        """Whether the Txn holds a later card of an instance that is released."""
        later = self.record.later if self.record else ()
        return any(entry.gated_key not in snapshot.shadows for entry in later)


def needs_of(policy: Policy, gated: GatedKey, value: Value | None) -> Requirements | None:
    """What the rules ask of a key. Without a value its model is unknown, and counts as a match."""
    return policy.requirements(gated, attributes(gated, value or b""))


def entry_of(gated: GatedKey, value: Value) -> GatedEntry:
    """How the record names a gated key."""
    content = read(value)
    found = attributes(gated, content)
    return GatedEntry(
        key=gated.key.decode(),
        kind=gated.kind,
        namespace=found.namespace,
        component=found.component,
        endpoint=found.endpoint,
        model=found.model,
        suffix=found.suffix,
        configuration=configuration(content) if gated.kind is KeyKind.CARD else "",
    )


def public_entries(snapshot: Snapshot, gated_keys: GatedKeys) -> tuple[GatedEntry, ...]:
    """How the record names the public keys that the snapshot found, in the order of their creation."""
    found = sorted(snapshot.public.values(), key=lambda kv: kv.create_revision)
    named = ((gated_keys.classify(kv.key), kv) for kv in found)
    return tuple(entry_of(gated, kv.value) for gated, kv in named if isinstance(gated, GatedKey))


def gate_call(
    txn: rpc_pb2.TxnRequest,
    uses: Uses,
    snapshot: Snapshot,
    gated_keys: GatedKeys,
    policy: Policy,
    now: datetime,
    *,
    lease_was_seen: bool,
) -> Gated | LookAtLease:
    """What to send for a call that uses gated keys of `snapshot.instance`.

    `txn` is clipped already. `lease_was_seen`: the lease's keys were looked at after the snapshot's record was found
    absent, none of them is a ruled card, and the snapshot asked for all of them.
    NewCardNeedsGates, EtcdRefusal: nothing is to be sent.
    """
    call = _Call(txn, uses, snapshot, gated_keys, policy, now)
    if not lease_was_seen and call.may_serve_already():
        return LookAtLease()
    return call.gated()


class _Call:
    """One call being mapped, with everything its parts look at."""

    def __init__(
        self,
        txn: rpc_pb2.TxnRequest,
        uses: Uses,
        snapshot: Snapshot,
        gated_keys: GatedKeys,
        policy: Policy,
        now: datetime,
    ) -> None:
        self.txn, self.uses, self.snapshot, self.now = txn, uses, snapshot, now
        self.gated_keys, self.policy = gated_keys, policy
        self._last_encoded: tuple[Record, bytes] | None = None
        self.needs = self._needs_of_all()
        self.places: Mapping[Key, Place] = {
            key: place_of(gated, snapshot, self.needs[key]) for key, gated in uses.keys.items()
        }

    def _needs_of_all(self) -> Mapping[Key, Requirements | None]:
        """What each key needs. One that no rule matches is held with those that are held by the same call."""
        found = {key: needs_of(self.policy, gated, self._value_after(key)) for key, gated in self.uses.keys.items()}
        ruled = [needs for key in self.uses.puts if (needs := found[key])]
        if self.snapshot.record is not None or not ruled:
            return found
        hold, is_dry = reduce(Hold.stronger, (needs.hold for needs in ruled)), all(needs.dry_run for needs in ruled)
        beside = Requirements(hold, {}, dry_run=is_dry)
        return {key: needs or beside for key, needs in found.items()}

    def _value_after(self, key: Key) -> Value | None:
        """The value that the call leaves: the put one, else what is there."""
        request = self.uses.puts.get(key)
        if request is not None and not request.ignore_value:
            return self.uses.contents[key]
        found = self._found(key)
        return bytes(found.value) if found else None

    def _bytes_after(self, key: Key) -> int:
        value = self._value_after(key)
        return len(value.value if isinstance(value, Content) else value or b"")

    def _found(self, key: Key) -> kv_pb2.KeyValue | None:
        return self.snapshot.shadows.get(key) or self.snapshot.public.get(key)

    def may_serve_already(self) -> bool:
        """Whether a first write of a ruled instance is about to happen, or one of its public keys to change."""
        if self.snapshot.record is not None:
            return False
        public_deletes = self.uses.deletes & self.snapshot.public.keys()
        return any(self.needs[key] for key in (*self.uses.puts, *public_deletes))

    def gated(self) -> Gated:
        record, opens = self._record_after()
        fence = tuple(self._fence(opens=opens))
        sent = rpc_pb2.TxnRequest(compare=[*(self._compare(compare) for compare in self.txn.compare), *fence])
        widths = []
        for operation in self.txn.success:
            mapped = list(self._operation(operation))
            sent.success.extend(mapped)
            widths.append(len(mapped))
        for operation in self.txn.failure:
            sent.failure.extend(self._operation(operation))
        if record is not None:
            sent.success.append(self._record_write(record, opens=opens))
        sent.failure.extend(_probe(compare) for compare in fence)
        return Gated(sent, fence, tuple(widths), opens, record)

    def _record_write(self, record: Record, *, opens: bool) -> txns.Operation:
        if opens:
            return txns.put(record_key(self.snapshot.instance), self._encoded(record), self.snapshot.lease)
        return txns.keep_record(self.snapshot.instance, self._encoded(record))

    def _encoded(self, record: Record) -> bytes:
        """The record as it is stored. It is asked for twice, for its size and to be written."""
        if self._last_encoded is None or self._last_encoded[0] is not record:
            self._last_encoded = record, records.encode(record)
        return self._last_encoded[1]

    def _fence(self, *, opens: bool) -> Iterator[txns.Compare]:
        instance = self.snapshot.instance
        yield txns.unchanged(record_key(instance), self.snapshot.record_revision)
        if opens:
            yield txns.no_newer_shadow(instance, self.snapshot.revision)
        if self.snapshot.remembered:
            yield from self._all_shadows()
        for key, gated in self.uses.keys.items():
            if self.snapshot.remembered and key in self.snapshot.shadows:
                continue
            if key in self.uses.deletes and self._stays(key):
                continue  # Deleting what is gone does nothing.
            yield from place_compares(gated, self.places[key], self.snapshot)

    def _stays(self, key: Key) -> bool:
        """Whether only a write of the record moves it: without one, a proxy without a rule may make it public."""
        is_known = self.snapshot.record is not None
        return is_known and (self.snapshot.is_released or self.places[key] is Place.SHADOW)

    def _all_shadows(self) -> Iterator[txns.Compare]:
        """Each as it was: how large they are decides too."""
        for key, kv in self.snapshot.shadows.items():
            yield txns.unchanged(shadow_key(self.snapshot.instance, key), kv.mod_revision)

    def _compare(self, compare: txns.Compare) -> txns.Compare:
        changed = txns.Compare()
        changed.CopyFrom(compare)
        self._map(changed)
        return changed

    def _operation(self, operation: txns.Operation) -> Iterator[txns.Operation]:
        changed = txns.Operation()
        changed.CopyFrom(operation)
        match changed.WhichOneof("request"):
            case "request_put":
                self._map(changed.request_put)
            case "request_range":
                self._map(changed.request_range)
            case "request_delete_range":
                self._map(changed.request_delete_range)
        yield changed
        if changed.HasField("request_delete_range"):
            yield from self._shadows_of_range(changed)

    def _map(
        self, request: txns.Compare | rpc_pb2.PutRequest | rpc_pb2.RangeRequest | rpc_pb2.DeleteRangeRequest
    ) -> None:
        """Let a request that names a gated key exactly name where that key is; others stay as they are."""
        if isinstance(request, rpc_pb2.PutRequest) or not request.range_end:
            key = Key(request.key)
            if key in self.places:
                request.key = where(self.uses.keys[key], self.places[key])

    def _shadows_of_range(self, operation: txns.Operation) -> Iterator[txns.Operation]:
        """A range delete within one instance's keys takes the held ones too, so that they are never published."""
        request = operation.request_delete_range
        instance = self.gated_keys.within_one_instance(request.key, request.range_end)
        if instance is None:
            return
        held = txns.Operation()
        held.CopyFrom(operation)
        held.request_delete_range.key = shadow_key(instance, Key(request.key))
        held.request_delete_range.range_end = shadow_key(instance, Key(request.range_end))
        yield held

    def _record_after(self) -> tuple[Record | None, bool]:
        """The record that the call leaves, or None where it stays as it is; and whether it is a new one."""
        before = record = self.snapshot.record
        for key, request in self.uses.puts.items():
            record = self._after_put(record, key, request)
        if record is None or record is before:
            self._check_release_fits(before)
            return None, False
        record = self._without_gone(record)
        self._check_release_fits(record)
        return record, before is None

    def _without_gone(self, record: Record) -> Record:
        """A long record without the cards that are known to be gone. To come back, a card must rewrite the record."""
        if len(record.cards) < MANY_CARDS:
            return record
        there = {*self.snapshot.shadows, *self.snapshot.public, *self.uses.puts}
        kept = tuple(
            card for card in record.cards if card.gated_key in there or card.gated_key not in self.snapshot.asked
        )
        if len(kept) > MAX_CARDS:
            raise EtcdRefusal(TOO_MANY_OPERATIONS)
        return record.model_copy(update={"cards": kept})

    def _after_put(self, record: Record | None, key: Key, request: rpc_pb2.PutRequest) -> Record | None:
        """The record after one put; the same object where it need not be written."""
        gated, found, needs = self.uses.keys[key], self._found(key), self.needs[key]
        if self.places[key] is Place.PUBLIC and key in self.snapshot.public:
            self._check_edit_brings_no_gate(gated)
        if record is not None and self.snapshot.is_released:
            return self._after_put_of_released(record, gated, request)
        hold = effective_hold(self.snapshot, needs)
        if hold is None or (gated.kind is KeyKind.INSTANCE and hold is not Hold.CARD_AND_INSTANCE):
            return record
        content = self.uses.contents[key]
        if found is None:
            entry = entry_of(gated, content)
            if record is None:
                assert needs is not None
                # What is public already stays so, but a withdrawal must know of it to be whole.
                return opened(entry, needs, self.now, public_entries(self.snapshot, self.gated_keys))
            return card_added(record, entry, needs, self.now)
        return record if request.ignore_value else self._after_edit(record, gated, content, bytes(found.value))

    def _check_edit_brings_no_gate(self, gated: GatedKey) -> None:
        """NewCardNeedsGates for an edit that makes a public key one that its rules would have kept back.

        Rules select by model, which is in the value: whoever registered a free one could turn it into any other.
        """
        needs, record = self.needs[gated.key], self.snapshot.record
        if needs is None or not keeps_back(needs.hold, gated.kind):
            return
        before = needs_of(self.policy, gated, bytes(self.snapshot.public[gated.key].value))
        known = before.gates if before and keeps_back(before.hold, gated.kind) else {}
        brought = [name for name in needs.obeyed if name not in known and not (record and record.is_through(name))]
        if brought:
            raise NewCardNeedsGates(
                f"{gated.key!r} is public, and this edit would make it a card that needs the gates "
                f"{', '.join(brought)}, which have not passed here: delete it and register it again to have it checked",
                instance=gated.instance,
            )

    def _after_edit(self, record: Record | None, gated: GatedKey, content: Content, before: bytes) -> Record | None:
        """What an edit of a card that is there does: nothing, unless more than its taints changed while it waits."""
        waits = self.places[gated.key] is Place.SHADOW or (record is not None and record.hold is Hold.HEALTH)
        if record is None or not waits or differ_only_in_taints(before, content):
            return record
        return card_changed(record, entry_of(gated, content), self.needs[gated.key], self.now)

    def _after_put_of_released(self, record: Record, gated: GatedKey, request: rpc_pb2.PutRequest) -> Record:
        """What comes later is listed, so that a withdrawal takes it too; what has gates to pass is held by itself."""
        needs, place, held = self.needs[gated.key], self.places[gated.key], self.snapshot.shadows.get(gated.key)
        if request.ignore_value or (place is Place.PUBLIC and gated.key in self.snapshot.public):
            return record
        if place is Place.PUBLIC:
            is_held_kind = gated.kind is KeyKind.CARD or keeps_back(effective_hold(self.snapshot, needs), gated.kind)
            return card_published(record, self._entry(gated), needs) if is_held_kind else record
        if held is not None and differ_only_in_taints(bytes(held.value), self.uses.contents[gated.key]):
            return record
        listed = record.entry(gated.key) if held is not None else None
        gates = (*(listed.later_gates if listed else ()), *gates_to_pass(gated, self.snapshot, needs))
        later = self._entry(gated).model_copy(update={"later_gates": tuple(dict.fromkeys(gates))})
        if held is not None:
            return card_changed(record, later, needs, self.now)
        # A card that was deleted while it waited is done with, and so are its gates.
        there = self.snapshot.shadows.keys() | self.uses.puts.keys()
        return card_added(record.with_held(there), later, needs, self.now)

    def _entry(self, gated: GatedKey) -> GatedEntry:
        return entry_of(gated, self.uses.contents[gated.key])

    def _check_release_fits(self, record: Record | None) -> None:
        """EtcdRefusal for a write after which the cards could never be published in one Txn.

        What brings an instance nearer to a release passes, though it may be too large still.
        """
        held = {key for key in self.uses.puts if self.places[key] is Place.SHADOW}
        if not held or record is None:
            return
        before = {key: len(kv.value) for key, kv in self.snapshot.shadows.items()}
        after = {key: size for key, size in before.items() if key not in self.uses.deletes}
        after |= {key: self._bytes_after(key) for key in held}
        if len(after) > max(MAX_CARDS, len(before)):
            raise EtcdRefusal(TOO_MANY_OPERATIONS)
        size = _cards_bytes(after)
        if size > _cards_bytes(before) and size + record_bytes(record, self._encoded(record)) > MAX_RELEASE_BYTES:
            raise EtcdRefusal(REQUEST_TOO_LARGE)


def _cards_bytes(values: Mapping[Key, int]) -> int:
    """What cards with values of so many bytes take in a release."""
    return sum(size + 2 * len(key) + CARD_BYTES for key, size in values.items())


def record_bytes(record: Record, encoded: bytes) -> int:
    """How large a record may become until its gates have passed."""
    return len(encoded) + GATE_GROWTH_BYTES * len(record.gates) + TRAIL_BYTES


def _probe(compare: txns.Compare) -> txns.Operation:
    """The read that tells whether a compare of the fence holds."""
    if compare.range_end:
        return txns.look_for_newer(compare.key, compare.mod_revision - 1)
    return txns.look(compare.key)
