"""Workers and their proxies as programs over the real plans of the core.

The rule: what a proxy decides is the core's; a program here is only the loop around it, "read, plan, write, and again
if somebody was faster", as the proxy's edges have it.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import EllipsisType
from typing import Any

from greenroom.core import txns
from greenroom.core.alternatives import alternative
from greenroom.core.gating import Gated, LookAtLease, entry_of, gate_call, needs_of
from greenroom.core.keyspace import InstanceId, Key, lease_of, record_key
from greenroom.core.policy import Hold, Policy, Requirements
from greenroom.core.publication import adoption_txn
from greenroom.core.record import State
from greenroom.core.remembered import newborn
from greenroom.core.restore import FenceLost, read_answer, read_txn, settle
from greenroom.core.snapshot import Snapshot, read_request, snapshot_from
from greenroom.core.templates import GatedKey, KeyKind
from greenroom.core.worker_calls import Uses, examine
from greenroom.errors import GreenroomError
from greenroom.pb.etcd import rpc_pb2
from tests.support import story as told
from tests.support.model_etcd import ModelEtcd, Refusal
from tests.support.model_explore import Ask, Call, Next, Program

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Proxy:
    """A proxy is its policy; whatever else it knows, it reads."""

    policy: Policy

    def needs(self, key: bytes, value: bytes) -> Requirements | None:
        return needs_of(self.policy, self.gated(key), value)

    def gated(self, key: bytes) -> GatedKey:
        found = self.policy.gated_keys().classify(key)
        assert isinstance(found, GatedKey), key
        return found


# ---- a worker and its proxy -----------------------------------------------------------------------------------------


def create_txn(proxy: Proxy, key: Key, value: bytes) -> rpc_pb2.TxnRequest:
    lease = lease_of(proxy.gated(key).instance)
    return rpc_pb2.TxnRequest(
        compare=[txns.absent(key)], success=[txns.put(key, value, lease)], failure=[txns.look(key)]
    )


def put_txn(proxy: Proxy, key: Key, value: bytes) -> rpc_pb2.TxnRequest:
    return rpc_pb2.TxnRequest(success=[txns.put(key, value, lease_of(proxy.gated(key).instance))])


def delete_txn(key: Key) -> rpc_pb2.TxnRequest:
    return rpc_pb2.TxnRequest(success=[txns.delete(key)])


def create(proxy: Proxy, key: Key, value: bytes) -> Call:
    """Registers a key where there is none, as Dynamo does it; one that is there already is left alone."""
    txn = create_txn(proxy, key, value)

    def call(_: Any) -> Program:
        return (yield from _gated(proxy, txn, over=None))

    return call


def put(proxy: Proxy, key: Key, value: bytes) -> Call:
    """Writes whatever is there."""
    txn = put_txn(proxy, key, value)

    def call(_: Any) -> Program:
        return (yield from _gated(proxy, txn))

    return call


def delete(proxy: Proxy, key: Key) -> Call:
    txn = delete_txn(key)

    def call(_: Any) -> Program:
        return (yield from _gated(proxy, txn))

    return call


def edit(proxy: Proxy, key: Key, change: Callable[[bytes], bytes]) -> Call:
    """Reads a key, and writes it changed if nobody wrote it since; else begins again. What is gone is left alone."""
    gated = proxy.gated(key)

    def call(carry: tuple[int, bytes] | None) -> Program:
        if carry is None:
            found = read_answer((yield Ask("read a key", read_txn(rpc_pb2.RangeRequest(key=key), gated))))
            seen = told.Saw(found.header.revision, gated.instance, key, found.kvs[0].value if found.kvs else None)
            if not found.kvs:
                return Next((seen,))
            return Next((seen,), again=True, carry=(found.kvs[0].mod_revision, found.kvs[0].value))
        revision, value = carry
        txn = rpc_pb2.TxnRequest(compare=[txns.unchanged(key, revision)])
        txn.success.append(txns.put(key, change(value), lease_of(gated.instance)))
        ended = yield from _gated(proxy, txn, over=value)
        if ended.again:
            return Next(ended.did, again=True, carry=carry)
        return ended if ended.did else Next(again=True)

    return call


def swap(proxy: Proxy, key: Key, was: bytes | None, then: bytes, otherwise: bytes) -> Call:
    """Writes one value where another (None: no value) is there, and a third one where it is not."""
    lease = lease_of(proxy.gated(key).instance)
    there = txns.Compare(key=key, target=txns.Compare.VALUE, value=was or b"")
    txn = rpc_pb2.TxnRequest(compare=[txns.absent(key) if was is None else there])
    txn.success.append(txns.put(key, then, lease))
    txn.failure.append(txns.put(key, otherwise, lease))
    uses = examine(txn, proxy.policy.gated_keys())
    assert uses is not None

    def call(_: Any) -> Program:
        keys = tuple(uses.keys)
        snapshot = snapshot_from(uses.instance, keys, (yield Ask("read", read_request(uses.instance, keys))))
        branch = alternative(txn, uses, snapshot, None)
        if branch.other:
            yield Ask("judge", branch.other)
        ended = yield from _gated(proxy, branch.call, **{"over" if branch.succeeded else "unless": was})
        return ended if ended.did else Next(again=True)

    return call


def from_memory(proxy: Proxy, txn: rpc_pb2.TxnRequest, over: bytes | EllipsisType | None = ...) -> Call:
    """A call of one key that is planned first from what is remembered: how its instance was at any moment before."""
    uses = examine(txn, proxy.policy.gated_keys())
    assert uses is not None

    def call(read_it: Any) -> Program:
        if read_it:
            ended = yield from _gated(proxy, txn, over)
        else:
            keys = tuple(uses.keys)
            seen = snapshot_from(uses.instance, keys, (yield Ask("remember", read_request(uses.instance, keys))))
            ended = yield from _guessed(proxy, txn, uses, replace(seen, remembered=True), "remembered, ", over)
        return replace(ended, carry=True) if ended.again else ended

    return call


def as_new(proxy: Proxy, txn: rpc_pb2.TxnRequest, over: bytes | EllipsisType | None = ...) -> Call:
    """A call of one key whose instance nothing is remembered of: by its lease it may be seen to be new."""
    gated_keys = proxy.policy.gated_keys()
    uses = examine(txn, gated_keys)
    assert uses is not None

    def call(read_it: Any) -> Program:
        if read_it:
            ended = yield from _gated(proxy, txn, over)
        else:
            on_lease = yield Ask("look at the lease", lambda etcd: (etcd, etcd.lease_keys(lease_of(uses.instance))))
            lease = rpc_pb2.LeaseTimeToLiveResponse(keys=on_lease)
            seen = newborn(uses.instance, uses.keys, lease, gated_keys)
            ended = Next(again=True) if seen is None else (yield from _guessed(proxy, txn, uses, seen, "new, ", over))
        return replace(ended, carry=True) if ended.again else ended

    return call


def _guessed(
    proxy: Proxy,
    txn: rpc_pb2.TxnRequest,
    uses: Uses,
    snapshot: Snapshot,
    how: str,
    over: bytes | EllipsisType | None,
) -> Program:
    """A round without a read: `again` where it was no use."""
    is_new = not snapshot.remembered
    try:
        planned = gate_call(txn, uses, snapshot, proxy.policy.gated_keys(), proxy.policy, NOW, lease_was_seen=is_new)
    except GreenroomError:
        return Next(again=True)
    if isinstance(planned, LookAtLease):
        return Next(again=True)
    try:
        answer = yield Ask(how + _row(snapshot, planned, uses), planned.txn, len(txn.compare))
    except Refusal:
        return Next()
    settled = settle(planned, answer)
    if isinstance(settled, FenceLost):
        return Next(again=True)
    did = _did(proxy, txn, settled.header.revision, over, ...)
    return Next(tuple(did) if settled.succeeded else ())


def look(proxy: Proxy, key: Key) -> Call:
    """The owner's read of its own key."""
    gated = proxy.gated(key)

    def call(_: Any) -> Program:
        found = read_answer((yield Ask("read a key", read_txn(rpc_pb2.RangeRequest(key=key), gated))))
        value = found.kvs[0].value if found.kvs else None
        return Next((told.Saw(found.header.revision, gated.instance, key, value),))

    return call


