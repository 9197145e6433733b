"""Listens for clients, dials an upstream for each, ticks the connections, and drains them at the end.

Rule: everything that runs belongs to the server: `stop` leaves no task, socket or timer behind.
"""

import asyncio
import socket
import ssl
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, Protocol, cast

from .calls import Handler, Inspector, Observer
from .connection import ClientProtocol, Connection, UpstreamProtocol
from .core import RelayCore
from .heads import KnownHeads
from .limits import Limits, Totals
from .rounds import TURN_SECONDS, Rounds
from .turns import Turns

# Unacknowledged bytes to upstream for that long mean that it is gone without a word.
_UPSTREAM_USER_TIMEOUT_MILLISECONDS = 15_000
_BACKLOG = 1_024  # clients that reconnect all at once after a restart
# After no upstream could be dialled for one client: those that come within this are disconnected without trying.
# Hundreds that come again and again while upstream is away would else cost as much as a busy day.
_AWAY_SECONDS = 0.2
# A client that says nothing of its TLS for so long holds a socket, and counts as no connection yet.
_HANDSHAKE_SECONDS = 10.0
# A socket that is closed sends its last bytes and a farewell, and closes when the other side's farewell comes. gRPC's
# clients never send theirs: their leases must not wait for it when they are sent away, nor the program's end.
_FAREWELL_SECONDS = 0.5
_H2 = "h2"
# Clients that are sent away may finish short calls for that long; watches and keepalives would stay for ever.
LEAVE_GRACE_SECONDS = 0.75
# So many are sent away at once, and the next so much later: they all come again, and others are served meanwhile.
_LEAVE_AT_ONCE = 50
_LEAVE_WITHIN_SECONDS = 1.0

Address = tuple[str, int]


class Upstreams(Protocol):
    """Where clients are to be joined to."""

    def in_order(self) -> Sequence[Address]:
        """For one client: the addresses to try, the best one first. At least one."""


