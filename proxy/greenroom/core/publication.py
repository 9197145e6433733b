"""The Txns that move an instance between its shadows and its public keys, and those that only rewrite its record.

Each is all or nothing, and each compares what its decision was taken from. Which compare guards against what:

* the record: a verdict, a new card or another proxy's release came between;
* each shadow: a card was edited, or deleted (a range compare never sees a deletion, and would bring it back);
* no newer shadow: a card came that is not in this release;
* no newer rollout hold: somebody stopped releases;
* the budget: another release used it;
* on withdrawal, each public card: it was edited, deleted or came back.
"""

from collections.abc import Sequence
from datetime import datetime

from greenroom.core import budget as budgets
from greenroom.core import record as records
from greenroom.core import rollout_holds, txns
from greenroom.core.budget import Budget
from greenroom.core.keyspace import BUDGET, Key, record_key, rollout_hold_key, shadow_key
from greenroom.core.policy import Requirements
from greenroom.core.record import GatedEntry, Record
from greenroom.core.rollout_holds import RolloutHold
from greenroom.core.snapshot import Snapshot
from greenroom.core.transitions import ITSELF, opened_as_public, released
from greenroom.pb.etcd import rpc_pb2

MAX_FLAT_WITHDRAWAL = 60
"""Cards that can be withdrawn without nesting: two operations each and the record's, of etcd's 128."""


def release_txn(
    snapshot: Snapshot, record: Record, now: datetime, actor: str = ITSELF, *, budget: Budget | None = None
) -> rpc_pb2.TxnRequest:
    """Publish every held key in the order of registration. `record` is the snapshot's, or that with a last verdict.

    Of a released instance these are its later cards; what is public already is not touched. `budget` is the one with
    this release; None where releases are not limited, or this is none.
    """
    live = _in_order(record, snapshot)
    txn = _fenced(snapshot)
    txn.compare.extend(
        txns.unchanged(shadow_key(snapshot.instance, key), snapshot.shadows[key].mod_revision) for key in live
    )
    txn.compare.append(txns.no_newer_shadow(snapshot.instance, snapshot.revision))
    txn.compare.append(txns.no_newer_rollout_hold(snapshot.revision))
    txn.compare.append(txns.unchanged(BUDGET, snapshot.budget_revision))
    txn.success.extend(txns.put(key, snapshot.shadows[key].value, snapshot.lease) for key in live)
    txn.success.append(txns.delete_shadows(snapshot.instance))
    txn.success.append(_record(snapshot, released(record, now, actor)))
    txn.success.extend(_budget(budget))
    return txn


def withdrawal_txn(
    snapshot: Snapshot, record: Record, *, budget: Budget | None = None, stop: RolloutHold | None = None
) -> rpc_pb2.TxnRequest:
    """Take every public key back into its shadow. `record` is the withdrawn one; the snapshot must cover its cards.

    Later cards, which are held already, stay where they are and wait with the others from now on. `budget` is the one
    without this instance; None where nobody limits anything. `stop` stops further releases.
    """
    assert not snapshot.lacks_cards()
    txn = _fenced(snapshot)
    moves: list[txns.Operation] = []
    for key in record.keys:
        public = snapshot.public.get(key)
        txn.compare.append(txns.unchanged(key, public.mod_revision if public else 0))
        if public:
            shadow = shadow_key(snapshot.instance, key)
            moves += [txns.put(shadow, public.value, snapshot.lease), txns.delete(key)]
    txn.compare.append(txns.unchanged(BUDGET, snapshot.budget_revision))
    # Among what may be nested: beside it they would take of the room that each nested Txn has left.
    moves += [*_budget(budget), *_stop(stop)]
    txn.success.extend(_within_limit(moves, len(txn.compare)))
    txn.success.append(_record(snapshot, record))
    return txn


def record_txn(snapshot: Snapshot, record: Record) -> rpc_pb2.TxnRequest:
    """Rewrite the record alone: a verdict that does not release, a rejection, a retry."""
    txn = _fenced(snapshot)
    txn.success.append(_record(snapshot, record))
    return txn


def drop_txn(snapshot: Snapshot, record: Record) -> rpc_pb2.TxnRequest:
    """Forget the held keys; `record` is the dropped one."""
    txn = _fenced(snapshot)
    txn.success.extend((txns.delete_shadows(snapshot.instance), _record(snapshot, record)))
    return txn


def adoption_txn(
    snapshot: Snapshot, entries: Sequence[GatedEntry], needs: Requirements, now: datetime
) -> rpc_pb2.TxnRequest:
    """Open the record of an instance that serves already, as released. `entries` are its public keys."""
    txn = _fenced(snapshot)
    txn.compare.extend(
        txns.unchanged(entry.gated_key, snapshot.public[entry.gated_key].mod_revision) for entry in entries
    )
    opened = opened_as_public(tuple(entries), needs, now)
    txn.success.append(txns.put(record_key(snapshot.instance), records.encode(opened), snapshot.lease))
    return txn


def _fenced(snapshot: Snapshot) -> rpc_pb2.TxnRequest:
    return rpc_pb2.TxnRequest(compare=[txns.unchanged(record_key(snapshot.instance), snapshot.record_revision)])


def _record(snapshot: Snapshot, record: Record) -> txns.Operation:
    return txns.keep_record(snapshot.instance, records.encode(record))


def _budget(budget: Budget | None) -> list[txns.Operation]:
    return [txns.put(BUDGET, budgets.encode(budget), lease=0)] if budget is not None else []


def _stop(hold: RolloutHold | None) -> list[txns.Operation]:
    return [txns.put(rollout_hold_key(hold.hold_id), rollout_holds.encode(hold), lease=0)] if hold else []


def _in_order(record: Record, snapshot: Snapshot) -> list[Key]:
    """The live held keys as they were registered. One that the record does not name would be deleted unpublished."""
    unnamed = set(snapshot.shadows) - set(record.keys)
    assert not unnamed, f"shadows that the record does not name: {sorted(unnamed)}"
    return [key for key in record.keys if key in snapshot.shadows]


def _within_limit(moves: list[txns.Operation], compares: int) -> list[txns.Operation]:
    """The moves as they are or, where they are too many, in nested parts.

    etcd gives a nested Txn only as many operations as the outer one left over, and the outer one's compares count.
    """
    if len(moves) <= 2 * MAX_FLAT_WITHDRAWAL:
        return moves
    room = txns.MAX_OPERATIONS - compares
    return [txns.nested(moves[start : start + room]) for start in range(0, len(moves), room)]
