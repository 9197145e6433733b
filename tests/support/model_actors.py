"""Workers, reporters, operators and proxies as programs over the real plans of the core.

The rule: what a proxy decides is the core's; a program here is only the loop around it, "read, plan, write, and again
if somebody was faster", as the proxy's edges have it.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import EllipsisType
from typing import Any

from greenroom.core import rollout_holds, txns
from greenroom.core.gating import Gated, LookAtLease, entry_of, gate_call, needs_of
from greenroom.core.keyspace import InstanceId, Key, lease_of, record_key, rollout_hold_key
from greenroom.core.policy import Hold, Policy, Requirements
from greenroom.core.publication import adoption_txn, drop_txn
from greenroom.core.record import Record, State
from greenroom.core.restore import FenceLost, read_answer, read_txn, settle
from greenroom.core.rollout_holds import RolloutHold
from greenroom.core.snapshot import Snapshot, read_request, snapshot_from
from greenroom.core.templates import GatedKey, KeyKind
from greenroom.core.transitions import Outcome, dropped, overridden, retried
from greenroom.core.verdicts import Effect, MoreKeys, Plan, Planned, Planner, Unchanged
from greenroom.core.verdicts import edit as edit_planner
from greenroom.core.verdicts import reconcile as reconcile_planner
from greenroom.core.verdicts import verdict as verdict_planner
from greenroom.core.verdicts import withdrawal as withdrawal_planner
from greenroom.core.worker_calls import Uses, examine
from greenroom.errors import GreenroomError
from greenroom.pb.etcd import rpc_pb2
from tests.support import story as told
from tests.support.model_etcd import ModelEtcd, Refusal
from tests.support.model_explore import Ask, Call, Next, Program

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LATER = datetime(2030, 1, 2, tzinfo=UTC)
"""After every deadline."""


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


def create(proxy: Proxy, key: Key, value: bytes) -> Call:
    """Registers a key where there is none, as Dynamo does it; one that is there already is left alone."""
    lease = lease_of(proxy.gated(key).instance)
    txn = rpc_pb2.TxnRequest(
        compare=[txns.absent(key)], success=[txns.put(key, value, lease)], failure=[txns.look(key)]
    )

    def call(_: Any) -> Program:
        return (yield from _gated(proxy, txn, over=None))

    return call


def put(proxy: Proxy, key: Key, value: bytes) -> Call:
    """Writes whatever is there."""
    txn = rpc_pb2.TxnRequest(success=[txns.put(key, value, lease_of(proxy.gated(key).instance))])

    def call(_: Any) -> Program:
        return (yield from _gated(proxy, txn))

    return call


def delete(proxy: Proxy, key: Key) -> Call:
    txn = rpc_pb2.TxnRequest(success=[txns.delete(key)])

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


def look(proxy: Proxy, key: Key) -> Call:
    """The owner's read of its own key."""
    gated = proxy.gated(key)

    def call(_: Any) -> Program:
        found = read_answer((yield Ask("read a key", read_txn(rpc_pb2.RangeRequest(key=key), gated))))
        value = found.kvs[0].value if found.kvs else None
        return Next((told.Saw(found.header.revision, gated.instance, key, value),))

    return call


def _gated(proxy: Proxy, txn: rpc_pb2.TxnRequest, over: bytes | EllipsisType | None = ...) -> Program:
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
        answer = yield Ask(_row(snapshot, planned, uses), planned.txn, len(txn.compare))
    except (GreenroomError, Refusal):
        return Next()
    settled = settle(planned, answer)
    if isinstance(settled, FenceLost):
        return Next(again=True)
    did = _did(proxy, txn, settled.header.revision, over)
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
    return (told.Adopted(answer.header.revision, instance, frozenset(needs.timeouts_seconds)),)


def _joined(all_needs: Iterable[Requirements | None]) -> Requirements | None:
    joined: Requirements | None = None
    for needs in all_needs:
        joined = needs.joined(joined) if needs else joined
    return joined


def _did(
    proxy: Proxy, txn: rpc_pb2.TxnRequest, revision: int, over: bytes | EllipsisType | None
) -> Iterator[told.Operation]:
    for operation in txn.success:
        if operation.HasField("request_put"):
            yield replace(wrote(proxy, revision, operation.request_put.key, operation.request_put.value), over=over)
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
        gates=frozenset(needs.timeouts_seconds) if needs else frozenset(),
        kept_back=needs is not None and needs.hold is not Hold.HEALTH,
        lora=bool(gated.suffix),
        card=gated.kind is KeyKind.CARD,
    )


def _row(snapshot: Snapshot, planned: Gated, uses: Uses) -> str:
    """Which row of the protocol a worker's call of one key is."""
    (key,) = uses.keys
    if snapshot.record is not None and snapshot.record.state is State.RELEASED:
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


