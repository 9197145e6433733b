"""Txns that mix held keys with others: atomic, every answer in its place, and what etcd would refuse is refused.

What etcd takes and the proxy cannot gate safely is refused as a whole, with a text that says what to do instead.
"""

from collections.abc import Callable

import grpc
import pytest

from greenroom.pb.etcd import rpc_pb2
from tests.support.client import EtcdClient, RequestOp, delete, get, mod_revision_is, put, value_is, version_is
from tests.support.endpoints import Endpoint, Proxy
from tests.support.workers import Worker

OPERATIONS_AT_MOST = 128
TOO_MANY_OPERATIONS = "etcdserver: too many operations in txn request"
DUPLICATE_KEY = "etcdserver: duplicate key given in txn request"


@pytest.fixture
def worker(etcd_or_proxy: Endpoint) -> Worker:
    return Worker(etcd_or_proxy.client)


def refused(call: Callable[[], object]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as refusal:
        call()
    return refusal.value.code(), refusal.value.details()


def test_held_and_other_keys_are_written_together(worker: Worker, etcd_or_proxy: Endpoint) -> None:
    """A worker registers its card and its instance in one Txn: all at one revision, the answers in their places."""
    before = etcd_or_proxy.client.put(b"a", b"1").header.revision
    answer = worker.client.txn(
        [version_is(worker.card_key, 0), value_is(b"a", b"1")],
        [
            get(b"a"),
            put(worker.card_key, worker.card(), worker.lease),
            get(worker.card_key),
            put(worker.instance_key, worker.instance_value(), worker.lease, prev_kv=True),
            delete(b"a", prev_kv=True),
            get(worker.lora_key()),
        ],
    )
    assert (answer.succeeded, answer.header.revision) == (True, before + 1)
    kinds = [response.WhichOneof("response") for response in answer.responses]
    read, wrote, deleted = "response_range", "response_put", "response_delete_range"
    assert kinds == [read, wrote, read, wrote, deleted, read]
    first, _, card, instance, gone, absent = answer.responses
    assert first.response_range.kvs[0].value == b"1"
    assert [(entry.key, entry.value) for entry in card.response_range.kvs] == [(worker.card_key, worker.card())]
    assert not instance.response_put.HasField("prev_kv")
    assert gone.response_delete_range.deleted == 1
    assert absent.response_range.count == 0
    assert worker.read().mod_revision == worker.read(worker.instance_key).mod_revision == before + 1


def test_a_read_after_a_write_inside_a_txn_sees_the_write(worker: Worker) -> None:
    """etcd carries out a Txn's operations in order; a read before the write does not see it."""
    worker.register()
    edited = worker.card(taints=["gold"])
    answer = worker.client.txn(
        [], [get(worker.card_key), put(worker.card_key, edited, worker.lease, prev_kv=True), get(worker.card_key)]
    )
    before, written, after = answer.responses
    assert before.response_range.kvs[0].value == worker.card() == written.response_put.prev_kv.value
    assert (after.response_range.kvs[0].value, after.response_range.kvs[0].version) == (edited, 2)
    assert written.response_put.prev_kv.key == worker.card_key


def test_a_failed_compare_writes_neither(worker: Worker, etcd_or_proxy: Endpoint) -> None:
    """The compare is on another key; the card must not be registered."""
    before = etcd_or_proxy.public.revision()
    answer = worker.client.txn(
        [version_is(b"nobody", 1)],
        [put(worker.card_key, worker.card(), worker.lease), put(b"b", b"")],
        [get(b"nobody"), get(worker.card_key)],
    )
    assert (answer.succeeded, answer.header.revision) == (False, before)
    assert [response.response_range.count for response in answer.responses] == [0, 0]
    assert worker.client.get(worker.card_key) is None


def test_a_compare_on_a_held_key_rules_over_other_keys(worker: Worker, etcd_or_proxy: Endpoint) -> None:
    """A worker publishes an endpoint only as long as its card is the one that it knows."""
    worker.register()
    read = worker.read()
    assert worker.client.txn([mod_revision_is(worker.card_key, read.mod_revision)], [put(b"a", b"1")]).succeeded
    worker.swap(worker.card(taints=["gold"]), read.mod_revision)
    answer = worker.client.txn(
        [mod_revision_is(worker.card_key, read.mod_revision)], [put(b"a", b"2")], [get(b"a"), get(worker.card_key)]
    )
    assert not answer.succeeded
    assert [response.response_range.kvs[0].value for response in answer.responses] == [
        b"1",
        worker.card(taints=["gold"]),
    ]


def test_two_cards_of_one_instance_in_one_txn(worker: Worker, etcd_or_proxy: Endpoint) -> None:
    before = etcd_or_proxy.public.revision()
    cards = {worker.card_key: worker.card(), worker.lora_key(): worker.lora_card()}
    answer = worker.client.txn(
        [version_is(key, 0) for key in cards],
        [put(key, value, worker.lease) for key, value in cards.items()],
        [get(key) for key in cards],
    )
    assert (answer.succeeded, answer.header.revision, len(answer.responses)) == (True, before + 1, 2)
    assert {key: worker.read(key).value for key in cards} == cards
    assert {worker.read(key).mod_revision for key in cards} == {before + 1}


def test_a_delete_over_a_put_is_refused_in_etcds_words(worker: Worker, etcd_or_proxy: Endpoint) -> None:
    """etcd refuses a Txn whose writes meet; once the card is put elsewhere they no longer meet, and still must."""
    card = put(worker.card_key, worker.card(), worker.lease)
    before = etcd_or_proxy.public.revision()
    meeting = [
        [delete(b"v1/", b"v10"), card],
        [card, delete(b"v1/", b"v10")],
        [delete(worker.card_key), card],
        [card, put(worker.card_key, worker.card(), worker.lease)],
    ]
    for operations in meeting:
        call = lambda operations=operations: worker.client.txn([], operations)  # noqa: E731
        assert refused(call) == (grpc.StatusCode.INVALID_ARGUMENT, DUPLICATE_KEY)
    assert etcd_or_proxy.public.revision() == before


@pytest.mark.parametrize("branch", ["compare", "success", "failure"])
def test_too_many_operations_are_refused_in_etcds_words(worker: Worker, etcd_or_proxy: Endpoint, branch: str) -> None:
    """One more than etcd allows, in any part of the Txn; the limit is of what the client sent."""
    worker.register()
    before = etcd_or_proxy.public.revision()
    many = OPERATIONS_AT_MOST + 1
    parts = {"compare": [version_is(worker.card_key, 1)], "success": [get(worker.card_key)], "failure": []}
    more = {
        "compare": version_is(worker.card_key, 1),
        "success": get(worker.card_key),
        "failure": get(worker.card_key),
    }
    parts[branch] = [more[branch]] * many
    refusal = refused(lambda: worker.client.kv.Txn(rpc_pb2.TxnRequest(**parts), timeout=20))
    assert refusal == (grpc.StatusCode.INVALID_ARGUMENT, TOO_MANY_OPERATIONS)
    assert etcd_or_proxy.public.revision() == before


def test_a_hundred_operations_on_a_held_key_are_carried_out(worker: Worker) -> None:
    """Room for all that a worker sends; the proxy's own compares and reads take only a few of the 128."""
    worker.register()
    answer = worker.client.txn(
        [version_is(worker.card_key, 1)] * 100, [get(worker.card_key)] * 100, [get(worker.card_key)] * 100
    )
    assert answer.succeeded
    assert [response.response_range.count for response in answer.responses] == [1] * 100


def test_gated_keys_inside_a_nested_txn_are_refused(proxy: Proxy) -> None:
    """They could not be fenced without nesting: refused, naming the key; nothing is written."""
    worker = Worker(proxy.client)
    inner = RequestOp(request_txn=rpc_pb2.TxnRequest(success=[put(worker.card_key, worker.card(), worker.lease)]))
    code, text = refused(lambda: proxy.client.txn([], [put(b"a", b""), inner]))
    assert code is grpc.StatusCode.UNIMPLEMENTED
    assert repr(worker.card_key) in text
    assert proxy.held(worker) == proxy.shown(worker) == []
    assert proxy.client.get(b"a") is None


@pytest.mark.parametrize("released", [False, True], ids=["both held", "one released"])
def test_gated_keys_of_two_instances_are_refused_as_a_whole(proxy: Proxy, *, released: bool) -> None:
    """Never a half: neither card is written, whatever state the two are in."""
    one = proxy.released_worker() if released else proxy.held_worker()
    other = Worker(proxy.client)
    before = proxy.public.revision()
    both = [
        put(one.card_key, one.card(taints=["gold"]), one.lease),
        put(other.card_key, other.card(), other.lease),
    ]
    code, text = refused(lambda: proxy.client.txn([], both))
    assert code is grpc.StatusCode.UNIMPLEMENTED
    assert one.instance in text
    assert other.instance in text
    assert proxy.public.revision() == before


def test_ungated_txns_are_relayed_whatever_they_hold(etcd_or_proxy: Endpoint) -> None:
    """Nested Txns and an Else that writes are none of the proxy's business."""
    client = etcd_or_proxy.client
    inner = RequestOp(request_txn=rpc_pb2.TxnRequest(compare=[version_is(b"b", 0)], success=[put(b"b", b"1")]))
    answer = client.txn([version_is(b"a", 9)], [], [put(b"a", b"1"), inner])
    assert not answer.succeeded
    assert answer.responses[1].response_txn.succeeded
    assert values(client, b"a", b"b") == [b"1", b"1"]


@pytest.mark.parametrize("gated", [False, True], ids=["other keys", "held keys"])
def test_an_operation_that_is_not_set_is_refused_in_etcds_words(
    worker: Worker, etcd_or_proxy: Endpoint, *, gated: bool
) -> None:
    """A client newer than everybody else sends an operation that nobody knows; it harms only itself."""
    before = etcd_or_proxy.public.revision()
    known = put(worker.card_key, worker.card(), worker.lease) if gated else put(b"a", b"")
    refusal = refused(lambda: worker.client.txn([], [known, RequestOp()]))
    assert refusal == (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: key not found")
    assert etcd_or_proxy.public.revision() == before


def values(client: EtcdClient, *keys: bytes) -> list[bytes]:
    return [entry.value for key in keys for entry in client.range(key).kvs]
