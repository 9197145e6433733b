"""A released worker registers more: what its gates have not seen is held by itself, and the worker serves on."""

from collections.abc import Iterator

import pytest

from greenroom.pb.control.v1 import control_pb2
from tests.support.client import Compare, put, version_is
from tests.support.endpoints import Proxy
from tests.support.watching import WatchLog
from tests.support.workers import Worker


@pytest.fixture
def worker(proxy: Proxy) -> Worker:
    """Released, and with another model's card held at another endpoint."""
    worker = proxy.released_worker()
    assert worker.client.create(second(worker), value(worker), worker.lease).succeeded
    return worker


@pytest.fixture
def seen(proxy: Proxy, worker: Worker) -> Iterator[WatchLog]:
    with proxy.public.watch(b"\x02", b"\0") as log:
        yield log


def second(worker: Worker) -> bytes:
    return worker.card_key.replace(b"generate", b"embed")


def value(worker: Worker, **config: object) -> bytes:
    return worker.card(**config).replace(b"generate", b"embed").replace(b'"tiny"', b'"embedder"')


def gates_passed(proxy: Proxy, worker: Worker) -> control_pb2.Condition:
    return proxy.control.instance(worker.instance).conditions[0]


def test_it_is_held_and_what_was_public_stays_so(proxy: Proxy, worker: Worker) -> None:
    assert (proxy.shown(worker), proxy.held(worker)) == ([worker.card_key], [second(worker)])
    instance = proxy.control.instance(worker.instance)
    assert instance.state == control_pb2.INSTANCE_STATE_RELEASED
    assert {key.key: (key.live, key.public) for key in instance.gated_keys} == {
        worker.card_key: (True, True),
        second(worker): (True, False),
    }
    assert [(gate.attempt, gate.state) for gate in instance.gates] == [(2, control_pb2.GATE_STATE_PENDING)] * 2
    condition = instance.conditions[0]
    assert (condition.status, condition.reason) == (False, "GatesOpen")
    assert second(worker).decode() in condition.message
    assert list(instance.models) == ["tiny", "embedder"]


def test_its_worker_sees_and_edits_it_as_if_it_were_there(proxy: Proxy, worker: Worker) -> None:
    """Of taints no gate has to know; anything else is a new attempt."""
    card = worker.read(second(worker))
    assert card.value == value(worker)
    compare = [Compare(key=second(worker), target=Compare.MOD, mod_revision=card.mod_revision)]
    tainted = put(second(worker), value(worker, taints=["gold"]), worker.lease)
    assert worker.client.txn(compare, [tainted], []).succeeded
    assert proxy.control.attempt(worker.instance, "smoke") == 2
    assert not worker.client.txn([version_is(second(worker), 0)], [tainted], []).succeeded
    worker.client.put(second(worker), value(worker, other=1), worker.lease)
    assert proxy.control.attempt(worker.instance, "smoke") == 3
    assert (proxy.shown(worker), proxy.held(worker)) == ([worker.card_key], [second(worker)])


def test_its_gates_publish_it_and_touch_nothing_else(proxy: Proxy, worker: Worker, seen: WatchLog) -> None:
    release_time = proxy.control.instance(worker.instance).release_time
    before = proxy.public.get(worker.card_key)
    assert proxy.control.verdict(worker.instance, "smoke", "passed") == "RECORDED"
    assert proxy.shown(worker) == [worker.card_key]
    assert proxy.control.verdict(worker.instance, "latency", "passed") == "RELEASED"
    seen.wait_revision(proxy.public.put(b"mark", b"").header.revision)
    assert seen.changes == [("PUT", second(worker)), ("PUT", b"mark")]
    assert proxy.public.get(worker.card_key) == before
    assert proxy.public.get(second(worker)).lease == worker.lease
    assert gates_passed(proxy, worker).status
    assert proxy.control.instance(worker.instance).release_time == release_time


def test_a_gate_that_fails_keeps_just_it_back(proxy: Proxy, worker: Worker) -> None:
    assert proxy.control.verdict(worker.instance, "smoke", "failed") == "REJECTED"
    assert proxy.control.state(worker.instance) == "RELEASED"
    assert (proxy.shown(worker), proxy.held(worker)) == ([worker.card_key], [second(worker)])
    assert gates_passed(proxy, worker).reason == "GateFailed"
    assert worker.swap(worker.card(taints=["gold"]), worker.read().mod_revision).succeeded


def test_deleted_while_it_waits_it_is_never_published(proxy: Proxy, worker: Worker) -> None:
    assert worker.client.delete(second(worker)).deleted == 1
    assert (proxy.shown(worker), proxy.held(worker)) == ([worker.card_key], [])
    assert gates_passed(proxy, worker).status
    assert [key.live for key in proxy.control.instance(worker.instance).gated_keys] == [True, False]


def test_under_a_rollout_hold_it_waits_and_is_published_by_itself_afterwards(
    proxy: Proxy, worker: Worker, seen: WatchLog
) -> None:
    proxy.control.hold_rollout("later")
    try:
        assert proxy.control.pass_gates(worker.instance) == "QUEUED"
        assert proxy.shown(worker) == [worker.card_key]
    finally:
        proxy.control.lift_rollout("later")
    seen.wait_events(1)
    assert seen.changes == [("PUT", second(worker))]


def test_a_live_worker_that_registers_another_model_serves_on(proxy: Proxy) -> None:
    """It was there before the proxy: its record is opened for this call, as released, and the card is held."""
    worker = Worker(proxy.client)
    proxy.public.put(worker.card_key, worker.card(), worker.lease)
    assert worker.client.create(second(worker), value(worker), worker.lease).succeeded
    assert (proxy.shown(worker), proxy.held(worker)) == ([worker.card_key], [second(worker)])
    assert proxy.control.instance(worker.instance).reason == "AlreadyPublic"
    assert proxy.control.pass_gates(worker.instance) == "RELEASED"
    assert proxy.shown(worker) == [second(worker), worker.card_key]
