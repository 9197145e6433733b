"""What is due by itself: releases that a proxy died before, lifted holds, deadlines; once, by whichever proxy."""

import asyncio
from typing import Any

from greenroom.core import record as records
from greenroom.core.decide import DEADLINE_GRACE_SECONDS
from greenroom.core.keyspace import record_key
from greenroom.core.policy import Hold
from greenroom.core.record import Record, State
from greenroom.core.transitions import Outcome, with_verdict
from tests.support.client import EtcdClient
from tests.support.control_side import ControlSide, MovableClock, control_side
from tests.support.etcd import Etcd
from tests.support.mirroring import wait_mirrored
from tests.support.registering import Held, now, register, stored_record
from tests.support.waiting import wait_for_async

HOLD = b"\x01greenroom/rollout-holds/freeze"
HOLD_VALUE = b'{"hold_id": "freeze", "reason": "incident", "actor": "ops"}'


def store_verdict(client: EtcdClient, held: Held) -> None:
    """A proxy stored the last verdict and died before anything followed from it."""
    record = stored_record(client, held.instance)
    after = with_verdict(record, "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=now())
    client.put(record_key(held.instance), records.encode(after), ignore_lease=True)


async def state_of(client: EtcdClient, held: Held, state: State) -> Record | None:
    record = stored_record(client, held.instance)
    return record if record.state is state else None


async def wait_state(client: EtcdClient, held: Held, state: State) -> Record:
    record = await wait_for_async(lambda: state_of(client, held, state), 10, f"{held.instance} is {state}")
    assert record is not None
    return record


async def test_what_a_dead_proxy_left_ready_is_released_at_the_start_of_another(etcd: Etcd, client: EtcdClient) -> None:
    held = register(client)
    store_verdict(client, held)
    async with control_side(etcd) as side:
        await wait_state(client, held, State.RELEASED)
        await side.log.wait_named("instance.released")
        assert side.sample("releases_total") == 1
        assert side.sample("hold_duration_seconds_count") == 1
    assert client.get(held.card).lease == held.lease


async def test_a_change_while_running_is_noticed_without_any_timer(etcd: Etcd, client: EtcdClient) -> None:
    async with control_side(etcd):
        held = register(client)
        with client.watch(held.card, b"") as public:
            store_verdict(client, held)
            await asyncio.to_thread(public.wait_events, 1, 3)


async def all_released(one: ControlSide, other: ControlSide, count: int) -> list[dict[str, Any]] | None:
    """The two logs' releases; a proxy logs one only when it has etcd's answer."""
    events = [*one.log.named("instance.released"), *other.log.named("instance.released")]
    return events if len(events) >= count else None


async def test_of_two_proxies_one_releases_and_the_other_says_nothing(etcd: Etcd, client: EtcdClient) -> None:
    async with control_side(etcd) as one, control_side(etcd) as other:
        client.put(HOLD, HOLD_VALUE)
        fleet = [register(client) for _ in range(30)]
        for held in fleet:
            store_verdict(client, held)
        await asyncio.gather(*(wait_mirrored(side.follower, client.revision()) for side in (one, other)))
        assert client.prefix(b"v1/mdc/").count == 0
        with client.watch(b"v1/mdc/", b"v1/mdc0") as public:
            client.delete(HOLD)
            await asyncio.to_thread(public.wait_events, 30)
            for held in fleet:
                await wait_state(client, held, State.RELEASED)
            assert len(public.events) == 30
        released = await wait_for_async(lambda: all_released(one, other, len(fleet)), describe="30 releases are logged")
        assert sorted(event["instance"] for event in released) == sorted(held.instance for held in fleet)
        assert one.sample("releases_total") + other.sample("releases_total") == 30
        assert [event for side in (one, other) for event in side.log.events if event["level"] != "info"] == []


async def test_a_passed_deadline_rejects_after_the_grace_and_not_before(etcd: Etcd, client: EtcdClient) -> None:
    held = register(client, {"smoke": 1.0})
    clock = MovableClock()
    clock.advance(DEADLINE_GRACE_SECONDS - 10)
    async with control_side(etcd, clock=clock) as side:
        client.put(b"\x01greenroom/instances/zz", b"{}")
        await wait_mirrored(side.follower, client.revision())
        assert stored_record(client, held.instance).state is State.HELD
        clock.advance(DEADLINE_GRACE_SECONDS + 1)
        record = await wait_state(client, held, State.REJECTED)
        assert record.gates["smoke"].reason == "no verdict within 1 s"
        [event] = await side.log.wait_named("instance.rejected")
        assert event["instance"] == held.instance
        assert side.sample("rejections_total", cause="deadline") == 1
        assert side.sample("gate_duration_seconds_count", gate="smoke", outcome="deadline") == 1
    assert client.get(held.card) is None


async def test_with_hold_health_the_public_card_counts_as_live(etcd: Etcd, client: EtcdClient) -> None:
    held = register(client, hold=Hold.HEALTH)
    store_verdict(client, held)
    async with control_side(etcd):
        await wait_state(client, held, State.RELEASED)


async def test_an_outage_of_etcd_is_survived_and_work_goes_on(own_etcd: Etcd) -> None:
    with own_etcd.client() as client:
        held = register(client, ttl_seconds=600)
    async with control_side(own_etcd) as side:
        own_etcd.kill()
        await side.log.wait_named("follower.away")
        assert not side.follower.ready
        own_etcd.start()
        await asyncio.wait_for(side.follower.wait_ready(), 10)
        with own_etcd.client() as client:
            store_verdict(client, held)
            await wait_state(client, held, State.RELEASED)


async def test_an_instance_that_expires_is_told_once_by_each_proxy(etcd: Etcd, client: EtcdClient) -> None:
    async with control_side(etcd) as side:
        held = register(client)
        await wait_mirrored(side.follower, client.revision())
        client.revoke(held.lease)
        [event] = await side.log.wait_named("instance.expired")
        assert (event["instance"], event["state"]) == (held.instance, "held")
        assert side.sample("expired_total", state="held") == 1
        assert side.mirror.instance(held.instance) is None


async def test_a_bug_met_on_one_instance_does_not_stop_another(etcd: Etcd, client: EtcdClient) -> None:
    """A shadow that the record does not name makes the plan fail: it must never be deleted unpublished."""
    broken, held = register(client), register(client)
    client.put(b"\x01greenroom/held/" + broken.instance.encode() + b"/v1/mdc/strange", b"1", broken.lease)
    store_verdict(client, broken)
    async with control_side(etcd) as side:
        await side.log.wait_named("reconciler.failed")
        store_verdict(client, held)
        await wait_state(client, held, State.RELEASED)
        assert stored_record(client, broken.instance).state is State.HELD
