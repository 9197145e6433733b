"""Which calls there are, and what a client that knows more, or less, than this version is told."""

from collections.abc import Callable
from typing import TypeVar

import grpc
import pytest
from google.protobuf.message import Message

from greenroom.pb.etcd import election_pb2, lock_pb2, rpc_pb2
from tests.support.client import EtcdClient, prefix_end
from tests.support.endpoints import SHADOWS, Endpoint, Proxy
from tests.support.etcd import Etcd
from tests.support.waiting import wait_for
from tests.support.wire import bytes_field, number_field

AnswerT = TypeVar("AnswerT", bound=Message)

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
    return bytes(call(request, timeout=20))


@pytest.mark.parametrize("path", UNKNOWN)
def test_an_unknown_method_is_unimplemented(etcd_or_proxy: Endpoint, path: str) -> None:
    """A method of a newer etcd could show or write what is held: until it is understood, it does not exist."""
    with pytest.raises(grpc.RpcError) as refusal:
        asked_raw(etcd_or_proxy.client, path, b"")
    assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_path_that_only_etcd_takes_for_a_known_one_is_unimplemented(proxy: Proxy) -> None:
    """Most etcds read a path without its slash as if it had one: such a call would pass without being looked into.

    Those built with a newer gRPC (3.5.30 is) refuse it themselves.
    """
    held = proxy.hold_somebody()
    request = rpc_pb2.RangeRequest(key=SHADOWS, range_end=prefix_end(SHADOWS)).SerializeToString()
    path = "etcdserverpb.KV/Range"
    if proxy.etcd.version < (3, 5, 17):
        assert rpc_pb2.RangeResponse.FromString(asked_raw(proxy.public, path, request)).count >= len(held)
    else:
        assert_unimplemented(proxy.public, path, request)
    assert_unimplemented(proxy.client, path, request)


def assert_unimplemented(client: EtcdClient, path: str, request: bytes) -> None:
    with pytest.raises(grpc.RpcError) as refusal:
        asked_raw(client, path, request)
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
    own = proxy.public.cluster.MemberList(rpc_pb2.MemberListRequest(), timeout=20)
    shown = proxy.client.cluster.MemberList(rpc_pb2.MemberListRequest(), timeout=20)
    assert [list(member.clientURLs) for member in shown.members] == [[proxy.url]]
    for member in (*own.members, *shown.members):
        del member.clientURLs[:]
    assert list(shown.members) == list(own.members)


def test_members_are_reached_where_the_operator_says(own_etcd: Etcd, launch_proxy: Callable[..., Proxy]) -> None:
    """The proxy listens behind an address that clients know it by: a virtual IP, a service's name."""
    advertised = "http://greenroom.example:2379"
    gates = ("--gate", "smoke=900s", "--gate", "latency=600s")
    proxy = launch_proxy(own_etcd, arguments=(*gates, "--advertise-client-url", advertised))
    proxy.hold_somebody()
    for linearizable in (False, True):
        request = rpc_pb2.MemberListRequest(linearizable=linearizable)
        shown = proxy.client.cluster.MemberList(request, timeout=20)
        assert [list(member.clientURLs) for member in shown.members] == [[advertised]]
        assert shown.members[0].peerURLs == proxy.public.cluster.MemberList(request).members[0].peerURLs


