"""The metadata of clients' calls reaches etcd with their calls, by whichever way they go there.

The rule: what etcd saw is judged by what it does. It counts requests by the version that the client says it has.
"""

from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from greenroom.pb.etcd import rpc_pb2
from tests.support.client import EtcdClient
from tests.support.endpoints import Endpoint, Proxy
from tests.support.etcd_metrics import CLIENT_REQUESTS, STARTED, metric
from tests.support.waiting import wait_for
from tests.support.watching import WatchLog
from tests.support.workers import Worker

CALL_SECONDS = 20
TAKES_NO_NOTICE = (3, 5, 2)
"""Of the etcds tried here 3.5.16 is the first one that takes none, and 3.5.1 the last one that does."""
UNUSUAL = {
    "wanting a leader": (("hasleader", "true"),),
    "tracing": (("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), ("grpc-trace-bin", b"\0")),
    "bytes": (("x-bin", b"\0\xff\n"),),
    "twice the same name": (("x", "1"), ("x", "2")),
    "ten KiB": (("x", "y" * 10_240),),
    "nothing in it": (("x", ""),),
}


@pytest.fixture
def worker(etcd_or_proxy: Endpoint) -> Worker:
    worker = Worker(etcd_or_proxy.client)
    assert worker.register().succeeded
    return worker


def requests(worker: Worker) -> dict[str, Any]:
    """One of each way through the proxy: relayed, looked into and relayed, answered by it."""
    card = rpc_pb2.PutRequest(key=worker.card_key, value=worker.card(), lease=worker.lease)
    return {
        "lease.LeaseLeases": rpc_pb2.LeaseLeasesRequest(),
        "kv.Range": rpc_pb2.RangeRequest(key=b"a"),
        "kv.Put": card,
        "kv.Txn": rpc_pb2.TxnRequest(success=[rpc_pb2.RequestOp(request_put=card)]),
        "lease.LeaseTimeToLive": rpc_pb2.LeaseTimeToLiveRequest(ID=worker.lease, keys=True),
        "cluster.MemberList": rpc_pb2.MemberListRequest(),
    }


def call(client: EtcdClient, method: str, request: object, metadata: Any) -> Any:
    service, name = method.split(".")
    return getattr(getattr(client, service), name)(request, timeout=CALL_SECONDS, metadata=metadata)


@pytest.mark.parametrize("metadata", UNUSUAL.values(), ids=UNUSUAL)
def test_calls_with_unusual_metadata_are_answered(etcd_or_proxy: Endpoint, worker: Worker, metadata: Any) -> None:
    for method, request in requests(worker).items():
        assert call(etcd_or_proxy.client, method, request, metadata).header.member_id, method
    with EtcdClient(etcd_or_proxy.address, metadata) as client, client.watch(b"a") as log:
        assert log.wait_revision(client.put(b"a", b"1").header.revision)[0].kv.value == b"1"
        assert client.keep_alive_once(worker.lease).TTL == 60


@pytest.mark.parametrize("method", ["lease.LeaseLeases", "kv.Range", "kv.Put", "kv.Txn", "lease.LeaseTimeToLive"])
def test_etcd_counts_each_call_for_the_clients_own_version(
    etcd_or_proxy: Endpoint, worker: Worker, method: str
) -> None:
    version = f"9.{method}"
    call(etcd_or_proxy.client, method, requests(worker)[method], (("client-api-version", version),))
    assert counted(etcd_or_proxy, version, "unary") == 1


@pytest.mark.parametrize("name", ["token", "authorization"])
def test_a_token_that_nobody_gave_is_judged_by_etcd(proxy: Proxy, name: str) -> None:
    """With auth off, older etcds refuse it where keys are concerned and newer ones take no notice; so it is here."""
    direct, proxied = (
        outcomes(client, Worker(client), ((name, "nobody.1"),)) for client in (proxy.public, proxy.client)
    )
    assert proxied == direct
    assert ("UNAUTHENTICATED" in direct.values()) is (proxy.etcd.version < TAKES_NO_NOTICE)


def outcomes(client: EtcdClient, worker: Worker, metadata: Any) -> dict[str, str]:
    worker.register()
    found = {}
    for method, request in requests(worker).items():
        try:
            call(client, method, request, metadata)
            found[method] = "OK"
        except grpc.RpcError as error:
            found[method] = error.code().name
    return found


def counted(endpoint: Endpoint, version: str, kind: str) -> int:
    return metric(endpoint.etcd, CLIENT_REQUESTS, client_api_version=version, type=kind)


@pytest.fixture
def logs(etcd_or_proxy: Endpoint) -> Iterator[list[WatchLog]]:
    """Watches of the same key by three clients, who all call themselves differently."""
    clients = [EtcdClient(etcd_or_proxy.address, (("client-api-version", f"8.{number}"),)) for number in range(3)]
    logs = [client.watch(b"a") for client in clients]
    yield logs
    for log in logs:
        log.close()
    for client in clients:
        client.close()


def test_each_stream_of_a_client_is_one_of_its_own_at_etcd(etcd_or_proxy: Endpoint, logs: list[WatchLog]) -> None:
    """Streams that share one share the first client's rights, and wait for each other."""
    assert [counted(etcd_or_proxy, f"8.{number}", "stream") for number in range(3)] == [1, 1, 1]
    before = metric(etcd_or_proxy.etcd, STARTED, grpc_method="Watch")
    with etcd_or_proxy.client.watch(b"a"), etcd_or_proxy.client.watch(b"a"):
        wait_for(
            lambda: metric(etcd_or_proxy.etcd, STARTED, grpc_method="Watch") == before + 2,
            describe="two more streams, for two more watches on one connection",
        )
    etcd_or_proxy.public.put(b"a", b"1")
    for log in logs:
        assert log.wait_events(1)[0].kv.value == b"1"
