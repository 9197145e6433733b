"""Keepalives: one to etcd for each that the client sends, one answer for each that etcd gives, none from anybody else.

A proxy that keeps leases alive by itself lets a dead worker live on, and one that leaves some out kills a live one.
"""

from collections.abc import Iterable

import pytest

from greenroom.pb.etcd import rpc_pb2
from tests.support.client import EtcdClient
from tests.support.endpoints import Endpoint
from tests.support.etcd_metrics import RECEIVED, metric
from tests.support.raw_grpc import RawGrpc
from tests.support.waiting import wait_for
from tests.support.workers import Worker

KEEP_ALIVE = "/etcdserverpb.Lease/LeaseKeepAlive"
NO_LEASE = 0x3039
ROUNDS = 100


def keep_alive(lease: int) -> bytes:
    return rpc_pb2.LeaseKeepAliveRequest(ID=lease).SerializeToString()


def read(messages: Iterable[bytes]) -> list[rpc_pb2.LeaseKeepAliveResponse]:
    return [rpc_pb2.LeaseKeepAliveResponse.FromString(message) for message in messages]


def keepalives_of_clients(endpoint: Endpoint, sent_before: int) -> int:
    """How many reached etcd since. A running proxy's own, for its presence, come each few seconds; they are few."""
    return metric(endpoint.etcd, RECEIVED, grpc_method="LeaseKeepAlive") - sent_before


@pytest.fixture
def worker(etcd_or_proxy: Endpoint) -> Worker:
    worker = Worker(etcd_or_proxy.client, ttl_seconds=30)
    assert worker.register().succeeded
    return worker


def test_each_keepalive_has_its_own_answer_in_its_place(etcd_or_proxy: Endpoint, worker: Worker) -> None:
    """Two leases and one that is not there, on one stream: etcd answers all, and the last with a TTL of 0."""
    other = worker.client.grant(40)
    asked = [worker.lease, other, NO_LEASE] * ROUNDS
    with RawGrpc(etcd_or_proxy.address) as raw:
        stream = raw.start(KEEP_ALIVE, *map(keep_alive, asked), half_close=False)
        answers = read(raw.wait_messages(stream, len(asked)))
    assert [(answer.ID, answer.TTL) for answer in answers] == [(worker.lease, 30), (other, 40), (NO_LEASE, 0)] * ROUNDS
    headers = {(answer.header.cluster_id, answer.header.member_id) for answer in answers}
    own = etcd_or_proxy.public.range(b"a").header
    assert headers == {(own.cluster_id, own.member_id)}


def test_a_keepalive_on_its_way_is_answered_after_the_client_half_closed(
    etcd_or_proxy: Endpoint, worker: Worker
) -> None:
    """Half-close means that no more is asked, not that nothing more is wanted; then the stream ends in good order."""
    with RawGrpc(etcd_or_proxy.address) as raw:
        stream = raw.start(KEEP_ALIVE, keep_alive(worker.lease))
        answer = raw.wait(stream, lambda answer: answer.is_over, "etcd ends the stream")
    assert [(each.ID, each.TTL) for each in read(answer.messages)] == [(worker.lease, 30)]
    assert (answer.status, answer.reset) == (0, None)


def test_nobody_keeps_a_dead_workers_lease_alive(etcd_or_proxy: Endpoint) -> None:
    """It sends three keepalives and is gone, without a word: etcd gets these three, and then ends the lease."""
    with EtcdClient(etcd_or_proxy.address) as client, RawGrpc(etcd_or_proxy.address) as raw:
        worker = Worker(client, ttl_seconds=1)
        assert worker.register().succeeded
        own = Worker(client, ttl_seconds=600)
        before = metric(etcd_or_proxy.etcd, RECEIVED, grpc_method="LeaseKeepAlive")
        stream = raw.start(KEEP_ALIVE, *[keep_alive(worker.lease)] * 3, half_close=False)
        raw.wait_messages(stream, 3)
    wait_for(lambda: worker.lease not in etcd_or_proxy.public.leases(), describe="the lease ends")
    assert 3 <= keepalives_of_clients(etcd_or_proxy, before) <= 5
    assert own.lease in etcd_or_proxy.public.leases()
    assert etcd_or_proxy.client.get(worker.card_key) is None