def _gated(
    proxy: Proxy,
    txn: rpc_pb2.TxnRequest,
    over: bytes | EllipsisType | None = ...,
    unless: bytes | EllipsisType | None = ...,
) -> Program:
    """One round of a call: read, plan, write. `again` where the fence was lost."""
    gated_keys = proxy.policy.gated_keys()
    uses = examine(txn, gated_keys)
    assert uses is not None
    keys = tuple(uses.keys)
    snapshot = snapshot_from(uses.instance, keys, (yield Ask("read", read_request(uses.instance, keys))))
    try:
        planned = gate_call(txn, uses, snapshot, gated_keys, proxy.policy, NOW, lease_was_seen=False)
        if isinstance(planned, LookAtLease):
            if (adopted := (yield from _adopted(proxy, uses.instance))) is not None:
                return Next(adopted, again=True)
            planned = gate_call(txn, uses, snapshot, gated_keys, proxy.policy, NOW, lease_was_seen=True)
        assert not isinstance(planned, LookAtLease)
        kind, guards = _row(snapshot, planned, uses), unless is not ...
        answer = yield Ask(kind, planned.txn, len(txn.compare), guards=guards)
    except (GreenroomError, Refusal):
        return Next()
    settled = settle(planned, answer)
    if isinstance(settled, FenceLost):
        return Next(again=True)
    did = _did(proxy, txn, settled.header.revision, over, unless)
    return Next(tuple(did) if settled.succeeded else ())


