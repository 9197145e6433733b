"""A preview's calls with one answer. With a real etcd: tests/integration/test_preview.py."""

from typing import Any

import pytest
from google.protobuf.message import Message

from greenroom.core.own_leases import new_own_lease
from greenroom.core.preview import View
from greenroom.core.templates import dynamo_gated_keys
from greenroom.errors import RefusedWrite, UnsupportedCall
from greenroom.pb.etcd import rpc_pb2
from greenroom.preview import unary
from greenroom.preview.unary import OwnLeases, UnaryCalls
from tests.support.mirroring import unconnected

LEASE = "/etcdserverpb.Lease/"


async def call(method: str, request: Message, own: OwnLeases | None = None) -> Any:
    """Asked of nobody: what is refused here never gets that far."""
    calls = UnaryCalls(View(dynamo_gated_keys(instances=False)), own or OwnLeases())
    upstream = unconnected()
    try:
        return await calls.methods[method](request.SerializeToString(), upstream.as_client(()), 1.0)
    finally:
        await upstream.close()


async def test_greenrooms_own_leases_are_no_clients() -> None:
    with pytest.raises(RefusedWrite, match="Greenroom keeps for itself"):
        await call(LEASE + "LeaseGrant", rpc_pb2.LeaseGrantRequest(ID=new_own_lease(), TTL=9))
    with pytest.raises(RefusedWrite, match="no client's to end"):
        await call(LEASE + "LeaseRevoke", rpc_pb2.LeaseRevokeRequest(ID=new_own_lease()))


async def test_a_leases_keys_are_not_listed() -> None:
    with pytest.raises(UnsupportedCall, match="does not list a lease's keys"):
        await call(LEASE + "LeaseTimeToLive", rpc_pb2.LeaseTimeToLiveRequest(ID=1, keys=True))


def test_of_too_many_leases_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unary, "MAX_OWN_LEASES", 2)
    own = OwnLeases()
    for lease in (1, 2, 3):
        own.add(lease)
    assert [lease in own for lease in (1, 2, 3)] == [False, True, True]
