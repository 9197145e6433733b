"""Listens for clients, dials an upstream for each, ticks the connections, and drains them at the end.

Rule: everything that runs belongs to the server: `stop` leaves no task, socket or timer behind.
"""

import asyncio
import itertools
import socket
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, cast

from .calls import Handler, Inspector, Observer
from .connection import ClientProtocol, Connection, UpstreamProtocol
from .core import RelayCore
from .limits import Limits, Totals

TICK_SECONDS = 0.5
# Unacknowledged bytes to upstream for that long mean that it is gone without a word.
_UPSTREAM_USER_TIMEOUT_MILLISECONDS = 15_000
_BACKLOG = 1_024  # clients that reconnect all at once after a restart

Address = tuple[str, int]


class RelayServer:
    """Relays every connection to `host`:`port` to one of `upstreams`, the next one in turn for each client.

    Port 0 takes a free one; `port` tells which. `start` raises OSError when the port cannot be had. A client whose
    upstreams cannot be dialled, none of them, is disconnected.
    """

    def __init__(
        self,
        *,
        inspector: Inspector,
        handler: Handler,
        observer: Observer,
        upstreams: Sequence[Address],
        host: str,
        port: int,
        limits: Limits | None = None,
    ) -> None:
        if not upstreams:
            raise ValueError("at least one upstream is needed")
        self._inspector = inspector
        self._handler = handler
        self._observer = observer
        self._upstreams = tuple(upstreams)
        self._turn = itertools.count()
        self._host = host
        self._asked_port = port
        self._limits = limits or Limits()
        self._totals = Totals(self._limits)
        self._connections: set[Connection] = set()
        self._all_gone = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port that is listened on."""
        assert self._server is not None, "not started"
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    async def start(self) -> None:
        """Listen. Returns when clients can connect."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, self._host, self._asked_port, backlog=_BACKLOG)
        self._spawn(self._tick())

    async def stop(self, grace_seconds: float) -> None:
        """Take no more clients, tell the others to go, and close what is left after the grace time."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.drain()
        await self._until_all_gone(grace_seconds)
        for connection in list(self._connections):
            connection.close("relay stops")
        await self._until_all_gone(self._limits.close_seconds + 1)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _until_all_gone(self, seconds: float) -> None:
        if self._connections:
            self._all_gone.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), seconds)

    def _accept(self) -> asyncio.Protocol:
        """A client connects: asyncio asks for its protocol."""
        return _Arrival(self)

    def arrived(self, transport: asyncio.Transport) -> None:
        """Join the client on `transport` to an upstream."""
        if len(self._connections) >= self._limits.connections:
            transport.abort()
            return
        connection = self._new_connection(_address_text(transport.get_extra_info("peername")))
        protocol = ClientProtocol(connection)
        transport.set_protocol(protocol)
        self._connections.add(connection)
        self._observer.connection_opened()
        protocol.connection_made(transport)
        self._spawn(self._dial(connection))

    def _new_connection(self, peer: str) -> Connection:
        core = RelayCore(
            self._inspector,
            self._limits,
            asyncio.get_running_loop().time(),
            observer=self._observer,
            peer=peer,
            totals=self._totals,
        )
        return Connection(core, self._handler, self._observer, self._limits, self._spawn, self._forget)

    def _forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._all_gone.set()

    async def _dial(self, connection: Connection) -> None:
        first = next(self._turn)
        with connection.guarded():
            for number in range(len(self._upstreams)):
                address = self._upstreams[(first + number) % len(self._upstreams)]
                if connection.closed or await self._dialled(connection, address):
                    return
            connection.close("no upstream can be reached")

    async def _dialled(self, connection: Connection, address: Address) -> bool:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._limits.dial_seconds):
                transport, _ = await loop.create_connection(lambda: UpstreamProtocol(connection), *address)
        except OSError as error:  # TimeoutError is one
            self._observer.upstream_failed(_address_text(address), str(error) or type(error).__name__)
            return False
        _notice_loss(transport)
        return True

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            for connection in list(self._connections):
                connection.tick(loop.time())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """The one place where tasks begin: connections come and go at any time, `stop` ends whatever is left.

        Not a TaskGroup: it would end all connections for one's bug. Whatever fails is told.
        """
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._observer.connection_failed(error)


class _Arrival(asyncio.Protocol):
    """Stands in until the socket is there, for a client beyond the bound gets no connection."""

    def __init__(self, server: RelayServer) -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._server.arrived(cast(asyncio.Transport, transport))


def _address_text(address: object) -> str:
    """`host:port`, or what a socket without one says."""
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) and len(address) >= 2 else str(address)


def _notice_loss(transport: asyncio.BaseTransport) -> None:
    option = getattr(socket, "TCP_USER_TIMEOUT", None)  # Linux only
    opened = transport.get_extra_info("socket")
    if option is not None and opened is not None:
        opened.setsockopt(socket.IPPROTO_TCP, option, _UPSTREAM_USER_TIMEOUT_MILLISECONDS)