def test_no_change_of_the_members_hands_out_etcds_own_addresses(
    own_etcd: Etcd, launch_proxy: Callable[..., Proxy]
) -> None:
    """Their answers list all members, and clients take their addresses from there as well."""
    proxy = launch_proxy(own_etcd)
    cluster, (own,) = proxy.client.cluster, proxy.public.cluster.MemberList(rpc_pb2.MemberListRequest()).members
    updated = cluster.MemberUpdate(rpc_pb2.MemberUpdateRequest(ID=own.ID, peerURLs=own.peerURLs), timeout=5)
    assert [list(member.clientURLs) for member in updated.members] == [[proxy.url]]
    added = cluster.MemberAdd(rpc_pb2.MemberAddRequest(peerURLs=["http://127.0.0.1:1"], isLearner=True), timeout=5)
    assert {member.ID: list(member.clientURLs) for member in added.members} == {
        own.ID: [proxy.url],
        added.member.ID: [],
    }
    with pytest.raises(grpc.RpcError) as refusal:
        cluster.MemberPromote(rpc_pb2.MemberPromoteRequest(ID=added.member.ID), timeout=5)
    assert refusal.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    removed = cluster.MemberRemove(rpc_pb2.MemberRemoveRequest(ID=added.member.ID), timeout=5)
    assert [list(member.clientURLs) for member in removed.members] == [[proxy.url]]


def test_locks_and_elections_in_ambiguous_bytes_are_made_in_one_sense(proxy: Proxy) -> None:
    """A name that comes twice: etcd takes the last, as it was judged here; no call ends as an error of ours."""

    def asked(path: str, first: int, name: bytes, rest: bytes, answer: type[AnswerT]) -> AnswerT:
        twice = bytes_field(first, b"v1/mdc") + bytes_field(first, name)
        return answer.FromString(asked_raw(proxy.client, path, twice + rest))

    lease = proxy.client.grant()
    locked = asked("/v3lockpb.Lock/Lock", 1, b"job", number_field(2, lease), lock_pb2.LockResponse)
    assert locked.key == b"job/%x" % lease
    asked("/v3lockpb.Lock/Unlock", 1, locked.key, b"", lock_pb2.UnlockResponse)
    assert proxy.public.get(locked.key) is None
    won = asked("/v3electionpb.Election/Campaign", 1, b"chief", number_field(2, lease), election_pb2.CampaignResponse)
    assert won.leader.name == b"chief"
    found = asked("/v3electionpb.Election/Leader", 1, b"chief", b"", election_pb2.LeaderResponse)
    assert found.kv.key == won.leader.key
    with pytest.raises(grpc.RpcError) as refusal:
        asked_raw(proxy.client, "/v3electionpb.Election/Observe", bytes_field(1, b"a") + bytes_field(1, b"chief"))
    assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "more than one way" in refusal.value.details()


def test_a_number_that_etcd_has_no_name_for_does_not_reach_it(proxy: Proxy) -> None:
    """etcd 3.4 exits at a sort target of 5, and takes every worker's registration with it."""
    odd = rpc_pb2.RangeRequest(key=b"a", range_end=b"b", sort_target=5)  # type: ignore[arg-type]
    for call in (
        lambda: proxy.client.kv.Range(odd, timeout=5),
        lambda: proxy.client.txn([], [rpc_pb2.RequestOp(request_range=odd)]),
    ):
        with pytest.raises(grpc.RpcError) as refusal:
            call()
        assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "sort_target is 5" in refusal.value.details()
    assert proxy.public.revision() > 0


def test_maintenance_answers_are_etcds(proxy: Proxy) -> None:
    """etcd's state may move between two questions (it commits to its file each 100 ms): the answer has to lie between
    two that are the same.
    """
    for method, request in (("Status", rpc_pb2.StatusRequest()), ("Alarm", rpc_pb2.AlarmRequest())):

        def is_between_equals(method: str = method, request: Message = request) -> bool:
            before, shown, after = (
                getattr(client.maintenance, method)(request, timeout=20)
                for client in (proxy.public, proxy.client, proxy.public)
            )
            assert before != after or shown == before
            return bool(before == after)

        wait_for(is_between_equals, describe=f"{method} stays the same for two questions")


def test_a_request_without_a_key_is_refused_in_etcds_words(etcd_or_proxy: Endpoint) -> None:
    client = etcd_or_proxy.client
    for call in (client.range, client.put, client.delete):
        with pytest.raises(grpc.RpcError) as refusal:
            call(b"")
        assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert refusal.value.details() == "etcdserver: key is not provided"
