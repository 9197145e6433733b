"""The options of a Put on a gated key, alone and inside a Txn: as etcd's, with the keys' own names."""

from collections.abc import Callable
from typing import Any

import grpc
import pytest

from greenroom.pb.etcd import rpc_pb2
from tests.support.client import put
from tests.support.endpoints import Endpoint
from tests.support.workers import Worker

PutCall = Callable[..., rpc_pb2.PutResponse]


@pytest.fixture
def worker(etcd_or_proxy: Endpoint) -> Worker:
    return Worker(etcd_or_proxy.client)


@pytest.fixture(params=["Put", "Txn"])
def put_card(request: pytest.FixtureRequest, worker: Worker) -> PutCall:
    """A put of the worker's card, as a call of its own or as the one operation of a Txn."""

    def call(value: bytes, lease: int, **options: Any) -> rpc_pb2.PutResponse:
        if request.param == "Put":
            return worker.client.put(worker.card_key, value, lease, **options)
        return worker.client.txn([], [put(worker.card_key, value, lease, **options)]).responses[0].response_put

    return call


def test_prev_kv_is_the_old_card_under_its_own_name(put_card: PutCall, worker: Worker) -> None:
    assert not put_card(worker.card(), worker.lease, prev_kv=True).HasField("prev_kv")
    before = worker.read()
    assert before.key == worker.card_key
    assert put_card(worker.card(taints=["gold"]), worker.lease, prev_kv=True).prev_kv == before
    assert not put_card(worker.card(), worker.lease).HasField("prev_kv")


def test_ignore_value_keeps_the_card(put_card: PutCall, worker: Worker) -> None:
    put_card(worker.card(), worker.lease)
    put_card(b"", worker.lease, ignore_value=True)
    card = worker.read()
    assert (card.value, card.version, card.lease) == (worker.card(), 2, worker.lease)


def test_ignore_lease_keeps_the_lease(put_card: PutCall, worker: Worker) -> None:
    put_card(worker.card(), worker.lease)
    put_card(worker.card(taints=["gold"]), 0, ignore_lease=True)
    card = worker.read()
    assert (card.value, card.version, card.lease) == (worker.card(taints=["gold"]), 2, worker.lease)


@pytest.mark.parametrize("option", ["ignore_value", "ignore_lease"])
def test_ignoring_what_is_not_there_is_refused_in_etcds_words(
    put_card: PutCall, worker: Worker, etcd_or_proxy: Endpoint, option: str
) -> None:
    value, lease = (b"", worker.lease) if option == "ignore_value" else (worker.card(), 0)
    with pytest.raises(grpc.RpcError) as refusal:
        put_card(value, lease, **{option: True})
    assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.value.details() == "etcdserver: key not found"
    assert worker.client.get(worker.card_key) is None
    assert etcd_or_proxy.public.time_to_live(worker.lease).keys == []


@pytest.mark.parametrize("option", ["ignore_value", "ignore_lease"])
def test_ignoring_what_is_given_is_refused_in_etcds_words(put_card: PutCall, worker: Worker, option: str) -> None:
    put_card(worker.card(), worker.lease)
    with pytest.raises(grpc.RpcError) as refusal:
        put_card(worker.card(), worker.lease, **{option: True})
    given = option.removeprefix("ignore_")
    assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.value.details() == f"etcdserver: {given} is provided"
    assert worker.read().version == 1
