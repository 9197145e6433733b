"""Own leases between their calls to etcd: what is left on one, and what is said where none can be ended."""

import grpc

from greenroom.core.own_leases import is_own_lease
from greenroom.pb.etcd import rpc_pb2
from greenroom.store.own_leases import OwnLeases
from tests.support.control_side import EventLog


class Leases:
    """An etcd of leases only."""

    def __init__(self, left: rpc_pb2.LeaseTimeToLiveResponse | None = None) -> None:
        self.left, self.revoked = left, list[int]()

    async def lease_grant(self, request: rpc_pb2.LeaseGrantRequest, **_: object) -> rpc_pb2.LeaseGrantResponse:
        return rpc_pb2.LeaseGrantResponse(ID=request.ID, TTL=request.TTL)

    async def lease_time_to_live(self, _: object, **__: object) -> rpc_pb2.LeaseTimeToLiveResponse:
        if self.left is None:
            raise away()
        return self.left

    async def lease_revoke(self, request: rpc_pb2.LeaseRevokeRequest, **_: object) -> rpc_pb2.LeaseRevokeResponse:
        if self.left is None:
            raise away()
        self.revoked.append(request.ID)
        return rpc_pb2.LeaseRevokeResponse()


def away() -> grpc.aio.AioRpcError:
    nothing = grpc.aio.Metadata()
    return grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, nothing, nothing, "etcd is away")


def own_leases(etcd: Leases, log: EventLog | None = None) -> OwnLeases:
    return OwnLeases(etcd, left_event="claim.lease_left", log=log or EventLog())  # type: ignore[arg-type]


async def test_etcd_is_asked_for_an_id_of_greenrooms_range() -> None:
    granted = await own_leases(Leases()).grant(30)
    assert (is_own_lease(granted.ID), granted.TTL) == (True, 30)


async def test_an_empty_lease_is_revoked_and_one_with_somebodys_key_is_let_be() -> None:
    for keys, revoked in ([], [7]), ([b"a"], []):
        etcd = Leases(rpc_pb2.LeaseTimeToLiveResponse(TTL=9, keys=keys))
        await own_leases(etcd).revoke_if_empty(7)
        assert etcd.revoked == revoked


async def test_a_lease_that_has_ended_needs_no_revocation() -> None:
    etcd = Leases(rpc_pb2.LeaseTimeToLiveResponse(TTL=-1))
    await own_leases(etcd).revoke_if_empty(7)
    assert etcd.revoked == []


async def test_what_cannot_be_ended_now_is_told_of() -> None:
    for end in OwnLeases.revoke, OwnLeases.revoke_if_empty:
        log = EventLog()
        await end(own_leases(Leases(), log), 0xAB)
        assert [event["lease"] for event in log.named("claim.lease_left")] == ["ab"]
