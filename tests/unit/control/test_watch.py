"""When a stream begins, ends and says that it is alive, and that nothing remains of it. On etcd: tests/integration."""

import asyncio
from contextlib import aclosing
from dataclasses import replace

import pytest

from greenroom.control import watch
from greenroom.control.filters import InstanceFilter
from greenroom.control.metrics import Metrics
from greenroom.control.tokens import ResumeToken, encode
from greenroom.control.watch import Watches
from greenroom.core.keyspace import RECORDS, SHADOWS
from greenroom.errors import HistoryGone, InvalidRequest, NotReady, TooManyWatchers
from greenroom.pb.control.v1 import control_pb2 as pb
from greenroom.store.follower import Follower
from greenroom.store.history import Past
from tests.support.control_side import MovableClock
from tests.support.instance_stream import kind_of
from tests.support.mirroring import ONE, TWO, fed_follower, held, put_event, record_kv, unconnected

CLUSTER = 5
EVERYTHING = pb.WatchInstancesRequest()


class Remembered:
    """A history of one moment."""

    def __init__(self, past: Past | None = None) -> None:
        self.past = past

    async def cluster(self) -> int:
        return CLUSTER

    async def at(self, revision: int, _: object) -> Past:
        assert self.past is not None
        return self.past


def past_of(*instances: str, cluster: int = CLUSTER, store_revision: int = 10) -> Past:
    kvs = [kv for instance in instances for kv in held(instance)]  # type: ignore[arg-type]
    recorded = {kv.key: kv for kv in kvs if kv.key.startswith(RECORDS)}
    shadows = {kv.key: kv.mod_revision for kv in kvs if kv.key.startswith(SHADOWS)}
    return Past(10, cluster, store_revision, recorded, {}, shadows, {})


class Streams:
    """The streams of a proxy whose mirror is fed by hand."""

    def __init__(self, *there: str, past: Past | None = None, **seconds: float) -> None:
        kvs = [kv for instance in there for kv in held(instance)]  # type: ignore[arg-type]
        self.follower: Follower = fed_follower(kvs)
        self.metrics = Metrics(self.follower.mirror, clock=MovableClock(), gates=(), methods=(), version="1")
        self.watches = Watches(unconnected(), self.follower, self.metrics, **seconds)  # type: ignore[arg-type]
        self.watches._history = Remembered(past)  # type: ignore[assignment]

    @property
    def open(self) -> float | None:
        return self.metrics.registry.get_sample_value("greenroom_instance_watchers")

    def write(self, instance: str, revision: int = 11) -> None:
        kv = record_kv(instance)  # type: ignore[arg-type]
        self.follower.moved_on(self.follower.mirror.apply([put_event(kv.key, kv.value, revision)]), revision)


def kinds(response: pb.WatchInstancesResponse) -> list[str]:
    return [kind_of(event) for event in response.events]


def token(revision: int = 10, newest: int = 10, *, cluster: int = CLUSTER) -> str:
    return encode(ResumeToken(cluster, revision, newest, (0,)), str(InstanceFilter()))


def resuming(text: str) -> pb.WatchInstancesRequest:
    return pb.WatchInstancesRequest(resume_token=text)


async def test_a_stream_tells_what_there_is_and_then_what_changes() -> None:
    streams = Streams(ONE)
    async with aclosing(streams.watches.watch(EVERYTHING)) as responses:
        assert kinds(await anext(responses)) == ["EXISTING", "SYNCED"]
        assert streams.open == 1
        streams.write(TWO)
        assert kinds(await anext(responses)) == ["ADDED"]


async def test_silence_is_broken_by_bookmarks_also_where_others_make_the_noise() -> None:
    streams = Streams(ONE, bookmark_seconds=0.001)
    async with aclosing(streams.watches.watch(pb.WatchInstancesRequest(model="none"))) as responses:
        assert kinds(await anext(responses)) == ["SYNCED"]
        assert kinds(await anext(responses)) == ["BOOKMARK"]
        streams.write(TWO)
        assert kinds(await anext(responses)) == ["BOOKMARK"]


async def test_nothing_remains_of_a_stream_that_was_given_up() -> None:
    streams = Streams(ONE)
    responses = streams.watches.watch(EVERYTHING)
    await anext(responses)
    waiting = asyncio.ensure_future(anext(responses))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await responses.aclose()
    assert streams.open == 0
    assert streams.watches._open == set()
    assert streams.follower._feed._listeners == set()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize(
    ("trouble", "says"),
    [
        (lambda streams: streams.follower.went_away("gone"), "etcd cannot be followed: gone"),
        (lambda streams: streams.watches.stop(), "this proxy is stopping"),
        (
            lambda streams: streams.follower.synced(streams.follower.mirror.replace([]), 12),
            "could not be followed for a moment",
        ),
    ],
)
async def test_it_ends_as_soon_as_it_can_no_longer_be_true(trouble: object, says: str) -> None:
    streams = Streams(ONE)
    responses = streams.watches.watch(EVERYTHING)
    await anext(responses)
    waiting = asyncio.ensure_future(anext(responses))
    await asyncio.sleep(0)
    trouble(streams)  # type: ignore[operator]
    with pytest.raises(NotReady, match=says):
        await waiting
    assert streams.open == 0


