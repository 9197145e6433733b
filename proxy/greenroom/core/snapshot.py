"""What one read Txn saw of an instance: the ground that every decision about it stands on.

All of it is of one revision. What is decided from it is written by a Txn that compares the same revisions again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from greenroom.core import budget as budgets
from greenroom.core import record as records
from greenroom.core import rollout_holds
from greenroom.core.budget import NO_BUDGET, Budget
from greenroom.core.keyspace import (
    BUDGET,
    ROLLOUT_HOLDS,
    InstanceId,
    Key,
    held_key,
    lease_of,
    prefix_end,
    record_key,
    shadow_prefix,
)
from greenroom.core.ranges import TOO_MANY_OPERATIONS
from greenroom.core.record import Record, State
from greenroom.core.rollout_holds import RolloutHold
from greenroom.core.templates import KeyKind
from greenroom.errors import EtcdRefusal
from greenroom.pb.etcd import kv_pb2, rpc_pb2

MAX_READ_KEYS = 124
"""Public keys that one read Txn can ask for: etcd allows 128 operations, and four go to our own ranges."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An instance at `revision`. `public` has an item only for keys asked for that exist publicly."""

    instance: InstanceId
    revision: int
    record: Record | None
    record_revision: int
    shadows: Mapping[Key, kv_pb2.KeyValue]
    public: Mapping[Key, kv_pb2.KeyValue]
    asked: frozenset[Key]
    rollout_holds: tuple[RolloutHold, ...]
    budget_revision: int
    budget: Budget | None = NO_BUDGET
    """None: it cannot be read."""
    remembered: bool = False
    """It was not read for what is decided now, so all of it is to be compared (see `remembered`)."""

    @property
    def lease(self) -> int:
        """The instance's lease."""
        return lease_of(self.instance)

    @property
    def is_released(self) -> bool:
        """Whether the instance's keys are public, by its record, but for later cards."""
        return self.record is not None and self.record.state is State.RELEASED

    def present(self, key: Key) -> kv_pb2.KeyValue | None:
        """What there is of a gated key that was asked for, under the name of the place where it is."""
        return self.shadows.get(key) or self.public.get(key)

    @property
    def live_cards(self) -> int:
        """How many cards wait for publication, or with hold `health` are public already (if they were asked for).

        Of a released instance: how many keys, since an instance record waits for no card that is public.
        """
        if self.record is None:
            return 0
        if self.is_released:
            return sum(entry.gated_key in self.shadows for entry in self.record.cards)
        # With hold `health` a card may wait all the same: one whose own rules hold it.
        places = self.shadows.keys() | (self.public.keys() if self.record.publishes_at_once else ())
        return sum(entry.kind is KeyKind.CARD and entry.gated_key in places for entry in self.record.cards)

    def lacks_cards(self) -> bool:
        """Whether the record names cards whose public place this snapshot did not look at."""
        return self.record is not None and not self.asked.issuperset(self.record.keys)

    def read_again(self) -> tuple[Key, ...]:
        """The keys to ask for in a read that covers every card of the record too."""
        named = self.record.keys if self.record else ()
        return tuple(dict.fromkeys((*sorted(self.asked), *named)))


def read_request(instance: InstanceId, keys: Sequence[Key] = ()) -> rpc_pb2.TxnRequest:
    """The one read Txn: record, shadows, rollout holds, budget, and these public keys.

    EtcdRefusal for more than MAX_READ_KEYS: what was left out would look absent.
    """
    if len(keys) > MAX_READ_KEYS:
        raise EtcdRefusal(TOO_MANY_OPERATIONS)
    shadows, holds = shadow_prefix(instance), ROLLOUT_HOLDS
    txn = rpc_pb2.TxnRequest()
    for key, range_end in (
        (record_key(instance), b""),
        (shadows, prefix_end(shadows)),
        (holds, prefix_end(holds)),
        (BUDGET, b""),
        *((key, b"") for key in keys),
    ):
        txn.success.add().request_range.CopyFrom(rpc_pb2.RangeRequest(key=key, range_end=range_end))
    return txn


def snapshot_from(instance: InstanceId, keys: Sequence[Key], answer: rpc_pb2.TxnResponse) -> Snapshot:
    """The answer to `read_request` with the same arguments. UnreadableRecord where the record is not understood."""
    found = [response.response_range.kvs for response in answer.responses]
    record, shadows, holds, budget = found[:4]
    place = record_key(instance).decode("latin-1")
    return Snapshot(
        instance=instance,
        revision=answer.header.revision,
        record=records.decode(record[0].value, repr(place)) if record else None,
        record_revision=record[0].mod_revision if record else 0,
        shadows={key: kv for kv in shadows if (key := held_key(kv.key)) is not None},
        public={Key(kv.key): kv for kvs in found[4:] for kv in kvs},
        asked=frozenset(keys),
        rollout_holds=tuple(rollout_holds.decode(kv.key, kv.value) for kv in holds),
        budget_revision=budget[0].mod_revision if budget else 0,
        budget=budgets.decode(budget[0].value) if budget else NO_BUDGET,
    )
