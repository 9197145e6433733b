"""The mirror: what the reserved area held a moment ago, for lists, metrics, and hints of what may be due.

The rule: it is never an authority. Pure: it is fed with etcd's keys and events and says which instances they touched.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from greenroom.core import budget as budgets
from greenroom.core import cards, claims, rollout_holds
from greenroom.core import record as records
from greenroom.core.budget import Budget
from greenroom.core.claims import Claim
from greenroom.core.conflicts import Conflict
from greenroom.core.keyspace import (
    BUDGET,
    CLAIMS,
    RECORDS,
    ROLLOUT_HOLDS,
    SHADOWS,
    InstanceId,
    Key,
    claimed_gate,
    held_key,
    record_key,
)
from greenroom.core.record import Record
from greenroom.core.rollout_holds import RolloutHold
from greenroom.core.templates import GatedKeys, Template
from greenroom.errors import UnreadableRecord
from greenroom.pb.etcd import kv_pb2
from greenroom.store.changes import NOTHING, Changes, ClaimExpired, Expired
from greenroom.store.configurations import Configurations
from greenroom.store.in_order import InOrder
from greenroom.store.listeners import Listeners
from greenroom.store.mirrored import MirroredInstance

FOLLOWED = (RECORDS, SHADOWS, ROLLOUT_HOLDS, CLAIMS)
"""What of the reserved area is shown, beside the budget; the rest is between proxies."""


class Mirror:
    """All instances, claims, rollout holds and worker addresses that etcd had when the follower last heard of it."""

    def __init__(self, gated_keys: GatedKeys) -> None:
        self._instance_records = gated_keys.instance_records
        self._records: dict[InstanceId, tuple[Record, int]] = {}
        self._unreadable: dict[InstanceId, str] = {}
        self._held: defaultdict[InstanceId, set[Key]] = defaultdict(set)
        self._addresses: defaultdict[InstanceId, dict[bytes, str]] = defaultdict(dict)
        self.listeners = Listeners()
        """Instances by where they say they listen."""
        self._claims: defaultdict[InstanceId, dict[str, Claim]] = defaultdict(dict)
        self._configurations = Configurations()
        self._listed = InOrder()
        self._rollout_holds: dict[bytes, RolloutHold] = {}
        self._in_order: tuple[RolloutHold, ...] = ()
        self._revisions: dict[bytes, int] = {}
        self._address_revisions: dict[bytes, int] = {}
        self._newest = 0
        self._read_at = 0
        self._budget: Budget | None = Budget()

    @property
    def rollout_holds(self) -> tuple[RolloutHold, ...]:
        """Every rollout hold, in the order of their names."""
        return self._in_order

    @property
    def budget(self) -> Budget | None:
        """The releases that were in flight when the budget was last written; None where it cannot be read."""
        return self._budget

    @property
    def revisions(self) -> Mapping[bytes, int]:
        """The mod_revision of each record, shadow, rollout hold and claim."""
        return self._revisions

    @property
    def address_revisions(self) -> Mapping[bytes, int]:
        """The mod_revision of each public instance record."""
        return self._address_revisions

    @property
    def newest(self) -> int:
        """The revision of the newest write or delete in the reserved area that is known of."""
        return self._newest

    @property
    def unreadable(self) -> Mapping[InstanceId, str]:
        """Instances whose record this version cannot read, and why."""
        return self._unreadable

    @property
    def knows_addresses(self) -> bool:
        """Whether any template says where instances tell their address."""
        return bool(self._instance_records)

    def instances(self) -> list[MirroredInstance]:
        """Every instance with a readable record."""
        return [self._mirrored(instance, *stored) for instance, stored in self._records.items()]

    def names(self) -> Set[InstanceId]:
        """Those of every instance with a readable record."""
        return self._records.keys()

    def records(self) -> Iterator[Record]:
        """The record of each: where nothing else of an instance counts, it is not put together."""
        return (record for record, _ in self._records.values())

    def in_order(
        self, after: tuple[str, ...] | None = None, *, matching: Callable[[Record], bool] = lambda _: True
    ) -> Iterator[MirroredInstance]:
        """Those with a matching record that come after a place, in the order of `store.in_order`."""
        for instance in self._listed.after(after):
            record, revision = self._records[instance]
            if matching(record):
                yield self._mirrored(instance, record, revision)

    def instance(self, instance: InstanceId) -> MirroredInstance | None:
        """One instance, or None where there is no readable record."""
        stored = self._records.get(instance)
        return self._mirrored(instance, *stored) if stored else None

    def exists(self, instance: InstanceId) -> bool:
        """Whether there is a record, readable or not: as long as the lease lives."""
        return instance in self._records or instance in self._unreadable

    def conflicts(self, instance: InstanceId, record: Record, held: Collection[Key]) -> tuple[Conflict, ...]:
        """With whom an instance with this record, of whose keys these are held, is in conflict."""
        return self._configurations.conflicts(instance, record, held)

    def address(self, instance: InstanceId) -> str | None:
        """Where the instance says it listens, by the first of its instance records that says so."""
        known = self._addresses.get(instance)
        return known[min(known)] if known else None

    def claims(self, instance: InstanceId) -> Mapping[str, Claim]:
        """The claims on an instance's gates, by the gates' names."""
        return self._claims.get(instance, {})

    def claimed_gates(self) -> Iterator[str]:
        """The gate of each claim in force."""
        for on_gates in self._claims.values():
            yield from on_gates

    @property
    def read_at(self) -> int:
        """The revision at which the whole reserved area was read last: what was gone by then is not missed."""
        return self._read_at

    def replace(self, kvs: Sequence[kv_pb2.KeyValue], revision: int = 0) -> Changes:
        """The whole reserved area as it is at `revision`: what is not in it is gone."""
        before, holds_before = self.instances(), dict(self._rollout_holds)
        for known in (
            *(self._records, self._unreadable, self._held),
            *(self._claims, self._rollout_holds, self._revisions),
        ):
            known.clear()
        self._configurations.clear()
        self._listed.clear()
        self._newest, self._read_at, self._in_order, self._budget = 0, revision, (), Budget()
        self._drop_addresses(SHADOWS)
        for kv in kvs:
            self._put(kv)
        gone = (
            Expired(last)
            for last in before
            if last.instance not in self._records and last.instance not in self._unreadable
        )
        ended = (hold for key, hold in holds_before.items() if key not in self._rollout_holds)
        return Changes(expired=tuple(gone), everything=True, ended_holds=tuple(ended))

    def apply(self, events: Sequence[kv_pb2.Event]) -> Changes:
        """Events of the reserved area."""
        instances, expired, ended = set[InstanceId](), list[Expired](), list[RolloutHold]()
        before, everything, budget = self._before(events), False, False
        expired_claims = self._expired_claims(events)
        for event in events:
            change = self._delete(event.kv, before) if event.type == kv_pb2.Event.DELETE else self._put(event.kv)
            instances |= change.instances
            expired += change.expired
            ended += change.ended_holds
            everything |= change.everything
            budget |= change.budget
        return Changes(frozenset(instances), tuple(expired), everything, tuple(ended), expired_claims, budget)

    def replace_addresses(self, prefix: bytes, kvs: Sequence[kv_pb2.KeyValue]) -> Changes:
        """All public instance records under one prefix as they are."""
        for key in [key for key in self._address_revisions if key.startswith(prefix)]:
            del self._address_revisions[key]
        touched = self._drop_addresses(prefix)
        return Changes(touched) | self.apply_addresses(kv_pb2.Event(type=kv_pb2.Event.PUT, kv=kv) for kv in kvs)

    def apply_addresses(self, events: Iterable[kv_pb2.Event]) -> Changes:
        """Events of public instance records."""
        touched = set[InstanceId]()
        for event in events:
            key, gone = event.kv.key, event.type == kv_pb2.Event.DELETE
            if gone:
                self._address_revisions.pop(key, None)
            else:
                self._address_revisions[key] = event.kv.mod_revision
            touched |= self._address(key, key, None if gone else event.kv.value)
        return Changes(frozenset(touched))

    def named(self, key: bytes) -> InstanceId | None:
        """The instance that a key of the reserved area, or a public instance record, is about."""
        for prefix in (RECORDS, SHADOWS):
            if key.startswith(prefix):
                return _named(key, prefix)
        if (claimed := claimed_gate(key)) is not None:
            return claimed[0]
        return _instance_of(key, self._instance_records)

    def _drop_addresses(self, prefix: bytes) -> frozenset[InstanceId]:
        """Forgets what is said under a prefix; whose address that concerns."""
        touched = set[InstanceId]()
        for instance, known in self._addresses.items():
            for key in [key for key in known if key.startswith(prefix)]:
                del known[key]
                touched.add(instance)
        for instance in touched:
            self._forget_if_empty(instance)
            self.listeners.tell(instance, self._addresses.get(instance, {}).values())
        return frozenset(touched)

    def _before(self, events: Sequence[kv_pb2.Event]) -> dict[InstanceId, MirroredInstance]:
        """How those whose record these events delete are now: a lease's end takes their other keys first."""
        gone = (
            _named(event.kv.key, RECORDS)
            for event in events
            if event.type == kv_pb2.Event.DELETE and event.kv.key.startswith(RECORDS)
        )
        return {instance: mirrored for instance in gone if (mirrored := self.instance(instance)) is not None}

    def _expired_claims(self, events: Sequence[kv_pb2.Event]) -> tuple[ClaimExpired, ...]:
        """Claims of known instances that end alone: a verdict or their runner ends them together with a record."""
        ended = [event.kv for event in events if event.type == kv_pb2.Event.DELETE and event.kv.key.startswith(CLAIMS)]
        if not ended:
            return ()
        written = {(event.kv.key, event.kv.mod_revision) for event in events}
        found = list[ClaimExpired]()
        for kv in ended:
            instance, gate = claimed_gate(kv.key) or (InstanceId(""), "")
            claim = self._claims.get(instance, {}).get(gate)
            is_alone = (record_key(instance), kv.mod_revision) not in written
            if claim is not None and is_alone and instance in self._records:
                found.append(ClaimExpired(instance, gate, claim))
        return tuple(found)

    def _put(self, kv: kv_pb2.KeyValue) -> Changes:
        self._newest = max(self._newest, kv.mod_revision)
        if kv.key == BUDGET:
            self._budget = budgets.decode(kv.value)
            return Changes(budget=True)
        if not kv.key.startswith(FOLLOWED):
            return NOTHING
        self._revisions[kv.key] = kv.mod_revision
        if kv.key.startswith(RECORDS):
            return self._put_record(kv)
        if kv.key.startswith(SHADOWS):
            return self._put_shadow(kv.key, kv.value)
        if kv.key.startswith(CLAIMS):
            return self._claim(kv.key, claims.decode(kv.value))
        self._rollout_holds[kv.key] = rollout_holds.decode(kv.key, kv.value)
        self._put_in_order()
        return Changes(everything=True)

    def _delete(self, kv: kv_pb2.KeyValue, before: Mapping[InstanceId, MirroredInstance]) -> Changes:
        self._newest = max(self._newest, kv.mod_revision)
        self._revisions.pop(kv.key, None)
        if kv.key == BUDGET:
            self._budget = Budget()
            return Changes(budget=True)
        if kv.key.startswith(RECORDS):
            return self._delete_record(_named(kv.key, RECORDS), before)
        if kv.key.startswith(SHADOWS):
            return self._delete_shadow(kv.key)
        if kv.key.startswith(CLAIMS):
            return self._claim(kv.key, None)
        if kv.key.startswith(ROLLOUT_HOLDS):
            ended = self._rollout_holds.pop(kv.key, None)
            self._put_in_order()
            return Changes(everything=True, ended_holds=(ended,) if ended else ())
        return NOTHING

    def _put_in_order(self) -> None:
        self._in_order = tuple(hold for _, hold in sorted(self._rollout_holds.items()))

    def _put_record(self, kv: kv_pb2.KeyValue) -> Changes:
        instance = _named(kv.key, RECORDS)
        self._records.pop(instance, None)
        self._unreadable.pop(instance, None)
        try:
            self._records[instance] = (records.decode(kv.value, repr(kv.key.decode("latin-1"))), kv.mod_revision)
        except UnreadableRecord as error:
            self._unreadable[instance] = str(error)
        return self._changed(instance)

    def _changed(self, instance: InstanceId) -> Changes:
        """It changed, and who is in another conflict by that."""
        stored = self._records.get(instance)
        now = self._mirrored(instance, *stored) if stored else None
        self._listed.put(instance, now.record if now else None)
        return Changes(frozenset({instance}) | self._configurations.update(instance, now))

    def _delete_record(self, instance: InstanceId, before: Mapping[InstanceId, MirroredInstance]) -> Changes:
        """The last record, with the keys that it had before its lease's end took them."""
        self._unreadable.pop(instance, None)
        last = self.instance(instance)
        self._records.pop(instance, None)
        changed = self._changed(instance)
        if last is None:
            return changed
        if (known := before.get(instance)) is not None:
            last = replace(known, record=last.record, revision=last.revision)
        return changed | Changes(expired=(Expired(last),))

    def _put_shadow(self, shadow: bytes, value: bytes) -> Changes:
        """Of a key that is held already, only where a worker listens is anything that is shown."""
        key, instance = held_key(shadow), _named(shadow, SHADOWS)
        if key is None:
            return Changes(frozenset({instance}))
        is_known = key in self._held[instance]
        self._held[instance].add(key)
        is_address = bool(self._address(key, shadow, value))
        return NOTHING if is_known and not is_address else self._changed(instance)

    def _delete_shadow(self, shadow: bytes) -> Changes:
        key, instance = held_key(shadow), _named(shadow, SHADOWS)
        if key is not None:
            self._held[instance].discard(key)
            self._address(key, shadow, None)
        if not self._held[instance]:
            del self._held[instance]
        return self._changed(instance)

    def _claim(self, key: bytes, claim: Claim | None) -> Changes:
        """Remembers a claim, or None: that it is gone, or says nothing that can be read here."""
        if (claimed := claimed_gate(key)) is None:
            return NOTHING
        instance, gate = claimed
        if claim is not None:
            self._claims[instance][gate] = claim
        elif instance in self._claims:
            self._claims[instance].pop(gate, None)
            if not self._claims[instance]:
                del self._claims[instance]
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
        self.listeners.tell(instance, self._addresses.get(instance, {}).values())
        return {instance}

    def _forget_if_empty(self, instance: InstanceId) -> None:
        if not self._addresses[instance]:
            del self._addresses[instance]

    def _mirrored(self, instance: InstanceId, record: Record, revision: int) -> MirroredInstance:
        held = frozenset(self._held.get(instance, ()))
        on_gates = dict(self._claims.get(instance, ()))
        return MirroredInstance(instance, record, revision, held, self.address(instance), on_gates)


def _named(key: bytes, prefix: bytes) -> InstanceId:
    """The instance in a key of ours. Of a key that somebody else put there it is some text that names none."""
    return InstanceId(key[len(prefix) :].partition(b"/")[0].decode("utf-8", "replace"))


def _instance_of(key: Key | bytes, templates: Sequence[Template]) -> InstanceId | None:
    found = (template.match(Key(key)) for template in templates)
    return next((gated.instance for gated in found if gated), None)