# ---- reporters, operators, reconcilers ------------------------------------------------------------------------------


def report(instance: InstanceId, gate: str, outcome: Outcome = Outcome.PASSED, *, said_again: bool = False) -> Call:
    """A reporter reads which attempt is open, checks what is there, and reports. Without a record it gives up.

    `said_again`: the next call, another report, is for the same attempt, without another look.
    """

    def call(carry: tuple[int, int] | None) -> Program:
        if carry is None:
            snapshot = snapshot_from(instance, (), (yield Ask("inspect", read_request(instance))))
            if snapshot.record is None or gate not in snapshot.record.gates:
                return Next()
            return Next(again=True, carry=(snapshot.record.gates[gate].attempt, snapshot.revision))
        attempt, looked_at = carry
        planner = verdict_planner(gate, attempt, outcome, reason="because", reporter="a test")

        def did(revision: int, _: Planned) -> tuple[told.Operation, ...]:
            return (told.Decided(revision, instance, gate, outcome is Outcome.PASSED, looked_at),)

        ended = yield from _planned(instance, planner, "verdict", did)
        return replace(ended, carry=carry if ended.again or said_again else None)

    return call


def reconcile(instance: InstanceId, now: datetime = NOW) -> Call:
    def did(revision: int, planned: Planned) -> tuple[told.Operation, ...]:
        failed = [name for name, gate in planned.record.gates.items() if gate.state == "FAILED"]
        rejected = planned.effect is Effect.REJECTED
        return tuple(told.Decided(revision, instance, name, False, revision) for name in failed) if rejected else ()

    def call(_: Any) -> Program:
        return (yield from _planned(instance, reconcile_planner(None), "reconcile", did, now=now))

    return call


def override(instance: InstanceId) -> Call:
    planner = edit_planner(lambda record, now: overridden(record, "somebody", "because", now))
    return _operated(instance, planner, "override", told.Overrode)


def retry(instance: InstanceId) -> Call:
    planner = edit_planner(lambda record, now: retried(record, (), "somebody", "because", now))
    return _operated(instance, planner, "retry", told.Retried)


def withdraw(instance: InstanceId, *, by_person: bool = True) -> Call:
    planner = withdrawal_planner("somebody", "because", by_person=by_person)
    return _operated(instance, planner, "withdraw", lambda at, whose: told.Withdrew(at, whose, by_person))


def drop(instance: InstanceId) -> Call:
    def planner(snapshot: Snapshot, now: datetime) -> Plan:
        if snapshot.record is None:
            return Unchanged(Record(state=State.HELD, hold=Hold.CARD))
        after = dropped(snapshot.record, "somebody", "because", now)
        return Planned(drop_txn(snapshot, after), after, Effect.STORED)

    return _operated(instance, planner, "drop", told.Dropped)


def hold_rollout(hold_id: str = "stop") -> Call:
    hold = RolloutHold(hold_id=hold_id, reason="because", actor="somebody")

    def call(_: Any) -> Program:
        request = rpc_pb2.TxnRequest(success=[txns.put(rollout_hold_key(hold_id), rollout_holds.encode(hold), 0)])
        answer = yield Ask("rollout hold", request)
        return Next((told.RolloutHeld(answer.header.revision, hold_id),))

    return call


def lift_rollout_hold(hold_id: str = "stop") -> Call:
    def call(_: Any) -> Program:
        answer = yield Ask("lift", rpc_pb2.TxnRequest(success=[txns.delete(rollout_hold_key(hold_id))]))
        return Next((told.RolloutHoldLifted(answer.header.revision, hold_id),))

    return call


def _operated(instance: InstanceId, planner: Planner, kind: str, did: Callable[[int, str], told.Operation]) -> Call:
    def call(_: Any) -> Program:
        return (yield from _planned(instance, planner, kind, lambda at, _: (did(at, instance),)))

    return call


def _planned(
    instance: InstanceId,
    planner: Planner,
    kind: str,
    did: Callable[[int, Planned], tuple[told.Operation, ...]],
    now: datetime = NOW,
) -> Program:
    """One round of an operation: read, plan, write. `again` where the fence was lost."""
    snapshot = snapshot_from(instance, (), (yield Ask("read", read_request(instance))))
    try:
        while isinstance(plan := planner(snapshot, now), MoreKeys):
            keys = snapshot.read_again()
            snapshot = snapshot_from(instance, keys, (yield Ask("read", read_request(instance, keys))))
        if isinstance(plan, Unchanged):
            return Next()
        released = plan.effect is Effect.RELEASED
        answer = yield Ask("release" if released else kind, plan.txn)
    except (GreenroomError, Refusal):
        return Next()
    return Next(did(answer.header.revision, plan)) if answer.succeeded else Next(again=True)
