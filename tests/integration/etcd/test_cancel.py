"""Clients that give up a call, a watch, a keepalive stream: nothing of it goes on at etcd, nothing else is disturbed.

What is left is asked of etcd itself, by its own figures.
"""

from collections import Counter
from collections.abc import Callable

import pytest
from google.protobuf.message import Message

from greenroom.pb.etcd import lock_pb2, lock_pb2_grpc, rpc_pb2
from tests.support.endpoints import Endpoint, Proxy
from tests.support.etcd import Etcd
from tests.support.etcd_metrics import WATCHERS, metric, open_calls
from tests.support.http import ask
from tests.support.raw_grpc import RawGrpc
from tests.support.waiting import wait_for
from tests.support.workers import Worker

CALL_SECONDS = 20
MANY = 50


class Before:
    """What etcd was at work on before the test did anything: the proxy's own watches, other tests' clients."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.etcd = endpoint.etcd
        self.watchers = self._watchers()
        self.calls = open_calls(self.etcd)

    def more_calls(self) -> Counter[str]:
        return open_calls(self.etcd) - self.calls

    def more_watchers(self) -> int:
        return self._watchers() - self.watchers

    def wait_nothing_more(self) -> None:
        wait_for(lambda: not self.more_calls(), describe="no call is left")
        wait_for(lambda: self.more_watchers() <= 0, describe="no watch is left")

    def _watchers(self) -> int:
        return metric(self.etcd, WATCHERS)


@pytest.fixture
def before(etcd_or_proxy: Endpoint) -> Before:
    return Before(etcd_or_proxy)


def test_a_cancelled_wait_for_a_lock_leaves_the_line(etcd_or_proxy: Endpoint, before: Before) -> None:
    """A unary call that etcd is at work on: it takes back the key by which it stood in line."""
    client = etcd_or_proxy.client
    lock = lock_pb2_grpc.LockStub(client.channel)
    holder, waiter = client.grant(), client.grant()
    held = lock.Lock(lock_pb2.LockRequest(name=b"mutex", lease=holder), timeout=CALL_SECONDS)
    waiting = lock.Lock.future(lock_pb2.LockRequest(name=b"mutex", lease=waiter), timeout=CALL_SECONDS)
    wait_for(lambda: etcd_or_proxy.public.get(b"mutex/%x" % waiter), describe="it stands in line")
    waiting.cancel()
    wait_for(lambda: not etcd_or_proxy.public.get(b"mutex/%x" % waiter), describe="it left the line")
    before.wait_nothing_more()
    assert [entry.key for entry in client.prefix(b"mutex/").kvs] == [held.key]


def test_cancelled_watches_are_gone_at_etcd(etcd_or_proxy: Endpoint, before: Before) -> None:
    logs = [etcd_or_proxy.client.watch(b"a") for _ in range(MANY)]
    assert (before.more_watchers(), before.more_calls()) == (MANY, Counter({"Watch/Watch": MANY}))
    for log in logs:
        log.close()
    before.wait_nothing_more()


def test_a_client_that_vanishes_takes_its_watches_and_keepalives_along(etcd_or_proxy: Endpoint, before: Before) -> None:
    """No reset, no farewell: its connection ends."""
    lease = etcd_or_proxy.client.grant()
    with RawGrpc(etcd_or_proxy.address) as raw:
        create = rpc_pb2.WatchRequest(create_request=rpc_pb2.WatchCreateRequest(key=b"a"))
        keep_alive = rpc_pb2.LeaseKeepAliveRequest(ID=lease)
        for path, request in (("Watch/Watch", create), ("Lease/LeaseKeepAlive", keep_alive)):
            stream = raw.start(f"/etcdserverpb.{path}", request.SerializeToString(), half_close=False)
            raw.wait_messages(stream, 1)
        assert before.more_calls() == Counter({"Watch/Watch": 1, "Lease/LeaseKeepAlive": 1})
    before.wait_nothing_more()


def test_a_cancelled_keepalive_stream_is_gone_and_the_lease_is_not(etcd_or_proxy: Endpoint, before: Before) -> None:
    lease = etcd_or_proxy.client.grant()
    with RawGrpc(etcd_or_proxy.address) as raw:
        request = rpc_pb2.LeaseKeepAliveRequest(ID=lease).SerializeToString()
        stream = raw.start("/etcdserverpb.Lease/LeaseKeepAlive", request, half_close=False)
        raw.wait_messages(stream, 1)
        raw.cancel(stream)
        before.wait_nothing_more()
        again = raw.start("/etcdserverpb.Lease/LeaseKeepAlive", request)
        assert rpc_pb2.LeaseKeepAliveResponse.FromString(raw.wait_messages(again, 1)[0]).TTL == 60


def test_calls_cancelled_at_once_leave_nothing_and_disturb_nobody(etcd_or_proxy: Endpoint, before: Before) -> None:
    """Reads and writes of every kind, each reset as soon as it was sent, among others of the same connection."""
    worker = Worker(etcd_or_proxy.client)
    worker.register()
    put, read = rpc_pb2.PutRequest(key=b"a"), rpc_pb2.RangeRequest(key=worker.card_key).SerializeToString()
    with RawGrpc(etcd_or_proxy.address) as raw:
        for number in range(MANY):
            for path, request in gated_and_other_calls(worker).items():
                raw.cancel(raw.start(f"/etcdserverpb.{path}", request.SerializeToString(), half_close=False))
            put.value = b"%d" % number
            assert raw.call("/etcdserverpb.KV/Put", put.SerializeToString()).status == 0
            found = rpc_pb2.RangeResponse.FromString(raw.call("/etcdserverpb.KV/Range", read).messages[0])
            assert [entry.key for entry in found.kvs] == [worker.card_key]
        before.wait_nothing_more()
        assert (raw.goaway, raw.closed) == (None, False)
    assert etcd_or_proxy.client.get(b"a").value == put.value


def gated_and_other_calls(worker: Worker) -> dict[str, Message]:
    card = rpc_pb2.PutRequest(key=worker.card_key, value=worker.card(), lease=worker.lease)
    return {
        "KV/Range": rpc_pb2.RangeRequest(key=b"b"),
        "KV/Put": card,
        "KV/Txn": rpc_pb2.TxnRequest(success=[rpc_pb2.RequestOp(request_put=card)]),
        "KV/DeleteRange": rpc_pb2.DeleteRangeRequest(key=b"b"),
        "Lease/LeaseTimeToLive": rpc_pb2.LeaseTimeToLiveRequest(ID=worker.lease, keys=True),
        "Cluster/MemberList": rpc_pb2.MemberListRequest(),
    }


def test_a_registration_that_was_given_up_is_not_carried_out_later(
    own_etcd: Etcd, launch_proxy: Callable[..., Proxy]
) -> None:
    """etcd is stalled, the worker gives up, etcd goes on: what the proxy had begun for the worker ends there."""
    proxy = launch_proxy(own_etcd)
    before, worker, other = Before(proxy), Worker(proxy.client), Worker(proxy.client)
    own_etcd.pause()
    call = proxy.client.kv.Put.future(
        rpc_pb2.PutRequest(key=worker.card_key, value=worker.card(), lease=worker.lease), timeout=CALL_SECONDS
    )
    wait_for(lambda: handed_over(proxy, "KV/Put") == 1, describe="the proxy is at work on it")
    call.cancel()
    own_etcd.resume()
    before.wait_nothing_more()
    assert other.register().succeeded
    assert proxy.held(worker) == proxy.shown(worker) == []
    assert not proxy.has_record(worker)
    assert worker.register().succeeded


def handed_over(proxy: Proxy, method: str) -> int:
    """How often the proxy answered such a call by itself."""
    text = ask(f"{proxy.greenroom.http_url}/metrics").body.decode()
    name = f'greenroom_calls_handed_over_total{{method="etcdserverpb.{method}"}} '
    return int(float(next(line for line in text.splitlines() if line.startswith(name)).split()[-1]))
