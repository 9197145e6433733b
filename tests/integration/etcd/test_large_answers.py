"""Answers as large as etcd makes them: it has no limit for what it sends, so there must be none on the way.

gRPC libraries take 4 MiB by default, and a proxy made with one would end these calls.
"""

import pytest

from greenroom.pb.etcd import rpc_pb2
from tests.support.endpoints import Endpoint
from tests.support.workers import Worker

MIB = 1 << 20
FRAGMENT_BYTES = 2 * MIB
"""etcd cuts an answer of a watch that asked for it where it goes beyond 1.5 MiB and the room it keeps for headers."""


@pytest.fixture
def backlog(etcd_or_proxy: Endpoint) -> dict[bytes, bytes]:
    """Six keys of nearly 1 MiB, of which the store has 5.7; and edits of a held card in between."""
    worker = Worker(etcd_or_proxy.client)
    worker.register()
    values = {b"large/%d" % number: bytes([number]) * (MIB - 50_000) for number in range(6)}
    for number, (key, value) in enumerate(values.items()):
        etcd_or_proxy.public.put(key, value)
        worker.client.put(worker.card_key, worker.card(taints=[str(number)]), worker.lease)
    return values


def first_revision(endpoint: Endpoint) -> int:
    found = endpoint.public.get(b"large/0")
    assert found is not None
    return found.mod_revision


def test_a_range_of_6_mib_passes_whole(etcd_or_proxy: Endpoint, backlog: dict[bytes, bytes]) -> None:
    answer = etcd_or_proxy.client.range(b"large/", b"large0")
    assert answer.ByteSize() > 5 * MIB
    assert {entry.key: entry.value for entry in answer.kvs} == backlog


def test_a_txn_that_reads_6_mib_passes_whole(etcd_or_proxy: Endpoint, backlog: dict[bytes, bytes]) -> None:
    """Also one with a gated key in it, whose answer the proxy takes in whole before it passes it on."""
    worker = Worker(etcd_or_proxy.client)
    worker.register()
    operation = rpc_pb2.RequestOp(request_range=rpc_pb2.RangeRequest(key=b"large/", range_end=b"large0"))
    own = rpc_pb2.RequestOp(request_range=rpc_pb2.RangeRequest(key=worker.card_key))
    for operations in ([operation], [own, operation]):
        read = etcd_or_proxy.client.txn([], operations).responses[-1].response_range
        assert {entry.key: entry.value for entry in read.kvs} == backlog


def test_a_backlog_of_5_mib_reaches_its_watch(etcd_or_proxy: Endpoint, backlog: dict[bytes, bytes]) -> None:
    """A client that was away starts where it stopped: all that it missed comes in one answer."""
    with etcd_or_proxy.client.watch(b"large/", b"large0", start_revision=first_revision(etcd_or_proxy)) as log:
        events = log.wait_events(len(backlog))
        assert {event.kv.key: event.kv.value for event in events} == backlog
        assert max(response.ByteSize() for response in log.responses) > 5 * MIB
        assert not any(response.fragment for response in log.responses)


def test_a_backlog_comes_in_the_pieces_that_the_client_asked_for(
    etcd_or_proxy: Endpoint, backlog: dict[bytes, bytes]
) -> None:
    """Each but the last says that more belongs to it, so that the client can put the one answer together again."""
    start = first_revision(etcd_or_proxy)
    with etcd_or_proxy.client.watch(b"large/", b"large0", start_revision=start, fragment=True) as log:
        events = log.wait_events(len(backlog))
        pieces = [response for response in log.responses if response.events]
    assert [(event.kv.key, event.kv.value) for event in events] == list(backlog.items())
    assert [piece.fragment for piece in pieces] == [True] * (len(pieces) - 1) + [False]
    assert max(piece.ByteSize() for piece in pieces) <= FRAGMENT_BYTES
    assert len({piece.header.revision for piece in pieces}) == 1
    assert len(pieces) == len(backlog) // 2


def test_a_txn_of_nearly_all_that_etcd_takes_reaches_a_watch_in_pieces(etcd_or_proxy: Endpoint) -> None:
    """1.4 MiB at one revision, while the client looks on; without a request for pieces it is one answer."""
    values = {b"txn/%d" % number: bytes([number]) * (MIB * 7 // 20) for number in range(4)}
    with (
        etcd_or_proxy.client.watch(b"txn/", b"txn0", fragment=True, prev_kv=True) as cut,
        etcd_or_proxy.client.watch(b"txn/", b"txn0", prev_kv=True) as whole,
    ):
        for _ in range(2):
            operations = [
                rpc_pb2.RequestOp(request_put=rpc_pb2.PutRequest(key=key, value=value)) for key, value in values.items()
            ]
            assert etcd_or_proxy.client.txn([], operations).succeeded
        for log in (cut, whole):
            assert [event.kv.value for event in log.wait_events(8)] == [*values.values(), *values.values()]
        # The second time each event has the old value with it: 2.8 MiB, which is more than one piece may have.
        assert [response.fragment for response in cut.responses if response.events][-2:] == [True, False]
        assert [len(response.events) for response in whole.responses if response.events] == [4, 4]
