"""The lines about instances and rollout holds."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from greenroom.control.announce import Announcer
from greenroom.control.metrics import Metrics
from greenroom.core.policy import Hold, Requirements
from greenroom.core.rollout_holds import RolloutHold
from greenroom.core.transitions import Outcome, opened_as_public, released, with_verdict, withdrawn
from greenroom.core.verdicts import Effect
from greenroom.pb.etcd import kv_pb2
from greenroom.store.fenced import CarriedOut
from greenroom.store.follower import Follower
from tests.support.control_side import EventLog, MovableClock
from tests.support.mirroring import ONE, delete_event, fed_follower, held, put_event, record_kv
from tests.support.registering import entry, held_record, instance_record, instance_record_key, now

ADDRESS_EVENT = put_event(instance_record_key(ONE), instance_record(ONE, "10.0.0.7:1"))


def announcer_of(follower: Follower, control: str | None = None) -> tuple[Announcer, EventLog, Metrics]:
    log, clock = EventLog(), MovableClock()
    metrics = Metrics(follower.mirror, clock=clock, gates=(), methods=(), version="1")
    return Announcer(follower, clock=clock, log=log, metrics=metrics, control=control), log, metrics


@asynccontextmanager
async def running(announcer: Announcer) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(announcer.run())
        await asyncio.sleep(0)
        try:
            yield
        finally:
            task.cancel()


async def follower_with_address(kvs: list[kv_pb2.KeyValue]) -> Follower:
    follower = fed_follower(kvs)
    follower.addresses_changed(follower.mirror.apply_addresses([ADDRESS_EVENT]))
    return follower


async def test_a_held_instance_is_told_with_what_passes_its_first_gate() -> None:
    record = held_record(ONE, {"smoke": 900.0, "latency": 60.0})
    announcer, log, _ = announcer_of(await follower_with_address(held(ONE, record)), "10.0.0.1:2390")
    async with running(announcer):
        announcer.opened(ONE)
        [event] = await log.wait_named("instance.held")
    assert event["command"] == f"greenroom verdict {ONE} smoke passed --reason TEXT --control 10.0.0.1:2390"
    assert event["address"] == "10.0.0.7:1"
    smoke, latency = event["waits_for"].split(", ")
    assert smoke == f"smoke until {record.gates['smoke'].deadline:%Y-%m-%d %H:%M:%S} UTC"
    assert latency.startswith("latency until ")


async def test_the_line_waits_for_the_address() -> None:
    follower = fed_follower(held(ONE))
    announcer, log, _ = announcer_of(follower)
    async with running(announcer):
        announcer.opened(ONE)
        await asyncio.sleep(0)
        assert log.events == []
        follower.addresses_changed(follower.mirror.apply_addresses([ADDRESS_EVENT]))
        [event] = await log.wait_named("instance.held")
    assert event["address"] == "10.0.0.7:1"


async def test_an_instance_that_served_before_is_told_as_adopted() -> None:
    record = opened_as_public((entry(ONE),), Requirements(Hold.CARD, {"smoke": 1.0}), now())
    announcer, log, _ = announcer_of(await follower_with_address([record_kv(ONE, record)]))
    async with running(announcer):
        announcer.opened(ONE)
        await log.wait_named("instance.adopted")
    assert log.named("instance.held") == []


async def test_an_expiry_is_told_and_counted() -> None:
    follower = fed_follower(held(ONE))
    announcer, log, metrics = announcer_of(follower)
    async with running(announcer):
        await asyncio.sleep(0)
        follower.moved_on(follower.mirror.apply([delete_event(record_kv(ONE).key)]), 11)
        [event] = await log.wait_named("instance.expired")
    assert (event["instance"], event["state"]) == (ONE, "held")
    assert metrics.registry.get_sample_value("greenroom_expired_total", {"state": "held"}) == 1


async def test_what_a_txn_did_is_one_line_by_its_effect() -> None:
    announcer, log, _ = announcer_of(fed_follower([]))
    before = held_record(ONE)
    failed = with_verdict(before, "smoke", 1, Outcome.FAILED, reason="no answer", reporter="ci", now=now())
    passed = with_verdict(before, "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=now())
    out = released(passed, now())
    back = withdrawn(out, "ops", "bad answers", now(), by_person=True)
    for old, new, effect in (
        (before, passed, Effect.STORED),
        (before, failed, Effect.REJECTED),
        (passed, out, Effect.RELEASED),
        (out, back, Effect.WITHDRAWN),
    ):
        announcer.carried_out(CarriedOut(ONE, old, new, effect, 7))
    assert [event["event"] for event in log.events] == ["instance.rejected", "instance.released", "instance.withdrawn"]
    rejected, told, _ = log.events
    assert (rejected["reason"], rejected["actor"]) == ("no answer", "ci")
    assert told["models"] == "Qwen/Qwen3-0.6B"
    assert told["endpoint"] == "dynamo.backend.generate"
    assert told["revision"] == 7


async def test_rollout_holds_are_told_when_created_and_lifted() -> None:
    announcer, log, _ = announcer_of(fed_follower([]))
    hold = RolloutHold(hold_id="freeze", reason="incident", actor="ops", expires=now())
    announcer.rollout_hold_created(hold)
    announcer.rollout_hold_lifted(hold)
    created, lifted = log.events
    assert (created["event"], created["id"], created["actor"]) == ("rollout_hold.created", "freeze", "ops")
    assert created["until"] is not None
    assert (lifted["event"], lifted["selector"]) == ("rollout_hold.lifted", "everything")
