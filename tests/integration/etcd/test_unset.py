"""Messages in which nothing is set where something has to be: they harm whoever sent them, and nobody else.

etcd's own proxy dies of them. Each is sent in bytes, since clients' libraries would not write some of them.
"""

import pytest

from greenroom.pb.etcd import rpc_pb2
from tests.support.client import RequestOp, put, version_is
from tests.support.endpoints import Endpoint, Proxy
from tests.support.raw_grpc import RawAnswer, RawGrpc
from tests.support.wire import bytes_field, number_field
from tests.support.workers import Worker

KV, LEASE, CLUSTER = "/etcdserverpb.KV/", "/etcdserverpb.Lease/", "/etcdserverpb.Cluster/"
COMPARE, SUCCESS, FAILURE, NESTED = 1, 2, 3, 4
EMPTY = b""
ASKED = {
    "a range of nothing": (f"{KV}Range", EMPTY),
    "a put of nothing": (f"{KV}Put", EMPTY),
    "a delete of nothing": (f"{KV}DeleteRange", EMPTY),
    "an empty Txn": (f"{KV}Txn", EMPTY),
    "a Txn with an empty compare": (f"{KV}Txn", bytes_field(COMPARE, EMPTY)),
    "a Txn with an empty operation": (f"{KV}Txn", bytes_field(SUCCESS, EMPTY)),
    "a Txn with an empty operation in its Else": (f"{KV}Txn", bytes_field(FAILURE, EMPTY)),
    "a Txn with an empty Txn": (f"{KV}Txn", bytes_field(SUCCESS, bytes_field(NESTED, EMPTY))),
    "a Txn with a Txn with an empty operation": (
        f"{KV}Txn",
        bytes_field(SUCCESS, bytes_field(NESTED, bytes_field(SUCCESS, EMPTY))),
    ),
    "a Txn with an empty put": (f"{KV}Txn", bytes_field(SUCCESS, bytes_field(2, EMPTY))),
    "a grant of nothing": (f"{LEASE}LeaseGrant", EMPTY),
    "a revocation of nothing": (f"{LEASE}LeaseRevoke", EMPTY),
    "a question for no lease": (f"{LEASE}LeaseTimeToLive", EMPTY),
    "a question for the keys of no lease": (f"{LEASE}LeaseTimeToLive", number_field(2, 1)),
    "a question for all leases": (f"{LEASE}LeaseLeases", EMPTY),
    "a question for the members": (f"{CLUSTER}MemberList", EMPTY),
    "a member without an address": (f"{CLUSTER}MemberAdd", EMPTY),
    "an unlocking of nothing": ("/v3lockpb.Lock/Unlock", EMPTY),
    "a proclamation of nobody": ("/v3electionpb.Election/Proclaim", EMPTY),
    "a resignation of nobody": ("/v3electionpb.Election/Resign", EMPTY),
}


@pytest.mark.parametrize(("path", "request_bytes"), ASKED.values(), ids=ASKED)
def test_an_empty_message_is_answered_as_by_etcd_and_harms_nobody(
    proxy: Proxy, path: str, request_bytes: bytes
) -> None:
    """With its status and its words; and calls on the same connection and on others go on."""
    worker = Worker(proxy.client)
    worker.register()
    with RawGrpc(proxy.etcd.address) as direct, RawGrpc(proxy.address) as raw:
        expected, answer = direct.call(path, request_bytes), raw.call(path, request_bytes)
        assert told(answer) == told(expected)
        again = raw.call(f"{KV}Range", rpc_pb2.RangeRequest(key=worker.card_key).SerializeToString())
        assert rpc_pb2.RangeResponse.FromString(again.messages[0]).kvs[0].value == worker.card()
        assert (raw.goaway, raw.closed) == (None, False)
    assert worker.read().value == worker.card()


@pytest.mark.parametrize("path", ["/v3lockpb.Lock/Lock", "/v3electionpb.Election/Campaign"])
def test_a_lock_or_an_election_without_a_name_is_one_for_all_who_give_none(etcd_or_proxy: Endpoint, path: str) -> None:
    """etcd takes the empty name for a name, and the lease that is not given for one that it grants."""
    with RawGrpc(etcd_or_proxy.address) as raw:
        assert told(raw.call(path, EMPTY)) == (0, "")
    assert etcd_or_proxy.public.prefix(b"/").count == 1


def told(answer: RawAnswer) -> tuple[int | None, str]:
    return answer.status, answer.trailers.get("grpc-message", "")


@pytest.mark.parametrize("path", ["/etcdserverpb.Watch/Watch", "/etcdserverpb.Lease/LeaseKeepAlive"])
def test_empty_messages_on_a_stream_harm_nobody(etcd_or_proxy: Endpoint, path: str) -> None:
    """Ten of them, then a real one, which is answered in its place."""
    lease = etcd_or_proxy.client.grant()
    real = {
        "Watch": rpc_pb2.WatchRequest(create_request=rpc_pb2.WatchCreateRequest(key=b"a", watch_id=3)),
        "LeaseKeepAlive": rpc_pb2.LeaseKeepAliveRequest(ID=lease),
    }[path.rsplit("/", 1)[1]]
    with RawGrpc(etcd_or_proxy.address) as raw:
        stream = raw.start(path, *[EMPTY] * 10, real.SerializeToString(), half_close=False)
        if isinstance(real, rpc_pb2.WatchRequest):
            first = rpc_pb2.WatchResponse.FromString(raw.wait_messages(stream, 1)[0])
            assert (first.created, first.watch_id) == (True, 3)
        else:
            last = rpc_pb2.LeaseKeepAliveResponse.FromString(raw.wait_messages(stream, 11)[10])
            assert (lease, 60) == (last.ID, last.TTL)


def test_a_compare_without_a_target_beside_a_held_key(etcd_or_proxy: Endpoint) -> None:
    """Its target is VERSION then, and its number 0: etcd takes it so, and so it is with a held key."""
    worker = Worker(etcd_or_proxy.client)
    absent = rpc_pb2.Compare(key=worker.card_key)
    card = put(worker.card_key, worker.card(), worker.lease)
    assert worker.client.txn([absent], [card]).succeeded
    answer = worker.client.txn([absent], [card], [RequestOp(request_range=rpc_pb2.RangeRequest(key=worker.card_key))])
    assert not answer.succeeded
    assert answer.responses[0].response_range.kvs[0].version == 1
    assert worker.client.txn([version_is(worker.card_key, 1)], [card]).succeeded
