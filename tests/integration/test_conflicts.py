"""Workers of one model that are not configured alike: told, queued or rejected, as their rules say."""

import json
from collections.abc import Iterator

import pytest

from greenroom.pb.control.v1 import control_pb2
from tests.support.endpoints import Proxy, launched_proxy
from tests.support.etcd import Etcd
from tests.support.waiting import wait_for
from tests.support.workers import Worker

POLICY = """
rules:
  - {selector: {model: warned}, gates: {smoke: {timeout_seconds: 900}}}
  - {selector: {model: queued}, on_conflict: queue, gates: {smoke: {timeout_seconds: 900}}}
  - {selector: {model: rejected}, on_conflict: reject, gates: {smoke: {timeout_seconds: 900}}}
"""
GATES = ("smoke",)
WAIT_SECONDS = 20


@pytest.fixture(scope="module")
def proxy(session_etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("conflicts")
    (folder / "policy.yaml").write_text(POLICY)
    arguments = ("--policy", str(folder / "policy.yaml"))
    with launched_proxy(session_etcd, folder, name="conflicts", arguments=arguments) as proxy:
        yield proxy


def registered(proxy: Proxy, model: str, block_size: int) -> Worker:
    worker = Worker(proxy.client, component="compared", model=model)
    card = json.loads(worker.card())
    card["card_json"]["kv_cache_block_size"] = block_size
    assert worker.client.create(worker.card_key, json.dumps(card).encode(), worker.lease).succeeded
    return worker


def released(proxy: Proxy, model: str, block_size: int) -> Worker:
    worker = registered(proxy, model, block_size)
    assert proxy.control.pass_gates(worker.instance, GATES) == "RELEASED"
    return worker


def no_conflict(proxy: Proxy, worker: Worker) -> control_pb2.Condition:
    conditions = proxy.control.instance(worker.instance).conditions
    return next(condition for condition in conditions if condition.type == "NoConflict")


def wait_told(proxy: Proxy, worker: Worker, reason: str) -> control_pb2.Condition:
    """The condition, once the mirror knows as much."""
    wait_for(lambda: no_conflict(proxy, worker).reason == reason, WAIT_SECONDS, f"{worker} is told {reason}")
    return no_conflict(proxy, worker)


def wait_state(proxy: Proxy, worker: Worker, state: str) -> None:
    wait_for(lambda: proxy.control.state(worker.instance) == state, WAIT_SECONDS, f"{worker} is {state}")


def ended(*workers: Worker) -> None:
    for worker in workers:
        worker.client.revoke(worker.lease)


def test_a_waiting_instance_is_told_what_differs_and_from_whom(proxy: Proxy) -> None:
    """First from one that is held, too; then from that when it is released. It is released all the same."""
    first, other = registered(proxy, "warned", 64), registered(proxy, "warned", 32)
    condition = wait_told(proxy, other, "ConflictsWithHeld")
    assert not condition.status
    assert f"{first.instance} (held): kv_cache_block_size is 32 here and 64 there" in condition.message
    assert proxy.control.pass_gates(first.instance, GATES) == "RELEASED"
    assert f"{first.instance} (released)" in wait_told(proxy, other, "ConflictsWithReleased").message
    assert proxy.control.pass_gates(other.instance, GATES) == "RELEASED"
    assert no_conflict(proxy, other).status
    ended(first, other)


def test_who_is_configured_alike_or_serves_another_model_is_no_conflict(proxy: Proxy) -> None:
    first, alike, another = (
        released(proxy, "warned", 64),
        registered(proxy, "warned", 64),
        registered(proxy, "queued", 32),
    )
    last = registered(proxy, "warned", 32)
    wait_told(proxy, last, "ConflictsWithReleased")
    assert no_conflict(proxy, another).status
    assert f"{last.instance} (held)" in wait_told(proxy, alike, "ConflictsWithHeld").message
    ended(first, alike, another, last)


def test_who_queues_is_released_by_itself_when_the_last_one_that_differs_has_gone(proxy: Proxy) -> None:
    one, two = released(proxy, "queued", 64), released(proxy, "queued", 64)
    waiting = registered(proxy, "queued", 32)
    wait_told(proxy, waiting, "ConflictsWithReleased")
    assert proxy.control.pass_gates(waiting.instance, GATES) == "QUEUED"
    assert "it waits as long as one that is released differs" in no_conflict(proxy, waiting).message
    ended(one)
    assert proxy.control.state(waiting.instance) == "HELD"
    ended(two)
    wait_state(proxy, waiting, "RELEASED")
    ended(waiting)


def test_two_that_are_held_do_not_wait_for_each_other(proxy: Proxy) -> None:
    one, two = registered(proxy, "queued", 64), registered(proxy, "queued", 32)
    wait_told(proxy, two, "ConflictsWithHeld")
    assert proxy.control.pass_gates(two.instance, GATES) == "RELEASED"
    ended(one, two)


def test_who_is_to_be_rejected_is_at_once_and_stays_so_until_it_registers_as_the_others(proxy: Proxy) -> None:
    first, other = released(proxy, "rejected", 64), registered(proxy, "rejected", 32)
    wait_state(proxy, other, "REJECTED")
    said = proxy.control.instance(other.instance)
    assert f"{first.instance} (released): kv_cache_block_size is 32 here and 64 there" in said.reason
    assert no_conflict(proxy, other).reason == "RejectedForConflict"
    assert proxy.control.pass_gates(other.instance, GATES) == "REJECTED"
    assert proxy.shown(other) == []
    other.client.put(other.card_key, other.card(), other.lease)
    assert proxy.control.state(other.instance) == "HELD"
    assert proxy.control.pass_gates(other.instance, GATES) == "RELEASED"
    ended(first, other)
