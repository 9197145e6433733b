"""Unary calls to one member of etcd, over one connection that is opened at the first of them and again when it is lost.

The rule: a call waits for a connection that is being opened, fails at once while the last try failed, and is made a
second time only where the peer has said that it did nothing of the first. So a client of gRPC does, without retries.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final, NoReturn

from grpc import StatusCode

from greenroom import __version__
from greenroom.backoff import Backoff
from greenroom.store.call_errors import NeverBegun, deadline_exceeded, error, unavailable
from greenroom.store.dialling import dial, reason_of
from greenroom.store.members import Address, address_text
from greenroom.store.unary_call import Pairs
from greenroom.store.unary_connection import UnaryConnection

DIAL_SECONDS: Final = 3.0
LONGEST_PAUSE_SECONDS: Final = 1.0
"""Between two tries: within a second or two of etcd's return calls work again."""
STEADY_SECONDS: Final = 1.0
"""A connection that is lost sooner counts as one more try that failed, and is not opened again at once."""
CLOSED: Final = "Channel is closed"
_USER_AGENT: Final = f"greenroom/{__version__}"


class UnaryClient:
    """One member. Made inside the running event loop; `changed` is called whenever `is_ready` may have changed."""

    def __init__(
        self, address: Address, changed: Callable[[], None] = lambda: None, *, tls: ssl.SSLContext | None = None
    ) -> None:
        self._address, self._changed, self._tls = address, changed, tls
        self._connection: UnaryConnection | None = None
        self._all: set[UnaryConnection] = set()
        self._failure: str | None = None
        self._is_closed = False
        self._news = asyncio.Event()
        self._connecting: asyncio.Task[NoReturn] | None = None

    def __repr__(self) -> str:
        state = self._connection or self._failure or "no connection"
        return f"<UnaryClient {address_text(self._address)}: {state}>"

    @property
    def is_ready(self) -> bool:
        """Whether a call can be made at once."""
        return self._connection is not None

    def connect(self) -> None:
        """Begins to connect, if it did not before, and goes on with it until `close`."""
        if self._connecting is None and not self._is_closed:
            self._connecting = asyncio.get_running_loop().create_task(self._keep_connected())

    async def call(
        self, path: str, message: bytes, metadata: Pairs = (), timeout_seconds: float | None = None
    ) -> bytes:
        """The answer to a call of `path`, as on the wire; AioRpcError with etcd's status, or gRPC's own."""
        time = asyncio.get_running_loop().time
        end = None if timeout_seconds is None else time() + timeout_seconds
        try:
            connection = self._connection or await self._connected(timeout_seconds)
            return await connection.call(path, message, metadata, timeout_seconds)
        except NeverBegun:
            left = None if end is None else max(end - time(), 0.0)
        connection = self._connection or await self._connected(left)
        return await connection.call(path, message, metadata, left)

    async def close(self) -> None:
        """Ends every call and the connection."""
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait((self._connecting,))
        connections = list(self._all)
        for connection in connections:
            connection.end(CLOSED)
        for connection in connections:
            await connection.until_gone()
        self._tell()

    async def _connected(self, timeout_seconds: float | None) -> UnaryConnection:
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._until_connected()
        except TimeoutError:
            raise deadline_exceeded() from None

    async def _until_connected(self) -> UnaryConnection:
        self.connect()
        while self._connection is None:
            if self._is_closed:
                raise error(StatusCode.CANCELLED, CLOSED)
            if self._failure is not None:
                raise unavailable(self._failure)
            await self._news.wait()
        return self._connection

    async def _keep_connected(self) -> NoReturn:
        time = asyncio.get_running_loop().time
        backoff = Backoff(longest_seconds=LONGEST_PAUSE_SECONDS)
        while True:
            begun = time()
            try:
                await self._open()
            except OSError as failed:  # TimeoutError is one.
                where = f"failed to connect to etcd at {address_text(self._address)}"
                self._failure = f"{where}: {reason_of(failed)}"
                self._tell()
            else:
                begun = time()
                await self._until_left()
                if time() - begun >= STEADY_SECONDS:
                    backoff.reset()
                    continue
            await asyncio.sleep(backoff.next_seconds())

    async def _open(self) -> None:
        is_secure = self._tls is not None
        connection = UnaryConnection(address_text(self._address), _USER_AGENT, self._left, is_secure=is_secure)
        self._all = {connection, *(one for one in self._all if not one.is_gone)}
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                await dial(self._address, connection, self._tls)
                await connection.until_ready()
        except BaseException:
            connection.end(CLOSED)
            raise
        self._connection, self._failure = connection, None
        self._tell()

    async def _until_left(self) -> None:
        while self._connection is not None:
            await self._news.wait()

    def _left(self, connection: UnaryConnection) -> None:
        """It takes no more calls; those that it has go on."""
        if connection is self._connection:
            self._connection = None
            self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()
        self._changed()
