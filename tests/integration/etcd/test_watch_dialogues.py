"""Whole dialogues on a watch stream, with etcd and with the proxy before it: the same answers, byte for byte.

The rule: both streams are open on the same store at the same time and are told the same things at the same moments,
while a worker that is held edits its card in between.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from greenroom.pb.etcd import rpc_pb2
from tests.support import client
from tests.support.endpoints import Proxy
from tests.support.raw_grpc import RawGrpc
from tests.support.workers import Worker

WATCH = "/etcdserverpb.Watch/Watch"
SILENT_WITHOUT_WATCHES = (3, 5, 8)
CREATE, CANCEL = rpc_pb2.WatchCreateRequest, rpc_pb2.WatchCancelRequest


@dataclass
class Dialogue:
    """The two streams; `answers` are the direct one's, after they were found equal to the proxied one's."""

    proxy: Proxy
    sides: list[tuple[RawGrpc, int]]
    held: Worker
    answers: list[rpc_pb2.WatchResponse] = field(default_factory=list)
    rounds: int = 0

    def create(self, key: bytes, range_end: bytes = b"", *, answers: int = 1, **options: object) -> None:
        request = CREATE(key=key, range_end=range_end, **options)  # type: ignore[arg-type]
        self.say(rpc_pb2.WatchRequest(create_request=request), answers=answers)

    def cancel(self, watch_id: int, *, answers: int = 1) -> None:
        self.say(rpc_pb2.WatchRequest(cancel_request=CANCEL(watch_id=watch_id)), answers=answers)

    def ask_progress(self, *, answers: int = 1) -> None:
        request = rpc_pb2.WatchRequest(progress_request=rpc_pb2.WatchProgressRequest())
        self.say(request, answers=answers)

    def say(self, request: rpc_pb2.WatchRequest, *, answers: int) -> None:
        for raw, stream in self.sides:
            raw.send(stream, request.SerializeToString())
        self.hear(answers)

    def happen(self, change: Callable[[], object], *, answers: int) -> None:
        """A change of the public store, with a hidden one before it and another after it."""
        self.edit()
        change()
        self.edit()
        self.hear(answers)

    def hear(self, more: int) -> None:
        count = len(self.answers) + more
        direct, proxied = (raw.wait_messages(stream, count) for raw, stream in self.sides)
        assert len(direct) == count
        # One change reaches the watches of one stream in any order: etcd keeps them in a Go map.
        before = len(self.answers)
        assert sorted(proxied[before:]) == sorted(direct[before:])
        self.answers += map(rpc_pb2.WatchResponse.FromString, direct[before:])

    def edit(self) -> None:
        self.rounds += 1
        card = self.held.card(taints=[str(self.rounds)])
        self.held.client.put(self.held.card_key, card, self.held.lease)

    @property
    def last(self) -> rpc_pb2.WatchResponse:
        return self.answers[-1]


@contextmanager
def dialogue(proxy: Proxy) -> Iterator[Dialogue]:
    held = proxy.held_worker()
    with RawGrpc(proxy.etcd.address) as direct, RawGrpc(proxy.address) as proxied:
        sides = [(raw, raw.start(WATCH, half_close=False)) for raw in (direct, proxied)]
        yield Dialogue(proxy, sides, held)


@pytest.fixture
def talk(proxy: Proxy) -> Iterator[Dialogue]:
    with dialogue(proxy) as talk:
        yield talk


def test_ids_that_clients_choose_and_ids_that_etcd_gives(talk: Dialogue) -> None:
    """Chosen, chosen twice, negative, given, given around a chosen one, and chosen again once it is free."""
    for watch_id in (5, 5, 0, 1, -7):
        talk.create(b"a", watch_id=watch_id)
    for _ in range(3):
        talk.create(b"a")
    talk.cancel(5)
    talk.create(b"a", watch_id=5)
    assert talk.last.created
    assert len({answer.watch_id for answer in talk.answers if answer.created and not answer.canceled}) > 5


def test_what_is_not_there_can_be_canceled(talk: Dialogue) -> None:
    """etcd says nothing to that, once or twice; so the next answer is to the next question."""
    talk.create(b"a", watch_id=3)
    talk.cancel(99, answers=0)
    talk.cancel(3)
    assert talk.last.canceled
    talk.cancel(3, answers=0)
    talk.create(b"b", watch_id=4)
    assert (talk.last.created, talk.last.watch_id) == (True, 4)


def test_messages_that_say_nothing(talk: Dialogue) -> None:
    """No field of the union is set, before the first watch and after it: etcd waits for the next message."""
    talk.say(rpc_pb2.WatchRequest(), answers=0)
    talk.create(b"a")
    talk.say(rpc_pb2.WatchRequest(), answers=0)
    talk.happen(lambda: talk.proxy.public.put(b"a", b"1"), answers=1)
    assert talk.last.events[0].kv.value == b"1"


def test_ranges_that_are_empty_or_inverted_or_one_key(talk: Dialogue) -> None:
    for key, range_end in ((b"b", b"a"), (b"b", b"b"), (b"b", b"b\0"), (b"b", b"\0"), (b"\xff", b"\0")):
        talk.create(key, range_end)
    canceled = [answer for answer in talk.answers if answer.canceled]
    assert len(canceled) == 2
    assert all(answer.cancel_reason for answer in canceled)


def test_events_with_what_was_before_and_without(talk: Dialogue) -> None:
    """Two watches of one key, one with the old values; a Txn, a deletion, and a creation anew."""
    talk.create(b"a", watch_id=1, prev_kv=True)
    talk.create(b"a", b"c", watch_id=2)
    public = talk.proxy.public
    talk.happen(lambda: public.put(b"a", b"1"), answers=2)
    talk.happen(
        lambda: public.txn([client.version_is(b"a", 1)], [client.put(b"a", b"2"), client.put(b"b", b"2")]), answers=2
    )
    talk.happen(lambda: public.delete(b"a", b"c"), answers=2)
    talk.happen(lambda: public.put(b"a", b"3"), answers=2)
    old = [event.prev_kv.value for answer in talk.answers if answer.watch_id == 1 for event in answer.events]
    assert old == [b"", b"1", b"2", b""]


def test_filters(talk: Dialogue) -> None:
    talk.create(b"a", watch_id=1, filters=[CREATE.NOPUT])
    talk.create(b"a", watch_id=2, filters=[CREATE.NODELETE])
    talk.create(b"a", watch_id=3, filters=[CREATE.NOPUT, CREATE.NODELETE])
    talk.happen(lambda: talk.proxy.public.put(b"a", b"1"), answers=1)
    talk.happen(lambda: talk.proxy.public.delete(b"a"), answers=1)
    assert [answer.watch_id for answer in talk.answers if answer.events] == [2, 1]


def test_progress_of_a_stream_and_of_an_empty_one(talk: Dialogue) -> None:
    """Asked for where there is nothing to make progress, which newer etcds do not answer, and where there is."""
    talk.ask_progress(answers=0 if talk.proxy.etcd.version >= SILENT_WITHOUT_WATCHES else 1)
    talk.create(b"a")
    talk.happen(lambda: talk.proxy.public.put(b"a", b"1"), answers=1)
    talk.ask_progress()
    assert talk.last.watch_id == -1
    assert talk.last.header.revision == talk.proxy.public.revision()


def test_a_watch_from_the_past_and_one_from_the_future(talk: Dialogue) -> None:
    public = talk.proxy.public
    first = public.put(b"a", b"1").header.revision
    public.put(b"a", b"2")
    talk.create(b"a", start_revision=first, answers=2)
    assert [event.kv.value for event in talk.last.events] == [b"1", b"2"]
    talk.create(b"a", start_revision=public.revision() + 1_000, watch_id=9)
    talk.happen(lambda: public.put(b"a", b"3"), answers=1)
    assert talk.last.watch_id != 9


def test_a_compacted_start(own_etcd: object, launch_proxy: Callable[..., Proxy]) -> None:
    with dialogue(launch_proxy(own_etcd)) as talk:
        public = talk.proxy.public
        first = public.put(b"a", b"1").header.revision
        public.compact(public.put(b"a", b"2").header.revision)
        talk.create(b"a", start_revision=first, answers=2)
        assert (talk.last.canceled, talk.last.compact_revision) == (True, first + 1)


def test_the_end_of_a_stream_that_both_half_closed_and_left(talk: Dialogue) -> None:
    """Half-closed streams go on until the client leaves."""
    talk.create(b"a")
    for raw, stream in talk.sides:
        raw.half_close(stream)
    talk.happen(lambda: talk.proxy.public.put(b"a", b"1"), answers=1)
    assert [raw.answers[stream].is_over for raw, stream in talk.sides] == [False, False]
