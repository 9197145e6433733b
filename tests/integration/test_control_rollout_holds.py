"""Rollout holds through the control API on a real etcd: created once, heeded at once, ended by lease or lift."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest

from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.client import EtcdClient
from tests.support.control_errors import error_info
from tests.support.control_side import ControlSide, control_side
from tests.support.etcd import Etcd
from tests.support.mirroring import wait_mirrored
from tests.support.registering import Held, register

HOLDS = b"\x01greenroom/rollout-holds/"


@pytest.fixture
async def side(etcd: Etcd) -> AsyncIterator[ControlSide]:
    async with control_side(etcd) as side:
        yield side


def asks(hold_id: str = "", **fields: Any) -> pb.CreateRolloutHoldRequest:
    hold = pb.RolloutHold(**{"reason": "incident 7", "actor": "ops", **fields})
    return pb.CreateRolloutHoldRequest(rollout_hold=hold, rollout_hold_id=hold_id)


def passed(held: Held) -> pb.ReportVerdictRequest:
    return pb.ReportVerdictRequest(name=held.name, gate="smoke", attempt=1, outcome=pb.OUTCOME_PASSED)


async def test_a_ready_instance_waits_for_the_lift_and_is_then_released(side: ControlSide, client: EtcdClient) -> None:
    held = register(client)
    hold = await side.stub.CreateRolloutHold(asks("freeze"))
    assert (hold.name, hold.reason, hold.actor) == ("rolloutHolds/freeze", "incident 7", "ops")
    answer = await side.stub.ReportVerdict(passed(held))
    assert answer.decision == pb.DECISION_QUEUED
    condition = next(one for one in answer.instance.conditions if one.type == "NotOnHold")
    assert (condition.status, condition.reason) == (False, "RolloutHold")
    assert "incident 7" in condition.message
    assert client.get(held.card) is None
    with client.watch(held.card, b"") as public:
        await side.stub.LiftRolloutHold(pb.LiftRolloutHoldRequest(name=hold.name))
        await asyncio.to_thread(public.wait_events, 1)
    assert [event["instance"] for event in await side.log.wait_named("instance.released")] == [held.instance]
    assert [event["id"] for event in side.log.named("rollout_hold.created")] == ["freeze"]
    assert [event["id"] for event in side.log.named("rollout_hold.lifted")] == ["freeze"]


async def test_a_hold_stops_only_what_it_selects(side: ControlSide, client: EtcdClient) -> None:
    stopped, other = register(client, model="Llama/8B"), register(client)
    await side.stub.CreateRolloutHold(asks(selector=pb.Selector(model="Llama/*")))
    assert (await side.stub.ReportVerdict(passed(stopped))).decision == pb.DECISION_QUEUED
    assert (await side.stub.ReportVerdict(passed(other))).decision == pb.DECISION_RELEASED


async def test_a_hold_with_a_ttl_ends_by_its_lease(side: ControlSide, client: EtcdClient) -> None:
    held = register(client)
    request = asks()
    request.rollout_hold.ttl.FromSeconds(1)
    hold = await side.stub.CreateRolloutHold(request)
    assert datetime.now(UTC) < hold.expire_time.ToDatetime(UTC) <= datetime.now(UTC) + timedelta(seconds=3)
    assert not hold.HasField("ttl")
    assert (await side.stub.ReportVerdict(passed(held))).decision == pb.DECISION_QUEUED
    with client.watch(held.card, b"") as public:
        await asyncio.to_thread(public.wait_events, 1)
    assert client.prefix(HOLDS).count == 0
    [expired] = await side.log.wait_named("rollout_hold.expired")
    assert (expired["id"], expired["actor"]) == (hold.name.removeprefix("rolloutHolds/"), "ops")
    assert side.log.named("rollout_hold.lifted") == []


async def test_the_list_shows_what_a_hold_stops_as_soon_as_it_is_there(side: ControlSide, client: EtcdClient) -> None:
    """`greenroom rollout-hold create` says by this list whom it stops."""
    held = register(client)
    await wait_mirrored(side.follower, client.put(b"\x01greenroom/budget", b"").header.revision)
    for number in range(5):
        await side.stub.CreateRolloutHold(asks(f"freeze-{number}"))
        [listed] = (await side.stub.ListInstances(pb.ListInstancesRequest())).instances
        assert listed.id == held.instance
        [condition] = [one for one in listed.conditions if one.type == "NotOnHold"]
        assert f"rollout hold freeze-{number} by ops" in condition.message


async def test_a_lifted_hold_leaves_no_lease(side: ControlSide, client: EtcdClient) -> None:
    request = asks()
    request.rollout_hold.expire_time.FromDatetime(datetime.now(UTC) + timedelta(hours=1))
    hold = await side.stub.CreateRolloutHold(request)
    assert len(client.leases()) == 1
    lifted = await side.stub.LiftRolloutHold(pb.LiftRolloutHoldRequest(name=hold.name))
    assert lifted.rollout_hold == hold
    assert client.leases() == []


async def test_a_lift_leaves_other_keys_on_the_holds_lease_alone(side: ControlSide, client: EtcdClient) -> None:
    lease = client.grant()
    client.put(HOLDS + b"by-hand", b"not even JSON", lease)
    client.put(b"something/else", b"1", lease)
    await side.stub.LiftRolloutHold(pb.LiftRolloutHoldRequest(name="rolloutHolds/by-hand"))
    assert client.get(b"something/else") is not None
    assert client.prefix(HOLDS).count == 0


async def test_a_taken_id_is_refused_and_leaves_no_lease(side: ControlSide, client: EtcdClient) -> None:
    await side.stub.CreateRolloutHold(asks("freeze"))
    request = asks("freeze", reason="another")
    request.rollout_hold.ttl.FromSeconds(3600)
    with pytest.raises(grpc.aio.AioRpcError) as taken:
        await side.stub.CreateRolloutHold(request)
    assert taken.value.code() is grpc.StatusCode.ALREADY_EXISTS
    assert error_info(taken.value).reason == "ROLLOUT_HOLD_EXISTS"
    assert client.leases() == []
    listed = await side.stub.ListRolloutHolds(pb.ListRolloutHoldsRequest())
    assert [hold.reason for hold in listed.rollout_holds] == ["incident 7"]


async def test_lifting_what_is_not_there_names_what_is(side: ControlSide) -> None:
    await side.stub.CreateRolloutHold(asks("freeze"))
    with pytest.raises(grpc.aio.AioRpcError) as unknown:
        await side.stub.LiftRolloutHold(pb.LiftRolloutHoldRequest(name="rolloutHolds/thaw"))
    assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
    assert error_info(unknown.value).reason == "UNKNOWN_ROLLOUT_HOLD"
    assert "in force: freeze" in unknown.value.details()


async def test_lists_come_in_pages_by_name(side: ControlSide) -> None:
    for hold_id in ("c", "a", "b"):
        await side.stub.CreateRolloutHold(asks(hold_id))
    first = await side.stub.ListRolloutHolds(pb.ListRolloutHoldsRequest(page_size=2))
    assert [hold.name for hold in first.rollout_holds] == ["rolloutHolds/a", "rolloutHolds/b"]
    rest = await side.stub.ListRolloutHolds(pb.ListRolloutHoldsRequest(page_token=first.next_page_token))
    assert [hold.name for hold in rest.rollout_holds] == ["rolloutHolds/c"]
    assert rest.next_page_token == ""


@pytest.mark.parametrize(
    ("hold_id", "fields", "says"),
    [
        ("", {"reason": " "}, "rollout_hold.reason"),
        ("", {"actor": ""}, "rollout_hold.actor"),
        ("", {"actor": "a\nb"}, "rollout_hold.actor"),
        ("", {"name": "rolloutHolds/mine"}, "rollout_hold_id"),
        ("No Label", {}, "rollout_hold_id"),
        ("", {"ttl": timedelta(0)}, "rollout_hold.ttl"),
        ("", {"ttl": timedelta(days=4000)}, "rollout_hold.ttl"),
        ("", {"expire_time": datetime(2020, 1, 1, tzinfo=UTC)}, "rollout_hold.expire_time"),
    ],
)
async def test_a_hold_with_a_wrong_field_is_refused_by_name(
    side: ControlSide, client: EtcdClient, hold_id: str, fields: dict[str, Any], says: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as wrong:
        await side.stub.CreateRolloutHold(asks(hold_id, **fields))
    assert wrong.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert says in wrong.value.details()
    assert (client.prefix(HOLDS).count, client.leases()) == (0, [])
