"""Connections of the HTTP port: who keeps it waiting makes room, who is being answered stays."""

import asyncio

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from greenroom.control import connections
from greenroom.control.connections import REQUEST_SECONDS, BoundedProtocol

HEAD = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n"


class Wire(asyncio.Transport):
    """One end of a connection; what is written is kept."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.written, self.is_over = b"", False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def is_closing(self) -> bool:
        return self.is_over

    def close(self) -> None:
        self.is_over = True

    def abort(self) -> None:
        self.is_over = True

    def resume_reading(self) -> None:
        """uvicorn does so after each answer."""


class Port:
    """Connections of one port, whose answers come when the test says so."""

    def __init__(self) -> None:
        self.state, self.may_answer = ServerState(), asyncio.Event()
        self.config = uvicorn.Config(self._answer, interface="asgi3", lifespan="off", log_config=None)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    def connect(self, *, waits_seconds: float = 0.0) -> "Connection":
        """Made that long ago."""
        return Connection(self, waits_seconds)

    async def answered(self) -> None:
        self.may_answer.set()
        await asyncio.gather(*self.state.tasks)


class Connection:
    def __init__(self, port: Port, waits_seconds: float) -> None:
        self.protocol, self.wire = BoundedProtocol(port.config, port.state, {}), Wire()
        self.protocol.connection_made(self.wire)
        self.protocol.waits_since -= waits_seconds

    def send(self, data: bytes) -> "Connection":
        self.protocol.data_received(data)
        return self

    @property
    def is_over(self) -> bool:
        return self.wire.is_over

    def is_over_after_a_look(self) -> bool:
        self.protocol._look()
        return self.is_over


@pytest.fixture
async def port() -> Port:
    return Port()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 2)


@pytest.mark.usefixtures("few")
async def test_past_the_bound_who_waited_longest_makes_room(port: Port) -> None:
    young, old = port.connect(waits_seconds=1), port.connect(waits_seconds=2)
    new = port.connect()
    assert (young.is_over, old.is_over, new.is_over) == (False, True, False)
    newest = port.connect()
    assert (young.is_over, new.is_over, newest.is_over) == (True, False, False)
    assert len(port.state.connections) == 2


@pytest.mark.usefixtures("few")
async def test_who_is_being_answered_stays_and_the_next_one_is_turned_away(port: Port) -> None:
    at_work = [port.connect(waits_seconds=5).send(HEAD) for _ in range(2)]
    new = port.connect()
    assert new.is_over
    assert new.wire.written.startswith(b"HTTP/1.1 503 ")
    await port.answered()
    assert [one.is_over for one in at_work] == [False, False]
    assert [one.wire.written[:12] for one in at_work] == [b"HTTP/1.1 204"] * 2


@pytest.mark.parametrize("sent", [b"", HEAD[:-2], POST, POST + b"1"])
async def test_a_request_that_does_not_come_whole_ends_its_connection(port: Port, sent: bytes) -> None:
    """However often another byte of it comes."""
    connection = port.connect().send(sent) if sent else port.connect()
    assert not connection.is_over_after_a_look()
    connection.protocol.waits_since -= REQUEST_SECONDS
    assert connection.is_over_after_a_look()
    connection.protocol.connection_lost(None)
    await port.answered()


async def test_an_answer_may_take_its_time_and_then_the_next_request_has_its_own(port: Port) -> None:
    connection = port.connect(waits_seconds=REQUEST_SECONDS).send(HEAD)
    assert not connection.is_over_after_a_look()
    await port.answered()
    assert not connection.is_over_after_a_look()
    connection.protocol.waits_since -= REQUEST_SECONDS
    assert connection.is_over_after_a_look()


async def test_it_is_looked_at_by_itself(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.01)
    ended, connection = asyncio.Event(), port.connect()
    monkeypatch.setattr(connection.wire, "abort", ended.set)
    await asyncio.wait_for(ended.wait(), 10)
