"""The relay before a real etcd: methods as if it were not there, calls handed over and forwarded on one connection.

The clients are grpcio with bytes (it checks nothing of the messages) and etcdctl, a client of another make.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest

from greenroom.pb.etcd import rpc_pb2
from greenroom.relay.calls import FORWARD_AS_IS, Answer, Decision, HandedOverCall, HandOver, Kind
from greenroom.relay.limits import Limits
from greenroom.relay.server import RelayServer
from greenroom.store.members import Members
from tests.support.etcd import Etcd
from tests.support.etcdctl import Etcdctl, find_etcdctl
from tests.support.h2_peers import Notes
from tests.support.ports import free_port

KV = "/etcdserverpb.KV/"
LEASE = "/etcdserverpb.Lease/"
WATCH = "/etcdserverpb.Watch/Watch"
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
WAIT_SECONDS = 20


class HoldsSome:
    """Hands over each Range of a key that begins with `held/`."""

    def kind(self, path: bytes) -> Kind:
        if path == WATCH.encode():
            return Kind.STREAM
        if path.startswith(KV.encode()):
            return Kind.UNARY
        return Kind.FORWARD if path.startswith(b"/etcdserverpb.") else Kind.REFUSE

    def unknown(self, path: bytes) -> str:
        return "unknown"

    def inspect(self, path: bytes, message: bytes) -> Decision:
        if path == f"{KV}Range".encode():
            request = rpc_pb2.RangeRequest.FromString(message)
            if request.key.startswith(b"held/"):
                return HandOver(request)
        return FORWARD_AS_IS


class Handling:
    """Answers a held Range with its own key; a key with `slow` in it never."""

    def __init__(self) -> None:
        self.calls: list[HandedOverCall] = []
        self.cancelled = 0

    async def __call__(self, call: HandedOverCall) -> Answer:
        self.calls.append(call)
        request = call.work
        assert isinstance(request, rpc_pb2.RangeRequest)
        try:
            if b"slow" in request.key:
                await asyncio.Event().wait()
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        response = rpc_pb2.RangeResponse(count=1)
        response.kvs.add(key=request.key, value=b"v" * int(request.limit))
        return Answer(response.SerializeToString())


class Relayed:
    """A relay and a client of it."""

    def __init__(self, server: RelayServer, handling: Handling, notes: Notes, channel: grpc.aio.Channel) -> None:
        self.server = server
        self.handling = handling
        self.notes = notes
        self.channel = channel

    def unary(self, path: str) -> Any:
        return self.channel.unary_unary(path)

    def stream(self, path: str) -> Any:
        return self.channel.stream_stream(path)()

    async def get(self, key: bytes, **more: Any) -> rpc_pb2.RangeResponse:
        request = rpc_pb2.RangeRequest(key=key, **more).SerializeToString()
        return rpc_pb2.RangeResponse.FromString(await self.unary(f"{KV}Range")(request))

    async def put(self, key: bytes, value: bytes, lease: int = 0) -> rpc_pb2.PutResponse:
        request = rpc_pb2.PutRequest(key=key, value=value, lease=lease).SerializeToString()
        return rpc_pb2.PutResponse.FromString(await self.unary(f"{KV}Put")(request))


async def until(reached: Callable[[], bool]) -> None:
    """Wait for what nobody announces."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not reached():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def relayed(*addresses: tuple[str, int], limits: Limits | None = None) -> AsyncIterator[Relayed]:
    handling, notes = Handling(), Notes()
    server = RelayServer(
        inspector=HoldsSome(),
        handler=handling,
        observer=notes,
        upstreams=Members(addresses),
        host="127.0.0.1",
        port=0,
        limits=limits,
    )
    await server.start()
    async with connected(server) as channel:
        try:
            yield Relayed(server, handling, notes, channel)
        finally:
            await channel.close()
            await server.stop(0)


def connected(server: RelayServer) -> grpc.aio.Channel:
    """A client on a connection of its own."""
    options = [*UNLIMITED, ("grpc.use_local_subchannel_pool", 1)]
    return grpc.aio.insecure_channel(f"127.0.0.1:{server.port}", options=options)


@pytest.fixture
async def relay(etcd: Etcd) -> AsyncIterator[Relayed]:
    async with relayed(("127.0.0.1", etcd.port)) as made:
        yield made


async def test_put_get_and_txn(relay: Relayed) -> None:
    put = await relay.put(b"a", b"1")
    assert (await relay.get(b"a")).kvs[0].mod_revision == put.header.revision
    txn = rpc_pb2.TxnRequest()
    txn.compare.add(target="VERSION", key=b"a", version=1)
    txn.success.add().request_put.CopyFrom(rpc_pb2.PutRequest(key=b"b", value=b"2"))
    answer = rpc_pb2.TxnResponse.FromString(await relay.unary(f"{KV}Txn")(txn.SerializeToString()))
    assert answer.succeeded
    assert (await relay.get(b"b")).kvs[0].value == b"2"


