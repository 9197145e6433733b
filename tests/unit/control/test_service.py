"""Lists from the mirror. What is read from and written to etcd is shown in tests/integration."""

import pytest

from greenroom.control.announce import Announcer
from greenroom.control.metrics import Metrics
from greenroom.control.service import ControlService
from greenroom.errors import InvalidRequest, NotReady
from greenroom.pb.control.v1 import control_pb2 as pb
from greenroom.store.follower import Follower
from tests.support.control_side import EventLog, MovableClock
from tests.support.mirroring import ONE, TWO, fed_follower, held, unconnected
from tests.support.registering import held_record


def service_of(follower: Follower) -> ControlService:
    clock, log = MovableClock(), EventLog()
    metrics = Metrics(follower.mirror, clock=clock, gates=(), methods=(), version="1")
    announcer = Announcer(follower, clock=clock, log=log, metrics=metrics)
    return ControlService(unconnected(), follower, clock=clock, log=log, announcer=announcer, metrics=metrics)


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
