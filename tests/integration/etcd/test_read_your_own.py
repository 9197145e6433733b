"""A worker and its own keys: it cannot tell that they are held.

The same life runs straight on etcd and through the proxy. Only the proxied worker is held, and every answer that it
gets must be the one that etcd gives.
"""

import grpc
import pytest

from greenroom.pb.etcd import rpc_pb2
from tests.support.client import Compare, delete, get, mod_revision_is, put, value_is, version_is
from tests.support.endpoints import Endpoint, Proxy
from tests.support.workers import Worker


@pytest.fixture
def worker(etcd_or_proxy: Endpoint) -> Worker:
    worker = Worker(etcd_or_proxy.client)
    assert worker.register().succeeded
    is_public = etcd_or_proxy.public.get(worker.card_key) is not None
    assert is_public is not isinstance(etcd_or_proxy, Proxy)
    return worker


def test_a_worker_reads_its_card_as_it_wrote_it(worker: Worker, etcd_or_proxy: Endpoint) -> None:
    """Dynamo reads a card back before it edits its taints."""
    answer = etcd_or_proxy.client.range(worker.card_key)
    (card,) = answer.kvs
    assert (card.key, card.value, card.lease, card.version) == (worker.card_key, worker.card(), worker.lease, 1)
    assert card.create_revision == card.mod_revision == etcd_or_proxy.public.revision() == answer.header.revision
    assert (answer.count, answer.more) == (1, False)
    assert answer.header == etcd_or_proxy.public.range(b"a").header


def test_read_options_are_etcds(worker: Worker, etcd_or_proxy: Endpoint) -> None:
    client, key = etcd_or_proxy.client, worker.card_key
    first = worker.read()
    worker.swap(worker.card(taints=["gold"]), first.mod_revision)
    assert client.range(key, count_only=True).count == 1
    (named,) = client.range(key, keys_only=True).kvs
    assert (named.key, named.value, named.version) == (key, b"", 2)
    (old,) = client.range(key, revision=first.mod_revision).kvs
    assert old == first
    assert client.range(key, serializable=True).count == 1
    assert client.range(key, min_mod_revision=first.mod_revision + 1).kvs[0].version == 2
    with pytest.raises(grpc.RpcError) as refusal:
        client.range(key, revision=etcd_or_proxy.public.revision() + 100)
    assert refusal.value.code() is grpc.StatusCode.OUT_OF_RANGE
    assert refusal.value.details() == "etcdserver: mvcc: required revision is a future revision"


def test_a_swap_on_the_revision_read_succeeds_once(worker: Worker) -> None:
    """A taint edit compares the revision that was read; the second of two such edits loses and is shown the winner."""
    read = worker.read()
    won = worker.swap(worker.card(taints=["gold"]), read.mod_revision)
    assert (won.succeeded, [answer.WhichOneof("response") for answer in won.responses]) == (True, ["response_put"])
    lost = worker.swap(worker.card(taints=["silver"]), read.mod_revision)
    assert not lost.succeeded
    (shown,) = lost.responses[0].response_range.kvs
    assert (shown.key, shown.value, shown.version) == (worker.card_key, worker.card(taints=["gold"]), 2)
    assert shown.mod_revision == won.header.revision
    assert worker.swap(worker.card(taints=["silver"]), shown.mod_revision).succeeded


def test_a_second_creation_fails_and_shows_the_first(worker: Worker) -> None:
    """A model is registered again on the same key: Dynamo finds the card that is there, and leaves it."""
    second = worker.client.create(worker.card_key, worker.card(other=1), worker.lease)
    assert not second.succeeded
    assert len(second.responses) == 1
    (shown,) = second.responses[0].response_range.kvs
    assert (shown.key, shown.value, shown.version) == (worker.card_key, worker.card(), 1)
    assert worker.read().value == worker.card()


