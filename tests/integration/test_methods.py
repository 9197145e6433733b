"""Which calls there are, and what a client that knows more, or less, than this version is told."""

import grpc
import pytest

from greenroom.pb.etcd import rpc_pb2
from tests.support.client import EtcdClient, prefix_end
from tests.support.endpoints import SHADOWS, Endpoint, Proxy

UNKNOWN = [
    "/etcdserverpb.KV/RangeStream",
    "/etcdserverpb.KV/range",
    "/etcdserverpb.KV/Range/",
    "/etcdserverpb.KV/",
    "/etcdserverpb.Nothing/Range",
    "/greenroom.control.v1.Control/ListInstances",
]


def asked_raw(client: EtcdClient, path: str, request: bytes) -> bytes:
    call = client.channel.unary_unary(path, lambda given: given, lambda given: given)
    return bytes(call(request, timeout=5))


@pytest.mark.parametrize("path", UNKNOWN)
def test_an_unknown_method_is_unimplemented(etcd_or_proxy: Endpoint, path: str) -> None:
    """A method of a newer etcd could show or write what is held: until it is understood, it does not exist."""
    with pytest.raises(grpc.RpcError) as refusal:
        asked_raw(etcd_or_proxy.client, path, b"")
    assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_path_that_only_etcd_takes_for_a_known_one_is_unimplemented(proxy: Proxy) -> None:
    """etcd reads a path without its slash as if it had one: such a call would pass without having been looked into."""
    held = proxy.hold_somebody()
    request = rpc_pb2.RangeRequest(key=SHADOWS, range_end=prefix_end(SHADOWS)).SerializeToString()
    path = "etcdserverpb.KV/Range"
    assert rpc_pb2.RangeResponse.FromString(asked_raw(proxy.public, path, request)).count == len(held)
    with pytest.raises(grpc.RpcError) as refusal:
        asked_raw(proxy.client, path, request)
    assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_known_method_goes_on_after_an_unknown_one(etcd_or_proxy: Endpoint) -> None:
    """The connection is not given up for it."""
    with pytest.raises(grpc.RpcError):
        asked_raw(etcd_or_proxy.client, UNKNOWN[0], b"x" * 100_000)
    etcd_or_proxy.client.put(b"a", b"1")
    assert etcd_or_proxy.client.get(b"a").value == b"1"


@pytest.mark.parametrize("method", ["KV/Range", "KV/Put", "KV/DeleteRange", "KV/Txn", "Lease/LeaseTimeToLive"])
def test_a_request_with_an_unknown_field_is_refused(proxy: Proxy, method: str) -> None:
    """etcd might know the field, and it might change what the request means."""
    key, field_99 = b"\x0a\x01a" if method in ("KV/Range", "KV/Put", "KV/DeleteRange") else b"", b"\x98\x06\x01"
    with pytest.raises(grpc.RpcError) as refusal:
        asked_raw(proxy.client, f"/etcdserverpb.{method}", key + field_99)
    assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "99" in refusal.value.details()
    assert proxy.client.get(b"a") is None


@pytest.mark.parametrize("method", ["KV/Range", "KV/Put", "KV/Txn", "KV/DeleteRange"])
def test_what_is_no_message_is_refused_as_by_etcd(etcd_or_proxy: Endpoint, method: str) -> None:
    with pytest.raises(grpc.RpcError) as refusal:
        asked_raw(etcd_or_proxy.client, f"/etcdserverpb.{method}", b"\x0a\xff")
    assert refusal.value.code() is grpc.StatusCode.INTERNAL


def test_members_are_reached_through_the_proxy(proxy: Proxy) -> None:
    """A client that follows the members' own addresses would go round the proxy; all else is etcd's."""
    own = proxy.public.cluster.MemberList(rpc_pb2.MemberListRequest(), timeout=5)
    shown = proxy.client.cluster.MemberList(rpc_pb2.MemberListRequest(), timeout=5)
    assert [list(member.clientURLs) for member in shown.members] == [[proxy.url]]
    for member in (*own.members, *shown.members):
        del member.clientURLs[:]
    assert list(shown.members) == list(own.members)


def test_maintenance_answers_are_etcds(proxy: Proxy) -> None:
    for method, request in (("Status", rpc_pb2.StatusRequest()), ("Alarm", rpc_pb2.AlarmRequest())):
        own = getattr(proxy.public.maintenance, method)(request, timeout=5)
        assert getattr(proxy.client.maintenance, method)(request, timeout=5) == own


def test_a_request_without_a_key_is_refused_in_etcds_words(etcd_or_proxy: Endpoint) -> None:
    client = etcd_or_proxy.client
    for call in (client.range, client.put, client.delete):
        with pytest.raises(grpc.RpcError) as refusal:
            call(b"")
        assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert refusal.value.details() == "etcdserver: key is not provided"
