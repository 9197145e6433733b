"""A server of unary gRPC on loopback, made of the h2 library, that does what a test says: also what no server should.

The rule: h2 is strict. What a client may not send ends the connection here, and the test with it.
"""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings

from greenroom.store.members import Address

PREFIX = struct.Struct(">BL")
HEAD = [(":status", "200"), ("content-type", "application/grpc")]


@dataclass
class Request:
    """What came of one call. `message` is without its prefix, and whole once the client ended its side."""

    stream_id: int
    headers: dict[str, str]
    body: bytearray = field(default_factory=bytearray)

    @property
    def message(self) -> bytes:
        flag, size = PREFIX.unpack_from(self.body)
        assert (flag, size) == (0, len(self.body) - PREFIX.size), "the request is not one whole message"
        return bytes(self.body[PREFIX.size :])


Script = Callable[["Served", Request], None]
"""What the server does once a request is there whole."""


class Served(asyncio.Protocol):
    """One connection."""

    def __init__(self, server: "H2Server") -> None:
        self._server = server
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.transport: asyncio.Transport | None = None
        self.events: list[h2.events.Event] = []
        self.requests: dict[int, Request] = {}
        self._unsent: dict[int, tuple[bytes, list[tuple[str, str]]]] = {}
        self.is_lost = False

    def answer(self, request: Request, message: bytes = b"answer") -> None:
        """A whole answer, as fast as the client's windows allow."""
        self.h2.send_headers(request.stream_id, HEAD)
        self._unsent[request.stream_id] = (PREFIX.pack(0, len(message)) + message, [("grpc-status", "0")])
        self._send()

    def begin(self, request: Request, message: bytes, *, sent_bytes: int) -> None:
        """The head of an answer, and so many bytes of its message."""
        self.h2.send_headers(request.stream_id, HEAD)
        self.h2.send_data(request.stream_id, (PREFIX.pack(0, len(message)) + message)[:sent_bytes])
        self.flush()

    def end(self, request: Request, *fields: tuple[str, str]) -> None:
        """Trailers."""
        self.h2.send_headers(request.stream_id, fields, end_stream=True)
        self.flush()

    def trailers_only(self, request: Request, status: int, *more: tuple[str, str]) -> None:
        """An error without a message."""
        self.end(request, *HEAD, ("grpc-status", str(status)), *more)

    def reset(self, request: Request, code: int) -> None:
        self.h2.reset_stream(request.stream_id, code)
        self.flush()

    def goaway(self, last_stream_id: int) -> None:
        """Told to go, which is not a connection that ended: so h2 is not asked for it."""
        self.raw(b"\0\0\x08\x07\0\0\0\0\0" + struct.pack(">LL", last_stream_id, 0))

    def die(self) -> None:
        """As a process that is killed."""
        assert self.transport is not None
        self.transport.abort()

    def raw(self, data: bytes) -> None:
        assert self.transport is not None
        self.flush()
        self.transport.write(data)

    def flush(self) -> None:
        if self.transport is not None and (data := self.h2.data_to_send()):
            self.transport.write(data)

    def reset_streams(self) -> list[int]:
        """The streams that the client gave up."""
        return [event.stream_id for event in self.events if isinstance(event, h2.events.StreamReset)]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._server.connections.append(self)
        if self._server.first_words is not None:
            self.transport.write(self._server.first_words)
            return
        self.h2.initiate_connection()
        self.h2.update_settings(self._server.settings)
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True

    def data_received(self, data: bytes) -> None:
        if self._server.first_words is not None:
            return
        try:
            for event in self.h2.receive_data(data):
                self._take(event)
        except h2.exceptions.ProtocolError as error:
            self._server.faults.append(repr(error))
        self._send()

    def _take(self, event: h2.events.Event) -> None:
        self.events.append(event)
        match event:
            case h2.events.RequestReceived(stream_id=int(stream_id), headers=headers):
                pairs = cast(list[tuple[str, str]], headers)
                self.requests[stream_id] = Request(stream_id, dict(pairs))
            case h2.events.DataReceived(stream_id=int(stream_id), data=bytes(data), flow_controlled_length=int(size)):
                self.requests[stream_id].body += data
                self.h2.acknowledge_received_data(size, stream_id)
            case h2.events.StreamEnded(stream_id=int(stream_id)):
                self._server.script(self, self.requests[stream_id])
            case h2.events.StreamReset(stream_id=int(stream_id)):
                self._unsent.pop(stream_id, None)

    def _send(self) -> None:
        for stream_id, (rest, trailers) in list(self._unsent.items()):
            while rest and (room := min(self.h2.local_flow_control_window(stream_id), 16_384)) > 0:
                self.h2.send_data(stream_id, rest[:room])
                rest = rest[room:]
            self._unsent[stream_id] = (rest, trailers)
            if not rest:
                del self._unsent[stream_id]
                self.h2.send_headers(stream_id, trailers, end_stream=True)
        self.flush()


class H2Server:
    """Where clients come. With `first_words` it says just these, and no HTTP/2."""

    def __init__(self, script: Script, settings: dict[int, int], first_words: bytes | None) -> None:
        self.script, self.settings, self.first_words = script, dict(settings), first_words
        self.connections: list[Served] = []
        self.faults: list[str] = []
        self.port = 0
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> Address:
        return "127.0.0.1", self.port

    async def start(self) -> None:
        """Listens; again on the same port after `stop`."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Served(self), "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Refuses connections, and ends those that there are."""
        assert self._server is not None
        self._server.close()
        for connection in self.connections:
            connection.die()
        await self._server.wait_closed()


@asynccontextmanager
async def h2_server(
    script: Script = Served.answer, *, settings: dict[int, int] | None = None, first_words: bytes | None = None
) -> AsyncIterator[H2Server]:
    """A listening server; at its end it must have found no fault with the client."""
    server = H2Server(script, settings or {}, first_words)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
    assert server.faults == []
