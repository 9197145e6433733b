"""The server of one preview: which calls there are, and how whatever happens to one becomes its status.

The rule: what is not in its table is answered UNIMPLEMENTED, in words, for it might show or write what a preview must
not. etcd's own errors go back as they came.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

import grpc

from greenroom.addresses import Address
from greenroom.core.preview import View
from greenroom.errors import GreenroomError, UnsupportedCall
from greenroom.preview.keep_alives import KeepAliveCall
from greenroom.preview.streams import Closing, Context
from greenroom.preview.unary import OwnLeases, UnaryCalls, UnaryMethod
from greenroom.preview.watching import WatchCall
from greenroom.store.credentials import Metadata
from greenroom.store.upstream import ClientCalls, Upstream

WATCH: Final = "/etcdserverpb.Watch/Watch"
KEEP_ALIVE: Final = "/etcdserverpb.Lease/LeaseKeepAlive"
SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    # Without this another program could share the port instead of being told that it is taken.
    ("grpc.so_reuseport", 0),
    # Dynamo's clients ping, some every second; gRPC's default answers them with GOAWAY.
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    # A watcher whose machine vanished would else be written to for a quarter of an hour.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
)
CLOSING_SECONDS: Final = 1.0
"""So long calls under way may take once a preview closes; streams end at once."""
_OF_THE_CONNECTION: Final = ("user-agent", "te", "content-type", "accept-encoding", "grpc-")
"""Metadata that is gRPC's own between two peers, by how its names begin."""

_Stream = Callable[[ClientCalls, Context], Awaitable[None]]


class PreviewServer:
    """One view on one port, from `start` to `stop`. Made inside the running event loop."""

    def __init__(self, view: Callable[[OwnLeases], View], upstream: Upstream, *, log: Any) -> None:
        own_leases = OwnLeases()
        shown = view(own_leases)
        self._closing = Closing()
        self._server = grpc.aio.server(options=SERVER_OPTIONS)
        streams: dict[str, _Stream] = {
            WATCH: lambda client, context: WatchCall(shown, client, context).run(self._closing),
            KEEP_ALIVE: lambda client, context: KeepAliveCall(client, context).run(self._closing),
        }
        unary = UnaryCalls(shown, own_leases).methods
        self._server.add_generic_rpc_handlers((_Methods(unary, streams, _Calls(upstream, log)),))

    async def start(self, address: Address) -> None:
        """Listens there; OSError where that cannot be."""
        try:
            self._server.add_insecure_port(str(address))
        except RuntimeError as error:
            raise OSError(f"{address} is taken, or not this machine's") from error
        await self._server.start()

    async def stop(self, words: str) -> None:
        """Ends streams with these words, then whatever else is not done; the port is free again afterwards."""
        self._closing.begin(words)
        await self._server.stop(CLOSING_SECONDS)


class _Calls:
    """What all calls have in common: who is asked for whom, and how errors are told."""

    def __init__(self, upstream: Upstream, log: Any) -> None:
        self._upstream, self._log = upstream.for_clients(), log

    def as_client(self, context: Context) -> ClientCalls:
        """etcd as this call's client, with its metadata."""
        return self._upstream.as_client(_metadata(context.invocation_metadata() or ()))

    async def abort(self, context: Context, error: Exception, path: str) -> NoReturn:
        """Ends a call with the status of its error; of a bug the log has the details."""
        if isinstance(error, grpc.aio.AioRpcError):
            trailers = tuple(error.trailing_metadata() or ())
            await context.abort(error.code(), error.details() or "", trailing_metadata=trailers)
        if isinstance(error, GreenroomError):
            await context.abort(error.code, str(error))
        self._log.exception("preview.failed", method=path, exc_info=error)
        await context.abort(grpc.StatusCode.INTERNAL, "an error of the preview's own; the proxy's log says more")


class _Methods(grpc.GenericRpcHandler):
    """The table. Requests stay bytes until they are read strictly."""

    def __init__(self, unary: Mapping[str, UnaryMethod], streams: Mapping[str, _Stream], calls: _Calls) -> None:
        self._handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        for path, method in unary.items():
            self._handlers[path] = grpc.unary_unary_rpc_method_handler(_Unary(path, method, calls).answer)
        for path, stream in streams.items():
            self._handlers[path] = grpc.stream_stream_rpc_method_handler(_StreamOf(path, stream, calls).answer)
        self._known = ", ".join(path.rpartition("/")[2] for path in self._handlers)

    def service(self, details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any]":
        """Of every path: what is not known is refused."""
        known = self._handlers.get(details.method)
        return known or grpc.stream_stream_rpc_method_handler(_Refusal(details.method, self._known).answer)


class _Unary:
    """A method with one answer. grpc.aio takes an object with an async call for a synchronous function."""

    def __init__(self, path: str, method: UnaryMethod, calls: _Calls) -> None:
        self._path, self._method, self._calls = path, method, calls

    async def answer(self, data: bytes, context: Context) -> bytes:
        """etcd's answer, with what is held in it."""
        try:
            client = self._calls.as_client(context)
            return (await self._method(data, client, _seconds_left(context))).SerializeToString()
        except Exception as error:
            await self._calls.abort(context, error, self._path)


class _StreamOf:
    """A method of streams."""

    def __init__(self, path: str, stream: _Stream, calls: _Calls) -> None:
        self._path, self._stream, self._calls = path, stream, calls

    async def answer(self, _: Any, context: Context) -> None:
        """Until it ends; a client that has gone comes as a cancellation."""
        try:
            await self._stream(self._calls.as_client(context), context)
        except Exception as error:
            await self._calls.abort(context, error, self._path)


class _Refusal:
    """Every other method."""

    def __init__(self, path: str, known: str) -> None:
        self._words = f"a preview has no {path.rpartition('/')[2]}: it has {known}"

    async def answer(self, _: Any, context: Context) -> None:
        """UNIMPLEMENTED."""
        await context.abort(UnsupportedCall.code, self._words)


def _metadata(given: Sequence[tuple[str, str | bytes]] | Any) -> Metadata:
    return tuple((key, value) for key, value in given if not key.startswith(_OF_THE_CONNECTION))


def _seconds_left(context: Context) -> float | None:
    """Of the client's deadline; None without one."""
    left = context.time_remaining()
    return None if left is None else max(float(left), 0.0)
