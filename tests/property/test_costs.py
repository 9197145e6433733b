"""What one change costs must not grow with the fleet: counted in lines of Python, at two sizes.

The parts are the real ones, fed by hand. A few lines more or less are a bisection's or a heap's; a look at everybody
is thousands.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from greenroom.control.filters import InstanceFilter
from greenroom.control.told import Known
from greenroom.control.watcher import Watcher
from greenroom.core import record as records
from greenroom.core.fleet import Limits
from greenroom.core.keyspace import InstanceId, record_key
from greenroom.core.policy import ReleasesPolicy
from greenroom.core.record import Record
from greenroom.core.transitions import Outcome, released, with_verdict
from greenroom.pb.control.v1 import control_pb2 as pb
from greenroom.pb.etcd import kv_pb2
from greenroom.store.changes import Changes
from greenroom.store.fleet import MirroredFleet
from greenroom.store.reconciler import Reconciler
from tests.support.control_side import EventLog, MovableClock
from tests.support.mirroring import delete_event, fed_follower, held, put_event, shadow_kv, unconnected
from tests.support.registering import held_record, now
from tests.support.steps_taken import lines_run
from tests.unit.control.test_service import service_of

SMALL, LARGE = 40, 800
SLACK_LINES = 60
NEW, OLD = InstanceId("ffff"), InstanceId("10")


def name(number: int) -> InstanceId:
    return InstanceId(f"{number:x}")


def ready(instance: InstanceId) -> Record:
    return with_verdict(held_record(instance), "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=now())


class Listening:
    """A mirror of so many held instances, of which a third waits its turn, and all who are told of its changes."""

    def __init__(self, size: int) -> None:
        fleet = [held(name(number), ready(name(number)) if number % 3 == 0 else None) for number in range(1, size)]
        clock = MovableClock()
        self.follower = fed_follower([kv for kvs in fleet for kv in kvs], clock=clock)
        mirror = self.follower.mirror
        self.fleet = MirroredFleet(mirror, clock=clock)
        limits = Limits(ReleasesPolicy(max_in_flight=1), self.fleet)
        self.reconciler = Reconciler(unconnected(), self.follower, clock=clock, log=EventLog(), limits=lambda: limits)
        self.watcher = Watcher(mirror, Known(mirror, lambda: limits), InstanceFilter())
        list(self.watcher.existing(self.watcher.start()))
        self.fleet.add(Changes(everything=True))
        self.fleet.queue_length()

    def tell(self, events: Sequence[kv_pb2.Event]) -> None:
        changes = self.follower.mirror.apply(events)
        self.fleet.add(changes)
        self.fleet.queue_length()
        self.reconciler._look_at(changes)
        self.reconciler._sleep_seconds()
        self.watcher.add(changes)
        assert list(self.watcher.news(self.watcher.take())), "it was no change"


def written(instance: InstanceId, record: Record) -> kv_pb2.Event:
    return put_event(record_key(instance), records.encode(record), 20)


CHANGES: dict[str, Callable[[], list[kv_pb2.Event]]] = {
    "a registration": lambda: [put_event(kv.key, kv.value, 20) for kv in held(NEW)],
    "a verdict": lambda: [written(OLD, ready(OLD))],
    "a release": lambda: [written(OLD, released(ready(OLD), now())), delete_event(shadow_kv(OLD).key, 20)],
    "an end": lambda: [delete_event(record_key(OLD), 20), delete_event(shadow_kv(OLD).key, 20)],
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_costs_the_same_however_many_others_there_are(change: str) -> None:
    events = CHANGES[change]()
    few, many = (_lines(Listening(size).tell, events) for size in (SMALL, LARGE))
    assert many <= few + SLACK_LINES, f"{change}: {few} lines with {SMALL} instances, {many} with {LARGE}"


async def test_a_page_of_the_list_costs_the_same_however_many_pages_there_are() -> None:
    """So the whole list, page by page, costs what it has instances."""
    request = pb.ListInstancesRequest(page_size=10)
    few, many = [_lines(_page_of(size), request) for size in (SMALL, LARGE)]
    assert many <= few + SLACK_LINES, f"{few} lines with {SMALL} instances, {many} with {LARGE}"


def _page_of(size: int) -> Callable[[pb.ListInstancesRequest], None]:
    """Asks for the second page."""
    service = service_of(fed_follower([kv for number in range(1, size) for kv in held(name(number))]))
    token = _answer(service.list_instances(pb.ListInstancesRequest(page_size=10))).next_page_token

    def ask(request: pb.ListInstancesRequest) -> None:
        request.page_token = token
        assert len(_answer(service.list_instances(request)).instances) == 10

    return ask


def _answer(listing: Any) -> pb.ListInstancesResponse:
    """Of a method that waits for nothing."""
    with pytest.raises(StopIteration) as ended:
        listing.send(None)
    answer: pb.ListInstancesResponse = ended.value.value
    return answer


def _lines(work: Callable[[Any], object], argument: object) -> int:
    return lines_run(lambda: work(argument))
