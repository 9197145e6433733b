"""A rollout hold with an end lies on an etcd lease, which clients can list: they cannot end the hold by it."""

import grpc
import pytest

from greenroom.pb.control.v1 import control_pb2
from tests.support.endpoints import Proxy

HOLDS = b"\x01greenroom/rollout-holds/"


def create_hold(proxy: Proxy, ttl_seconds: int) -> control_pb2.RolloutHold:
    hold = control_pb2.RolloutHold(reason="an incident", actor="ops")
    hold.ttl.FromSeconds(ttl_seconds)
    request = control_pb2.CreateRolloutHoldRequest(rollout_hold=hold, rollout_hold_id="ends-late")
    return proxy.control.stub.CreateRolloutHold(request, timeout=10)


def test_the_lease_of_a_rollout_hold_is_not_revoked_for_clients(proxy: Proxy) -> None:
    before = set(proxy.client.leases())
    create_hold(proxy, 3600)
    try:
        [lease] = set(proxy.client.leases()) - before
        with pytest.raises(grpc.RpcError) as refused:
            proxy.client.revoke(lease)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert refused.value.details() == (
            f"lease {lease:x} is that of rollout hold 'ends-late': lift it with `greenroom rollout-hold lift`"
        )
        assert proxy.client.keep_alive_once(lease).TTL == 3600, "that ends nothing"
        assert proxy.public.get(HOLDS + b"ends-late") is not None
    finally:
        proxy.control.lift_rollout("ends-late")
    assert set(proxy.client.leases()) == before


def test_any_other_lease_is_revoked_as_by_etcd_while_a_hold_stands(proxy: Proxy) -> None:
    create_hold(proxy, 3600)
    try:
        lease = proxy.client.grant()
        proxy.client.put(b"on/a/lease", b"1", lease)
        proxy.client.revoke(lease)
        assert proxy.public.get(b"on/a/lease") is None
        with pytest.raises(grpc.RpcError) as unknown:
            proxy.client.revoke(lease)
        assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
        assert unknown.value.details() == "etcdserver: requested lease not found"
    finally:
        proxy.control.lift_rollout("ends-late")
