"""A withdrawal takes back everything public of an instance at once, whatever the worker does meanwhile.

The product's own plan is carried out from here, as the control API does it, and the worker's writes go through the
proxy. What comes between read and Txn is brought there by hand.
"""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from greenroom.core.gating import Gated, gate_call
from greenroom.core.keyspace import InstanceId
from greenroom.core.policy import gates_for_everything
from greenroom.core.restore import FenceLost, settle
from greenroom.core.snapshot import read_request, snapshot_from
from greenroom.core.templates import dynamo_gated_keys
from greenroom.core.verdicts import Effect, MoreKeys, Planned, withdrawal
from greenroom.core.worker_calls import WorkerRequest, as_txn, examine
from greenroom.pb.etcd import rpc_pb2
from greenroom.store.fenced import CarriedOut, carry_out
from greenroom.store.upstream import Upstream
from tests.support.client import version_is
from tests.support.endpoints import Proxy
from tests.support.watching import WatchLog
from tests.support.workers import Worker

TAKEN_BACK = withdrawal("tests", "it misbehaves", by_person=False)
ADAPTERS_THAT_NEED_NESTING = 119


def now() -> datetime:
    return datetime.now(UTC)


def withdraw(proxy: Proxy, worker: Worker) -> CarriedOut:
    """The product's own way: read, plan, send, and again if somebody was faster."""

    async def run() -> CarriedOut:
        upstream = Upstream([("127.0.0.1", proxy.etcd.port)])
        try:
            done = await carry_out(upstream, InstanceId(worker.instance), TAKEN_BACK, clock=now)
        finally:
            await upstream.close()
        assert isinstance(done, CarriedOut)
        assert done.effect is Effect.WITHDRAWN
        return done

    return asyncio.run(run())


def planned(proxy: Proxy, worker: Worker) -> Planned:
    """A withdrawal that has read the instance, and is about to be sent."""
    instance, keys = InstanceId(worker.instance), ()
    while True:
        snapshot = snapshot_from(instance, keys, proxy.public.kv.Txn(read_request(instance, keys), timeout=20))
        plan = TAKEN_BACK(snapshot, now())
        if isinstance(plan, Planned):
            return plan
        assert isinstance(plan, MoreKeys)
        keys = snapshot.read_again()


def planned_write(proxy: Proxy, worker: Worker, request: WorkerRequest) -> Gated:
    """A write of the worker for which a proxy has read the instance, and which is about to be sent."""
    gated_keys = dynamo_gated_keys(instances=False)
    uses = examine(as_txn(request), gated_keys)
    assert uses is not None
    answer = proxy.public.kv.Txn(read_request(uses.instance, tuple(uses.keys)), timeout=20)
    snapshot = snapshot_from(uses.instance, tuple(uses.keys), answer)
    policy = gates_for_everything({"smoke": 900, "latency": 600})
    gated = gate_call(as_txn(request), uses, snapshot, gated_keys, policy, now(), lease_was_seen=True)
    assert isinstance(gated, Gated)
    return gated


def sent(proxy: Proxy, txn: rpc_pb2.TxnRequest) -> rpc_pb2.TxnResponse:
    return proxy.public.kv.Txn(txn, timeout=20)


@pytest.fixture
def worker(proxy: Proxy) -> Worker:
    """Released, with a model and an adapter."""
    worker = proxy.held_worker()
    worker.register_lora()
    assert proxy.control.pass_gates(worker.instance) == "RELEASED"
    return worker


@pytest.fixture
def seen(proxy: Proxy, worker: Worker) -> Iterator[WatchLog]:
    """What the public is told of cards after the release."""
    with proxy.public.watch(b"v1/", b"v10") as log:
        yield log


def test_all_of_it_is_taken_back_at_once(proxy: Proxy, worker: Worker, seen: WatchLog) -> None:
    revision = withdraw(proxy, worker).revision
    seen.wait_revision(revision)
    assert seen.changes == [("DELETE", worker.card_key), ("DELETE", worker.lora_key())]
    assert next(seen.batches()) == [worker.card_key, worker.lora_key()]
    assert proxy.shown(worker) == []
    assert proxy.held(worker) == [worker.card_key, worker.lora_key()]
    assert proxy.control.state(worker.instance) == "WITHDRAWN"


def test_the_worker_goes_on_as_if_nothing_had_happened(proxy: Proxy, worker: Worker) -> None:
    """It reads its card and edits its taints; what it writes is kept back, and public again with the next release."""
    withdraw(proxy, worker)
    read = worker.read()
    assert (read.value, read.lease) == (worker.card(), worker.lease)
    assert worker.swap(worker.card(taints=["gold"]), read.mod_revision).succeeded
    assert proxy.shown(worker) == []
    assert proxy.control.pass_gates(worker.instance) == "RELEASED"
    assert proxy.shown(worker) == [worker.card_key, worker.lora_key()]
    assert proxy.public.get(worker.card_key).value == worker.card(taints=["gold"])


