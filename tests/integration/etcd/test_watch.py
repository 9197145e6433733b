"""Watches while workers come, are held, edit and are released: the log is that of a store without shadows.

Each test that runs both ways expects the same answers; where there is a proxy, a worker is held all the time, and edits
its card between the public writes.
"""

from collections.abc import Callable
from typing import Any

import grpc
import pytest

from greenroom.pb.etcd import rpc_pb2
from tests.support.client import EVERYTHING
from tests.support.endpoints import RESERVED, Endpoint, Proxy
from tests.support.etcd import Etcd
from tests.support.waiting import wait_for
from tests.support.watching import WatchLog
from tests.support.workers import Worker

STARTS = [b"\0", b"\0\0", b"\x01", RESERVED, b"\x01\xff\xff", b""]


class Commotion:
    """Public writes with held ones in between, where there is a proxy to hold them."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.worker = endpoint.held_worker() if isinstance(endpoint, Proxy) else None
        self.round = 0

    def put(self, key: bytes, value: bytes = b"") -> int:
        self.hidden_write()
        revision = self.endpoint.public.put(key, value).header.revision
        self.hidden_write()
        return revision

    def hidden_write(self) -> None:
        if self.worker is not None:
            self.round += 1
            card = self.worker.card(taints=[str(self.round)])
            self.endpoint.client.put(self.worker.card_key, card, self.worker.lease)


@pytest.fixture
def commotion(etcd_or_proxy: Endpoint) -> Commotion:
    return Commotion(etcd_or_proxy)


@pytest.fixture
def watch(etcd_or_proxy: Endpoint, request: pytest.FixtureRequest) -> Callable[..., WatchLog]:
    """A watch through the endpoint, ended with the test."""

    def start(key: bytes = EVERYTHING[0], range_end: bytes = EVERYTHING[1], **options: Any) -> WatchLog:
        log = etcd_or_proxy.client.watch(key, range_end, **options)
        request.addfinalizer(log.close)
        return log

    return start


@pytest.mark.parametrize("start", STARTS)
def test_a_watch_over_everything_shows_public_events_only(
    commotion: Commotion, watch: Callable[..., WatchLog], start: bytes
) -> None:
    log = watch(start, b"\0", prev_kv=True)
    commotion.put(b"a", b"1")
    commotion.put(b"v1/mdd", b"2")
    last = commotion.put(b"a", b"3")
    events = log.wait_revision(last)
    assert [(event.kv.key, event.kv.value, event.prev_kv.value) for event in events] == [
        (b"a", b"1", b""),
        (b"v1/mdd", b"2", b""),
        (b"a", b"3", b"1"),
    ]
    assert all(response.header.revision == response.events[-1].kv.mod_revision for response in answers(log))


def test_a_watch_from_the_past_shows_public_events_only(
    commotion: Commotion, watch: Callable[..., WatchLog], etcd_or_proxy: Endpoint
) -> None:
    """Dynamo's watches all start after the revision of the range before them."""
    first = commotion.put(b"a", b"1")
    commotion.put(b"a", b"2")
    last = commotion.put(b"b", b"3")
    for start in (first - 1, first, first + 1):
        events = watch(start_revision=start).wait_revision(last)
        expected = [(first, b"1"), (None, b"2"), (last, b"3")][0 if start <= first else 1 :]
        assert [event.kv.value for event in events if event.kv.mod_revision >= first] == [v for _, v in expected]
        assert not [event for event in events if event.kv.key < b"\x02"]


def test_filters_leave_out_what_they_say(commotion: Commotion, watch: Callable[..., WatchLog]) -> None:
    no_put, no_delete = rpc_pb2.WatchCreateRequest.NOPUT, rpc_pb2.WatchCreateRequest.NODELETE
    puts, deletes = watch(filters=[no_delete]), watch(filters=[no_put])
    commotion.put(b"a")
    commotion.endpoint.public.delete(b"a")
    last = commotion.put(b"b")
    assert [event.kv.key for event in puts.wait_revision(last)] == [b"a", b"b"]
    assert deletes.wait_events(1)[0].kv.key == b"a"
    assert deletes.changes == [("DELETE", b"a")]


def test_progress_is_never_below_a_delivered_event(commotion: Commotion, watch: Callable[..., WatchLog]) -> None:
    """A client takes a progress answer to mean that it has everything up to there.

    One thing after the other: etcd itself answers wrongly where an event is on its way when progress is asked for.
    """
    log = watch()
    for number in range(5):
        commotion.put(b"a", b"%d" % number)
        log.wait_events(number + 1)
        log.request_progress()
        wait_for(lambda count=number: sum(map(is_progress, log.responses)) > count, describe="progress is answered")
    newest = 0
    for response in log.responses:
        assert response.header.revision >= newest
        newest = max([newest, *(event.kv.mod_revision for event in response.events)])


def is_progress(response: rpc_pb2.WatchResponse) -> bool:
    return not (response.events or response.created or response.canceled)


def answers(log: WatchLog) -> list[rpc_pb2.WatchResponse]:
    return [response for response in log.responses if response.events]


def test_a_compacted_start_is_answered_as_by_etcd(
    own_etcd_or_proxy: Endpoint,
) -> None:
    """The client learns from where it can go on."""
    commotion = Commotion(own_etcd_or_proxy)
    commotion.put(b"a")
    revision = commotion.put(b"b")
    own_etcd_or_proxy.public.compact(revision)
    with own_etcd_or_proxy.client.watch(start_revision=revision - 1) as log:
        canceled = log.wait_canceled()
    assert (canceled.compact_revision, canceled.created) == (revision, False)