def _adopted(proxy: Proxy, instance: InstanceId) -> Generator[Ask, Any, tuple[told.Operation, ...] | None]:
    """What was done about an instance that serves already: None where nothing needs to be."""
    on_lease = yield Ask("look at the lease", lambda etcd: (etcd, etcd.lease_keys(lease_of(instance))))
    found = [g for key in on_lease if isinstance(g := proxy.policy.gated_keys().classify(key), GatedKey)]
    if not any(gated.kind is KeyKind.CARD for gated in found):
        return None
    keys = tuple(gated.key for gated in found)
    snapshot = snapshot_from(instance, keys, (yield Ask("read", read_request(instance, keys))))
    public = [gated for gated in found if gated.key in snapshot.public]
    needs = _joined(proxy.needs(gated.key, snapshot.public[gated.key].value) for gated in public)
    if snapshot.record is not None:
        return ()
    if needs is None:
        return None
    public.sort(key=lambda gated: snapshot.public[gated.key].create_revision)
    entries = [entry_of(gated, snapshot.public[gated.key].value) for gated in public]
    answer = yield Ask("adopt", adoption_txn(snapshot, entries, needs, NOW))
    if not answer.succeeded:
        return ()
    return (told.Adopted(answer.header.revision, instance, frozenset(needs.gates)),)


def _joined(all_needs: Iterable[Requirements | None]) -> Requirements | None:
    joined: Requirements | None = None
    for needs in all_needs:
        joined = needs.joined(joined) if needs else joined
    return joined


def _did(
    proxy: Proxy,
    txn: rpc_pb2.TxnRequest,
    revision: int,
    over: bytes | EllipsisType | None,
    unless: bytes | EllipsisType | None,
) -> Iterator[told.Operation]:
    for operation in txn.success:
        if operation.HasField("request_put"):
            put = operation.request_put
            yield replace(wrote(proxy, revision, put.key, put.value), over=over, unless=unless)
        elif operation.HasField("request_delete_range"):
            key = operation.request_delete_range.key
            yield told.Deleted(revision, proxy.gated(key).instance, key)


def wrote(proxy: Proxy, revision: int, key: bytes, value: bytes) -> told.Wrote:
    gated, needs = proxy.gated(key), proxy.needs(key, value)
    return told.Wrote(
        revision,
        gated.instance,
        key,
        value,
        gates=frozenset(needs.gates) if needs else frozenset(),
        kept_back=needs is not None and needs.hold is not Hold.HEALTH,
        lora=bool(gated.suffix),
        card=gated.kind is KeyKind.CARD,
    )


def _row(snapshot: Snapshot, planned: Gated, uses: Uses) -> str:
    """Which row of the protocol a worker's call of one key is."""
    (key,) = uses.keys
    if snapshot.record is not None and snapshot.record.state is State.RELEASED:
        if key in snapshot.shadows:
            if uses.deletes:
                return "later, delete"
            return "later, change" if _writes_record(planned, snapshot) else "later, edit of taints"
        if planned.holds_later(snapshot):
            return "later, put of a new card"
        if uses.deletes:
            return "released, delete"
        return f"released, put of a {'public' if key in snapshot.public else 'new'} card"
    if key not in snapshot.shadows and key in snapshot.public:
        return f"not released, {'delete' if uses.deletes else 'put'} of a public card"
    if uses.deletes:
        return "held, delete" if snapshot.record is not None else "no record, delete"
    if planned.opens:
        return "open"
    if snapshot.record is None:
        return "no rule, put"
    if key in snapshot.shadows:
        return "held, edit of taints" if not _writes_record(planned, snapshot) else "held, change"
    return "held, put of a new card"


def _writes_record(planned: Gated, snapshot: Snapshot) -> bool:
    return any(operation.request_put.key == record_key(snapshot.instance) for operation in planned.txn.success)


# ---- without a proxy ------------------------------------------------------------------------------------------------


def put_directly(proxy: Proxy, key: Key, value: bytes) -> Call:
    """Of a worker that talks to etcd itself, from before the proxy was there. No rule knows of it."""

    gated = proxy.gated(key)

    def call(_: Any) -> Program:
        lease = lease_of(gated.instance)
        answer = yield Ask("direct put", rpc_pb2.TxnRequest(success=[txns.put(key, value, lease)]))
        return Next((told.Wrote(answer.header.revision, gated.instance, key, value, past_the_proxy=True),))

    return call


def end_lease(instance: InstanceId) -> Call:
    def call(_: Any) -> Program:
        def revoke(etcd: ModelEtcd) -> tuple[ModelEtcd, int]:
            after = etcd.revoke(lease_of(instance))
            return after, after.revision

        revision = yield Ask("lease ends", revoke)
        return Next((told.LeaseEnded(revision, instance),))

    return call