def test_a_verdict_from_before_it_does_not_release_again(proxy: Proxy, worker: Worker) -> None:
    """Every gate must pass anew: a repeated report of the old attempt is stale."""
    attempt = proxy.control.attempt(worker.instance, "smoke")
    withdraw(proxy, worker)
    assert proxy.control.attempt(worker.instance, "smoke") == attempt + 1
    proxy.control.verdict(worker.instance, "smoke", "passed")
    assert proxy.shown(worker) == []


def test_a_new_card_between_its_read_and_its_txn_is_taken_back_too(proxy: Proxy, worker: Worker) -> None:
    plan = planned(proxy, worker)
    worker.register_lora("late")
    assert worker.lora_key("late") in proxy.shown(worker)
    assert not sent(proxy, plan.txn).succeeded
    withdraw(proxy, worker)
    assert proxy.shown(worker) == []
    assert sorted(proxy.held(worker)) == [worker.card_key, worker.lora_key("late"), worker.lora_key()]


def test_an_edit_between_its_read_and_its_txn_is_not_lost(proxy: Proxy, worker: Worker) -> None:
    plan = planned(proxy, worker)
    assert worker.swap(worker.card(taints=["gold"]), worker.read().mod_revision).succeeded
    assert not sent(proxy, plan.txn).succeeded
    withdraw(proxy, worker)
    assert proxy.shown(worker) == []
    assert worker.read().value == worker.card(taints=["gold"])


def test_a_delete_between_its_read_and_its_txn_is_not_undone(proxy: Proxy, worker: Worker) -> None:
    plan = planned(proxy, worker)
    assert worker.client.delete(worker.lora_key()).deleted == 1
    assert not sent(proxy, plan.txn).succeeded
    withdraw(proxy, worker)
    assert proxy.held(worker) == [worker.card_key]
    assert proxy.shown(worker) == []


def test_a_card_that_left_and_came_back_is_taken_back(proxy: Proxy, worker: Worker) -> None:
    """An adapter was unloaded before the withdrawal read, and comes back before its Txn."""
    assert worker.client.delete(worker.lora_key()).deleted == 1
    plan = planned(proxy, worker)
    worker.register_lora()
    assert not sent(proxy, plan.txn).succeeded
    withdraw(proxy, worker)
    assert proxy.shown(worker) == []


WRITES = {
    "an edit": lambda worker: rpc_pb2.PutRequest(
        key=worker.card_key, value=worker.card(taints=["gold"]), lease=worker.lease
    ),
    "a new adapter": lambda worker: rpc_pb2.PutRequest(
        key=worker.lora_key("late"), value=worker.lora_card("late"), lease=worker.lease
    ),
    "a delete": lambda worker: rpc_pb2.DeleteRangeRequest(key=worker.card_key),
    "a swap": lambda worker: rpc_pb2.TxnRequest(
        compare=[version_is(worker.card_key, 1)],
        success=[rpc_pb2.RequestOp(request_delete_range=rpc_pb2.DeleteRangeRequest(key=worker.card_key))],
    ),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_workers_write_from_before_it_is_not_carried_out_after_it(
    proxy: Proxy, worker: Worker, write: "type[object]"
) -> None:
    """Another proxy read the instance while it was released, and is slow: its write must not make anything public."""
    late = planned_write(proxy, worker, write(worker))
    withdraw(proxy, worker)
    assert isinstance(settle(late, sent(proxy, late.txn)), FenceLost)
    assert proxy.shown(worker) == []
    assert proxy.held(worker) == [worker.card_key, worker.lora_key()]


def test_more_cards_than_fit_flat_are_taken_back_at_one_revision(proxy: Proxy) -> None:
    worker = proxy.released_worker()
    names = [f"a{number:03}" for number in range(ADAPTERS_THAT_NEED_NESTING)]
    for name in names:
        worker.register_lora(name)
    with proxy.public.watch(b"v1/", b"v10") as log:
        log.wait_revision(withdraw(proxy, worker).revision)
        assert log.changes == [("DELETE", key) for key in (worker.card_key, *map(worker.lora_key, names))]
    assert proxy.shown(worker) == []
    assert len(proxy.held(worker)) == len(names) + 1
    assert proxy.control.pass_gates(worker.instance) == "RELEASED"
    assert len(proxy.shown(worker)) == len(names) + 1
