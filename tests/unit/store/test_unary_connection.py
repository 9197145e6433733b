"""One connection over a real socket: calls end whichever way they end, and the connection too."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest

from greenroom.store import unary_connection as connection_module
from greenroom.store import unary_dialogue
from greenroom.store.call_errors import NeverBegun
from greenroom.store.dialling import dial
from greenroom.store.unary_connection import NO_HTTP2, UnaryConnection
from tests.support.h2_server import H2Server, Request, Served, h2_server


def silent(_: Served, __: Request) -> None:
    """A server that takes calls and says nothing."""


@asynccontextmanager
async def connected(server: H2Server) -> AsyncIterator[UnaryConnection]:
    left: list[UnaryConnection] = []
    connection = UnaryConnection("etcd", "greenroom/test", left.append)
    await dial(server.address, connection)
    await connection.until_ready()
    yield connection
    connection.end("the test is over")
    await connection.until_gone()
    assert left == [connection]


async def call(connection: UnaryConnection, message: bytes = b"", seconds: float | None = 5.0) -> bytes:
    return await connection.call("/path", message, (), seconds)


async def until_asked(server: H2Server, count: int = 1) -> Served:
    """The server's side, once so many requests are there."""
    while len(server.connections[0].requests) < count:  # noqa: ASYNC110
        await asyncio.sleep(0)
    return server.connections[0]


async def until_reset(served: Served) -> None:
    while not served.reset_streams():  # noqa: ASYNC110
        await asyncio.sleep(0)


def echo(served: Served, request: Request) -> None:
    served.answer(request, request.message)


async def test_many_calls_at_once_get_their_own_answers() -> None:
    async with h2_server(echo) as server, connected(server) as connection:
        messages = [b"%d" % number * 100 for number in range(200)]
        assert await asyncio.gather(*(call(connection, message) for message in messages)) == messages


async def test_a_large_request_and_a_larger_answer() -> None:
    request, answer = bytes(1_400_000), bytes(6 << 20)

    def answers(served: Served, asked: Request) -> None:
        assert asked.message == request
        served.answer(asked, answer)

    async with h2_server(answers) as server, connected(server) as connection:
        assert await call(connection, request, 30) == answer


async def test_a_call_that_is_cancelled_is_reset_and_nothing_of_it_stays() -> None:
    async with h2_server(silent) as server, connected(server) as connection:
        running = asyncio.create_task(call(connection))
        served = await until_asked(server)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await until_reset(served)
        assert connection._dialogue.is_idle
        gone = weakref.ref(running)
        del running
        gc.collect()
        assert gone() is None


async def test_a_call_whose_time_is_up_is_reset() -> None:
    async with h2_server(silent) as server, connected(server) as connection:
        with pytest.raises(grpc.aio.AioRpcError) as late:
            await call(connection, seconds=0.05)
        assert (late.value.code(), late.value.details()) == (
            grpc.StatusCode.DEADLINE_EXCEEDED,
            "context deadline exceeded",
        )
        served = await until_asked(server)
        assert served.requests[1].headers["grpc-timeout"] == "50000u"
        await until_reset(served)


async def test_a_call_without_any_time_is_not_made() -> None:
    async with h2_server(silent) as server, connected(server) as connection:
        with pytest.raises(grpc.aio.AioRpcError) as late:
            await call(connection, seconds=0.0)
        assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert server.connections[0].requests == {}


async def test_an_error_without_a_message() -> None:
    def refuses(served: Served, request: Request) -> None:
        served.trailers_only(request, 9, ("grpc-message", "no%20%C3%A4"), ("x-bin", "+gA"))

    async with h2_server(refuses) as server, connected(server) as connection:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(connection)
        assert (refused.value.code(), refused.value.details()) == (grpc.StatusCode.FAILED_PRECONDITION, "no ä")
        assert tuple(refused.value.trailing_metadata()) == (("x-bin", b"\xfa\x00"),)


