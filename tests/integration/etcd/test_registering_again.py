"""A verdict counts for what was checked: a card that comes after the check is not released by it."""

import grpc
import pytest

from greenroom.pb.control.v1 import control_pb2
from tests.support.control import error_reason
from tests.support.endpoints import Proxy


def stale(proxy: Proxy, instance: str, gate: str, attempt: int) -> str:
    with pytest.raises(grpc.RpcError) as refusal:
        proxy.control.verdict(instance, gate, "passed", attempt)
    assert refusal.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    return error_reason(refusal.value)


def test_a_late_verdict_for_the_first_card_does_not_release_the_second(proxy: Proxy) -> None:
    """A worker unregisters and registers something else on the same lease while the check of the first still runs."""
    worker = proxy.held_worker()
    assert worker.unregister() == 1
    assert worker.client.create(worker.card_key, worker.card(other=1), worker.lease).succeeded
    for gate in ("smoke", "latency"):
        assert proxy.control.attempt(worker.instance, gate) == 2
        assert stale(proxy, worker.instance, gate, 1) == "STALE_ATTEMPT"
    assert proxy.control.state(worker.instance) == "HELD"
    assert proxy.shown(worker) == []
    assert proxy.control.pass_gates(worker.instance) == "RELEASED"
    assert proxy.public.get(worker.card_key).value == worker.card(other=1)


def test_a_verdict_given_before_the_second_card_came_no_longer_counts(proxy: Proxy) -> None:
    """One gate had passed; what it saw is gone, so it has to pass again."""
    worker = proxy.held_worker()
    proxy.control.verdict(worker.instance, "smoke", "passed")
    worker.unregister()
    worker.register()
    assert proxy.control.verdict(worker.instance, "latency", "passed") == "RECORDED"
    assert proxy.shown(worker) == []
    assert proxy.control.verdict(worker.instance, "smoke", "passed") == "RELEASED"


def test_a_changed_card_is_checked_again_and_edited_taints_are_not(proxy: Proxy) -> None:
    worker = proxy.held_worker()
    proxy.client.put(worker.card_key, worker.card(taints=["gold"]), worker.lease)
    assert proxy.control.attempt(worker.instance, "smoke") == 1
    proxy.client.put(worker.card_key, worker.card(taints=["gold"], other=1), worker.lease)
    assert proxy.control.attempt(worker.instance, "smoke") == 2
    assert stale(proxy, worker.instance, "smoke", 1) == "STALE_ATTEMPT"


def test_a_rejected_instance_stays_rejected_whatever_it_registers(proxy: Proxy) -> None:
    """A worker that failed cannot get out of it by registering anew."""
    worker = proxy.held_worker()
    proxy.control.verdict(worker.instance, "smoke", "failed")
    worker.unregister()
    worker.register()
    worker.register_lora()
    assert proxy.control.verdict(worker.instance, "latency", "passed") == "REJECTED"
    assert proxy.control.state(worker.instance) == "REJECTED"
    assert proxy.shown(worker) == []


def test_the_record_outlives_the_last_card(proxy: Proxy) -> None:
    """Attempts never go down while the lease lives, though for a time no card was there."""
    worker = proxy.held_worker()
    for round_number in (2, 3, 4):
        worker.unregister()
        assert [key.live for key in proxy.control.instance(worker.instance).gated_keys] == [False]
        worker.register()
        assert proxy.control.attempt(worker.instance, "smoke") == round_number
    assert [key.live for key in proxy.control.instance(worker.instance).gated_keys] == [True]


def test_a_released_instance_may_unregister_and_its_next_model_is_held(proxy: Proxy) -> None:
    """What is public is the worker's to take back; what it registers then has to be checked like anything."""
    worker = proxy.released_worker()
    assert worker.unregister() == 1
    assert worker.register().succeeded
    assert (proxy.shown(worker), proxy.held(worker)) == ([], [worker.card_key])
    assert stale(proxy, worker.instance, "smoke", 1) == "STALE_ATTEMPT"
    assert proxy.control.state(worker.instance) == "RELEASED"
    proxy.control.pass_gates(worker.instance)
    assert (proxy.shown(worker), proxy.held(worker)) == ([worker.card_key], [])


def test_a_released_instance_adds_an_adapter_at_once(proxy: Proxy) -> None:
    """Its gates have passed here, and an adapter brings no other gates."""
    worker = proxy.released_worker()
    assert worker.register_lora().succeeded
    assert proxy.shown(worker) == [worker.card_key, worker.lora_key()]
    instance = proxy.control.instance(worker.instance)
    assert instance.state == control_pb2.INSTANCE_STATE_RELEASED
    assert [key.key for key in instance.gated_keys] == [worker.card_key, worker.lora_key()]