async def test_none_begins_while_etcd_is_not_followed_or_the_proxy_stops() -> None:
    streams = Streams(ONE)
    streams.follower.went_away("gone")
    with pytest.raises(NotReady, match="gone"):
        await anext(streams.watches.watch(EVERYTHING))
    streams = Streams(ONE)
    streams.watches.stop()
    with pytest.raises(NotReady, match="stopping"):
        await anext(streams.watches.watch(EVERYTHING))


async def test_too_many_are_refused_and_room_is_made_by_one_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "MAX_WATCHERS", 1)
    streams = Streams(ONE)
    first = streams.watches.watch(EVERYTHING)
    await anext(first)
    with pytest.raises(TooManyWatchers, match="1 streams"):
        await anext(streams.watches.watch(EVERYTHING))
    await first.aclose()
    async with aclosing(streams.watches.watch(EVERYTHING)) as second:
        await anext(second)


async def test_a_wrong_request_is_refused_by_its_field() -> None:
    streams = Streams(ONE)
    for request in (pb.WatchInstancesRequest(state=17), resuming("nonsense")):  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest):
            await anext(streams.watches.watch(request))
    assert streams.open is None or streams.open == 0


async def test_a_resumed_stream_tells_what_is_different() -> None:
    streams = Streams(ONE, past=past_of(ONE))
    streams.write(TWO, 11)
    async with aclosing(streams.watches.watch(resuming(token()))) as responses:
        first = await anext(responses)
        assert [(kind_of(event), event.instance.id) for event in first.events] == [("ADDED", TWO), ("SYNCED", "")]


@pytest.mark.parametrize("past", [past_of(ONE, cluster=6), past_of(ONE, store_revision=9)])
async def test_another_store_or_one_that_was_set_back_is_no_continuation(past: Past) -> None:
    streams = Streams(ONE, past=past)
    with pytest.raises(HistoryGone, match="without a resume token"):
        await anext(streams.watches.watch(resuming(token())))


async def test_a_stream_that_broke_off_within_a_round_begins_anew() -> None:
    """The reader was told of instances that neither state has which history knows: nobody could say they went."""
    streams = Streams(ONE, past=past_of(ONE))
    broken = encode(ResumeToken(CLUSTER, 10, 12, (0,), whole=False), str(InstanceFilter()))
    with pytest.raises(HistoryGone, match=r"broke off amid a list of changes, .* without a resume token"):
        await anext(streams.watches.watch(resuming(broken)))


async def test_a_proxy_that_is_behind_waits_until_it_is_not() -> None:
    """Another proxy told of revision 11; a stream that showed less here would go back in time."""
    streams = Streams(ONE, past=past_of(ONE, store_revision=11))
    responses = streams.watches.watch(resuming(token(newest=11)))
    waiting = asyncio.ensure_future(anext(responses))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    streams.write(ONE, 11)
    assert kinds(await asyncio.wait_for(waiting, 60)) == ["CHANGED", "SYNCED"]
    await responses.aclose()


async def test_one_that_waits_to_be_resumed_does_not_hold_up_a_stop() -> None:
    streams = Streams(ONE, past=past_of(ONE, store_revision=11))
    waiting = asyncio.ensure_future(anext(streams.watches.watch(resuming(token(newest=11)))))
    for _ in range(10):
        await asyncio.sleep(0)
    streams.watches.stop()
    with pytest.raises(NotReady, match="this proxy is stopping"):
        await waiting


async def test_while_a_long_past_is_read_others_have_their_turn() -> None:
    """Two thousand records are a fifth of a second, and workers' calls wait in it."""
    fleet = [f"{number:x}" for number in range(1, 4 * watch.MAX_AT_A_TIME)]
    streams = Streams(*fleet, past=replace(past_of(*fleet), addresses=None))
    turns: list[int] = []

    async def others() -> None:
        while True:
            turns.append(len(turns))
            await asyncio.sleep(0)

    working = asyncio.ensure_future(others())
    async with aclosing(streams.watches.watch(resuming(token()))) as responses:
        await anext(responses)
    working.cancel()
    assert len(turns) >= len(fleet) // watch.MAX_AT_A_TIME


async def test_a_proxy_that_stays_behind_says_so() -> None:
    streams = Streams(ONE, past=past_of(ONE, store_revision=11), catch_up_seconds=0.001)
    with pytest.raises(NotReady, match="knows etcd up to revision 10, and 11 was told of"):
        await anext(streams.watches.watch(resuming(token(newest=11))))
