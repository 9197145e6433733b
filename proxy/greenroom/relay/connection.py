"""One client socket, one upstream socket, and the core between them: the asyncio edge of the relay.

Rule: each side's bytes go through the core and leave at once; while one socket takes no more, the other is not read.
Either side gone means both gone, and the handlers of the connection cancelled.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, assert_never, cast

from .calls import Answer, Code, HandedOverCall, Handler, Observer
from .core import LOOK_AGAIN_SECONDS, RelayCore
from .dialogue import CancelHandler, Close, StartHandler
from .limits import Limits
from .turns import Line, Turn, Turns

Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]

_DEADLINE_EXCEEDED = Answer(None, Code.DEADLINE_EXCEEDED, "context deadline exceeded")  # in Go's words, as etcd says it
_HANDLER_FAILED = Answer(None, Code.INTERNAL, "this call could not be answered")


class Connection:
    """Joins the two protocols below. `gone` is called when both sockets are gone, maybe repeatedly."""

    __slots__ = (
        "_client",
        "_client_full_since",
        "_core",
        "_draining",
        "_effects",
        "_gone",
        "_handler",
        "_handlers",
        "_last_moment",
        "_limits",
        "_line",
        "_loop",
        "_now",
        "_observer",
        "_spawn",
        "_to_client",
        "_to_upstream",
        "_turns",
        "_upstream",
        "_upstream_full",
        "closed",
        "turn",
    )

    def __init__(
        self,
        core: RelayCore,
        handler: Handler,
        observer: Observer,
        limits: Limits,
        turns: Turns,
        spawn: Spawn,
        gone: Callable[["Connection"], None],
    ) -> None:
        self._core = core
        self._to_client, self._to_upstream, self._effects = core.to_client, core.to_upstream, core.effects
        self._handler = handler
        self._observer = observer
        self._limits = limits
        self._turns = turns
        self._spawn = spawn
        self._gone = gone
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._client: asyncio.Transport | None = None
        self._upstream: asyncio.Transport | None = None
        self._client_full_since: float | None = None
        self._upstream_full = True  # there is none yet
        self._handlers: dict[int, asyncio.Task[None]] = {}
        self._line: Line | None = None  # most connections never need one
        self._last_moment: asyncio.TimerHandle | None = None
        self._draining = False
        self.closed = False
        self.turn = 0  # of the rounds in which it is ticked

    def __repr__(self) -> str:
        return f"<Connection {self._core!r}>"

    def client_opened(self, transport: asyncio.Transport) -> None:
        self._client = transport
        # uvloop forgets pause_reading while it announces the connection, hence later.
        self._loop.call_soon(self._regulate)

    def upstream_opened(self, transport: asyncio.Transport) -> None:
        self._upstream = transport
        self._upstream_full = False
        if self.closed:
            transport.abort()
            return
        self._flush()
        self._loop.call_soon(self._regulate)

    def client_bytes(self, data: bytes) -> None:
        self._core.feed_client(data, self._now())
        self._flush()

    def upstream_bytes(self, data: bytes) -> None:
        self._core.feed_upstream(data, self._now())
        self._flush()

    def client_full(self) -> None:
        """The client's socket takes no more; for how long, `tick` looks at."""
        self._client_full_since = self._now()
        self._regulate()

    def client_free(self) -> None:
        self._client_full_since = None
        self._regulate()

    def upstream_full(self) -> None:
        self._upstream_full = True
        self._regulate()

    def upstream_free(self) -> None:
        self._upstream_full = False
        self._regulate()

    def tick(self, now: float) -> float | None:
        """What time alone brings about. Returns after how many seconds to be called again, None for never."""
        again = LOOK_AGAIN_SECONDS
        with self.guarded():
            if self._client_full_since is not None:
                self._core.upstream_unread(now)
                if now - self._client_full_since > self._limits.client_stall_seconds:
                    self.abort("client takes nothing")
            if not self.closed:
                again = self._core.tick(now)
                self._flush()
        return None if self.closed else again

    def drain(self) -> None:
        """Let what is under way end, then close."""
        self._draining = True
        self._core.drain()
        self._flush()

    def client_lost(self, error: Exception | None) -> None:
        self._client = None
        self.close("client gone" if error is None else f"client lost: {error}")

    def upstream_lost(self, error: Exception | None) -> None:
        self._upstream = None
        self.close("upstream gone" if error is None else f"upstream lost: {error}")

    def close(self, reason: str) -> None:
        """Write what there is, then close both sockets; what does not leave in time is given up."""
        if not self.closed:
            self._end(reason)
            for transport in self._transports():
                transport.close()
            self._last_moment = self._loop.call_later(self._limits.close_seconds, self._abort_transports)
        self._say_gone()

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Where no caller could do anything about a bug: it ends this connection, is told, and harms no other one."""
        try:
            yield
        except Exception as error:
            self._observer.connection_failed(error)
            self.abort(f"bug: {type(error).__name__}")

    def abort(self, reason: str) -> None:
        """Close both sockets at once."""
        if not self.closed:
            self._end(reason)
        self._abort_transports()
        self._say_gone()

    def _end(self, reason: str) -> None:
        self.closed = True
        self._core.end()
        for task in self._handlers.values():
            task.cancel()
        self._handlers.clear()
        self._observer.connection_closed(reason)

    def _transports(self) -> list[asyncio.Transport]:
        return [transport for transport in (self._client, self._upstream) if transport is not None]

    def _abort_transports(self) -> None:
        for transport in self._transports():
            transport.abort()

    def _say_gone(self) -> None:
        if not self._transports():
            if self._last_moment is not None:
                self._last_moment.cancel()
            self._gone(self)

    def _regulate(self) -> None:
        """Read each side only while the other, and the client itself, takes what comes of it."""
        client_full = self._client_full_since is not None
        _read(self._client, wanted=not client_full and not self._upstream_full)
        _read(self._upstream, wanted=not client_full)

    def _flush(self) -> None:
        out = self._to_upstream
        if out and self._upstream is not None:
            self._upstream.write(out[0] if len(out) == 1 else b"".join(out))
            out.clear()
        out = self._to_client
        if out and self._client is not None and self._core.client_ready:
            self._client.write(out[0] if len(out) == 1 else b"".join(out))
            out.clear()
        if self._effects:
            self._carry_out_effects()
        if self._draining and self._core.drained:
            self.close("drained")

    def _carry_out_effects(self) -> None:
        effects = list(self._effects)
        self._effects.clear()
        for effect in effects:
            match effect:
                case StartHandler(stream_id, call):
                    self._handlers[stream_id] = self._spawn(self._handle(stream_id, call))
                case CancelHandler(stream_id):
                    task = self._handlers.pop(stream_id, None)
                    if task is not None:
                        task.cancel()
                case Close(reason):
                    self.close(reason)
                case _:
                    assert_never(effect)

    async def _handle(self, stream_id: int, call: HandedOverCall) -> None:
        answer = await self._answer_to(call)
        self._handlers.pop(stream_id, None)
        with self.guarded():
            self._core.answer(stream_id, answer, self._now())
            if not self.closed:
                self._flush()

    async def _answer_to(self, call: HandedOverCall) -> Answer:
        try:
            async with asyncio.timeout(call.timeout_seconds) as deadline, self._turn():
                return await self._handler(call)
        except Exception as error:  # the outermost frame of a handler: its bug ends one call
            if deadline.expired():
                return _DEADLINE_EXCEEDED
            return self._failed(call, error)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return self._failed(call, RuntimeError("the handler was cancelled from inside"))

    def _turn(self) -> Turn:
        """What a handler at work waits for."""
        if self._line is None:
            self._line = self._turns.line(self._limits.handlers_at_work)
        return self._line.turn()

    def _failed(self, call: HandedOverCall, error: Exception) -> Answer:
        self._observer.handler_failed(call.path, error)
        return _HANDLER_FAILED


def _read(transport: asyncio.Transport | None, *, wanted: bool) -> None:
    if transport is None or transport.is_closing() or transport.is_reading() == wanted:
        return
    if wanted:
        transport.resume_reading()
    else:
        transport.pause_reading()


class ClientProtocol(asyncio.Protocol):
    """The client's socket."""

    __slots__ = ("_connection", "data_received")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.data_received = connection.client_bytes  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection.client_opened(cast(asyncio.Transport, transport))

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.client_lost(exc)

    def pause_writing(self) -> None:
        self._connection.client_full()

    def resume_writing(self) -> None:
        self._connection.client_free()


class UpstreamProtocol(asyncio.Protocol):
    """The socket to upstream."""

    __slots__ = ("_connection", "data_received")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.data_received = connection.upstream_bytes  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection.upstream_opened(cast(asyncio.Transport, transport))

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.upstream_lost(exc)

    def pause_writing(self) -> None:
        self._connection.upstream_full()

    def resume_writing(self) -> None:
        self._connection.upstream_free()
