"""Sizes and numbers: etcd's limits are the client's, and what could never be released is refused when it is written."""

import grpc
import pytest

from greenroom.pb.etcd import rpc_pb2
from tests.support.client import EtcdClient, RequestOp, get, put, version_is
from tests.support.endpoints import Endpoint, Proxy
from tests.support.workers import Worker

KIB, MIB = 1 << 10, 1 << 20
REQUEST_TOO_LARGE = "etcdserver: request is too large"
TOO_MANY_OPERATIONS = "etcdserver: too many operations in txn request"
CARDS_AT_MOST = 120
MAX_OPERATIONS = 128


def refusal_of_adapter(worker: Worker, name: str, value: bytes) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as refusal:
        worker.client.put(worker.lora_key(name), value, worker.lease)
    return refusal.value.code(), refusal.value.details()


def test_a_request_beyond_etcds_size_is_refused_in_etcds_words(etcd_or_proxy: Endpoint) -> None:
    worker = Worker(etcd_or_proxy.client)
    for key, lease in ((b"a", 0), (worker.card_key, worker.lease)):
        with pytest.raises(grpc.RpcError) as refusal:
            worker.client.put(key, b"x" * (1536 * KIB + 1), lease)
        assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert refusal.value.details() == REQUEST_TOO_LARGE
        assert worker.client.get(key) is None


def test_the_largest_request_that_etcd_takes_passes_and_one_byte_more_does_not(proxy: Proxy) -> None:
    """The size is etcd's to judge: it adds a few bytes of its own before it does."""

    def is_taken(client: EtcdClient, size: int) -> bool:
        try:
            return bool(client.put(b"large", b"x" * size).header.revision)
        except grpc.RpcError as error:
            return error.details() != REQUEST_TOO_LARGE

    taken, refused = 1535 * KIB, 1537 * KIB
    while refused - taken > 1:
        middle = (taken + refused) // 2
        taken, refused = (middle, refused) if is_taken(proxy.public, middle) else (taken, middle)
    assert is_taken(proxy.client, taken)
    assert not is_taken(proxy.client, refused)


def test_a_card_of_nearly_that_size_is_held_and_released(proxy: Proxy) -> None:
    """What the proxy writes beside it, the record, keeps some room for what it can still grow by."""
    worker = Worker(proxy.client)
    card = b"x" * (1450 * KIB)
    proxy.client.put(worker.card_key, card, worker.lease)
    assert proxy.held(worker) == [worker.card_key]
    assert proxy.control.pass_gates(worker.instance) == "RELEASED"
    assert proxy.public.get(worker.card_key).value == card


def test_a_large_range_passes(etcd_or_proxy: Endpoint) -> None:
    """Six times what gRPC takes by default."""
    values = {b"large/%d" % number: bytes([number]) * (1200 * KIB) for number in range(20)}
    for key, value in values.items():
        etcd_or_proxy.client.put(key, value)
    answer = etcd_or_proxy.client.prefix(b"large/")
    assert {entry.key: entry.value for entry in answer.kvs} == values
    assert answer.ByteSize() > 20 * MIB


def test_cards_that_together_would_not_fit_a_release_are_refused(proxy: Proxy) -> None:
    """Each of three cards would be taken alone, and the release would then be refused for good."""
    worker = Worker(proxy.client)
    for name in ("one", "two"):
        worker.client.put(worker.lora_key(name), b"x" * (700 * KIB), worker.lease)
    refusal = refusal_of_adapter(worker, "three", b"x" * (700 * KIB))
    assert refusal == (grpc.StatusCode.INVALID_ARGUMENT, REQUEST_TOO_LARGE)
    assert proxy.held(worker) == [worker.lora_key("one"), worker.lora_key("two")]
    assert proxy.control.pass_gates(worker.instance) == "RELEASED"
    assert proxy.shown(worker) == [worker.lora_key("one"), worker.lora_key("two")]


