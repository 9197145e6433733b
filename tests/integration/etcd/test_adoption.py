"""A fleet that serves already is put behind the proxy: its workers go on as on etcd itself.

They registered before there was a proxy, so nothing of theirs is held, and the first write through the proxy opens
their record as released.
"""

import json
from collections.abc import Callable

import grpc
import pytest

from tests.support.client import put
from tests.support.endpoints import RECORDS, Endpoint, Proxy
from tests.support.workers import Worker


@pytest.fixture
def veteran(etcd_or_proxy: Endpoint) -> Worker:
    """A worker that registered a model and an adapter on etcd, and then came to this endpoint."""
    worker = Worker(etcd_or_proxy.public)
    worker.register_instance()
    worker.register()
    worker.register_lora()
    worker.client = etcd_or_proxy.client
    return worker


def record(endpoint: Endpoint, worker: Worker) -> tuple[str, str] | None:
    """The state and the reason in the worker's record."""
    found = endpoint.public.get(RECORDS + worker.instance.encode())
    if found is None:
        return None
    value = json.loads(found.value)
    return value["state"], value["reason"]


def assert_adopted(endpoint: Endpoint, worker: Worker) -> None:
    if isinstance(endpoint, Proxy):
        assert record(endpoint, worker) == ("RELEASED", "AlreadyPublic")
        assert endpoint.held(worker) == []


def test_a_live_workers_taint_edit_is_public(veteran: Worker, etcd_or_proxy: Endpoint) -> None:
    read = veteran.read()
    assert read == etcd_or_proxy.public.get(veteran.card_key)
    won = veteran.swap(veteran.card(taints=["gold"]), read.mod_revision)
    assert (won.succeeded, len(won.responses)) == (True, 1)
    edited = etcd_or_proxy.public.get(veteran.card_key)
    assert (edited.value, edited.version, edited.lease) == (veteran.card(taints=["gold"]), 2, veteran.lease)
    assert edited.mod_revision == won.header.revision
    assert not veteran.swap(veteran.card(), read.mod_revision).succeeded
    assert_adopted(etcd_or_proxy, veteran)


def test_a_live_workers_model_can_be_changed(veteran: Worker, etcd_or_proxy: Endpoint) -> None:
    """More than its taints; it was never held, so it is not held now."""
    veteran.client.put(veteran.card_key, veteran.card(other=1), veteran.lease)
    assert etcd_or_proxy.public.get(veteran.card_key).value == veteran.card(other=1)
    assert_adopted(etcd_or_proxy, veteran)


def test_a_live_worker_unregisters(veteran: Worker, etcd_or_proxy: Endpoint) -> None:
    assert veteran.client.delete(veteran.lora_key(), prev_kv=True).prev_kvs[0].value == veteran.lora_card()
    assert etcd_or_proxy.public.get(veteran.lora_key()) is None
    assert veteran.unregister() == 1
    assert etcd_or_proxy.public.prefix(b"v1/mdc/").count == 0
    assert veteran.unregister() == 0


def test_a_live_worker_adds_an_adapter(veteran: Worker, etcd_or_proxy: Endpoint) -> None:
    assert veteran.register_lora("another").succeeded
    assert etcd_or_proxy.public.get(veteran.lora_key("another")).value == veteran.lora_card("another")
    assert_adopted(etcd_or_proxy, veteran)


def test_a_live_worker_registering_again_finds_its_card(veteran: Worker, etcd_or_proxy: Endpoint) -> None:
    """It lost its connection and starts again: its card is there, and nothing is held."""
    again = veteran.register()
    assert not again.succeeded
    assert again.responses[0].response_range.kvs[0] == etcd_or_proxy.public.get(veteran.card_key)
    assert etcd_or_proxy.public.prefix(b"v1/mdc/").count == 2


def test_all_its_cards_are_in_the_record_in_the_order_of_their_creation(proxy: Proxy) -> None:
    """So that a withdrawal later takes all of them."""
    veteran = Worker(proxy.public)
    veteran.register()
    veteran.register_lora("zebra")
    veteran.register_lora("ant")
    proxy.client.put(veteran.lora_key("ant"), veteran.lora_card("ant"), veteran.lease)
    named = [key.key for key in proxy.control.instance(veteran.instance).gated_keys]
    assert named == [veteran.card_key, veteran.lora_key("zebra"), veteran.lora_key("ant")]


def test_reading_and_deleting_open_no_record(proxy: Proxy) -> None:
    """Nobody wrote a card: there is nothing to decide about the instance yet."""
    stranger = Worker(proxy.client)
    assert stranger.client.get(stranger.card_key) is None
    assert stranger.unregister() == 0
    assert not proxy.has_record(stranger)


@pytest.mark.parametrize("write", ["Put", "Txn"])
def test_a_live_worker_that_no_rule_matches_is_written_through(
    launch_proxy: Callable[..., Proxy], proxy: Proxy, tmp_path_factory: pytest.TempPathFactory, write: str
) -> None:
    """A policy about one model: workers of other models are public at once, live or new, and have no record."""
    policy = tmp_path_factory.mktemp("policy") / "policy.yaml"
    policy.write_text("rules: [{selector: {model: large}, gates: {smoke: {timeout_seconds: 60}}}]")
    narrow = launch_proxy(proxy.etcd, name="narrow", arguments=("--policy", str(policy)))
    small, large = Worker(narrow.client, model="small"), Worker(narrow.client, model="large")
    for worker in (small, large):
        if write == "Put":
            narrow.client.put(worker.card_key, worker.card(), worker.lease)
        else:
            narrow.client.txn([], [put(worker.card_key, worker.card(), worker.lease)])
    assert (narrow.shown(small), narrow.held(small), narrow.has_record(small)) == ([small.card_key], [], False)
    assert (narrow.shown(large), narrow.held(large), narrow.has_record(large)) == ([], [large.card_key], True)
    assert small.swap(small.card(taints=["gold"]), small.read().mod_revision).succeeded
    assert small.unregister() == 1
    assert narrow.shown(small) == []


def test_a_free_model_cannot_be_turned_into_a_gated_one(
    launch_proxy: Callable[..., Proxy], proxy: Proxy, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A worker registers as a model that no rule names, and then overwrites its public card with one that needs gates.

    Had the edit been written where the card lies, no gate would ever have been asked.
    """
    policy = tmp_path_factory.mktemp("policy") / "policy.yaml"
    policy.write_text("rules: [{selector: {model: large}, gates: {smoke: {timeout_seconds: 60}}}]")
    narrow = launch_proxy(proxy.etcd, name="narrow-edit", arguments=("--policy", str(policy)))
    worker = Worker(narrow.client, model="small")
    worker.register()
    small, worker.model = worker.card(), "large"
    for write in (lambda: worker.client.put(worker.card_key, worker.card(), worker.lease), lambda: swapped(worker)):
        with pytest.raises(grpc.RpcError) as refusal:
            write()
        assert refusal.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "smoke" in refusal.value.details()
    assert narrow.public.get(worker.card_key).value == small
    worker.unregister()
    assert worker.register().succeeded
    assert (narrow.shown(worker), narrow.held(worker)) == ([], [worker.card_key])


def swapped(worker: Worker) -> object:
    return worker.swap(worker.card(), worker.read().mod_revision)
