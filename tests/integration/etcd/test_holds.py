"""What else a rule can keep back: the instance record beside the card, or nothing but the health answer."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.client import get, put, version_is
from tests.support.endpoints import Proxy, launched_proxy, wipe_beside_proxies
from tests.support.etcd import Etcd
from tests.support.http import ask
from tests.support.workers import Worker

GATES = ("smoke",)


@contextmanager
def keeping(what: str, folder: Path) -> Iterator[Proxy]:
    """A proxy and its etcd. Its one rule is about the component `backend`, with the given fields."""
    policy = folder / "policy.yaml"
    rule = f"{{selector: {{component: backend}}, {what}, gates: {{smoke: {{timeout_seconds: 60}}}}}}"
    policy.write_text(f"rules: [{rule}]")
    with Etcd.launch() as etcd, launched_proxy(etcd, folder, arguments=("--policy", str(policy))) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def keeps_both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with keeping("hold: card+instance", tmp_path_factory.mktemp("both")) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def keeps_health(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with keeping("hold: health", tmp_path_factory.mktemp("health")) as proxy:
        yield proxy


@pytest.fixture
def both_kept(keeps_both: Proxy) -> Proxy:
    wipe_beside_proxies(keeps_both.etcd)
    return keeps_both


@pytest.fixture
def health_only(keeps_health: Proxy) -> Proxy:
    wipe_beside_proxies(keeps_health.etcd)
    return keeps_health


@pytest.fixture
def in_dry_run(tmp_path: Path) -> Iterator[Proxy]:
    with keeping("mode: dry-run, hold: card+instance", tmp_path) as proxy:
        yield proxy


def test_instance_and_card_appear_together_in_their_order(both_kept: Proxy) -> None:
    """Plain clients route from the instance record: where that is held too, they cannot find the worker either."""
    worker = Worker(both_kept.client)
    with both_kept.public.watch(b"\x02", b"\0") as seen:
        assert worker.register_instance().succeeded
        assert worker.register().succeeded
        assert both_kept.shown(worker) == []
        assert worker.read(worker.instance_key).value == worker.instance_value()
        assert sorted(worker.client.time_to_live(worker.lease).keys) == [worker.instance_key, worker.card_key]
        assert both_kept.control.pass_gates(worker.instance, GATES) == "RELEASED"
        seen.wait_events(2)
        assert list(seen.batches()) == [[worker.instance_key, worker.card_key]]


def test_an_instance_record_is_not_what_gates_check(both_kept: Proxy) -> None:
    """It opens no attempt, and alone it is not released; the card that comes later has to be checked."""
    mocker = Worker(both_kept.client)
    mocker.register()
    mocker.register_instance()
    assert both_kept.control.attempt(mocker.instance, "smoke") == 1
    worker = Worker(both_kept.client)
    worker.register_instance()
    assert both_kept.control.pass_gates(worker.instance, GATES) != "RELEASED"
    assert both_kept.shown(worker) == []
    worker.register()
    assert both_kept.control.attempt(worker.instance, "smoke") == 2
    assert both_kept.shown(worker) == []
    assert both_kept.control.pass_gates(worker.instance, GATES) == "RELEASED"
    assert both_kept.shown(worker) == [worker.instance_key, worker.card_key]


def test_an_instance_record_from_before_does_not_make_a_worker_live(both_kept: Proxy) -> None:
    """A worker's endpoint was registered before the proxy came, its model was not: the model is held."""
    worker = Worker(both_kept.public)
    worker.register_instance()
    worker.client = both_kept.client
    assert worker.register().succeeded
    assert both_kept.shown(worker) == [worker.instance_key]
    assert both_kept.held(worker) == [worker.card_key]
    assert both_kept.control.state(worker.instance) == "HELD"


def test_an_instance_record_deleted_while_held_is_not_published(both_kept: Proxy) -> None:
    worker = Worker(both_kept.client)
    worker.register_instance()
    worker.register()
    assert worker.client.delete(worker.instance_key).deleted == 1
    assert both_kept.control.pass_gates(worker.instance, GATES) == "RELEASED"
    assert both_kept.shown(worker) == [worker.card_key]


