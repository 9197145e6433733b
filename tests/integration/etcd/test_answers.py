"""Answers are etcd's own: none is kept from before, and no revision, event or header is the proxy's.

The same life runs straight on etcd and through the proxy; the expectations are what etcd alone does.
"""

from collections.abc import Callable
from typing import Any

import grpc
import pytest

from greenroom.pb.etcd import rpc_pb2
from tests.support.client import EtcdClient, delete, get, put, version_is
from tests.support.endpoints import FIRST_CLIENT_KEY, Endpoint
from tests.support.workers import Worker

SOON_SECONDS = 0.5


@pytest.fixture
def worker(etcd_or_proxy: Endpoint) -> Worker:
    worker = Worker(etcd_or_proxy.client)
    assert worker.register().succeeded
    return worker


def header(answer: Any) -> tuple[int, int, int]:
    """Who answered, and in which term."""
    found = answer.header
    return found.cluster_id, found.member_id, found.raft_term


def test_every_answer_has_etcds_header(etcd_or_proxy: Endpoint, worker: Worker) -> None:
    """Clients start their watches at these revisions, and tell clusters apart by these ids."""
    client, key = etcd_or_proxy.client, worker.card_key
    own = header(etcd_or_proxy.public.range(b"a"))
    assert 0 not in own
    answers = [
        client.range(b"a"),
        client.range(key),
        client.range(b"\0", b"\0"),
        client.put(b"a", b"1"),
        client.put(key, worker.card(taints=["gold"]), worker.lease),
        client.txn([], [get(key)]),
        client.delete(b"a"),
        client.delete(key),
        client.time_to_live(worker.lease),
        client.time_to_live(worker.lease, keys=False),
        client.keep_alive_once(worker.lease),
    ]
    assert [header(answer) for answer in answers] == [own] * len(answers)
    revisions = [answer.header.revision for answer in answers]
    assert revisions == sorted(revisions)
    assert revisions[-1] == etcd_or_proxy.public.revision()


def test_answers_inside_a_txn_have_the_headers_that_etcd_gives_them(etcd_or_proxy: Endpoint, worker: Worker) -> None:
    """The revision alone, of what the Txn made of the store; whether a gated key is in it or not."""
    client = etcd_or_proxy.client
    for key, value, lease in ((b"a", b"1", 0), (worker.card_key, worker.card(), worker.lease)):
        answer = client.txn([version_is(b"none", 0)], [get(key), put(key, value, lease), delete(b"b"), get(key)])
        nested = [getattr(each, each.WhichOneof("response")).header for each in answer.responses]
        assert [(each.cluster_id, each.member_id, each.raft_term) for each in nested] == [(0, 0, 0)] * 4
        assert nested[1].revision == answer.header.revision == etcd_or_proxy.public.revision()
        assert [each.revision for each in nested] == nested_revisions(etcd_or_proxy, answer.header.revision)


def nested_revisions(endpoint: Endpoint, revision: int) -> list[int]:
    """A read before the first write of a Txn names the revision before it, in etcd's own answers too."""
    answer = endpoint.public.txn([], [get(b"x"), put(b"x", b""), delete(b"y"), get(b"x")])
    moved = answer.header.revision - revision
    return [getattr(each, each.WhichOneof("response")).header.revision - moved for each in answer.responses]


def test_nothing_but_the_clients_writes_moves_the_revision(etcd_or_proxy: Endpoint, worker: Worker) -> None:
    """Reads, refusals and leases leave it alone, and each write moves it by one: watchers count on that."""
    client, key = etcd_or_proxy.client, worker.card_key
    before = etcd_or_proxy.public.revision()
    client.range(key)
    client.everything()
    client.time_to_live(worker.lease)
    client.keep_alive_once(worker.lease)
    client.grant()
    client.delete(b"nothing")
    assert not client.txn([version_is(key, 0)], [put(key, b"", worker.lease)], [get(key)]).succeeded
    with pytest.raises(grpc.RpcError):
        client.put(key, worker.card(), worker.lease, ignore_lease=True)
    assert etcd_or_proxy.public.revision() == before
    writes: list[Callable[[], Any]] = [
        lambda: client.put(b"a", b"1"),
        lambda: client.put(key, worker.card(taints=["gold"]), worker.lease),
        lambda: client.txn([version_is(key, 2)], [put(key, worker.card(), worker.lease), put(b"b", b"")], [get(key)]),
        lambda: client.delete(key),
        lambda: worker.register(),
    ]
    for number, write in enumerate(writes, start=1):
        assert write().header.revision == before + number
        assert etcd_or_proxy.public.revision() == before + number


def test_what_was_read_before_is_read_anew(etcd_or_proxy: Endpoint, worker: Worker) -> None:
    """Somebody else changes the store, past the proxy: the next answer has it, however often it was asked before."""
    for number in range(5):
        etcd_or_proxy.public.put(b"a", b"%d" % number)
        for options in ({}, {"serializable": True}):
            assert etcd_or_proxy.client.get(b"a", **options).value == b"%d" % number
        entries = etcd_or_proxy.client.range(FIRST_CLIENT_KEY, b"v0").kvs
        assert [entry.value for entry in entries] == [b"%d" % number]


def test_nothing_is_answered_while_etcd_does_not(own_etcd_or_proxy: Endpoint) -> None:
    """All of it was asked for a moment before. An answer from memory would be one that etcd did not give."""
    if (3, 5) <= own_etcd_or_proxy.etcd.version < (3, 5, 5):
        pytest.skip("this etcd may end itself where a Txn is cancelled while it is carried out")
    client = own_etcd_or_proxy.client
    worker = Worker(client)
    worker.register()
    own_etcd_or_proxy.public.put(b"a", b"1")
    before = [asked.result().header.member_id for asked in ask_all(client, worker, 20)]
    own_etcd_or_proxy.etcd.pause()
    try:
        late = [asked.code() for asked in ask_all(client, worker, SOON_SECONDS)]
    finally:
        own_etcd_or_proxy.etcd.resume()
    assert late == [grpc.StatusCode.DEADLINE_EXCEEDED] * len(late)
    assert [asked.result().header.member_id for asked in ask_all(client, worker, 20)] == before


def ask_all(client: EtcdClient, worker: Worker, timeout_seconds: float) -> list[Any]:
    """Questions of every kind, all at once."""
    reads = [
        rpc_pb2.RangeRequest(key=b"a"),
        rpc_pb2.RangeRequest(key=b"a", serializable=True),
        rpc_pb2.RangeRequest(key=worker.card_key),
        rpc_pb2.RangeRequest(key=worker.card_key, serializable=True),
        rpc_pb2.RangeRequest(key=b"\0", range_end=b"\0"),
    ]
    lease = rpc_pb2.LeaseTimeToLiveRequest(ID=worker.lease, keys=True)
    return [
        *(client.kv.Range.future(read, timeout=timeout_seconds) for read in reads),
        client.lease.LeaseTimeToLive.future(lease, timeout=timeout_seconds),
        client.cluster.MemberList.future(rpc_pb2.MemberListRequest(), timeout=timeout_seconds),
        client.maintenance.Status.future(rpc_pb2.StatusRequest(), timeout=timeout_seconds),
    ]
