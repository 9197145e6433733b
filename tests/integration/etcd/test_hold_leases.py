"""Rollout holds with an end, claims and proxies lie on etcd leases, which clients can list: none can end one."""

from datetime import timedelta

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


def assert_refused(proxy: Proxy, lease: int) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        proxy.client.revoke(lease)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert refused.value.details() == (
        f"lease {lease:x} is Greenroom's own, and no client's to end: "
        "a rollout hold is lifted with `greenroom rollout-hold lift`"
    )


def test_the_lease_of_a_rollout_hold_is_not_revoked_for_clients(proxy: Proxy) -> None:
    before = set(proxy.client.leases())
    create_hold(proxy, 3600)
    try:
        [lease] = set(proxy.client.leases()) - before
        assert_refused(proxy, lease)
        assert proxy.client.keep_alive_once(lease).TTL == 3600, "that ends nothing"
        assert proxy.public.get(HOLDS + b"ends-late") is not None
    finally:
        proxy.control.lift_rollout("ends-late")
    assert set(proxy.client.leases()) == before


def test_any_other_lease_is_revoked_as_by_etcd(proxy: Proxy) -> None:
    lease = proxy.client.grant()
    proxy.client.put(b"on/a/lease", b"1", lease)
    proxy.client.revoke(lease)
    assert proxy.public.get(b"on/a/lease") is None
    with pytest.raises(grpc.RpcError) as unknown:
        proxy.client.revoke(lease)
    assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
    assert unknown.value.details() == "etcdserver: requested lease not found"


def test_the_lease_of_a_claim_is_not_revoked_for_clients(proxy: Proxy) -> None:
    """Else a second runner could claim what the first one is still at."""
    worker = proxy.held_worker()
    asked = control_pb2.ClaimGateRequest(
        name=f"instances/{worker.instance}", gate="smoke", attempt=1, runner="first", ttl=timedelta(seconds=60)
    )
    claim = proxy.control.stub.ClaimGate(asked, timeout=10)
    assert_refused(proxy, int(claim.lease, 16))
    worker.client.revoke(worker.lease)
    assert not proxy.has_record(worker), "its own is every client's to end"