def test_a_released_workers_instance_record_comes_and_goes(both_kept: Proxy) -> None:
    """A worker takes its endpoint out of routing and puts it back: Dynamo does so around a restart of its engine."""
    worker = Worker(both_kept.client)
    worker.register_instance()
    worker.register()
    both_kept.control.pass_gates(worker.instance, GATES)
    assert worker.client.delete(worker.instance_key).deleted == 1
    assert both_kept.shown(worker) == [worker.card_key]
    assert worker.register_instance().succeeded
    assert both_kept.shown(worker) == [worker.instance_key, worker.card_key]


def test_another_components_records_are_public_at_once(both_kept: Proxy) -> None:
    """Routers and planners register instance records too, and nobody gates them."""
    router = Worker(both_kept.client, component="router")
    assert router.register_instance().succeeded
    assert both_kept.shown(router) == [router.instance_key]
    assert not both_kept.has_record(router)


def test_instance_and_card_in_one_txn_are_both_held(both_kept: Proxy) -> None:
    worker = Worker(both_kept.client)
    answer = worker.client.txn(
        [version_is(worker.card_key, 0), version_is(worker.instance_key, 0)],
        [
            put(worker.instance_key, worker.instance_value(), worker.lease),
            put(worker.card_key, worker.card(), worker.lease),
            get(worker.instance_key),
        ],
    )
    assert answer.succeeded
    assert answer.responses[2].response_range.kvs[0].key == worker.instance_key
    assert both_kept.shown(worker) == []
    assert sorted(both_kept.held(worker)) == [worker.instance_key, worker.card_key]


def test_hold_health_keeps_nothing_back(health_only: Proxy) -> None:
    """Only the worker's health answer waits: cards and their edits are public at once, and a verdict is kept."""
    worker = Worker(health_only.client)
    assert worker.register().succeeded
    assert health_only.shown(worker) == [worker.card_key]
    assert health_only.control.state(worker.instance) == "HELD"
    assert worker.swap(worker.card(taints=["gold"]), worker.read().mod_revision).succeeded
    assert health_only.public.get(worker.card_key).value == worker.card(taints=["gold"])
    assert health_only.control.pass_gates(worker.instance, GATES) == "RELEASED"
    assert health_only.shown(worker) == [worker.card_key]
    assert health_only.public.get(worker.card_key).version == 2


def test_a_failed_gate_takes_nothing_away_under_hold_health(health_only: Proxy) -> None:
    worker = Worker(health_only.client)
    worker.register()
    assert health_only.control.verdict(worker.instance, "smoke", "failed") == "REJECTED"
    assert health_only.shown(worker) == [worker.card_key]
    assert worker.unregister() == 1
    assert health_only.shown(worker) == []


def test_in_dry_run_nothing_is_kept_back_and_what_would_have_been_is_told(in_dry_run: Proxy) -> None:
    proxy = in_dry_run
    worker = Worker(proxy.client)
    worker.register_instance()
    worker.register()
    assert proxy.shown(worker) == [worker.instance_key, worker.card_key]
    found = proxy.control.instance(worker.instance)
    assert (found.dry_run, proxy.control.state(worker.instance)) == (True, "HELD")
    assert [gate.dry_run for gate in found.gates] == [True]
    assert proxy.control.pass_gates(worker.instance, GATES) == "RELEASED"
    assert proxy.shown(worker) == [worker.instance_key, worker.card_key]
    metrics = ask(f"{proxy.greenroom.http_url}/metrics").body.decode()
    assert "greenroom_dry_run_hold_duration_seconds_count 1.0" in metrics
    assert "\ngreenroom_hold_duration_seconds_count 0.0" in metrics
    failing = Worker(proxy.client)
    failing.register()
    assert proxy.control.verdict(failing.instance, "smoke", "failed") == "REJECTED"
    assert proxy.shown(failing) == [failing.card_key]