def test_a_future_start_waits_for_its_revision(commotion: Commotion, watch: Callable[..., WatchLog]) -> None:
    log = watch(start_revision=commotion.endpoint.public.revision() + 20)
    shown = [commotion.put(b"a", b"%d" % number) for number in range(30)]
    log.wait_revision(shown[-1])
    first = log.events[0].kv.mod_revision
    assert [event.kv.mod_revision for event in log.events] == [each for each in shown if each >= first]


def test_a_half_closed_watch_goes_on(commotion: Commotion, watch: Callable[..., WatchLog]) -> None:
    """Dynamo's client half-closes its stream when it drops the sender, and still wants events."""
    log = watch()
    log.half_close()
    assert [event.kv.key for event in log.wait_revision(commotion.put(b"a"))] == [b"a"]


def test_many_watches_on_one_stream(etcd_or_proxy: Endpoint, commotion: Commotion) -> None:
    """Ids of the client's own choosing, a duplicate id, and the end of one watch among others."""
    create = rpc_pb2.WatchCreateRequest
    with etcd_or_proxy.client.watch(b"a", watch_id=5) as log:
        log.send(rpc_pb2.WatchRequest(create_request=create(key=b"\0", range_end=b"\0", watch_id=9)))
        log.send(rpc_pb2.WatchRequest(create_request=create(key=b"b", watch_id=5)))
        duplicate = log.wait_canceled()
        assert (duplicate.created, duplicate.watch_id) == (True, -1)
        revision = commotion.put(b"a")
        log.wait_events(2)
        log.send(rpc_pb2.WatchRequest(cancel_request=rpc_pb2.WatchCancelRequest(watch_id=5)))
        wait_for(lambda: [answer for answer in log.responses if answer.canceled and answer.watch_id == 5])
        log.wait_revision(commotion.put(b"a"))
        told = [(answer.watch_id, event.kv.mod_revision) for answer in answers(log) for event in answer.events]
    assert sorted(told[:2]) == [(5, revision), (9, revision)]
    assert [watch_id for watch_id, _ in told[2:]] == [9]


def test_an_empty_watch_request_harms_nobody(etcd_or_proxy: Endpoint, commotion: Commotion) -> None:
    """Nothing is set in it; etcd ignores it, and so the watch before it goes on."""
    with etcd_or_proxy.client.watch() as log:
        log.send(rpc_pb2.WatchRequest())
        assert [event.kv.key for event in log.wait_revision(commotion.put(b"a"))] == [b"a"]


def test_a_watch_on_a_held_key_sees_its_release(proxy: Proxy) -> None:
    """Even the owner's own watch shows the public view; at the release it sees a creation like everybody's."""
    worker = Worker(proxy.client)
    with proxy.client.watch(worker.card_key, b"") as own, proxy.public.watch(b"v1/mdc/", b"v1/mdc0") as public:
        worker.register()
        worker.swap(worker.card(taints=["gold"]), worker.read().mod_revision)
        assert proxy.control.pass_gates(worker.instance) == "RELEASED"
        for log in (own, public):
            (event,) = log.wait_events(1)
            assert (event.kv.key, event.kv.version, event.kv.lease) == (worker.card_key, 1, worker.lease)
            assert event.kv.create_revision == event.kv.mod_revision


def test_a_watch_that_etcd_ends_ends_with_its_reason(launch_proxy: Callable[..., Proxy], own_etcd: Any) -> None:
    """etcd dies: the client is told so by an error, for a clean end would look like no more events."""
    proxy = launch_proxy(own_etcd)
    with proxy.client.watch() as log:
        own_etcd.kill()
        error = log.wait_end()
    assert error is not None
    assert error.code() is grpc.StatusCode.UNAVAILABLE


def test_a_watch_on_an_etcd_that_stops_in_good_order_ends_with_its_reason(
    own_etcd_or_proxy: Endpoint,
) -> None:
    """An operator restarts etcd: a watch that ended without an error would be taken for one that has seen all."""
    own_etcd_or_proxy.hold_somebody()
    with own_etcd_or_proxy.client.watch() as log:
        own_etcd_or_proxy.etcd.stop()
        error = log.wait_end()
    assert error is not None
    assert error.code() is grpc.StatusCode.UNAVAILABLE


@pytest.fixture
def notifying_etcd(launch_etcd: Callable[..., Etcd]) -> Etcd:
    """One that tells idle watches each 200 ms how far it is, instead of each 10 minutes."""
    flag = "--experimental-watch-progress-notify-interval"
    return launch_etcd(arguments=(f"{flag}=200ms",))


def test_progress_is_told_to_watches_that_want_it(notifying_etcd: Etcd, launch_proxy: Callable[..., Proxy]) -> None:
    """And to those alone. It comes with the store's revision, which held writes move too."""
    proxy = launch_proxy(notifying_etcd)
    for client in (proxy.public, proxy.client):
        with client.watch(b"a", b"b", progress_notify=True) as log, client.watch(b"a", b"b") as other:
            worker = Worker(proxy.client)
            worker.register()
            revision = proxy.public.revision()
            log.wait_revision(revision)
            assert [response.header.revision for response in log.responses if is_progress(response)][-1] == revision
            log.wait_revision(proxy.public.put(b"a", b"1").header.revision)
            other.wait_events(1)
            assert not any(map(is_progress, other.responses))
