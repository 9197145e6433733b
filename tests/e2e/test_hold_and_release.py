"""The main story with real Dynamo: workers register, nobody can reach them, gates pass, everybody can.

The tests of this file follow one fleet through its life, in the order in which they stand; each stage is a fixture, so
a single test also runs alone.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from greenroom.pb.etcd.kv_pb2 import KeyValue
from tests.e2e.support.dynamo import Dynamo, PythonWorker, Reply
from tests.e2e.support.fleet import HANDMADE, LORA, MOCKED, Fleet, held_fleet
from tests.e2e.support.store import CARDS, RESERVED, Store
from tests.support.greenroom import GATES


@pytest.fixture(scope="module")
def held(dynamo: Dynamo, store: Store) -> Iterator[Fleet]:
    with held_fleet(dynamo, store) as fleet:
        yield fleet


@dataclass(frozen=True, slots=True)
class Edits:
    """What a held worker was answered to each of its further writes."""

    other_model: Reply
    taints: Reply
    lora: Reply


@pytest.fixture(scope="module")
def edits(held: Fleet) -> Edits:
    tell = held.worker.tell
    return Edits(tell("register somethingelse"), tell("taints gold,a100"), tell(f"register_lora {LORA}"))


@pytest.fixture(scope="module")
def released(held: Fleet, edits: Edits) -> Fleet:
    for worker in (held.mocker, held.worker):
        held.greenroom.pass_gates(worker.instance)
    return held


def shadow(fleet: Fleet, key: bytes) -> KeyValue:
    return fleet.store.entry(RESERVED + b"held/" + fleet.worker.instance.encode() + b"/" + key)


def card(entry: KeyValue) -> dict[str, Any]:
    return dict(json.loads(entry.value)["card_json"])


def assert_nothing_public(fleet: Fleet) -> None:
    """No frontend lists a model, etcd has no card, and a watcher was told of none at any moment until now."""
    assert fleet.models() == [set(), set()]
    assert fleet.store.keys(CARDS) == []
    assert fleet.told(fleet.mocker) == []
    assert fleet.told(fleet.worker) == []


def test_a_held_fleet_lists_no_model_and_answers_no_chat(held: Fleet) -> None:
    """Two workers came up five minutes ago and are being checked: to users they do not exist."""
    assert_nothing_public(held)
    assert held.chats(MOCKED) == [404, 404]
    assert held.chats(HANDMADE) == [404, 404]


def test_a_held_worker_can_be_reached_by_its_gates(held: Fleet) -> None:
    """A gate needs the worker's address: its instance record is public, and its card lies under its own lease."""
    for worker in (held.mocker, held.worker):
        assert held.store.keys(worker.instances_prefix) == [worker.instances_prefix + worker.instance.encode()]
    assert shadow(held, held.worker.card_key).lease == held.worker.lease_id


def test_the_operator_sees_who_is_held_and_for_what(held: Fleet) -> None:
    """An operator asks why the new worker gets no traffic: the command line names it, its model and its gates."""
    listed = held.greenroom.listed("held")
    assert held.mocker.instance in listed
    assert held.worker.instance in listed
    shown = held.greenroom.must("instance", held.worker.instance)
    assert [word for word in (HANDMADE, *GATES) if word not in shown] == []


def test_another_model_on_the_key_of_a_held_card_is_refused_by_dynamo_itself(held: Fleet, edits: Edits) -> None:
    """A worker registers a second model under the key it has: it must read its own held card back to be refused."""
    assert not edits.other_model.ok
    assert "model update can only change runtime_config.taints" in edits.other_model.result
    assert card(shadow(held, held.worker.card_key))["display_name"] == HANDMADE


def test_taints_are_edited_while_held(held: Fleet, edits: Edits) -> None:
    """A node gets tainted while its worker waits: the edit is taken, and stays as hidden as the card."""
    assert edits.taints == Reply(ok=True, result="")
    assert card(shadow(held, held.worker.card_key))["runtime_config"]["taints"] == ["a100", "gold"]
    assert_nothing_public(held)


def test_a_lora_adapter_is_registered_while_held(held: Fleet, edits: Edits) -> None:
    """A worker loads an adapter before its gates have passed: the adapter waits with it."""
    assert edits.lora == Reply(ok=True, result="")
    assert card(shadow(held, held.worker.card_key_of(LORA)))["lora"] == {"name": LORA}
    assert_nothing_public(held)
    assert held.chats(LORA) == [404, 404]


def test_one_passed_gate_of_two_releases_nobody(held: Fleet, edits: Edits) -> None:
    """The smoke test passed, the latency run goes on: still no traffic."""
    held.greenroom.must("verdict", held.mocker.instance, "smoke", "passed", "--reason", "answered")
    assert held.greenroom.cli("wait", held.mocker.instance, "--for", "released", "--timeout", "1s").returncode == 124
    assert_nothing_public(held)


def test_the_last_verdict_brings_the_traffic(released: Fleet) -> None:
    """Every gate has passed: within seconds every frontend serves both workers, and the adapter, with no restart."""
    for model in (MOCKED, HANDMADE, LORA):
        released.wait_chats(model)
    assert released.models() == [{MOCKED, HANDMADE, LORA}] * 2


def test_the_released_card_carries_the_taints_given_while_held(released: Fleet) -> None:
    """What became public is what the worker last wrote, and it belongs to the worker's lease."""
    entry = released.store.entry(released.worker.card_key)
    assert card(entry)["runtime_config"]["taints"] == ["a100", "gold"]
    assert entry.lease == released.worker.lease_id


def test_card_and_adapter_became_public_at_once(released: Fleet) -> None:
    """No frontend can have seen the model without its adapter: a watcher was told of both in one response, once."""
    released.models()
    worker = released.worker
    assert released.told(worker) == [[worker.card_key, worker.card_key_of(LORA)]]
    assert released.store.keys(RESERVED + b"held/") == []


def test_a_released_worker_goes_on_as_without_a_proxy(released: Fleet) -> None:
    """After its release a worker edits its taints and unloads an adapter: both are public at once."""
    released.worker.must("taints silver")
    assert card(released.store.entry(released.worker.card_key))["runtime_config"]["taints"] == ["silver"]
    released.worker.must(f"unregister {LORA}")
    assert released.store.keys(released.worker.card_key) == [released.worker.card_key]
    assert released.models() == [{MOCKED, HANDMADE}] * 2


def test_a_worker_that_fails_a_gate_stays_out(released: Fleet, dynamo: Dynamo) -> None:
    """A bad build joins the running fleet: it is rejected, gets no traffic, and leaves nothing when it is stopped."""
    environment = dynamo.environment(released.greenroom.url)
    with PythonWorker(dynamo, released.store, environment, component="bad", model="bad") as bad:
        bad.must("register")
        released.greenroom.must("verdict", bad.instance, "latency", "failed", "--reason", "slow")
        released.greenroom.must("wait", bad.instance, "--for", "rejected", "--timeout", "30s")
        assert released.models() == [{MOCKED, HANDMADE}] * 2
        assert released.chats("bad") == [404, 404]
        bad.must("shutdown")
        released.store.wait_nothing_of(bad.lease_id)
        assert released.told(bad) == []


def test_a_stopped_fleet_leaves_nothing_behind(released: Fleet) -> None:
    """The fleet is scaled to zero: no card, no record, no shadow survives its worker."""
    assert released.mocker.stop() == 0
    released.worker.must("shutdown")
    for worker in (released.mocker, released.worker):
        released.store.wait_nothing_of(worker.lease_id)
    assert released.models() == [set(), set()]
