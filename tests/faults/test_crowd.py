"""Crowds: thousands of clients at once, thousands that come and go, and those that never read.

Nobody else may notice: a client's thousand calls are all right, on the connection that it had. And nothing stays: no
watch or socket in etcd, no connection in the proxy. Of memory the proxy's allocator keeps what it once had for the next
crowd, so what is tested is that a second one of the same size needs no more.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import pytest

from greenroom.pb.etcd import kv_pb2, rpc_pb2, rpc_pb2_grpc
from tests.support.crowd import Crowd, affordable, allow_open_files
from tests.support.crowd_figures import KIB, MIB, kept, proxy_metric, resident_bytes, wait_kept
from tests.support.endpoints import Proxy, launched_proxy, wipe_beside_proxies
from tests.support.etcd import Etcd
from tests.support.frames import header_block

KEEP_ALIVE = "/etcdserverpb.Lease/LeaseKeepAlive"
WATCH = "/etcdserverpb.Watch/Watch"
RANGE = "/etcdserverpb.KV/Range"
CLIENTS = 5_000
SECOND_CROWD = 4_500
"""Both and all others are fewer than the proxy takes: one that forgets nobody is to fail by what that costs."""
COMING_AND_GOING = 10_000
BATCH = 500
LOOK_AFTER = 5
"""Batches, after which nothing may be left: long before the proxy would take no more."""
CALLS = 1_000
CALL_SECONDS = 60
KIB_A_CLIENT = 10
"""What a client with one open stream may cost the proxy."""


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A proxy and its etcd with as many open files as this machine lets them have."""
    allow_open_files()
    with Etcd.launch() as etcd, launched_proxy(etcd, tmp_path_factory.mktemp("crowd")) as proxy:
        proxy.client.put(b"warm", b"up")
        yield proxy


@pytest.fixture
def proxy(crowded: Proxy) -> Proxy:
    wipe_beside_proxies(crowded.etcd)
    return crowded


