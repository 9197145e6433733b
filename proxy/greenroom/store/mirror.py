"""The mirror: what the reserved area held a moment ago, for lists, metrics, and hints of what may be due.

The rule: it is never an authority. Pure: it is fed with etcd's keys and events and says which instances they touched.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from greenroom.core import cards, rollout_holds
from greenroom.core import record as records
from greenroom.core.keyspace import RECORDS, ROLLOUT_HOLDS, SHADOWS, InstanceId, Key, held_key
from greenroom.core.record import Record
from greenroom.core.rollout_holds import RolloutHold
from greenroom.core.templates import GatedKeys, KeyKind, Template
from greenroom.errors import UnreadableRecord
from greenroom.pb.etcd import kv_pb2
from greenroom.store.changes import Changes, Expired

NOTHING = Changes()


@dataclass(frozen=True, slots=True)
class MirroredInstance:
    """One instance as last seen. `held` are its keys that wait in the reserved area."""

    instance: InstanceId
    record: Record
    revision: int
    held: frozenset[Key]
    address: str | None

    @property
    def live_keys(self) -> frozenset[Key]:
        """The keys that exist: held ones, and with an instance whose keys are public all that were ever registered."""
        return frozenset(self.record.keys) if self.record.publishes_at_once else self.held

    @property
    def live_cards(self) -> int:
        """How many cards wait for publication, or with hold `health` are believed to be public."""
        live = self.live_keys
        return sum(entry.kind is KeyKind.CARD and entry.gated_key in live for entry in self.record.cards)


class Mirror:
    """All instances, rollout holds and worker addresses that etcd had when the follower last heard of it."""

    def __init__(self, gated_keys: GatedKeys) -> None:
        self._instance_records = gated_keys.instance_records
        self._records: dict[InstanceId, tuple[Record, int]] = {}
        self._unreadable: dict[InstanceId, str] = {}
        self._held: defaultdict[InstanceId, set[Key]] = defaultdict(set)
        self._addresses: defaultdict[InstanceId, dict[bytes, str]] = defaultdict(dict)
        self._rollout_holds: dict[bytes, RolloutHold] = {}

    @property
    def rollout_holds(self) -> tuple[RolloutHold, ...]:
        """Every rollout hold, in the order of their names."""
        return tuple(hold for _, hold in sorted(self._rollout_holds.items()))

    @property
    def unreadable(self) -> Mapping[InstanceId, str]:
        """Instances whose record this version cannot read, and why."""
        return self._unreadable

    @property
    def knows_addresses(self) -> bool:
        """Whether any template says where instances tell their address."""
        return bool(self._instance_records)

    def instances(self) -> Iterable[MirroredInstance]:
        """Every instance with a readable record."""
        return [self._mirrored(instance, *stored) for instance, stored in self._records.items()]

    def instance(self, instance: InstanceId) -> MirroredInstance | None:
        """One instance, or None where there is no readable record."""
        stored = self._records.get(instance)
        return self._mirrored(instance, *stored) if stored else None

    def address(self, instance: InstanceId) -> str | None:
        """Where the instance says it listens, by the first of its instance records that says so."""
        known = self._addresses.get(instance)
        return known[min(known)] if known else None

    def replace(self, kvs: Sequence[kv_pb2.KeyValue]) -> Changes:
        """The whole reserved area as it is: what is not in it is gone."""
        before, holds_before = dict(self._records), dict(self._rollout_holds)
        self._records.clear()
        self._unreadable.clear()
        self._held.clear()
        self._rollout_holds.clear()
        self.replace_addresses(SHADOWS, ())
        for kv in kvs:
            self._put(kv)
        gone = (
            Expired(instance, record)
            for instance, (record, _) in before.items()
            if instance not in self._records and instance not in self._unreadable
        )
        ended = (hold for key, hold in holds_before.items() if key not in self._rollout_holds)
        return Changes(expired=tuple(gone), everything=True, ended_holds=tuple(ended))

    def apply(self, events: Iterable[kv_pb2.Event]) -> Changes:
        """Events of the reserved area."""
        changes = NOTHING
        for event in events:
            changes |= self._delete(event.kv.key) if event.type == kv_pb2.Event.DELETE else self._put(event.kv)
        return changes

    def replace_addresses(self, prefix: bytes, kvs: Sequence[kv_pb2.KeyValue]) -> Changes:
        """All public instance records under one prefix as they are."""
        touched = set[InstanceId]()
        for instance, known in self._addresses.items():
            for key in [key for key in known if key.startswith(prefix)]:
                del known[key]
                touched.add(instance)
        for instance in touched:
            self._forget_if_empty(instance)
        return Changes(frozenset(touched)) | self.apply_addresses(
            kv_pb2.Event(type=kv_pb2.Event.PUT, kv=kv) for kv in kvs
        )

    def apply_addresses(self, events: Iterable[kv_pb2.Event]) -> Changes:
        """Events of public instance records."""
        touched = set[InstanceId]()
        for event in events:
            gone = event.type == kv_pb2.Event.DELETE
            touched |= self._address(event.kv.key, event.kv.key, None if gone else event.kv.value)
        return Changes(frozenset(touched))

    def _put(self, kv: kv_pb2.KeyValue) -> Changes:
        if kv.key.startswith(RECORDS):
            return self._put_record(kv)
        if kv.key.startswith(SHADOWS):
            return self._put_shadow(kv.key, kv.value)
        if kv.key.startswith(ROLLOUT_HOLDS):
            self._rollout_holds[kv.key] = rollout_holds.decode(kv.key, kv.value)
            return Changes(everything=True)
        return NOTHING

    def _delete(self, key: bytes) -> Changes:
        if key.startswith(RECORDS):
            return self._delete_record(_named(key, RECORDS))
        if key.startswith(SHADOWS):
            return self._delete_shadow(key)
        if key.startswith(ROLLOUT_HOLDS):
            ended = self._rollout_holds.pop(key, None)
            return Changes(everything=True, ended_holds=(ended,) if ended else ())
        return NOTHING

    def _put_record(self, kv: kv_pb2.KeyValue) -> Changes:
        instance = _named(kv.key, RECORDS)
        self._records.pop(instance, None)
        self._unreadable.pop(instance, None)
        try:
            self._records[instance] = (records.decode(kv.value, repr(kv.key.decode("latin-1"))), kv.mod_revision)
        except UnreadableRecord as error:
            self._unreadable[instance] = str(error)
        return Changes(frozenset({instance}))

    def _delete_record(self, instance: InstanceId) -> Changes:
        self._unreadable.pop(instance, None)
        last = self._records.pop(instance, None)
        expired = (Expired(instance, last[0]),) if last else ()
        return Changes(frozenset({instance}), expired)

    def _put_shadow(self, shadow: bytes, value: bytes) -> Changes:
        key, instance = held_key(shadow), _named(shadow, SHADOWS)
        if key is not None:
            self._held[instance].add(key)
            self._address(key, shadow, value)
        return Changes(frozenset({instance}))

    def _delete_shadow(self, shadow: bytes) -> Changes:
        key, instance = held_key(shadow), _named(shadow, SHADOWS)
        if key is not None:
            self._held[instance].discard(key)
            self._address(key, shadow, None)
        if not self._held[instance]:
            del self._held[instance]
        return Changes(frozenset({instance}))

    def _address(self, key: Key | bytes, place: bytes, value: bytes | None) -> set[InstanceId]:
        """Remembers what the instance record `key`, lying at `place`, says; `value` None: it is gone from there."""
        instance = _instance_of(key, self._instance_records)
        if instance is None:
            return set()
        said = cards.address(value) if value is not None else None
        if said is not None:
            self._addresses[instance][place] = said
        elif instance in self._addresses:
            self._addresses[instance].pop(place, None)
            self._forget_if_empty(instance)
        return {instance}

    def _forget_if_empty(self, instance: InstanceId) -> None:
        if not self._addresses[instance]:
            del self._addresses[instance]

    def _mirrored(self, instance: InstanceId, record: Record, revision: int) -> MirroredInstance:
        held = frozenset(self._held.get(instance, ()))
        return MirroredInstance(instance, record, revision, held, self.address(instance))


def _named(key: bytes, prefix: bytes) -> InstanceId:
    """The instance in a key of ours. Of a key that somebody else put there it is some text that names none."""
    return InstanceId(key[len(prefix) :].partition(b"/")[0].decode("utf-8", "replace"))


def _instance_of(key: Key | bytes, templates: Sequence[Template]) -> InstanceId | None:
    found = (template.match(Key(key)) for template in templates)
    return next((gated.instance for gated in found if gated), None)
