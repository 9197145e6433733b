"""Thousands of clients in one process: each a socket, one stream to begin with, and hardly a byte of its own.

The rule: a client sends what a real one sends (preface, SETTINGS, acknowledgements, PING answers) and nothing that
gives a window back, so whoever relays to it sees a client that never reads more than its first 64 KiB.
"""

import asyncio
import resource
import socket
import struct
from collections.abc import Callable, Iterable

from tests.support.frames import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    FIRST_WINDOW,
    FRAME_HEADER_BYTES,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    LARGEST_WINDOW,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    frame,
    framed_message,
    frames_in,
    header_block,
    setting,
    window_update,
)

AT_ONCE = 250
"""Clients that connect at the same time: more than come when a whole fleet restarts behind one switch."""
ANSWER_SECONDS = 120
OWN_FILES = 300
"""Open files that are not a crowd's, in any of the processes."""
_RST_ON_CLOSE = struct.pack("ii", 1, 0)


def allow_open_files() -> int:
    """Raises this process's limit, and so that of its children, as far as it may; what it is now."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def affordable(wanted: int) -> int:
    """How many clients of `wanted` this machine lets one process relay, with two sockets each. Says so if fewer."""
    limit = allow_open_files()
    if limit == resource.RLIM_INFINITY:
        return wanted
    size = min(wanted, (limit - OWN_FILES) // 2)
    if size < wanted:
        print(f"a crowd of {size} instead of {wanted}: the limit is {limit} open files")
    return size


class CrowdClient(asyncio.Protocol):
    """One of them. `is_answered`: DATA came since it last said something; `is_over`: its last stream was ended."""

    __slots__ = ("_heard", "_next_stream", "_rest", "is_answered", "is_over", "lost", "opening", "transport")

    def __init__(self, opening: bytes, heard: "Callable[[CrowdClient], None]") -> None:
        self.opening = opening
        self.is_answered = self.is_over = self.lost = False
        self._heard = heard
        self._rest = b""
        self._next_stream = 1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self.opening)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._heard(self)

    def start(self, block: bytes, message: bytes, *, end: bool = False) -> None:
        """One stream more, with its first message."""
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        self.is_answered = self.is_over = False
        flags = END_STREAM if end else 0
        self.transport.write(
            frame(HEADERS, END_HEADERS, stream, block) + frame(DATA, flags, stream, framed_message(message))
        )

    def say(self, message: bytes) -> None:
        """One message more on the last stream."""
        self.is_answered = False
        self.transport.write(frame(DATA, 0, self._next_stream - 2, framed_message(message)))

    def data_received(self, data: bytes) -> None:
        data, taken = self._rest + data, 0
        for kind, flags, stream, payload in frames_in(data):
            self._take(kind, flags, stream, payload)
            taken += FRAME_HEADER_BYTES + len(payload)
        self._rest = data[taken:]
        self._heard(self)

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == DATA:
            self.is_answered = True
        elif kind == SETTINGS and not flags & ACK:
            self.transport.write(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self.transport.write(frame(PING, ACK, 0, payload))
        if stream == self._next_stream - 2 and (kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & END_STREAM)):
            self.is_over = True


class Crowd:
    """Clients of one address. With `windows` they allow as much as HTTP/2 can say; with none, the usual 64 KiB."""

    def __init__(self, address: str, *, windows: bool = False) -> None:
        host, port = address.rsplit(":", 1)
        self._address = host, int(port)
        self.clients: list[CrowdClient] = []
        self._opening = PREFACE
        if windows:
            self._opening += frame(SETTINGS, 0, 0, setting(INITIAL_WINDOW_SIZE, LARGEST_WINDOW))
            self._opening += window_update(0, LARGEST_WINDOW - FIRST_WINDOW)
        else:
            self._opening += frame(SETTINGS, 0, 0)
        self._news = asyncio.Event()
        self._awaited: set[CrowdClient] = set()
        self._fact: Callable[[CrowdClient], bool] = bool

    async def grow(self, count: int, path: str, message: bytes) -> None:
        """So many clients more, each with a stream of `path`, on which the first answer has come."""
        block = header_block(path)
        for start in range(0, count, AT_ONCE):
            new = [await self._connected(block, message) for _ in range(start, min(start + AT_ONCE, count))]
            await self._all_answered(new, block, message)

    async def say(self, path: str, message: bytes) -> None:
        """One message of each client; returns when each has one answer more."""
        for number, client in enumerate(self.clients, 1):
            client.say(message)
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)  # others are to be served in between
        await self._all_answered(self.clients, header_block(path), message)

    async def _all_answered(self, clients: Iterable[CrowdClient], block: bytes, message: bytes) -> None:
        """Where etcd ended a stream, for it has too much to do, another one is begun, as real clients do it."""
        while clients:
            await self.until(clients, lambda client: client.is_over or client.is_answered, "one answer more")
            clients = [client for client in clients if not client.is_answered and not client.lost]
            for client in clients:
                client.start(block, message)

    async def until(self, clients: Iterable[CrowdClient], fact: Callable[[CrowdClient], bool], what: str) -> None:
        """Waits until it holds of each of these clients, or its connection ended."""
        self._fact = fact
        self._awaited = {client for client in clients if not self._is_settled(client)}
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                while self._awaited:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(
                f"not within {ANSWER_SECONDS} s: {what} ({len(self._awaited)} of {len(self.clients)} clients, "
                f"{self.lost} lost)"
            ) from None

    @property
    def lost(self) -> int:
        return sum(client.lost for client in self.clients)

    async def leave(self) -> None:
        """All go at once without a word, and every other one's kernel says so with an RST."""
        gone, self.clients = self.clients, []
        for number, client in enumerate(gone):
            if number % 2:
                connected = client.transport.get_extra_info("socket")
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
            client.transport.abort()
        await self.until(gone, lambda client: client.lost, "their own ends")

    def _heard(self, client: CrowdClient) -> None:
        if client in self._awaited and self._is_settled(client):
            self._awaited.remove(client)
            if not self._awaited:
                self._news.set()

    def _is_settled(self, client: CrowdClient) -> bool:
        return client.lost or self._fact(client)

    async def _connected(self, block: bytes, message: bytes) -> CrowdClient:
        client = CrowdClient(self._opening, self._heard)
        await asyncio.get_running_loop().create_connection(lambda: client, *self._address)
        client.start(block, message)
        self.clients.append(client)
        return client
