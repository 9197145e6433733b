"""Deadlines: the client's `grpc-timeout` holds at etcd, and where a call is answered by the proxy, there.

The client of most of these tests sends its deadline and does not keep it: who says that it is over is the other side.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from google.protobuf.message import Message

from greenroom.pb.etcd import lock_pb2, rpc_pb2
from tests.support.client import EtcdClient
from tests.support.endpoints import Endpoint, Proxy
from tests.support.etcd import Etcd
from tests.support.raw_grpc import RawAnswer, RawGrpc
from tests.support.workers import Worker

UNKNOWN, DEADLINE_EXCEEDED = 2, 4
CANCEL = 8
GOS_WORDS = "context deadline exceeded"
SOON = (("grpc-timeout", "300m"),)
FAR = (("grpc-timeout", "20S"),)
KV = "/etcdserverpb.KV/"
LOCK = "/v3lockpb.Lock/Lock"


def ended(address: str, path: str, request: Message, headers: tuple[tuple[str, str], ...]) -> RawAnswer:
    with RawGrpc(address) as raw:
        stream = raw.start(path, request.SerializeToString(), headers=headers, half_close="Watch" not in path)
        return raw.wait(stream, lambda answer: answer.is_over, "it ends")


def a_lock(client: EtcdClient) -> lock_pb2.LockRequest:
    """One that waits: somebody else has it."""
    name, holder = b"mutex", client.grant()
    client.put(b"%s/%x" % (name, holder), b"", holder)
    return lock_pb2.LockRequest(name=name, lease=client.grant())


def is_late(answer: RawAnswer) -> bool:
    """How etcd says so: by a reset where its gRPC is a newer one, else in Go's words, under either of two codes."""
    if answer.reset is not None:
        return answer.reset == CANCEL
    return answer.status in (UNKNOWN, DEADLINE_EXCEEDED) and answer.trailers["grpc-message"] == GOS_WORDS


def test_etcd_ends_a_wait_at_the_clients_deadline(etcd_or_proxy: Endpoint) -> None:
    """A lock that somebody else has: etcd could not end the wait without knowing of the deadline."""
    assert is_late(ended(etcd_or_proxy.address, LOCK, a_lock(etcd_or_proxy.public), SOON))


def test_etcd_ends_a_watch_at_the_clients_deadline(etcd_or_proxy: Endpoint) -> None:
    request = rpc_pb2.WatchRequest(create_request=rpc_pb2.WatchCreateRequest(key=b"a"))
    answer = ended(etcd_or_proxy.address, "/etcdserverpb.Watch/Watch", request, SOON)
    assert len(answer.messages) == 1
    assert answer.reset == CANCEL or answer.status != 0


@contextmanager
def stalled(etcd: Etcd) -> Iterator[None]:
    etcd.pause()
    try:
        yield
    finally:
        etcd.resume()


def test_every_kind_of_call_ends_at_its_deadline_while_etcd_is_stalled(own_etcd_or_proxy: Endpoint) -> None:
    """Relayed, looked into, and answered by the proxy: none waits for etcd longer than its client. Then all go on."""
    client = own_etcd_or_proxy.client
    worker = Worker(client)
    worker.register()
    card = rpc_pb2.PutRequest(key=worker.card_key, value=worker.card(taints=["late"]), lease=worker.lease)
    calls: dict[str, Message] = {
        "Lease/LeaseGrant": rpc_pb2.LeaseGrantRequest(TTL=60),
        "KV/Range": rpc_pb2.RangeRequest(key=b"a"),
        "KV/Put": rpc_pb2.PutRequest(key=b"a"),
        "KV/DeleteRange": rpc_pb2.DeleteRangeRequest(key=worker.card_key),
        "KV/Txn": rpc_pb2.TxnRequest(success=[rpc_pb2.RequestOp(request_put=card)]),
        "Lease/LeaseTimeToLive": rpc_pb2.LeaseTimeToLiveRequest(ID=worker.lease, keys=True),
        "Cluster/MemberList": rpc_pb2.MemberListRequest(),
    }
    with RawGrpc(own_etcd_or_proxy.address) as raw:
        # So that the connection is there, on both sides of a proxy.
        raw.call(f"{KV}Range", rpc_pb2.RangeRequest(key=b"a").SerializeToString())
        with stalled(own_etcd_or_proxy.etcd):
            streams = [
                raw.start(f"/etcdserverpb.{method}", request.SerializeToString(), headers=SOON)
                for method, request in calls.items()
            ]
            handed_over = streams[3:] if isinstance(own_etcd_or_proxy, Proxy) else []
            for stream in handed_over:
                assert over(raw, stream).status == DEADLINE_EXCEEDED
        # etcd comes to the others when it goes on: just now, or too late.
        for stream in streams:
            assert over(raw, stream).status in (0, UNKNOWN, DEADLINE_EXCEEDED, None)
        assert raw.goaway is None
        answer = raw.call(f"{KV}Range", rpc_pb2.RangeRequest(key=b"a").SerializeToString(), headers=FAR)
        assert answer.status == 0
    assert client.put(b"b", b"").header.revision == own_etcd_or_proxy.public.revision()


def over(raw: RawGrpc, stream: int) -> RawAnswer:
    return raw.wait(stream, lambda answer: answer.is_over, "the call ends")


def test_the_longest_deadline_there_is_is_taken_as_by_etcd(etcd_or_proxy: Endpoint) -> None:
    """Go clients without a deadline of their own send it: centuries, more than some clocks can count."""
    worker = Worker(etcd_or_proxy.client)
    worker.register()
    with RawGrpc(etcd_or_proxy.address) as raw:
        for key in (b"a", worker.card_key):
            request = rpc_pb2.RangeRequest(key=key).SerializeToString()
            assert raw.call(f"{KV}Range", request, headers=(("grpc-timeout", "99999999H"),)).status == 0
