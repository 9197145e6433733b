"""One connection of unary calls, and the socket under it: the asyncio edge of `UnaryDialogue`.

The rule: a call costs one future and, with a deadline, one timer. It has no task of its own, and whichever way it ends
nothing of it is left.
"""

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final, cast

from greenroom.http2.frames import Fault, pack_goaway
from greenroom.store.call_errors import SOCKET_CLOSED, deadline_exceeded
from greenroom.store.unary_call import Outcome, Pairs, UnaryCall
from greenroom.store.unary_dialogue import UnaryDialogue
from greenroom.tls.words import in_words

TICK_SECONDS: Final = 1.0
NO_HTTP2: Final = "it does not speak HTTP/2"


class UnaryConnection(asyncio.Protocol):
    """A connection; made inside the running event loop. `left` is called once, when it takes no more calls."""

    def __init__(
        self, authority: str, user_agent: str, left: Callable[["UnaryConnection"], None], *, is_secure: bool = False
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._dialogue = UnaryDialogue(authority, user_agent, is_secure=is_secure)
        self._left: Callable[[UnaryConnection], None] | None = left
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._reason = SOCKET_CLOSED
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._gone: asyncio.Future[None] = self._loop.create_future()

    def __repr__(self) -> str:
        return f"<UnaryConnection {self._dialogue!r}>"

    @property
    def is_gone(self) -> bool:
        """Whether nothing of it is left: it has no socket, or no more."""
        return self._gone.done()

    async def until_ready(self) -> None:
        """Returns once calls may be made. ConnectionError, saying why, where that never comes."""
        await self._ready

    async def call(self, path: str, message: bytes, metadata: Pairs, timeout_seconds: float | None) -> bytes:
        """The answer to one call. AioRpcError; NeverBegun where it can be made again elsewhere."""
        if timeout_seconds is not None and timeout_seconds <= 0:
            raise deadline_exceeded()
        future: asyncio.Future[Outcome] = self._loop.create_future()
        call = UnaryCall(path, message, metadata, timeout_seconds, partial(_settle, future))
        self._dialogue.begin(call)
        self._flush()
        timer = None if timeout_seconds is None else self._loop.call_later(timeout_seconds, self._late, call)
        try:
            outcome = await future
        except asyncio.CancelledError:
            self._dialogue.give_up(call)
            self._flush()
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if isinstance(outcome, bytes):
            return outcome
        raise outcome

    def end(self, reason: str) -> None:
        """Ends the connection and its calls at once."""
        self._reason = reason
        self._leave()
        self._dialogue.end(reason)
        if self._transport is None:
            _done(self._gone)
        else:
            self._transport.abort()

    async def until_gone(self) -> None:
        """Returns once its socket is closed."""
        await asyncio.shield(self._gone)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)
        self._flush()

    def data_received(self, data: bytes) -> None:
        try:
            self._dialogue.take(data)
        except Fault as fault:
            self._fail(fault)
            return
        if self._dialogue.is_ready:
            _done(self._ready)
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            # TLS has more to say: a server tells only after the handshake that it wanted a certificate.
            self._reason = f"TLS: {in_words(exc)}" if isinstance(exc, ssl.SSLError) else f"{SOCKET_CLOSED}: {exc}"
        if self._timer is not None:
            self._timer.cancel()
        self._leave()
        self._dialogue.end(self._reason)
        if not self._ready.done():
            self._ready.set_exception(ConnectionError(self._reason))
            self._ready.exception()  # Maybe nobody asks any more.
        _done(self._gone)

    def _late(self, call: UnaryCall) -> None:
        self._dialogue.give_up(call)
        call.ended(deadline_exceeded())
        self._flush()

    def _tick(self) -> None:
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)
        try:
            self._dialogue.tick(self._loop.time())
        except Fault as fault:
            self._fail(fault)
            return
        self._flush()

    def _flush(self) -> None:
        out, transport = self._dialogue.to_peer, self._transport
        if out and transport is not None:
            transport.write(out[0] if len(out) == 1 else b"".join(out))
            out.clear()
        if self._dialogue.is_leaving:
            self._leave()
            if self._dialogue.is_idle and transport is not None:
                transport.close()

    def _fail(self, fault: Fault) -> None:
        if self._transport is not None:
            self._transport.write(pack_goaway(0, fault.code, fault.text.encode()))
        self.end(fault.text if self._dialogue.is_ready else NO_HTTP2)

    def _leave(self) -> None:
        left, self._left = self._left, None
        if left is not None:
            left(self)


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _settle(future: asyncio.Future[Outcome], outcome: Outcome) -> None:
    """A caller may have been cancelled a moment before."""
    if not future.done():
        future.set_result(outcome)
