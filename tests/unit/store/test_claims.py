"""Claims between their calls to etcd: what is left when somebody else is faster. With etcd: tests/integration."""

from collections.abc import Callable

import grpc
import pytest

from greenroom.core.claims import Claim, encode
from greenroom.core.keyspace import claim_key
from greenroom.errors import FenceContended, GateClaimed, UnknownClaim
from greenroom.pb.etcd import rpc_pb2
from greenroom.store import claims
from greenroom.store.claims import ClaimStore, NewClaim
from tests.support.control_side import EventLog, MovableClock
from tests.support.mirroring import ONE, held
from tests.support.model_etcd import ModelEtcd
from tests.support.model_upstream import ModelUpstream
from tests.support.registering import now

WORKER, NEW, OTHER = int(ONE, 16), 0x500, 0x600
ASKED = NewClaim(ONE, "smoke", 1, "runner-1", 30)
KEY = claim_key(ONE, "smoke")


class Leasing(ModelUpstream):
    """The model with leases: the next one granted is NEW."""

    def __init__(self) -> None:
        etcd = ModelEtcd().grant(WORKER).grant(OTHER)
        for kv in held(ONE):
            etcd, _ = etcd.put(rpc_pb2.PutRequest(key=kv.key, value=kv.value, lease=WORKER))
        super().__init__(etcd)
        self.granted = self.lost_fences = 0

    def store(self) -> ClaimStore:
        return ClaimStore(self, clock=MovableClock(), log=EventLog(), on_lost_fence=self._lost)  # type: ignore[arg-type]

    def _lost(self) -> None:
        self.lost_fences += 1

    def put(self, key: bytes, value: bytes, lease: int) -> None:
        self.etcd, _ = self.etcd.put(rpc_pb2.PutRequest(key=key, value=value, lease=lease))

    async def lease_grant(self, request: rpc_pb2.LeaseGrantRequest, **_: object) -> rpc_pb2.LeaseGrantResponse:
        self.granted += 1
        self.etcd = self.etcd.grant(NEW)
        return rpc_pb2.LeaseGrantResponse(ID=NEW, TTL=request.TTL)

    async def lease_revoke(self, request: rpc_pb2.LeaseRevokeRequest, **_: object) -> rpc_pb2.LeaseRevokeResponse:
        self.etcd = self.etcd.revoke(request.ID)
        return rpc_pb2.LeaseRevokeResponse()

    def claims(self) -> dict[bytes, int]:
        return {key: item.lease for key, item in self.etcd.items.items() if b"/claims/" in key}


def another(attempt: int = 1) -> bytes:
    return encode(Claim(runner="runner-2", attempt=attempt, claimed=now(), expires=now()))


def at(step: int, do: Callable[[], None]) -> Callable[[int], None]:
    return lambda sent: do() if sent == step else None


async def test_a_claim_lies_on_the_lease_that_is_its_token() -> None:
    etcd = Leasing()
    made = await etcd.store().claim(ASKED)
    assert (made.lease, etcd.claims()) == (NEW, {KEY: NEW})
    assert (made.claim.expires - made.claim.claimed).total_seconds() == 30


async def test_who_is_refused_costs_no_lease() -> None:
    etcd = Leasing()
    etcd.put(KEY, another(), OTHER)
    with pytest.raises(GateClaimed, match="claimed by runner-2"):
        await etcd.store().claim(ASKED)
    assert etcd.granted == 0


async def test_where_somebody_is_faster_the_lease_is_given_back() -> None:
    """Two runners ask two proxies at once: both saw the gate free."""
    etcd = Leasing()
    etcd.between = at(2, lambda: etcd.put(KEY, another(), OTHER))
    with pytest.raises(GateClaimed, match="claimed by runner-2"):
        await etcd.store().claim(ASKED)
    assert (etcd.granted, etcd.lost_fences) == (1, 1)
    assert etcd.claims() == {KEY: OTHER}
    assert NEW not in etcd.etcd.leases


async def test_a_lost_fence_that_changes_nothing_is_only_another_round() -> None:
    """A card was registered meanwhile, by a write that touched the record."""
    etcd = Leasing()
    record = held(ONE)[0]
    etcd.between = at(2, lambda: etcd.put(record.key, record.value, WORKER))
    await etcd.store().claim(ASKED)
    assert (etcd.lost_fences, etcd.claims()) == (1, {KEY: NEW})


async def test_a_record_that_never_stands_still_is_given_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "DEADLINE_SECONDS", 0.0)
    etcd = Leasing()
    record = held(ONE)[0]
    etcd.between = lambda _: etcd.put(record.key, record.value, WORKER)
    with pytest.raises(FenceContended, match="gate 'smoke' of instance abc1 kept changing"):
        await etcd.store().claim(ASKED)
    assert NEW not in etcd.etcd.leases


async def test_a_claim_whose_answer_is_lost_is_taken_back() -> None:
    """Nobody would know its token: it would keep the attempt from everybody for its whole time."""
    etcd = Leasing()
    send = etcd.txn

    async def txn(request: rpc_pb2.TxnRequest, **options: float | None) -> rpc_pb2.TxnResponse:
        answer = await send(request, **options)
        if request.compare:
            raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, details="connection reset")
        return answer

    etcd.txn = txn  # type: ignore[method-assign,assignment]
    with pytest.raises(grpc.aio.AioRpcError, match="connection reset"):
        await etcd.store().claim(ASKED)
    assert etcd.claims() == {}


async def test_what_is_given_back_leaves_no_lease_and_takes_nobody_elses_keys() -> None:
    etcd = Leasing()
    store = etcd.store()
    await store.claim(ASKED)
    await store.release(ONE, "smoke", NEW)
    assert (etcd.claims(), NEW in etcd.etcd.leases) == ({}, False)
    await store.claim(ASKED)
    etcd.put(b"somebody's", b"", NEW)
    await store.release(ONE, "smoke", NEW)
    assert etcd.claims() == {}
    assert b"somebody's" in etcd.etcd.items
    with pytest.raises(UnknownClaim):
        await store.release(ONE, "smoke", NEW)