async def test_a_server_that_dies_in_the_middle_of_an_answer() -> None:
    def dies(served: Served, request: Request) -> None:
        served.begin(request, bytes(1000), sent_bytes=10)
        served.die()

    async with h2_server(dies) as server, connected(server) as connection:
        with pytest.raises(grpc.aio.AioRpcError) as lost:
            await call(connection)
        assert lost.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "Socket closed" in str(lost.value.details())


async def test_a_server_that_goes_finishes_its_calls_and_then_the_connection_ends() -> None:
    async with h2_server(silent) as server, connected(server) as connection:
        first, second = (asyncio.create_task(call(connection)) for _ in range(2))
        served = await until_asked(server, 2)
        served.goaway(1)
        with pytest.raises(NeverBegun):
            await second
        with pytest.raises(NeverBegun):
            await call(connection)
        assert not connection.is_gone
        served.answer(served.requests[1])
        assert await first == b"answer"
        await connection.until_gone()


async def test_a_stream_that_is_reset_is_one_calls_end() -> None:
    def resets(served: Served, request: Request) -> None:
        served.reset(request, 2) if request.message else served.answer(request)

    async with h2_server(resets) as server, connected(server) as connection:
        with pytest.raises(grpc.aio.AioRpcError) as reset:
            await call(connection, b"reset me")
        assert reset.value.code() is grpc.StatusCode.INTERNAL
        assert await call(connection) == b"answer"


@pytest.mark.parametrize("words", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-x\r\n", b"\0\0\0\x06\0\0\0\0\0"])
async def test_a_peer_that_is_no_http2_is_told_as_that(words: bytes) -> None:
    async with h2_server(first_words=words) as server:
        connection = UnaryConnection("etcd", "greenroom/test", lambda _: None)
        await dial(server.address, connection)
        with pytest.raises(ConnectionError, match=NO_HTTP2):
            await connection.until_ready()
        await connection.until_gone()


async def test_a_peer_that_breaks_the_rules_loses_the_connection() -> None:
    def breaks(served: Served, request: Request) -> None:
        served.raw(b"\0\0\x05\x06\0\0\0\0\0short")

    async with h2_server(breaks) as server, connected(server) as connection:
        with pytest.raises(grpc.aio.AioRpcError) as broken:
            await call(connection)
        assert (broken.value.code(), broken.value.details()) == (grpc.StatusCode.UNAVAILABLE, "PING of a wrong size")


async def test_a_peer_that_stops_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its machine vanished: no byte comes, and none is refused."""
    monkeypatch.setattr(connection_module, "TICK_SECONDS", 0.01)
    monkeypatch.setattr(unary_dialogue, "SILENCE_SECONDS", 0.05)
    monkeypatch.setattr(unary_dialogue, "ANSWER_SECONDS", 0.05)
    async with h2_server(silent) as server, connected(server) as connection:
        running = asyncio.create_task(call(connection, seconds=None))
        served = await until_asked(server)
        assert served.transport is not None
        served.transport.pause_reading()
        with pytest.raises(grpc.aio.AioRpcError) as lost:
            await running
        assert lost.value.details() == "keepalive watchdog timeout"
        served.transport.resume_reading()


async def test_a_peer_that_answers_pings_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "TICK_SECONDS", 0.005)
    monkeypatch.setattr(unary_dialogue, "SILENCE_SECONDS", 0.01)
    monkeypatch.setattr(unary_dialogue, "ANSWER_SECONDS", 5.0)
    async with h2_server(silent) as server, connected(server) as connection:
        running = asyncio.create_task(call(connection, seconds=None))
        served = await until_asked(server)
        pings = 0
        while pings < 3:
            await asyncio.sleep(0.005)
            pings = sum(type(event).__name__ == "PingReceived" for event in served.events)
        served.answer(served.requests[1])
        assert await running == b"answer"
