"""What is known of an instance without a read: from the last call that was gated for it, or from its lease being new.

The rule: a remembered snapshot is not trusted, it is fenced whole: the Txn that is planned from it compares the record,
every shadow, and every public key that it uses, with what they were. So it does exactly what a read would have made it
do, or its fence is lost, and then it is read.
"""

from collections.abc import Iterable
from dataclasses import replace

from greenroom.core import txns
from greenroom.core.gating import MANY_CARDS, Gated
from greenroom.core.keyspace import InstanceId, Key, held_key, is_reserved, record_key
from greenroom.core.snapshot import Snapshot
from greenroom.core.templates import GatedKeys
from greenroom.core.worker_calls import Uses
from greenroom.pb.etcd import kv_pb2, rpc_pb2

MAX_KEYS = 8
"""Shadows of a remembered snapshot, and gated keys of a call: each takes compares and probes of etcd's 128."""
MAX_OPERATIONS = 64
"""Of a client's branch or compares: the whole fence must not make a call too large that otherwise were not."""


def newborn(
    instance: InstanceId, keys: Iterable[Key], lease: rpc_pb2.LeaseTimeToLiveResponse, gated_keys: GatedKeys
) -> Snapshot | None:
    """An instance of which there is nothing yet, by its lease with its keys; None where there is something.

    The record and all shadows are on the lease; that the call's own keys are nowhere else is compared by its Txn.
    """
    if any(is_reserved(key) or key.startswith(gated_keys.prefixes) for key in lease.keys):
        return None
    return Snapshot(instance, lease.header.revision, None, 0, {}, {}, frozenset(keys), (), 0)


def is_enough(snapshot: Snapshot, txn: rpc_pb2.TxnRequest, uses: Uses) -> bool:
    """Whether a call can be planned from what is remembered."""
    if max(len(txn.compare), len(txn.success), len(txn.failure)) > MAX_OPERATIONS:
        return False
    if max(len(snapshot.shadows), len(uses.keys)) > MAX_KEYS:
        return False
    is_long = snapshot.record is not None and len(snapshot.record.cards) >= MANY_CARDS
    return not is_long and snapshot.asked.issuperset(uses.keys)


def after(snapshot: Snapshot, gated: Gated, answer: rpc_pb2.TxnResponse) -> Snapshot | None:
    """The instance as its Txn left it, whether it succeeded or failed by a compare of the client's.

    None where that cannot be told: a range was deleted, or something that is not remembered kept its value.
    """
    if not answer.succeeded:
        return replace(snapshot, rollout_holds=(), remembered=True)
    left = _Left(snapshot, answer.header.revision)
    if not all(map(left.take, gated.txn.success)):
        return None
    record = (gated.record, left.revision) if gated.record else (snapshot.record, snapshot.record_revision)
    return replace(
        snapshot,
        revision=left.revision,
        record=record[0],
        record_revision=record[1],
        shadows=left.shadows,
        public=left.public,
        rollout_holds=(),  # They are nothing that a write depends on, and there may be many.
        remembered=True,
    )


class _Left:
    """The keys of an instance, operation by operation."""

    def __init__(self, snapshot: Snapshot, revision: int) -> None:
        self.revision = revision
        self.shadows, self.public = dict(snapshot.shadows), dict(snapshot.public)
        self._asked, self._record_key = snapshot.asked, record_key(snapshot.instance)

    def take(self, operation: txns.Operation) -> bool:
        """Whether it is known what the operation left."""
        match operation.WhichOneof("request"):
            case "request_put":
                return self._put(operation.request_put)
            case "request_delete_range" if not operation.request_delete_range.range_end:
                place, key = self._place(operation.request_delete_range.key)
                place.pop(key, None)
                return True
            case "request_range":
                return True
        return False

    def _put(self, put: rpc_pb2.PutRequest) -> bool:
        if put.key == self._record_key:
            return True
        place, key = self._place(put.key)
        before = place.get(key)
        if put.ignore_value and before is None:
            return key not in self._asked
        if key in self._asked:
            value = before.value if put.ignore_value and before else put.value
            place[key] = kv_pb2.KeyValue(key=put.key, value=value, lease=put.lease, mod_revision=self.revision)
        return True

    def _place(self, key: bytes) -> tuple[dict[Key, kv_pb2.KeyValue], Key]:
        held = held_key(key)
        return (self.public, Key(key)) if held is None else (self.shadows, held)
