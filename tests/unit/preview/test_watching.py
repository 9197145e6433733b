"""How a watch by selector learns whom it matches before it begins. Streams: tests/integration/test_preview.py."""

from typing import Any, cast

import grpc

from greenroom.core.keyspace import InstanceId
from greenroom.core.preview import View
from greenroom.core.selectors import Selector
from greenroom.core.templates import dynamo_gated_keys
from greenroom.pb.etcd import kv_pb2, rpc_pb2
from greenroom.preview.watching import WatchCall
from greenroom.store import call_errors
from greenroom.store.upstream import Calls
from tests.support.mirroring import ONE, TWO, record_kv
from tests.support.registering import MODEL, held_record

VIEW = View(dynamo_gated_keys(instances=False), selector=Selector(model=MODEL))
COMPACTED = "etcdserver: mvcc: required revision has been compacted"
FUTURE = "etcdserver: mvcc: required revision is a future revision"


class Records(Calls):
    """Stands in for etcd's Range of the records: two of them, one of which matches, at revisions 20 to `now`."""

    def __init__(self, now: int = 30) -> None:
        self.now, self.asked = now, list[int]()

    async def _unary(self, _: Any, request: bytes, __: float | None) -> Any:
        read = rpc_pb2.RangeRequest.FromString(request)
        self.asked.append(read.revision)
        if read.revision and not 20 <= read.revision <= self.now:
            words = FUTURE if read.revision > self.now else COMPACTED
            self.now += 5  # Time goes by.
            raise call_errors.error(grpc.StatusCode.OUT_OF_RANGE, words)
        kvs = [record_kv(ONE), record_kv(TWO, held_record(TWO, model="other"))]
        left = [kv for kv in kvs if kv.key >= read.key]
        answer = rpc_pb2.RangeResponse(kvs=left[:1], more=len(left) > 1)
        answer.header.revision = self.now
        return answer


async def begun(start: int, records: Records) -> tuple[int, frozenset[InstanceId]]:
    """Where etcd's watch begins, and whom the selector matches by then."""
    call = WatchCall(VIEW, cast(Any, records), cast(Any, None))
    create = rpc_pb2.WatchCreateRequest(key=b"v1/mdc/", range_end=b"v1/mdc0", start_revision=start)
    upstream = await call._created(create)
    return upstream.start_revision, call._asked[0][0]._matching


async def test_from_a_revision_it_is_as_of_the_one_before_page_by_page() -> None:
    records = Records()
    assert await begun(25, records) == (25, {ONE})
    assert records.asked == [24, 24]


async def test_from_now_it_begins_after_what_was_read() -> None:
    """All pages are of one revision: what is written between two of them is told by the watch."""
    records = Records()
    assert await begun(0, records) == (31, {ONE})
    assert records.asked == [0, 30]


async def test_from_the_first_revision_there_is_nobody_before() -> None:
    assert await begun(1, Records()) == (1, frozenset())


async def test_from_a_compacted_revision_etcd_is_left_to_say_so() -> None:
    assert await begun(10, Records()) == (9, frozenset())


async def test_from_a_future_revision_it_follows_from_now_on() -> None:
    assert await begun(90, Records()) == (36, {ONE})


async def test_from_a_future_that_has_come_meanwhile_nothing_is_skipped() -> None:
    assert await begun(32, Records()) == (32, {ONE})


class Reader:
    """Stands in for the client's end of a stream."""

    def __init__(self) -> None:
        self.read = list[rpc_pb2.WatchResponse]()

    async def write(self, data: bytes) -> None:
        self.read.append(rpc_pb2.WatchResponse.FromString(data))


async def test_events_of_a_watch_that_is_not_known_are_told_to_nobody() -> None:
    """etcd's own names are in them: shadows and records."""
    reader = Reader()
    call = WatchCall(VIEW, cast(Any, Records()), cast(Any, reader))
    event = kv_pb2.Event(kv=record_kv(ONE))
    await call._tell(rpc_pb2.WatchResponse(watch_id=3, events=[event]))
    await call._tell(rpc_pb2.WatchResponse(watch_id=3, canceled=True))
    assert [(response.canceled, len(response.events)) for response in reader.read] == [(True, 0)]