def test_a_card_that_shrinks_makes_room(proxy: Proxy) -> None:
    """What counts is what is there after the write: a card in place of another one adds nothing."""
    worker = Worker(proxy.client)
    for name in ("one", "two"):
        worker.client.put(worker.lora_key(name), b"x" * (700 * KIB), worker.lease)
    worker.client.put(worker.lora_key("one"), b"y" * (700 * KIB), worker.lease)
    worker.client.put(worker.lora_key("one"), b"small", worker.lease)
    worker.client.put(worker.lora_key("three"), b"x" * (700 * KIB), worker.lease)
    assert proxy.control.pass_gates(worker.instance) == "RELEASED"
    assert len(proxy.shown(worker)) == 3


def test_more_cards_than_one_release_can_publish_are_refused(proxy: Proxy) -> None:
    """Exactly as many as allowed are released at one revision; one more is refused when it is registered."""
    worker = proxy.held_worker()
    names = [f"a{number:03}" for number in range(CARDS_AT_MOST - 1)]
    for name in names:
        worker.client.put(worker.lora_key(name), worker.lora_card(name), worker.lease)
    refusal = refusal_of_adapter(worker, "more", worker.lora_card("more"))
    assert refusal == (grpc.StatusCode.INVALID_ARGUMENT, TOO_MANY_OPERATIONS)
    assert len(proxy.held(worker)) == CARDS_AT_MOST
    assert proxy.control.pass_gates(worker.instance) == "RELEASED"
    shown = proxy.public.prefix(b"v1/mdc/").kvs
    assert [entry.key for entry in shown] == [worker.card_key, *map(worker.lora_key, names)]
    assert len({entry.mod_revision for entry in shown}) == 1


@pytest.mark.parametrize("surplus", [0, 1])
@pytest.mark.parametrize("beside", [2, 100])
def test_nested_operations_are_counted_as_etcd_does(etcd_or_proxy: Endpoint, beside: int, surplus: int) -> None:
    """What a Txn uses of the 128 is taken off for those within it."""
    worker = Worker(etcd_or_proxy.client)
    inner = RequestOp(request_txn=rpc_pb2.TxnRequest(success=[get(b"k")] * (MAX_OPERATIONS - beside + surplus)))
    operations = [get(worker.card_key), inner, *[get(b"k")] * (beside - 2)]
    if not surplus:
        assert len(etcd_or_proxy.client.txn([], operations).responses) == beside
        return
    with pytest.raises(grpc.RpcError) as refusal:
        etcd_or_proxy.client.txn([], operations)
    assert refusal.value.details() == TOO_MANY_OPERATIONS


def test_a_call_that_leaves_no_room_for_the_fence_is_refused_in_etcds_words(proxy: Proxy) -> None:
    """etcd would take it; with what the proxy adds it is too long, and nothing of it may be left out."""
    worker = Worker(proxy.client)
    compares = [version_is(b"k%d" % number, 0) for number in range(126)]
    assert proxy.public.txn(compares, [put(b"other", b"")]).succeeded
    with pytest.raises(grpc.RpcError) as refusal:
        proxy.client.txn(compares, [put(worker.card_key, worker.card(), worker.lease)])
    assert (refusal.value.code(), refusal.value.details()) == (grpc.StatusCode.INVALID_ARGUMENT, TOO_MANY_OPERATIONS)
    assert (proxy.held(worker), proxy.shown(worker), proxy.has_record(worker)) == ([], [], False)
    assert proxy.client.txn(compares[:124], [put(worker.card_key, worker.card(), worker.lease)]).succeeded


def test_long_names_count_towards_a_release(proxy: Proxy) -> None:
    """A hundred adapters of nearly no value: their names are what a release is made of."""
    worker = proxy.held_worker()

    def register_adapters() -> None:
        for number in range(CARDS_AT_MOST - 1):
            worker.client.put(worker.lora_key(f"{number:03}" + "x" * 6000), b"x", worker.lease)

    with pytest.raises(grpc.RpcError) as refusal:
        register_adapters()
    assert refusal.value.details() == REQUEST_TOO_LARGE
    held = proxy.held(worker)
    assert proxy.control.pass_gates(worker.instance) == "RELEASED"
    assert proxy.shown(worker) == held
