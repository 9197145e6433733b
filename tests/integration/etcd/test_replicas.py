"""Two proxies of one etcd with different policies, as while a new policy is rolled out: what is in etcd decides.

The rule: the record says what an instance needs, whichever proxy a call comes to; no card is public early by either.
"""

from collections.abc import Callable

import pytest

from tests.support.endpoints import Proxy
from tests.support.etcd import Etcd
from tests.support.workers import Worker


@pytest.fixture
def launch(
    launch_proxy: Callable[..., Proxy], own_etcd: Etcd, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Proxy]:
    """A proxy that asks workers of the component for these gates."""

    def launched(*gates: str, component: str = "backend") -> Proxy:
        policy = tmp_path_factory.mktemp("policy") / "policy.yaml"
        wanted = ", ".join(f"{gate}: {{timeout_seconds: 600}}" for gate in gates)
        policy.write_text(f"rules: [{{selector: {{component: {component}}}, gates: {{{wanted}}}}}]")
        return launch_proxy(own_etcd, arguments=("--policy", str(policy)))

    return launched


def gates(proxy: Proxy, worker: Worker) -> list[str]:
    return sorted(gate.gate for gate in proxy.control.instance(worker.instance).gates)


def through(proxy: Proxy, worker: Worker) -> Worker:
    """The same worker, whose calls now come to another proxy."""
    worker.client = proxy.client
    return worker


def test_what_an_instance_needs_is_what_its_record_says(launch: Callable[..., Proxy]) -> None:
    """It is opened at a proxy that asks for two gates, and goes on at one that asks for one of them."""
    strict, lenient = launch("smoke", "latency"), launch("latency")
    worker = strict.held_worker()
    through(lenient, worker).swap(worker.card(taints=["gold"]), worker.read().mod_revision)
    assert lenient.control.verdict(worker.instance, "latency", "passed") == "RECORDED"
    assert lenient.shown(worker) == []
    assert worker.unregister() == 1
    assert worker.register().succeeded
    assert gates(lenient, worker) == ["latency", "smoke"]
    assert lenient.control.verdict(worker.instance, "latency", "passed") == "RECORDED"
    assert lenient.shown(worker) == []
    assert lenient.control.verdict(worker.instance, "smoke", "passed") == "RELEASED"
    assert strict.shown(worker) == [worker.card_key]


def test_a_card_that_comes_to_another_proxy_brings_that_ones_gates(launch: Callable[..., Proxy]) -> None:
    """Opened with one gate; an adapter comes to the stricter proxy: all of it waits for both from then on."""
    lenient, strict = launch("latency"), launch("smoke", "latency")
    worker = lenient.held_worker()
    assert through(strict, worker).register_lora().succeeded
    assert gates(lenient, worker) == ["latency", "smoke"]
    assert lenient.control.verdict(worker.instance, "latency", "passed") == "RECORDED"
    assert lenient.shown(worker) == []
    assert lenient.control.verdict(worker.instance, "smoke", "passed") == "RELEASED"
    assert lenient.shown(worker) == [worker.card_key, worker.lora_key()]


def test_a_record_holds_at_a_proxy_whose_policy_does_not_know_the_instance(launch: Callable[..., Proxy]) -> None:
    """No rule of this proxy is about it, so a new worker would be public at once; this one has a record."""
    strict, other = launch("smoke"), launch("smoke", component="elsewhere")
    worker = strict.held_worker()
    assert through(other, worker).register_lora().succeeded
    assert other.client.put(worker.card_key, worker.card(other=1), worker.lease)
    assert other.shown(worker) == []
    assert other.held(worker) == [worker.card_key, worker.lora_key()]
    free = Worker(other.client)
    assert free.register().succeeded
    assert other.shown(free) == [free.card_key]
    assert other.control.verdict(worker.instance, "smoke", "passed") == "RELEASED"
    assert other.shown(worker) == [worker.card_key, worker.lora_key()]


def test_what_one_proxy_made_public_stays_public_at_a_stricter_one(launch: Callable[..., Proxy]) -> None:
    """Nobody's serving worker is taken away by a rule that comes later: its edits go through, and are seen at once."""
    other, strict = launch("smoke", component="elsewhere"), launch("smoke")
    worker = Worker(other.client)
    worker.register()
    assert through(strict, worker).swap(worker.card(taints=["gold"]), worker.read().mod_revision).succeeded
    assert strict.public.get(worker.card_key).value == worker.card(taints=["gold"])
    assert strict.control.state(worker.instance) == "RELEASED"
    assert strict.shown(worker) == [worker.card_key]


def test_a_delete_takes_what_another_proxy_made_public_since(launch: Callable[..., Proxy]) -> None:
    """This proxy last saw nothing there, and would hold the card; the other one has no rule for it."""
    other, strict = launch("smoke", component="elsewhere"), launch("smoke")
    worker = Worker(strict.client)
    assert worker.unregister() == 0
    through(other, worker).register()
    assert strict.shown(worker) == [worker.card_key]
    assert through(strict, worker).unregister() == 1
    assert strict.shown(worker) == []
