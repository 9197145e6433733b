"""Lists from the mirror. What is read from and written to etcd is shown in tests/integration."""

import pytest

from greenroom.control.announce import Announcer
from greenroom.control.metrics import Metrics
from greenroom.control.service import ControlService
from greenroom.core.keyspace import InstanceId
from greenroom.core.transitions import Outcome, with_verdict
from greenroom.errors import InvalidRequest, NotReady
from greenroom.pb.control.v1 import control_pb2 as pb
from greenroom.store.follower import Follower
from tests.support.control_side import EventLog, MovableClock
from tests.support.mirroring import ONE, TWO, fed_follower, held, record_kv, unconnected
from tests.support.policies import policy_in_force
from tests.support.previews import previews_before
from tests.support.registering import held_record, now

GRPC_MAX_BYTES = 4 * 1024 * 1024


def service_of(follower: Follower) -> ControlService:
    clock, log = MovableClock(), EventLog()
    metrics = Metrics(follower.mirror, clock=clock, gates=(), methods=(), version="1")
    announcer = Announcer(follower, clock=clock, log=log, metrics=metrics)
    upstream = unconnected()
    policy = policy_in_force(upstream, log=log)
    previews = previews_before(upstream, follower, clock=clock, log=log)
    return ControlService(
        *(upstream, follower),
        clock=clock,
        log=log,
        announcer=announcer,
        metrics=metrics,
        policy=policy,
        previews=previews,
    )


async def test_before_the_mirror_is_whole_a_list_would_be_a_lie() -> None:
    with pytest.raises(NotReady, match="was not read yet"):
        await service_of(fed_follower()).list_instances(pb.ListInstancesRequest())


async def test_a_page_token_of_other_filters_is_refused() -> None:
    service = service_of(fed_follower([*held(ONE), *held(TWO)]))
    page = await service.list_instances(pb.ListInstancesRequest(page_size=1))
    assert page.next_page_token
    with pytest.raises(InvalidRequest, match="other filters"):
        await service.list_instances(pb.ListInstancesRequest(page_token=page.next_page_token, model="other"))


async def test_an_instance_is_found_by_any_of_its_models() -> None:
    service = service_of(
        fed_follower([*held(ONE, held_record(ONE, model="A")), *held(TWO, held_record(TWO, model="B"))])
    )
    found = await service.list_instances(pb.ListInstancesRequest(model="B"))
    assert [one.id for one in found.instances] == [TWO]


async def test_a_page_of_long_reasons_is_small_enough_for_any_client_and_none_is_left_out() -> None:
    """Each gate's reason can have 2 KiB, and is told again in the conditions: 150 instances of ten gates pass 4 MiB."""
    fleet = [InstanceId(f"{number:x}") for number in range(1, 151)]
    gates = {f"gate-{number}": 60.0 for number in range(10)}
    record = held_record(ONE, gates)
    for gate in gates:
        record = with_verdict(record, gate, 1, Outcome.ERROR, reason="x" * 2048, reporter="ci", now=now())
    service = service_of(fed_follower([record_kv(instance, record) for instance in fleet]))
    found: list[str] = []
    request = pb.ListInstancesRequest(page_size=1000)
    pages = 0
    while not pages or request.page_token:
        answer = await service.list_instances(request)
        assert answer.ByteSize() < GRPC_MAX_BYTES
        found += [one.id for one in answer.instances]
        request.page_token = answer.next_page_token
        pages += 1
    assert sorted(found) == sorted(fleet)
    assert pages > 1
