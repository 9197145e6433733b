"""Lists of instances, one instance, and the control port itself: health, reflection, strictness about requests."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from greenroom.control.server import ControlServer
from greenroom.core.keyspace import record_key
from greenroom.errors import StartError
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.callers import open_admission
from tests.support.client import EtcdClient, put
from tests.support.control_errors import error_info
from tests.support.control_side import ControlSide, EventLog, control_side
from tests.support.etcd import Etcd
from tests.support.mirroring import wait_mirrored
from tests.support.registering import Held, instance_record, instance_record_key, now, register
from tests.support.waiting import wait_for_async

SERVICE = "greenroom.control.v1.Control"


@pytest.fixture
async def side(etcd: Etcd) -> AsyncIterator[ControlSide]:
    async with control_side(etcd) as side:
        yield side


async def mirrored(side: ControlSide, client: EtcdClient) -> None:
    """Returns once the mirror shows all that was written so far."""
    revision = client.put(b"\x01greenroom/budget", b"").header.revision
    await wait_mirrored(side.follower, revision)


async def raw_call(side: ControlSide, method: str, data: bytes) -> bytes:
    async with grpc.aio.insecure_channel(side.control_address) as channel:
        return await channel.unary_unary(f"/{SERVICE}/{method}")(data)


async def test_an_instance_says_who_it_is_and_what_it_waits_for(side: ControlSide, client: EtcdClient) -> None:
    held = register(client, {"smoke": 900.0, "latency": 600.0})
    client.put(instance_record_key(held.instance), instance_record(held.instance, "10.0.0.7:4242"), held.lease)
    await wait_for_async(lambda: _has_address(side, held), describe="the address is mirrored")
    said = await side.stub.GetInstance(pb.GetInstanceRequest(name=held.name))
    assert (said.name, said.id, said.address) == (held.name, held.instance, "10.0.0.7:4242")
    assert (said.namespace, said.component, list(said.endpoints)) == ("dynamo", "backend", ["generate"])
    assert list(said.models) == ["Qwen/Qwen3-0.6B"]
    assert (said.state, said.hold, said.generation) == (pb.INSTANCE_STATE_HELD, pb.HOLD_CARD, 1)
    assert [(key.key, key.live) for key in said.gated_keys] == [(held.card, True)]
    assert [(gate.gate, gate.attempt, gate.state) for gate in said.gates] == [
        ("latency", 1, pb.GATE_STATE_PENDING),
        ("smoke", 1, pb.GATE_STATE_PENDING),
    ]
    assert said.record_revision == client.get(record_key(held.instance)).mod_revision
    assert {one.type: one.status for one in said.conditions} == {
        "GatesPassed": False,
        "NotOnHold": True,
        "BudgetAvailable": True,
        "NoConflict": True,
    }
    listed = await side.stub.ListInstances(pb.ListInstancesRequest())
    assert list(listed.instances) == [said]


async def _has_address(side: ControlSide, held: Held) -> bool:
    return side.mirror.address(held.instance) is not None


async def test_a_deleted_card_is_named_as_gone(side: ControlSide, client: EtcdClient) -> None:
    held = register(client)
    client.delete(b"\x01greenroom/held/" + held.instance.encode() + b"/" + held.card)
    said = await side.stub.GetInstance(pb.GetInstanceRequest(name=held.name))
    assert [key.live for key in said.gated_keys] == [False]


async def test_pages_come_in_the_order_of_arrival_and_lose_nothing_when_one_leaves(
    side: ControlSide, client: EtcdClient
) -> None:
    start = now()
    fleet = [register(client, at=start - timedelta(seconds=number)) for number in range(5)]
    await mirrored(side, client)
    oldest_first = [held.instance for held in reversed(fleet)]
    first = await side.stub.ListInstances(pb.ListInstancesRequest(page_size=2))
    assert [one.id for one in first.instances] == oldest_first[:2]
    client.revoke(fleet[-2].lease)
    await mirrored(side, client)
    request = pb.ListInstancesRequest(page_size=2, page_token=first.next_page_token)
    second = await side.stub.ListInstances(request)
    assert [one.id for one in second.instances] == oldest_first[2:4]
    request.page_token = second.next_page_token
    third = await side.stub.ListInstances(request)
    assert ([one.id for one in third.instances], third.next_page_token) == (oldest_first[4:], "")


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, True),
        ({"state": pb.INSTANCE_STATE_HELD, "namespace": "dynamo", "component": "backend"}, True),
        ({"model": "Qwen/Qwen3-0.6B"}, True),
        ({"state": pb.INSTANCE_STATE_RELEASED}, False),
        ({"namespace": "dyn"}, False),
        ({"component": "frontend"}, False),
        ({"model": "Qwen"}, False),
    ],
)
async def test_all_filters_must_match(
    side: ControlSide, client: EtcdClient, filters: dict[str, Any], found: bool
) -> None:
    held = register(client)
    await mirrored(side, client)
    answer = await side.stub.ListInstances(pb.ListInstancesRequest(**filters))
    assert [one.id for one in answer.instances] == ([held.instance] if found else [])


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"page_size": -1}, "page_size"),
        ({"page_token": "nonsense"}, "page_token"),
        ({"page_token": "WyJhIiwgImIiXQ=="}, "other filters"),
        ({"state": 17}, "state"),
    ],
)
async def test_a_list_request_with_a_wrong_field_names_it(side: ControlSide, fields: dict[str, Any], says: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as wrong:
        await side.stub.ListInstances(pb.ListInstancesRequest(**fields))
    assert wrong.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error_info(wrong.value).reason == "INVALID_REQUEST"
    assert says in wrong.value.details()


@pytest.mark.parametrize(
    "name", ["", "instances/", "7587", "instances/XYZ", "instances/0a", "instances/a/b", "rolloutHolds/a"]
)
async def test_a_malformed_name_is_refused_in_words(side: ControlSide, name: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as wrong:
        await side.stub.GetInstance(pb.GetInstanceRequest(name=name))
    assert wrong.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "instances/" in wrong.value.details()


async def test_an_instance_that_never_was_is_unknown(side: ControlSide) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as unknown:
        await side.stub.GetInstance(pb.GetInstanceRequest(name="instances/abc"))
    assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
    info = error_info(unknown.value)
    assert (info.reason, info.metadata["instance"]) == ("UNKNOWN_INSTANCE", "abc")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x0a\x05inst\xff", "UTF-8"),
        (b"\x0a", "GetInstanceRequest"),
        (b"\x0a\x0dinstances/abc\x98\x06\x01", "field 99"),
    ],
)
async def test_bytes_that_are_no_request_of_this_version_are_refused_in_words(
    side: ControlSide, data: bytes, says: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as wrong:
        await raw_call(side, "GetInstance", data)
    assert wrong.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error_info(wrong.value).reason == "INVALID_REQUEST"
    assert says in wrong.value.details()


async def test_an_unreadable_record_is_counted_and_hides_no_other(side: ControlSide, client: EtcdClient) -> None:
    broken, held = register(client), register(client)
    client.txn([], [put(record_key(broken.instance), b"{}", broken.lease)])
    await mirrored(side, client)
    listed = await side.stub.ListInstances(pb.ListInstancesRequest())
    assert [one.id for one in listed.instances] == [held.instance]
    assert side.sample("unreadable_records") == 1


async def test_the_port_answers_health_and_reflection(side: ControlSide) -> None:
    async with grpc.aio.insecure_channel(side.control_address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for service in ("", SERVICE):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
        ask = reflection_pb2.ServerReflectionRequest(list_services="")
        call = reflection.ServerReflectionInfo(iter([ask]))
        answer = await call.read()
        assert SERVICE in {service.name for service in answer.list_services_response.service}
        call.cancel()


async def test_a_taken_control_port_is_a_start_error(side: ControlSide) -> None:
    port = int(side.control_address.rpartition(":")[2])
    second = ControlServer(side.service, side.follower, open_admission(), host="127.0.0.1", port=port, log=EventLog())
    with pytest.raises(StartError, match=f"--control-listen '127.0.0.1:{port}': the port is taken"):
        await second.start()
    await second.stop(0)


async def test_while_etcd_is_away_lists_are_refused_rather_than_old(own_etcd: Etcd) -> None:
    async with control_side(own_etcd) as side:
        own_etcd.stop()
        await side.log.wait_named("follower.away")
        for call in (
            side.stub.ListInstances(pb.ListInstancesRequest()),
            side.stub.ListRolloutHolds(pb.ListRolloutHoldsRequest()),
            side.stub.GetInstance(pb.GetInstanceRequest(name="instances/abc")),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as away:
                await call
            assert away.value.code() is grpc.StatusCode.UNAVAILABLE
            assert error_info(away.value).reason == "NOT_READY"