def test_every_kind_of_compare_sees_the_held_key(worker: Worker) -> None:
    read = worker.read()
    key = worker.card_key
    holds = [
        version_is(key, 1),
        mod_revision_is(key, read.mod_revision),
        value_is(key, worker.card()),
        Compare(key=key, target=Compare.CREATE, result=Compare.EQUAL, create_revision=read.create_revision),
        Compare(key=key, target=Compare.LEASE, result=Compare.EQUAL, lease=worker.lease),
        Compare(key=key, target=Compare.VERSION, result=Compare.GREATER, version=0),
        Compare(key=key, target=Compare.MOD, result=Compare.NOT_EQUAL, mod_revision=read.mod_revision + 1),
    ]
    for compare in holds:
        assert worker.client.txn([compare], [get(key)]).succeeded, compare
    assert worker.client.txn(holds, [put(key, worker.card(taints=[]), worker.lease)]).succeeded
    for fails in (version_is(key, 0), version_is(key, 1), value_is(key, worker.card())):
        assert not worker.client.txn([fails], [put(key, b"", worker.lease)]).succeeded, fails
    assert worker.read().version == 2


def test_the_life_of_a_card_has_etcds_versions(worker: Worker) -> None:
    """Edited, deleted, created again: the version starts anew, the creation moves on."""
    first = worker.read()
    worker.swap(worker.card(taints=["gold"]), first.mod_revision)
    edited = worker.read()
    assert (edited.version, edited.create_revision) == (2, first.create_revision)
    assert worker.unregister() == 1
    assert worker.client.get(worker.card_key) is None
    assert worker.unregister() == 0
    assert worker.register().succeeded
    again = worker.read()
    assert again.version == 1
    assert again.create_revision == again.mod_revision > edited.mod_revision


def test_a_delete_returns_what_was_deleted(worker: Worker) -> None:
    read = worker.read()
    answer = worker.client.delete(worker.card_key, prev_kv=True)
    assert (answer.deleted, list(answer.prev_kvs)) == (1, [read])
    assert worker.client.range(worker.card_key).header.revision == answer.header.revision


def test_a_delete_inside_a_txn_is_answered_in_its_place(worker: Worker) -> None:
    read = worker.read()
    answer = worker.client.txn(
        [version_is(worker.card_key, 1)],
        [get(worker.card_key), delete(worker.card_key, prev_kv=True), get(worker.card_key)],
    )
    assert answer.succeeded
    before, deleted, after = answer.responses
    assert list(before.response_range.kvs) == [read]
    assert list(deleted.response_delete_range.prev_kvs) == [read]
    assert after.response_range.count == 0


def test_a_worker_whose_lease_ended_is_told_so(worker: Worker) -> None:
    """etcd's own words, by which clients know that they must start again."""
    worker.client.revoke(worker.lease)
    assert worker.client.get(worker.card_key) is None
    with pytest.raises(grpc.RpcError) as refusal:
        worker.register()
    assert refusal.value.code() is grpc.StatusCode.NOT_FOUND
    assert refusal.value.details() == "etcdserver: requested lease not found"


def test_a_swap_from_before_the_release_fails_and_the_next_round_works(proxy: Proxy) -> None:
    """A worker read its card, was released, and only then writes: it loses one round, as Dynamo expects it."""
    worker = proxy.held_worker()
    read = worker.read()
    assert proxy.control.pass_gates(worker.instance) == "RELEASED"
    lost = worker.swap(worker.card(taints=["gold"]), read.mod_revision)
    assert not lost.succeeded
    (shown,) = lost.responses[0].response_range.kvs
    assert shown == proxy.public.get(worker.card_key)
    assert worker.swap(worker.card(taints=["gold"]), shown.mod_revision).succeeded
    assert proxy.public.get(worker.card_key).value == worker.card(taints=["gold"])


def test_the_answers_bear_the_revision_of_their_own_write(worker: Worker, etcd_or_proxy: Endpoint) -> None:
    """A client starts a watch after the revision of its write: that revision must be the write's."""
    client, key = etcd_or_proxy.client, worker.card_key
    written: list[rpc_pb2.ResponseHeader] = [
        client.put(key, worker.card(taints=[]), worker.lease).header,
        client.txn([], [put(key, worker.card(taints=["a"]), worker.lease)]).header,
        client.delete(key).header,
    ]
    assert [header.revision for header in written] == sorted({header.revision for header in written})
    assert written[-1].revision == etcd_or_proxy.public.revision()
    assert {header.cluster_id for header in written} == {etcd_or_proxy.public.range(key).header.cluster_id}
