"""A release, seen from outside: all of it at once, in order, once, and only what is there at that moment.

What comes between a release's read and its Txn is brought there by hand: the read and the plan are the product's own
functions, called from here, and the Txn is sent after something else has happened through the proxy.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

import grpc
import pytest

from greenroom.core.keyspace import InstanceId
from greenroom.core.snapshot import read_request, snapshot_from
from greenroom.core.transitions import Outcome
from greenroom.core.verdicts import Effect, Planned, verdict
from greenroom.pb.etcd import rpc_pb2
from tests.support.control import error_reason
from tests.support.endpoints import Proxy
from tests.support.waiting import wait_for
from tests.support.watching import WatchLog
from tests.support.workers import Worker


@pytest.fixture
def seen(proxy: Proxy) -> Iterator[WatchLog]:
    """What the public is told, from the start of the test."""
    with proxy.public.watch(b"\x02", b"\0") as log:
        yield log


def up_to_now(proxy: Proxy, seen: WatchLog) -> list[tuple[str, bytes]]:
    """All changes that the public has been told of until now, without the mark that says when now is."""
    mark = ("PUT", b"mark")
    seen.wait_revision(proxy.public.put(b"mark", b"").header.revision)
    return [change for change in seen.changes if change != mark]


def planned_last_verdict(proxy: Proxy, worker: Worker) -> Planned:
    """A proxy has read the instance and is about to release it: `smoke` has passed, and `latency` passes now."""
    proxy.control.verdict(worker.instance, "smoke", "passed")
    instance = InstanceId(worker.instance)
    snapshot = snapshot_from(instance, (), proxy.public.kv.Txn(read_request(instance), timeout=20))
    attempt = proxy.control.attempt(worker.instance, "latency")
    plan = verdict("latency", attempt, Outcome.PASSED, reason="", reporter="tests")(snapshot, datetime.now(UTC))
    assert isinstance(plan, Planned)
    assert plan.effect is Effect.RELEASED
    return plan


def sent(proxy: Proxy, plan: Planned) -> rpc_pb2.TxnResponse:
    return proxy.public.kv.Txn(plan.txn, timeout=20)


def test_everything_appears_at_one_revision_in_the_order_of_registration(proxy: Proxy, seen: WatchLog) -> None:
    """A model, then two adapters, one registered first under a later name: one response, one revision, that order."""
    worker = proxy.held_worker()
    worker.register_lora("zebra")
    worker.register_lora("ant")
    order = [worker.card_key, worker.lora_key("zebra"), worker.lora_key("ant")]
    assert up_to_now(proxy, seen) == []
    assert proxy.control.verdict(worker.instance, "smoke", "passed") == "RECORDED"
    assert up_to_now(proxy, seen) == []
    assert proxy.control.verdict(worker.instance, "latency", "passed") == "RELEASED"
    assert up_to_now(proxy, seen) == [("PUT", key) for key in order]
    (batch,) = (keys for keys in seen.batches() if keys != [b"mark"])
    assert batch == order
    events = [event.kv for event in seen.events if event.kv.key in order]
    assert {entry.version for entry in events} == {1}
    assert {entry.lease for entry in events} == {worker.lease}
    assert len({entry.mod_revision for entry in events}) == 1
    assert all(entry.create_revision == entry.mod_revision for entry in events)
    assert events[0].value == worker.card()
    assert proxy.held(worker) == []


def test_what_was_edited_while_held_is_released_as_edited(proxy: Proxy, seen: WatchLog) -> None:
    worker = proxy.held_worker()
    assert worker.swap(worker.card(taints=["gold"]), worker.read().mod_revision).succeeded
    assert proxy.control.pass_gates(worker.instance) == "RELEASED"
    assert up_to_now(proxy, seen) == [("PUT", worker.card_key)]
    assert proxy.public.get(worker.card_key).value == worker.card(taints=["gold"])


def test_a_failed_gate_publishes_nothing(proxy: Proxy, seen: WatchLog) -> None:
    worker = proxy.held_worker()
    proxy.control.verdict(worker.instance, "smoke", "passed")
    assert proxy.control.verdict(worker.instance, "latency", "failed") == "REJECTED"
    assert proxy.control.state(worker.instance) == "REJECTED"
    assert worker.swap(worker.card(taints=["gold"]), worker.read().mod_revision).succeeded
    assert up_to_now(proxy, seen) == []


def test_a_rollout_hold_stops_the_release_until_it_is_lifted(proxy: Proxy, seen: WatchLog) -> None:
    worker = proxy.held_worker()
    proxy.control.hold_rollout("freeze")
    assert proxy.control.pass_gates(worker.instance) == "QUEUED"
    assert up_to_now(proxy, seen) == []
    proxy.control.lift_rollout("freeze")
    wait_for(lambda: proxy.shown(worker), describe="the lifted hold leads to the release")
    assert up_to_now(proxy, seen) == [("PUT", worker.card_key)]


def test_a_card_deleted_while_held_is_never_published(proxy: Proxy, seen: WatchLog) -> None:
    """An adapter is unloaded before the gates have passed: only the model appears, and the adapter never."""
    worker = proxy.held_worker()
    worker.register_lora()
    assert worker.client.delete(worker.lora_key()).deleted == 1
    assert proxy.control.pass_gates(worker.instance) == "RELEASED"
    assert up_to_now(proxy, seen) == [("PUT", worker.card_key)]
    assert worker.client.get(worker.lora_key()) is None


def test_an_instance_without_cards_waits_for_one(proxy: Proxy, seen: WatchLog) -> None:
    """Its only card is deleted, and then its gates pass: nothing to publish, and nothing comes back."""
    worker = proxy.held_worker()
    assert worker.unregister() == 1
    assert proxy.control.pass_gates(worker.instance) != "RELEASED"
    assert up_to_now(proxy, seen) == []
    assert proxy.control.state(worker.instance) == "HELD"


def test_a_write_between_a_releases_read_and_its_txn_is_published(proxy: Proxy, seen: WatchLog) -> None:
    """A taint edit comes at the very moment of the release: the release is lost and done anew with the edit in it."""
    worker = proxy.held_worker()
    plan = planned_last_verdict(proxy, worker)
    assert worker.swap(worker.card(taints=["gold"]), worker.read().mod_revision).succeeded
    assert not sent(proxy, plan).succeeded
    assert up_to_now(proxy, seen) == []
    assert proxy.control.verdict(worker.instance, "latency", "passed") == "RELEASED"
    assert up_to_now(proxy, seen) == [("PUT", worker.card_key)]
    assert proxy.public.get(worker.card_key).value == worker.card(taints=["gold"])


def test_a_card_between_a_releases_read_and_its_txn_is_not_left_behind(proxy: Proxy, seen: WatchLog) -> None:
    """An adapter comes at that moment: it was not checked, so nothing is released before its gates pass."""
    worker = proxy.held_worker()
    plan = planned_last_verdict(proxy, worker)
    worker.register_lora()
    assert not sent(proxy, plan).succeeded
    assert proxy.held(worker) == [worker.card_key, worker.lora_key()]
    assert proxy.control.pass_gates(worker.instance) == "RELEASED"
    assert up_to_now(proxy, seen) == [("PUT", worker.card_key), ("PUT", worker.lora_key())]


def test_a_delete_between_a_releases_read_and_its_txn_is_not_undone(proxy: Proxy, seen: WatchLog) -> None:
    """An adapter is unloaded at that moment: the late release must not bring it back."""
    worker = proxy.held_worker()
    worker.register_lora()
    plan = planned_last_verdict(proxy, worker)
    assert worker.client.delete(worker.lora_key()).deleted == 1
    assert not sent(proxy, plan).succeeded
    assert proxy.control.verdict(worker.instance, "latency", "passed") == "RELEASED"
    assert up_to_now(proxy, seen) == [("PUT", worker.card_key)]


def test_a_rollout_hold_between_a_releases_read_and_its_txn_stops_it(proxy: Proxy, seen: WatchLog) -> None:
    worker = proxy.held_worker()
    plan = planned_last_verdict(proxy, worker)
    proxy.control.hold_rollout("freeze")
    assert not sent(proxy, plan).succeeded
    assert proxy.control.verdict(worker.instance, "latency", "passed") == "QUEUED"
    assert up_to_now(proxy, seen) == []


def test_a_failure_between_a_releases_read_and_its_txn_stops_it(proxy: Proxy, seen: WatchLog) -> None:
    """Another reporter fails the gate first: whoever is second is told so, and nothing is released."""
    worker = proxy.held_worker()
    plan = planned_last_verdict(proxy, worker)
    assert proxy.control.verdict(worker.instance, "latency", "failed") == "REJECTED"
    assert not sent(proxy, plan).succeeded
    with pytest.raises(grpc.RpcError) as refusal:
        proxy.control.verdict(worker.instance, "latency", "passed")
    assert error_reason(refusal.value) == "VERDICT_ALREADY_GIVEN"
    assert up_to_now(proxy, seen) == []


def test_a_lease_revoked_between_a_releases_read_and_its_txn_leaves_nothing(proxy: Proxy, seen: WatchLog) -> None:
    """The worker stops at that moment: nothing is written, and the instance is gone."""
    worker = proxy.held_worker()
    plan = planned_last_verdict(proxy, worker)
    worker.client.revoke(worker.lease)
    assert not sent(proxy, plan).succeeded
    assert not proxy.has_record(worker)
    assert proxy.held(worker) == []
    with pytest.raises(grpc.RpcError) as refusal:
        proxy.control.instance(worker.instance)
    assert error_reason(refusal.value) == "UNKNOWN_INSTANCE"
    assert up_to_now(proxy, seen) == []


def test_a_release_sent_twice_publishes_once(proxy: Proxy, seen: WatchLog) -> None:
    """Two proxies release at the same time from the same read: one of them wins."""
    worker = proxy.held_worker()
    plan = planned_last_verdict(proxy, worker)
    assert proxy.control.verdict(worker.instance, "latency", "passed") == "RELEASED"
    assert not sent(proxy, plan).succeeded
    assert proxy.control.verdict(worker.instance, "latency", "passed", attempt=1) == "RELEASED"
    assert up_to_now(proxy, seen) == [("PUT", worker.card_key)]