async def test_etcds_own_status_and_text_come_through(relay: Relayed) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await relay.put(b"", b"x")
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == "etcdserver: key is not provided"
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await relay.put(b"a", b"x", lease=12345)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("path", ["/etcdserverpb2.KV/Range", "/grpc.reflection.v1.ServerReflection/Info"])
async def test_an_unknown_method_is_unimplemented_here(relay: Relayed, path: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await relay.unary(path)(b"")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert relay.notes.refused == [(b"", 12)]
    await relay.put(b"a", b"1")


async def test_a_watch_gives_events_also_after_the_client_half_closed(relay: Relayed) -> None:
    watch = relay.stream(WATCH)
    request = rpc_pb2.WatchRequest()
    request.create_request.key = b"w"
    await watch.write(request.SerializeToString())
    assert rpc_pb2.WatchResponse.FromString(await watch.read()).created
    await relay.put(b"w", b"1")
    assert rpc_pb2.WatchResponse.FromString(await watch.read()).events[0].kv.value == b"1"
    await watch.done_writing()
    await relay.put(b"w", b"2")
    assert rpc_pb2.WatchResponse.FromString(await watch.read()).events[0].kv.value == b"2"
    watch.cancel()
    await relay.put(b"w", b"3")


async def test_each_keepalive_is_answered_and_a_missing_lease_as_etcd_does(relay: Relayed) -> None:
    grant = rpc_pb2.LeaseGrantRequest(TTL=30).SerializeToString()
    lease = rpc_pb2.LeaseGrantResponse.FromString(await relay.unary(f"{LEASE}LeaseGrant")(grant)).ID
    stream = relay.stream(f"{LEASE}LeaseKeepAlive")
    for asked, ttl in ((lease, 30), (lease, 30), (lease + 1, 0)):
        await stream.write(rpc_pb2.LeaseKeepAliveRequest(ID=asked).SerializeToString())
        assert ttl == rpc_pb2.LeaseKeepAliveResponse.FromString(await stream.read()).TTL
    await stream.done_writing()
    assert await stream.read() is grpc.aio.EOF


async def test_a_cancelled_watch_is_gone_at_etcd(relay: Relayed, etcd: Etcd) -> None:
    watch = relay.stream(WATCH)
    request = rpc_pb2.WatchRequest()
    request.create_request.key = b"w"
    await watch.write(request.SerializeToString())
    await watch.read()
    assert await watchers(etcd) >= 1
    watch.cancel()
    async with asyncio.timeout(WAIT_SECONDS):
        while await watchers(etcd):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def watchers(etcd: Etcd) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", etcd.port)
    writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
    text = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    lines = [line for line in text.splitlines() if line.startswith("etcd_debugging_mvcc_watcher_total ")]
    return int(float(lines[0].split()[1]))


async def test_an_answer_of_6_mib_comes_through(relay: Relayed) -> None:
    value = bytes(1024 * 1024)
    for number in range(6):
        await relay.put(b"big/%d" % number, value)
    answer = await relay.get(b"big/", range_end=b"big0")
    assert [len(kv.value) for kv in answer.kvs] == [len(value)] * 6
    with pytest.raises(grpc.aio.AioRpcError, match="request is too large"):
        await relay.put(b"big", bytes(1_700_000))


async def test_a_handed_over_call_carries_metadata_and_deadline(relay: Relayed) -> None:
    request = rpc_pb2.RangeRequest(key=b"held/a", limit=5).SerializeToString()
    metadata = (("token", "secret"), ("x-bin", b"\0\xff"), ("hasleader", "true"))
    answer = await relay.unary(f"{KV}Range")(request, metadata=metadata, timeout=600)
    assert rpc_pb2.RangeResponse.FromString(answer).kvs[0].value == b"vvvvv"
    (call,) = relay.handling.calls
    assert sorted(call.metadata) == sorted(metadata)
    assert call.timeout_seconds is not None
    assert 500 < call.timeout_seconds <= 600


async def test_a_large_answer_of_a_handler_passes_the_clients_windows(relay: Relayed) -> None:
    answers = await asyncio.gather(*[relay.get(b"held/%d" % number, limit=3_000_000) for number in range(4)])
    assert [len(answer.kvs[0].value) for answer in answers] == [3_000_000] * 4
    await relay.put(b"a", b"1")


async def test_the_deadline_of_a_handed_over_call_ends_its_handler(relay: Relayed) -> None:
    request = rpc_pb2.RangeRequest(key=b"held/slow").SerializeToString()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await relay.unary(f"{KV}Range")(request, timeout=0.2)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await until(lambda: relay.handling.cancelled == 1)


async def test_calls_of_one_client_that_hang_leave_the_others_theirs(etcd: Etcd) -> None:
    """Of four that may be at work it gets two, however many it asks for; beyond the bound it is told so."""
    limits = Limits(handlers=6, process_handlers_at_work=4)
    request = rpc_pb2.RangeRequest(key=b"held/slow").SerializeToString()
    async with relayed(("127.0.0.1", etcd.port), limits=limits) as relay, connected(relay.server) as other:
        hanging = [relay.unary(f"{KV}Range")(request) for _ in range(7)]
        done, _ = await asyncio.wait(map(asyncio.ensure_future, hanging), return_when=asyncio.FIRST_COMPLETED)
        (refused,) = done
        assert "RESOURCE_EXHAUSTED" in str(refused.exception())
        assert len(relay.handling.calls) == 2
        answer = await Relayed(relay.server, relay.handling, relay.notes, other).get(b"held/a")
        assert answer.kvs[0].key == b"held/a"


async def test_a_cancelled_call_and_a_lost_connection_cancel_handlers(relay: Relayed) -> None:
    request = rpc_pb2.RangeRequest(key=b"held/slow").SerializeToString()
    first, second = (relay.unary(f"{KV}Range")(request) for _ in range(2))
    await until(lambda: len(relay.handling.calls) == 2)
    first.cancel()
    await until(lambda: relay.handling.cancelled == 1)
    await relay.channel.close()
    await until(lambda: relay.handling.cancelled == 2)
    assert second.done()


async def test_thousands_of_held_and_forwarded_calls_mix_on_one_connection(relay: Relayed) -> None:
    await asyncio.gather(*[relay.put(b"k/%d" % number, b"%d" % number) for number in range(100)])
    in_flight = asyncio.Semaphore(100)

    async def one(number: int) -> None:
        async with in_flight:
            if number % 3 == 0:
                answer = await relay.get(b"held/%d" % number, limit=number % 50)
                assert (answer.kvs[0].key, len(answer.kvs[0].value)) == (b"held/%d" % number, number % 50)
            else:
                answer = await relay.get(b"k/%d" % (number % 100))
                assert answer.kvs[0].value == b"%d" % (number % 100)

    await asyncio.gather(*[one(number) for number in range(3_000)])
    assert relay.notes.failures == []
    assert relay.server.connections == 1
    assert len(relay.notes.handed_over) == 1_000


async def test_etcdctl_works_through_it(relay: Relayed) -> None:
    etcdctl = Etcdctl(f"http://127.0.0.1:{relay.server.port}", find_etcdctl())

    def use() -> list[str]:
        etcdctl.run("put", "a", "1")
        etcdctl.run("lease", "grant", "20")
        return etcdctl.lines("get", "a")

    assert await asyncio.to_thread(use) == ["a", "1"]


async def test_upstream_killed_closes_the_clients_connection(own_etcd: Etcd) -> None:
    async with relayed(("127.0.0.1", own_etcd.port)) as relay:
        await relay.put(b"a", b"1")
        watch = relay.stream(WATCH)
        await watch.write(rpc_pb2.WatchRequest().SerializeToString())
        own_etcd.kill()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await watch.read()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        await until(lambda: not relay.server.connections)
        own_etcd.start()
        await back(relay)


async def back(relay: Relayed) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            with contextlib.suppress(grpc.aio.AioRpcError):
                await relay.put(b"a", b"2")
                return


@pytest.mark.once("a stopped process says nothing, of whichever version it is")
async def test_a_stopped_upstream_is_noticed_within_17_seconds(own_etcd: Etcd) -> None:
    """It keeps its sockets open and says nothing; only a PING of our own finds out."""
    async with relayed(("127.0.0.1", own_etcd.port)) as relay:
        watch = relay.stream(WATCH)
        request = rpc_pb2.WatchRequest()
        request.create_request.key = b"w"
        await watch.write(request.SerializeToString())
        await watch.read()
        own_etcd.pause()
        before = time.monotonic()
        try:
            with pytest.raises(grpc.aio.AioRpcError):
                await watch.read()
        finally:
            own_etcd.resume()
        assert 10 < time.monotonic() - before < 17
        assert relay.notes.closed == ["upstream does not answer"]


async def test_the_next_upstream_is_taken_where_one_cannot_be_dialled(etcd: Etcd) -> None:
    dead = ("127.0.0.1", free_port())
    async with relayed(dead, ("127.0.0.1", etcd.port)) as relay:
        await relay.put(b"a", b"1")
        assert relay.notes.undialled == [f"127.0.0.1:{dead[1]}"]


async def test_without_any_upstream_the_client_is_disconnected() -> None:
    async with relayed(("127.0.0.1", free_port())) as relay:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await relay.put(b"a", b"1")
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "no upstream can be reached" in relay.notes.closed


async def test_stopping_lets_calls_end_and_sends_watches_away(etcd: Etcd) -> None:
    async with relayed(("127.0.0.1", etcd.port)) as relay:
        slow = asyncio.ensure_future(relay.get(b"held/slow"))
        watch = relay.stream(WATCH)
        request = rpc_pb2.WatchRequest()
        request.create_request.key = b"w"
        await watch.write(request.SerializeToString())
        await watch.read()
        await relay.server.stop(0.2)
        for ended in (slow, watch.read()):
            with pytest.raises(grpc.aio.AioRpcError):
                await ended
        assert relay.server.connections == 0
        assert relay.handling.cancelled == 1