class Bystander:
    """Another client of the proxy, on one connection; it must not be able to tell that there is a crowd."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.kv = rpc_pb2_grpc.KVStub(channel)
        self.watch = rpc_pb2_grpc.WatchStub(channel)

    async def put_and_get(self, number: int) -> None:
        """One call after another on a key of its own."""
        key, value = b"bystander/%d" % number, b"value %d" % number
        await self.kv.Put(rpc_pb2.PutRequest(key=key, value=value), timeout=CALL_SECONDS)
        found = await self.kv.Range(rpc_pb2.RangeRequest(key=key), timeout=CALL_SECONDS)
        assert [(entry.key, entry.value) for entry in found.kvs] == [(key, value)]

    async def call_all_at_once(self, calls: int) -> None:
        """Half of them puts, each followed by its get."""
        await asyncio.gather(*(self.put_and_get(number) for number in range(calls // 2)))


@asynccontextmanager
async def bystander(proxy: Proxy) -> AsyncIterator[Bystander]:
    """One that is connected already, and at the end still by the same connection."""
    options = (
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0),
        ("grpc.max_receive_message_length", -1),
    )
    async with grpc.aio.insecure_channel(proxy.address, options=options) as channel:
        await channel.channel_ready()
        states = [channel.get_state()]
        watching = asyncio.create_task(_note_states(channel, states))
        yield Bystander(channel)
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        assert states == [grpc.ChannelConnectivity.READY], "it was disconnected"


async def _note_states(channel: grpc.aio.Channel, states: list[grpc.ChannelConnectivity]) -> None:
    while True:
        await channel.wait_for_state_change(states[-1])
        states.append(channel.get_state())


@pytest.mark.timeout(400)
async def test_five_thousand_clients_at_once_cost_little_and_leave_nothing(proxy: Proxy) -> None:
    """Each keeps a lease alive; another client makes a thousand calls at once in the midst of it."""
    size = affordable(CLIENTS)
    beat = rpc_pb2.LeaseKeepAliveRequest(ID=proxy.client.grant(ttl_seconds=600)).SerializeToString()
    async with bystander(proxy) as other:
        await other.call_all_at_once(CALLS)
        before, empty_bytes = kept(proxy), resident_bytes(proxy)
        opened = proxy_metric(proxy, "greenroom_connections_opened_total")
        crowd = Crowd(proxy.address)
        await crowd.grow(size, KEEP_ALIVE, beat)
        full_bytes = resident_bytes(proxy)
        assert proxy_metric(proxy, "greenroom_connections") == before.connections + size
        assert full_bytes - empty_bytes <= size * KIB_A_CLIENT * KIB
        await asyncio.gather(crowd.say(KEEP_ALIVE, beat), other.call_all_at_once(CALLS))
        assert crowd.lost == 0
        used_bytes = resident_bytes(proxy)
        await crowd.leave()
        wait_kept(proxy, before)
        second = min(size, SECOND_CROWD)
        await crowd.grow(second, KEEP_ALIVE, beat)
        await asyncio.gather(crowd.say(KEEP_ALIVE, beat), other.call_all_at_once(CALLS))
        assert resident_bytes(proxy) - used_bytes <= size * KIB, "the second crowd, a smaller one, needs more"
        assert proxy_metric(proxy, "greenroom_connections_opened_total") == opened + size + second, (
            "somebody came again"
        )
        await crowd.leave()
        wait_kept(proxy, before)


@pytest.mark.timeout(400)
async def test_ten_thousand_that_come_and_go_with_open_watches_leave_nothing(proxy: Proxy) -> None:
    """Half of them in good order, half by an RST; another client's own watch and calls go on all the time."""
    size = min(affordable(BATCH), BATCH)
    create = rpc_pb2.WatchCreateRequest(key=b"watched/", range_end=b"watched0")
    message = rpc_pb2.WatchRequest(create_request=create).SerializeToString()
    async with bystander(proxy) as other, watching(other) as seen:
        before, bytes_seen = kept(proxy), []
        for batch in range(COMING_AND_GOING // size):
            crowd = Crowd(proxy.address)
            await asyncio.gather(crowd.grow(size, WATCH, message), other.put_and_get(batch))
            assert crowd.lost == 0
            await crowd.leave()
            bytes_seen.append(resident_bytes(proxy))
            if len(bytes_seen) % LOOK_AFTER == 0:
                wait_kept(proxy, before)
        await seen.until(COMING_AND_GOING // size)
        # The first ones fill what the later ones find free.
        quarter = len(bytes_seen) // 4
        assert bytes_seen[-1] - max(bytes_seen[:quarter]) <= size * KIB_A_CLIENT * KIB


@pytest.mark.timeout(400)
@pytest.mark.parametrize("reads_its_socket", [True, False], ids=["window never opened", "socket never read"])
async def test_a_client_that_never_reads_harms_nobody(proxy: Proxy, *, reads_its_socket: bool) -> None:
    """It watches a busy prefix and asks for a large range again and again: some 10 times what may be kept for it."""
    value = bytes(512 * KIB)
    for number in range(4):
        proxy.public.put(b"large/%d" % number, value)
    everything = rpc_pb2.RangeRequest(key=b"large/", range_end=b"large0").SerializeToString()
    create = rpc_pb2.WatchCreateRequest(key=b"bystander/", range_end=b"bystander0")
    message = rpc_pb2.WatchRequest(create_request=create).SerializeToString()
    async with bystander(proxy) as other, watching(other) as seen:
        before, bytes_before = kept(proxy), resident_bytes(proxy)
        crowd = Crowd(proxy.address, windows=not reads_its_socket)
        await crowd.grow(8, WATCH, message)
        for client in crowd.clients:
            if not reads_its_socket:
                client.transport.pause_reading()
            for _ in range(40):
                client.start(header_block(RANGE), everything, end=True)
        for number in range(100):
            await other.kv.Put(
                rpc_pb2.PutRequest(key=b"bystander/%d" % number, value=value[: 64 * KIB]), timeout=CALL_SECONDS
            )
        await other.call_all_at_once(CALLS)
        await seen.until(100 + CALLS // 2)
        assert resident_bytes(proxy) - bytes_before <= 64 * MIB
        assert crowd.lost == 0
        await crowd.leave()
        wait_kept(proxy, before)


@pytest.mark.timeout(400)
async def test_answers_that_nobody_reads_leave_room_for_everybody_elses(proxy: Proxy) -> None:
    """A held card, which the proxy reads itself, is asked for again and again by clients that never open a window."""
    worker = proxy.held_worker()
    proxy.client.put(worker.card_key, worker.card(padding="x" * 700 * KIB), worker.lease)
    read = rpc_pb2.RangeRequest(key=worker.card_key)
    async with bystander(proxy) as other:
        bytes_before = resident_bytes(proxy)
        crowd = Crowd(proxy.address)
        await crowd.grow(3, RANGE, read.SerializeToString())
        for client in crowd.clients:
            for _ in range(120):
                client.start(header_block(RANGE), read.SerializeToString(), end=True)
        await crowd.until(crowd.clients, lambda client: client.is_over, "a refusal")
        found = await other.kv.Range(read, timeout=CALL_SECONDS)
        assert len(found.kvs[0].value) > 700 * KIB
        await other.call_all_at_once(CALLS)
        # 32 MiB of answers that wait, and 16 handlers at work, for each; a MiB of answer has several forms meanwhile.
        assert resident_bytes(proxy) - bytes_before <= 3 * (32 + 16 * 3) * MIB
        await crowd.leave()


class Seen:
    """A watch of the bystander's: events in order, each once."""

    def __init__(self) -> None:
        self.events: list[kv_pb2.Event] = []
        self._news = asyncio.Event()

    def take(self, events: Any) -> None:
        self.events += events
        self._news.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(CALL_SECONDS):
            while len(self.events) < count:
                self._news.clear()
                await self._news.wait()
        revisions = [event.kv.mod_revision for event in self.events]
        assert revisions == sorted(set(revisions))
        assert len(self.events) == count


@asynccontextmanager
async def watching(other: Bystander) -> AsyncIterator[Seen]:
    """What the bystander sees of its own writes."""
    seen = Seen()
    call = other.watch.Watch()
    create = rpc_pb2.WatchCreateRequest(key=b"bystander/", range_end=b"bystander0")
    await call.write(rpc_pb2.WatchRequest(create_request=create))
    assert (await call.read()).created
    reading = asyncio.create_task(_read(call, seen))
    yield seen
    assert not reading.done(), "its watch ended"
    reading.cancel()
    call.cancel()


async def _read(call: Any, seen: Seen) -> None:
    while True:
        seen.take((await call.read()).events)
