"""Clients that live through whatever happens to etcd, as real ones do: they begin again and say what they saw.

The rule: they know nothing of Greenroom and take no care of it. Each keeps what it was told, so that a test can compare
that with what is in etcd at the end: leases that were lost, events that were missed, writes that are not there.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

import grpc

from greenroom.pb.etcd import kv_pb2, rpc_pb2, rpc_pb2_grpc
from tests.support.client import prefix_end

# As etcd's own clients are set up by those who know that it can be away: gRPC's pauses grow to 2 minutes otherwise.
OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.use_local_subchannel_pool", 1),
)
AGAIN_SECONDS = 0.3
CALL_SECONDS = 10
BEATS_A_TTL = 3
"""As etcd's client library does it."""

Happened = tuple[str, bytes, int]
"""PUT or DELETE, the key, the revision."""


@dataclass
class Lease:
    """A lease and what its holder heard of it."""

    id: int
    beat_seconds: float
    answers: list[float] = field(default_factory=list)
    """When, in seconds of the loop's clock."""
    is_lost: bool = False
    errors: list[str] = field(default_factory=list)

    def longest_silence(self) -> float:
        """Between two answers."""
        return max((after - before for before, after in zip(self.answers, self.answers[1:], strict=False)), default=0.0)


@dataclass
class Written:
    """Keys by the revisions that their writer was told, and those of which it was told nothing."""

    acknowledged: dict[bytes, int] = field(default_factory=dict)
    unknown: set[bytes] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)


@dataclass
class Watched:
    """What a watcher saw, over all its streams."""

    events: list[Happened] = field(default_factory=list)
    next_revision: int = 0
    streams: int = 0
    errors: list[str] = field(default_factory=list)


class Steady:
    """Clients of one address, each on a connection of its own. Made by `steady_clients`."""

    def __init__(self, address: str, tasks: asyncio.TaskGroup) -> None:
        self._address, self._tasks = address, tasks
        self._running: list[asyncio.Task[NoReturn]] = []
        self._channels: list[grpc.aio.Channel] = []

    async def lease(self, ttl_seconds: int, *, beat_seconds: float | None = None) -> Lease:
        """A lease that is kept alive from here on, each third of its time unless told."""
        channel = self._channel()
        stub = rpc_pb2_grpc.LeaseStub(channel)
        granted = await stub.LeaseGrant(rpc_pb2.LeaseGrantRequest(TTL=ttl_seconds), timeout=CALL_SECONDS)
        return self.keep(Lease(granted.ID, beat_seconds or ttl_seconds / BEATS_A_TTL))

    def keep(self, lease: Lease) -> Lease:
        """Keeps alive a lease that somebody else was granted."""
        stub = rpc_pb2_grpc.LeaseStub(self._channel())
        self._run(_again(lambda: _keep_alive(stub, lease), lease.errors))
        return lease

    def writer(self, prefix: bytes, *, every_seconds: float) -> Written:
        """Writes one new key after the other."""
        written = Written()
        self._run(_write(rpc_pb2_grpc.KVStub(self._channel()), prefix, every_seconds, written))
        return written

    def watcher(self, prefix: bytes, start_revision: int, **options: Any) -> Watched:
        """Watches from a revision on, and after each end from the next one that it did not see."""
        watched = Watched(next_revision=start_revision)
        stub = rpc_pb2_grpc.WatchStub(self._channel())
        self._run(_again(lambda: _watch(stub, prefix, watched, options), watched.errors))
        return watched

    async def stop(self) -> None:
        """Ends them all; what they saw stays."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for channel in self._channels:
            await channel.close()

    def _channel(self) -> grpc.aio.Channel:
        self._channels.append(grpc.aio.insecure_channel(self._address, options=OPTIONS))
        return self._channels[-1]

    def _run(self, work: Any) -> None:
        self._running.append(self._tasks.create_task(work))


@asynccontextmanager
async def steady_clients(address: str) -> AsyncIterator[Steady]:
    """Where clients of `address` can be started; all end with the block."""
    async with asyncio.TaskGroup() as tasks:
        clients = Steady(address, tasks)
        try:
            yield clients
        finally:
            await clients.stop()


async def _again(work: Callable[[], Any], errors: list[str]) -> NoReturn:
    """Begins again whenever a stream ends, whatever ended it."""
    while True:
        try:
            await work()
        except grpc.aio.AioRpcError as error:
            errors.append(f"{error.code().name}: {error.details()}")
        await asyncio.sleep(AGAIN_SECONDS)


async def _keep_alive(stub: Any, lease: Lease) -> None:
    call = stub.LeaseKeepAlive()
    over = asyncio.Event()
    call.add_done_callback(lambda _: over.set())
    try:
        while not lease.is_lost:
            await _write_to(call, rpc_pb2.LeaseKeepAliveRequest(ID=lease.id))
            answer = await call.read()
            if answer is grpc.aio.EOF:
                return
            lease.is_lost = answer.TTL <= 0
            lease.answers.append(asyncio.get_running_loop().time())
            # A stream that ends between two beats is noticed at once, as by a client that reads all the time.
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), lease.beat_seconds)
                await call.read()
    finally:
        call.cancel()


async def _write_to(call: Any, request: Any) -> None:
    """Writes to a stream. Of one that has ended the next reading tells how: gRPC's own error here says nothing."""
    with suppress(asyncio.InvalidStateError):
        await call.write(request)


async def _write(stub: Any, prefix: bytes, every_seconds: float, written: Written) -> NoReturn:
    number = 0
    while True:
        key = prefix + b"%06d" % number
        number += 1
        try:
            answer = await stub.Put(rpc_pb2.PutRequest(key=key, value=b"x"), timeout=CALL_SECONDS)
            written.acknowledged[key] = answer.header.revision
        except grpc.aio.AioRpcError as error:
            written.unknown.add(key)
            written.errors.append(f"{error.code().name}: {error.details()}")
        await asyncio.sleep(every_seconds)


async def _watch(stub: Any, prefix: bytes, watched: Watched, options: Any) -> None:
    create = rpc_pb2.WatchCreateRequest(
        key=prefix, range_end=prefix_end(prefix), start_revision=watched.next_revision, **options
    )
    call = stub.Watch()
    watched.streams += 1
    try:
        await _write_to(call, rpc_pb2.WatchRequest(create_request=create))
        while (answer := await call.read()) is not grpc.aio.EOF:
            assert not answer.canceled, f"a watch was cancelled: {answer}"
            for event in answer.events:
                watched.events.append(happened(event))
                watched.next_revision = event.kv.mod_revision + 1
    finally:
        call.cancel()


def happened(event: kv_pb2.Event) -> Happened:
    """An event in short."""
    return kv_pb2.Event.EventType.Name(event.type), event.kv.key, event.kv.mod_revision
