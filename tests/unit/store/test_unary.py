"""Calls to one member: when they wait, when they fail at once, and when they are made again."""

import asyncio

import grpc
import pytest

from greenroom.store import unary as unary_module
from greenroom.store.unary import CLOSED, UnaryClient
from tests.support.h2_server import H2Server, Request, Served, h2_server


async def ask(client: UnaryClient, seconds: float | None = 5.0) -> bytes:
    return await client.call("/path", b"request", (), seconds)


async def until_ready(client: UnaryClient) -> None:
    client.connect()
    while not client.is_ready:  # noqa: ASYNC110
        await asyncio.sleep(0.001)


async def test_the_first_call_connects_and_the_others_share_the_connection() -> None:
    news: list[bool] = []
    async with h2_server() as server:
        client = UnaryClient(server.address, lambda: news.append(client.is_ready))
        assert not client.is_ready
        assert await asyncio.gather(*(ask(client) for _ in range(20))) == [b"answer"] * 20
        assert (client.is_ready, news, len(server.connections)) == (True, [True], 1)
        headers = server.connections[0].requests[1].headers
        assert headers[":authority"] == f"127.0.0.1:{server.port}"
        assert headers["user-agent"].startswith("greenroom/")
        await client.close()


async def test_metadata_is_sent_as_it_is() -> None:
    async with h2_server() as server:
        client = UnaryClient(server.address)
        await client.call("/path", b"", (("token", "secret"), ("x-bin", b"\xfa")), 5)
        headers = server.connections[0].requests[1].headers
        assert (headers["token"], headers["x-bin"]) == ("secret", "+g")
        await client.close()


async def test_nobody_there_fails_at_once_and_again_at_once() -> None:
    client = UnaryClient(("127.0.0.1", 1))
    for _ in range(3):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await ask(client)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert refused.value.details() == "failed to connect to etcd at 127.0.0.1:1: Connection refused"
    await client.close()


async def test_it_connects_by_itself_once_somebody_is_there() -> None:
    async with h2_server() as server:
        await server.stop()
        client = UnaryClient(server.address)
        with pytest.raises(grpc.aio.AioRpcError):
            await ask(client)
        await server.start()
        await until_ready(client)
        assert await ask(client) == b"answer"
        await client.close()


async def test_a_lost_connection_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unary_module, "STEADY_SECONDS", 0.0)
    async with h2_server() as server:
        client = UnaryClient(server.address)
        await ask(client)
        server.connections[0].die()
        while len(server.connections) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await until_ready(client)
        assert await ask(client) == b"answer"
        await client.close()


class Scripted:
    """The first connection does nothing of its calls and says so; others answer."""

    def __init__(self, servers: list[H2Server]) -> None:
        self.servers = servers

    def __call__(self, served: Served, request: Request) -> None:
        if served is self.servers[0].connections[0]:
            served.goaway(0)
        else:
            served.answer(request)


async def test_what_never_began_is_made_again_on_a_new_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unary_module, "STEADY_SECONDS", 0.0)
    servers: list[H2Server] = []
    async with h2_server(Scripted(servers)) as server:
        servers.append(server)
        client = UnaryClient(server.address)
        assert await ask(client) == b"answer"
        assert await ask(client, None) == b"answer"
        assert len(server.connections) == 2
        await client.close()


async def test_and_no_oftener() -> None:
    def refuses(served: Served, request: Request) -> None:
        served.reset(request, 7)

    async with h2_server(refuses) as server:
        client = UnaryClient(server.address)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await ask(client)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert len(server.connections[0].requests) == 2
        await client.close()


async def test_what_may_have_happened_is_not_made_again() -> None:
    def dies(served: Served, _: Request) -> None:
        served.die()

    async with h2_server(dies) as server:
        client = UnaryClient(server.address)
        with pytest.raises(grpc.aio.AioRpcError) as lost:
            await ask(client)
        assert lost.value.code() is grpc.StatusCode.UNAVAILABLE
        assert sum(len(connection.requests) for connection in server.connections) == 1
        await client.close()


async def test_a_peer_that_never_says_what_it_speaks_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unary_module, "DIAL_SECONDS", 0.05)
    async with h2_server(first_words=b"") as server:
        client = UnaryClient(server.address)
        with pytest.raises(grpc.aio.AioRpcError, match="no answer in time"):
            await ask(client)
        await client.close()


async def test_a_callers_time_bounds_its_wait_for_a_connection() -> None:
    async with h2_server(first_words=b"") as server:
        client = UnaryClient(server.address)
        with pytest.raises(grpc.aio.AioRpcError) as late:
            await ask(client, 0.05)
        assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await client.close()


async def test_a_peer_that_is_no_http2_is_said_to_be_none() -> None:
    async with h2_server(first_words=b"HTTP/1.1 400 Bad Request\r\n\r\n") as server:
        client = UnaryClient(server.address)
        with pytest.raises(grpc.aio.AioRpcError, match="it does not speak HTTP/2"):
            await ask(client)
        await client.close()


async def test_closing_ends_every_call_and_there_are_no_more() -> None:
    async with h2_server(lambda *_: None) as server:
        client = UnaryClient(server.address)
        running = asyncio.create_task(ask(client, None))
        await until_ready(client)
        await asyncio.sleep(0)
        await client.close()
        for call in (running, ask(client)):
            with pytest.raises(grpc.aio.AioRpcError, match=CLOSED):
                await call
        assert not client.is_ready


async def test_closing_what_was_never_used() -> None:
    client = UnaryClient(("127.0.0.1", 1))
    await client.close()
    assert "127.0.0.1:1" in repr(client)
