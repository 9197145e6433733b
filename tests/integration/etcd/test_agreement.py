"""A gated Put must agree with itself: the key, the lease and the value name one worker. Else nothing is written.

Frontends route by a card's value, wherever it lies under the gated prefix; so a card that is not where it belongs would
be served without ever having been held.
"""

import json
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from greenroom.pb.etcd import rpc_pb2
from tests.support.client import RequestOp, put, version_is
from tests.support.endpoints import Proxy
from tests.support.workers import Worker

Put = Callable[[bytes, bytes, int], object]


@pytest.fixture
def worker(proxy: Proxy) -> Worker:
    return Worker(proxy.client)


@pytest.fixture(params=["Put", "Txn", "nested Txn", "Else"])
def refused_put(request: pytest.FixtureRequest, proxy: Proxy) -> Callable[[bytes, bytes, int], str]:
    """The text with which a put is refused, whichever way it is sent, after a look that it left no trace."""

    def call(key: bytes, value: bytes, lease: int) -> None:
        operation, other = put(key, value, lease), put(b"other", b"")
        match request.param:
            case "Put":
                proxy.client.put(key, value, lease)
            case "Txn":
                proxy.client.txn([], [other, operation])
            case "nested Txn":
                proxy.client.txn([], [other, RequestOp(request_txn=rpc_pb2.TxnRequest(success=[operation]))])
            case "Else":
                proxy.client.txn([version_is(b"other", 5)], [], [operation])

    def refused(key: bytes, value: bytes, lease: int) -> str:
        before = proxy.public.revision()
        with pytest.raises(grpc.RpcError) as refusal:
            call(key, value, lease)
        assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert proxy.public.revision() == before
        return str(refusal.value.details())

    return refused


def changed(value: bytes, **fields: Any) -> bytes:
    return json.dumps({**json.loads(value), **fields}).encode()


def test_a_card_without_a_lease_is_refused(refused_put: Callable[..., str], worker: Worker) -> None:
    """It would stay in etcd for good, held or public, when its worker is long gone."""
    text = refused_put(worker.card_key, worker.card(), 0)
    assert repr(worker.card_key) in text
    assert "lease 0" in text


def test_a_card_under_another_workers_lease_is_refused(refused_put: Callable[..., str], worker: Worker) -> None:
    other = Worker(worker.client)
    text = refused_put(worker.card_key, worker.card(), other.lease)
    assert worker.instance in text
    assert other.instance in text


@pytest.mark.parametrize(
    "shape",
    [
        "v1/mdc/x",
        "v1/mdc/",
        "v1/mdc/dynamo/backend/{id}",
        "v1/mdc//backend/generate/{id}",
        "v1/mdc/dynamo/backend/generate/{upper}",
        "v1/mdc/dynamo/backend/generate/0{id}",
        "v1/mdc/dynamo/backend/generate/{id}/lora/deeper",
    ],
)
def test_a_key_that_fits_no_template_is_refused(refused_put: Callable[..., str], worker: Worker, shape: str) -> None:
    """Dynamo would route by each of these."""
    key = shape.format(id=worker.instance, upper=worker.instance.upper()).encode()
    text = refused_put(key, worker.card(), worker.lease)
    assert repr(key) in text
    assert "v1/mdc/{namespace}/{component}/{endpoint}/{instance}" in text


@pytest.mark.parametrize(
    ("field", "claim"),
    [
        ("instance_id", 7),
        ("instance_id", "7"),
        ("namespace", "other"),
        ("component", "other"),
        ("endpoint", "other"),
        ("model_suffix", "lora-a"),
    ],
)
def test_a_card_that_claims_to_be_anothers_is_refused(
    refused_put: Callable[..., str], worker: Worker, field: str, claim: object
) -> None:
    text = refused_put(worker.card_key, changed(worker.card(), **{field: claim}), worker.lease)
    assert field in text
    assert repr(claim) in text


def test_an_adapter_that_claims_another_suffix_is_refused(refused_put: Callable[..., str], worker: Worker) -> None:
    text = refused_put(worker.lora_key("polite"), worker.lora_card("rude"), worker.lease)
    assert "'rude'" in text
    assert "'polite'" in text


def test_an_array_in_place_of_an_object_is_refused(refused_put: Callable[..., str], worker: Worker) -> None:
    """Dynamo's frontends take it for a card of the worker that its fifth item names, and route to it."""
    names = json.loads(worker.card())
    fields = ("type", "namespace", "component", "endpoint", "instance_id", "card_json", "model_suffix")
    array = json.dumps([{**names, "instance_id": 7}.get(field) for field in fields]).encode()
    assert "array" in refused_put(worker.card_key, array, worker.lease)


@pytest.mark.parametrize(
    "padding",
    [b'"n":' + b"9" * 5000, b'"n":' + b"[" * 3000 + b"]" * 3000, b'"n":"\xff"', b'"instance_id":7'],
    ids=["a long number", "deep", "a byte that is no text", "a field again"],
)
def test_a_card_that_only_others_can_read_is_refused(
    refused_put: Callable[..., str], worker: Worker, padding: bytes
) -> None:
    """Dynamo's parser skips over what it does not need: it would route by a card that nobody compared with its key."""
    value = changed(worker.card(), instance_id=worker.lease)[:-1] + b"," + padding + b"}"
    assert "cannot be read" in refused_put(worker.card_key, value, worker.lease)


def test_a_value_that_is_no_json_is_held(proxy: Proxy, worker: Worker) -> None:
    """What cannot be read might be anything: it is kept back like everything else."""
    proxy.client.put(worker.card_key, b"\xff not json", worker.lease)
    assert proxy.held(worker) == [worker.card_key]
    assert proxy.shown(worker) == []


def test_a_key_that_fits_no_template_can_be_read_and_deleted(proxy: Proxy, worker: Worker) -> None:
    """Left from before the proxy came, it must be possible to get rid of it."""
    proxy.public.put(b"v1/mdc/stray", b"1")
    assert proxy.client.get(b"v1/mdc/stray").value == b"1"
    assert proxy.client.delete(b"v1/mdc/stray").deleted == 1
