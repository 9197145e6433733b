"""Carrying out a plan: what bounds it. What it does to etcd is shown in tests/integration."""

from datetime import UTC, datetime

import grpc
import pytest

from greenroom.core import verdicts
from greenroom.core.keyspace import record_key
from greenroom.core.snapshot import Snapshot, read_request, snapshot_from
from greenroom.core.transitions import Outcome
from greenroom.core.verdicts import Effect, Unchanged, reconcile
from greenroom.errors import FenceContended
from greenroom.pb.etcd import rpc_pb2
from greenroom.store.fenced import CarriedOut, carry_out
from tests.support.control_side import MovableClock
from tests.support.mirroring import ONE, held, unconnected
from tests.support.model_etcd import ModelEtcd
from tests.support.model_upstream import ModelUpstream
from tests.support.registering import held_record

PASSED = verdicts.verdict("smoke", 1, Outcome.PASSED, reason="fine", reporter="ci")
LEASE = int(ONE, 16)


class LosesAnswers(ModelUpstream):
    """Carries out the first `count` Txns that write, and loses their answers with the connection."""

    def __init__(self, count: int = 1) -> None:
        etcd = ModelEtcd().grant(LEASE)
        for kv in held(ONE, held_record(ONE, {"smoke": 900.0, "latency": 60.0})):
            etcd, _ = etcd.put(rpc_pb2.PutRequest(key=kv.key, value=kv.value, lease=LEASE))
        super().__init__(etcd)
        self.left = count

    async def txn(self, request: rpc_pb2.TxnRequest, *, timeout_seconds: float | None = None) -> rpc_pb2.TxnResponse:
        answer = await super().txn(request, timeout_seconds=timeout_seconds)
        if request.compare and self.left:
            self.left -= 1
            raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, details="connection reset")
        return answer

    def record_revision(self) -> int:
        return self.etcd.range(rpc_pb2.RangeRequest(key=record_key(ONE))).kvs[0].mod_revision


async def test_what_a_txn_did_whose_answer_was_lost_is_told_as_done() -> None:
    upstream = LosesAnswers()
    done = await carry_out(upstream, ONE, PASSED, clock=MovableClock())
    assert isinstance(done, CarriedOut)
    assert (done.effect, done.revision) == (Effect.STORED, upstream.record_revision())
    assert (done.before.gates["smoke"].decided, done.record.gates["smoke"].reporter) == (None, "ci")
    assert len([txn for txn, _ in upstream.sent if txn.compare]) == 1


async def test_what_somebody_else_did_while_an_answer_was_lost_is_not_told_as_done_here() -> None:
    """Another proxy was given the same verdict a little sooner; ours never reached etcd."""
    upstream = LosesAnswers(0)

    def other_is_faster(sent: int) -> None:
        if sent == 1:
            upstream.between = lambda _: None
            before = verdicts.verdict("smoke", 1, Outcome.PASSED, reason="fine", reporter="ci")
            upstream.etcd, _ = upstream.etcd.txn(before(read(upstream), datetime(2020, 1, 1, tzinfo=UTC)).txn)
            raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, details="connection refused")

    upstream.between = other_is_faster
    done = await carry_out(upstream, ONE, PASSED, clock=MovableClock())
    assert isinstance(done, Unchanged)


def read(upstream: ModelUpstream) -> Snapshot:
    return snapshot_from(ONE, (), upstream.etcd.txn(read_request(ONE))[1])


async def test_when_the_time_is_up_nothing_more_is_sent() -> None:
    upstream = unconnected()
    with pytest.raises(FenceContended) as contended:
        await carry_out(upstream, ONE, reconcile(None), clock=MovableClock(), deadline_seconds=0)
    assert contended.value.metadata == {"instance": ONE}
    await upstream.close()