class RelayServer:
    """Relays every connection to `host`:`port` to the first of `upstreams` that can be dialled.

    Port 0 takes a free one; `port` tells which. `start` raises OSError when the port cannot be had. A client whose
    upstreams cannot be dialled, none of them, is disconnected. With `tls` clients speak TLS, and agree on h2 by ALPN;
    with `upstream_tls` the connections to upstream do.
    """

    def __init__(
        self,
        *,
        inspector: Inspector,
        handler: Handler,
        observer: Observer,
        upstreams: Upstreams,
        host: str,
        port: int,
        tls: ssl.SSLContext | None = None,
        upstream_tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._inspector = inspector
        self._handler = handler
        self._observer = observer
        self._upstreams = upstreams
        self._host = host
        self._asked_port = port
        self._tls = tls
        self._upstream_tls = upstream_tls
        self._limits = limits or Limits()
        self._totals = Totals(self._limits)
        self._turns = Turns(self._limits.process_handlers_at_work, self._limits.handler_turn_seconds)
        self._known = KnownHeads(inspector.kind)
        self._away_until = float("-inf")
        # When a dial told last whether any can be reached. One that began before that has nothing new to tell.
        self._told_at = float("-inf")
        # With the address that each is joined to, or is being joined to.
        self._connections: dict[Connection, Address | None] = {}
        self._rounds = Rounds()
        self._leaving: set[Connection] = set()
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
        self._server = await loop.create_server(
            self._accept,
            self._host,
            self._asked_port,
            backlog=_BACKLOG,
            ssl=self._tls,
            ssl_handshake_timeout=None if self._tls is None else _HANDSHAKE_SECONDS,
            ssl_shutdown_timeout=None if self._tls is None else _FAREWELL_SECONDS,
        )
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

    def leave(self, address: Address) -> int:
        """Send away all clients that are joined to `address`, within some two seconds; how many more that is now.

        They come again and are joined anew. So it is of no use where `address` is the first of the upstreams.
        """
        there = [one for one, joined in self._connections.items() if joined == address and one not in self._leaving]
        if there:
            self._leaving.update(there)
            self._spawn(self._send_away(there))
        return len(there)

    async def _send_away(self, there: Sequence[Connection]) -> None:
        batches = [there[start : start + _LEAVE_AT_ONCE] for start in range(0, len(there), _LEAVE_AT_ONCE)]
        for batch in batches:
            self._spawn(self._send_batch_away(batch))
            await asyncio.sleep(_LEAVE_WITHIN_SECONDS / len(batches))

    async def _send_batch_away(self, batch: Sequence[Connection]) -> None:
        for connection in batch:
            with connection.guarded():
                connection.drain()
        await asyncio.sleep(LEAVE_GRACE_SECONDS)
        for connection in batch:
            connection.close("sent to another upstream")

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
        is_away = asyncio.get_running_loop().time() < self._away_until
        is_other = self._tls is not None and not _speaks_h2(transport)
        if is_away or is_other or len(self._connections) >= self._limits.connections:
            transport.abort()
            return
        connection = self._new_connection(_address_text(transport.get_extra_info("peername")))
        protocol = ClientProtocol(connection)
        transport.set_protocol(protocol)
        self._connections[connection] = None
        self._rounds.add(connection, asyncio.get_running_loop().time())
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
            known=self._known,
        )
        return Connection(core, self._handler, self._observer, self._limits, self._turns, self._spawn, self._forget)

    def _forget(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        self._leaving.discard(connection)
        self._rounds.remove(connection)
        if not self._connections:
            self._all_gone.set()

    async def _dial(self, connection: Connection) -> None:
        began = asyncio.get_running_loop().time()
        with connection.guarded():
            for address in self._upstreams.in_order():
                if connection.closed:
                    return
                # Before it is joined: the address may turn out bad meanwhile.
                self._connections[connection] = address
                if await self._dialled(connection, address):
                    self._told(away_seconds=0.0)
                    return
            # Else it is late with its news: whoever is let in now may be let in by an upstream that is back.
            if began >= self._told_at:
                self._told(away_seconds=_AWAY_SECONDS)
            connection.close("no upstream can be reached")

    def _told(self, *, away_seconds: float) -> None:
        self._told_at = asyncio.get_running_loop().time()
        self._away_until = self._told_at + away_seconds

    async def _dialled(self, connection: Connection, address: Address) -> bool:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._limits.dial_seconds):
                transport, _ = await loop.create_connection(
                    lambda: UpstreamProtocol(connection),
                    *address,
                    ssl=self._upstream_tls,
                    server_hostname=None if self._upstream_tls is None else address[0],
                    ssl_shutdown_timeout=None if self._upstream_tls is None else _FAREWELL_SECONDS,
                )
        except OSError as error:  # TimeoutError is one, and what is wrong with a certificate
            self._observer.upstream_failed(_address_text(address), str(error) or type(error).__name__)
            return False
        _notice_loss(transport)
        return True

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(TURN_SECONDS)
            self._rounds.ask(loop.time())

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


def _speaks_h2(transport: asyncio.Transport) -> bool:
    """Whether a client of TLS has agreed on it: one that has not would be served by etcd as a web browser is."""
    spoken: ssl.SSLObject = transport.get_extra_info("ssl_object")
    return spoken.selected_alpn_protocol() == _H2


def _address_text(address: object) -> str:
    """`host:port`, or what a socket without one says."""
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) and len(address) >= 2 else str(address)


def _notice_loss(transport: asyncio.BaseTransport) -> None:
    option = getattr(socket, "TCP_USER_TIMEOUT", None)  # Linux only
    opened = transport.get_extra_info("socket")
    if option is not None and opened is not None:
        opened.setsockopt(socket.IPPROTO_TCP, option, _UPSTREAM_USER_TIMEOUT_MILLISECONDS)
