"""etcd as calls are made to it from here: by the proxy itself, or as one of its clients.

The rule: who asks is never mixed up. What `Upstream` does, the proxy does, as its own user of etcd; what a client asked
for or wrote goes through `as_client`, with that client's metadata and nothing of ours, so that etcd judges it as
without a proxy. Nothing is added and nothing explained: etcd's errors come out as grpc.aio.AioRpcError with their code,
text and trailers. Every call ends with its caller: an abandoned grpc.aio stream never ends and is never collected.
"""

import asyncio
import copy
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import grpc
from google.protobuf.message import Message

from greenroom.pb.etcd import rpc_pb2
from greenroom.store.channels import Channels
from greenroom.store.credentials import Credentials, Metadata
from greenroom.store.members import Address
from greenroom.tls.sides import UpstreamSide

MAX_WHY_CHARACTERS = 200
"""gRPC lists every address that it tried; nobody reads further than this."""

RequestT = TypeVar("RequestT", bound=Message)
AnswerT = TypeVar("AnswerT", bound=Message)
FoundT = TypeVar("FoundT")


class Stream(Generic[RequestT, AnswerT]):
    """An open stream of one of the methods below."""

    def __init__(self, call: grpc.aio.StreamStreamCall[RequestT, AnswerT]) -> None:
        self._call = call

    async def write(self, request: RequestT) -> None:
        """Sends one request; AioRpcError where the stream has ended."""
        await self._call.write(request)

    async def read(self) -> AnswerT | None:
        """The next answer, None after a clean end; AioRpcError where the stream ended otherwise."""
        answer = await self._call.read()
        return None if answer is grpc.aio.EOF else cast(AnswerT, answer)

    async def done_writing(self) -> None:
        """Half-closes: answers go on."""
        await self._call.done_writing()


WatchStream = Stream[rpc_pb2.WatchRequest, rpc_pb2.WatchResponse]
KeepAliveStream = Stream[rpc_pb2.LeaseKeepAliveRequest, rpc_pb2.LeaseKeepAliveResponse]


class Calls(ABC):
    """etcd's unary calls. Without a timeout they wait as long as etcd does."""

    async def txn(self, request: rpc_pb2.TxnRequest, *, timeout_seconds: float | None = None) -> rpc_pb2.TxnResponse:
        """KV/Txn."""
        return await self._call("KV/Txn", request, rpc_pb2.TxnResponse, timeout_seconds)

    async def range(
        self, request: rpc_pb2.RangeRequest, *, timeout_seconds: float | None = None
    ) -> rpc_pb2.RangeResponse:
        """KV/Range."""
        return await self._call("KV/Range", request, rpc_pb2.RangeResponse, timeout_seconds)

    async def put(self, request: rpc_pb2.PutRequest, *, timeout_seconds: float | None = None) -> rpc_pb2.PutResponse:
        """KV/Put."""
        return await self._call("KV/Put", request, rpc_pb2.PutResponse, timeout_seconds)

    async def delete_range(
        self, request: rpc_pb2.DeleteRangeRequest, *, timeout_seconds: float | None = None
    ) -> rpc_pb2.DeleteRangeResponse:
        """KV/DeleteRange."""
        return await self._call("KV/DeleteRange", request, rpc_pb2.DeleteRangeResponse, timeout_seconds)

    async def lease_grant(
        self, request: rpc_pb2.LeaseGrantRequest, *, timeout_seconds: float | None = None
    ) -> rpc_pb2.LeaseGrantResponse:
        """Lease/LeaseGrant."""
        return await self._call("Lease/LeaseGrant", request, rpc_pb2.LeaseGrantResponse, timeout_seconds)

    async def lease_revoke(
        self, request: rpc_pb2.LeaseRevokeRequest, *, timeout_seconds: float | None = None
    ) -> rpc_pb2.LeaseRevokeResponse:
        """Lease/LeaseRevoke."""
        return await self._call("Lease/LeaseRevoke", request, rpc_pb2.LeaseRevokeResponse, timeout_seconds)

    async def lease_time_to_live(
        self, request: rpc_pb2.LeaseTimeToLiveRequest, *, timeout_seconds: float | None = None
    ) -> rpc_pb2.LeaseTimeToLiveResponse:
        """Lease/LeaseTimeToLive. A lease that is not there answers a TTL of -1."""
        answer_type = rpc_pb2.LeaseTimeToLiveResponse
        return await self._call("Lease/LeaseTimeToLive", request, answer_type, timeout_seconds)

    async def plain(self, path: str, request: bytes, *, timeout_seconds: float | None = None) -> bytes:
        """Any unary call, by its path as on the wire (`/package.Service/Method`); request and answer are bytes."""
        return await self._unary(_Method(path, _same), request, timeout_seconds)

    async def _call(
        self, method: str, request: Message, answer_type: type[AnswerT], timeout_seconds: float | None
    ) -> AnswerT:
        return await self._unary(
            _Method(_path(method), answer_type.FromString), request.SerializeToString(), timeout_seconds
        )

    @abstractmethod
    async def _unary(self, method: "_Method[FoundT]", request: bytes, timeout_seconds: float | None) -> FoundT: ...


class Upstream(Calls):
    """The proxy's own calls to one etcd cluster, as its own user where it has one, else as nobody.

    Made inside the running event loop; `close` ends it. A token that etcd no longer takes is replaced, and the call
    that was refused for it made again: it did not happen. LogInRefused where etcd does not let the user in.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        credentials: Credentials | None = None,
        *,
        tls: UpstreamSide | None = None,
    ) -> None:
        self._channels = Channels(addresses, tls)
        self._connection = _Connection(self._channels, waits=False)
        self._credentials = credentials

    def __repr__(self) -> str:
        return f"Upstream({self._channels.target})"

    @property
    def channels(self) -> Channels:
        """The connections, for those who look after them."""
        return self._channels

    @property
    def has_user(self) -> bool:
        """Whether the proxy may do here what a client may not."""
        return self._credentials is not None

    def for_clients(self) -> "Upstream":
        """The same connections and user, for calls that a client waits for.

        An etcd that is back already is waited for: up to a second passes between two tries, in which calls fail
        though a client that came a moment before found etcd through the relay, and workers give up at the first error.
        """
        view = copy.copy(self)
        view._connection = _Connection(self._channels, waits=True)
        return view

    def as_client(self, metadata: Metadata) -> "ClientCalls":
        """Calls over the same connections with exactly this metadata, which may be empty: then etcd knows nobody."""
        return ClientCalls(self._connection, metadata)

    async def close(self) -> None:
        """Ends every call and the connections."""
        await self._channels.close()

    async def log_in(self, *, timeout_seconds: float) -> None:
        """Makes sure that etcd takes the user, if there is one; LogInRefused, or AioRpcError as etcd gives it."""
        if self._credentials is not None:
            await self._credentials.metadata(self._authenticate, timeout_seconds)

    async def lease_keep_alive(
        self, request: rpc_pb2.LeaseKeepAliveRequest, *, timeout_seconds: float | None = None
    ) -> rpc_pb2.LeaseKeepAliveResponse | None:
        """One keepalive, on a stream of its own; None where etcd ends it without an answer."""

        async def once(metadata: Metadata, seconds: float | None) -> rpc_pb2.LeaseKeepAliveResponse | None:
            async with self._connection.stream(_KEEP_ALIVE, metadata, seconds) as stream:
                await stream.write(request)
                return await stream.read()

        return await self._as_myself(once, timeout_seconds)

    @asynccontextmanager
    async def watch(self, *, metadata: Metadata = ()) -> AsyncIterator[WatchStream]:
        """Watch/Watch, cancelled at the end of the block. `metadata` goes beside the token."""
        token = await self._credentials.metadata(self._authenticate, None) if self._credentials else ()
        async with self._connection.stream(_WATCH, (*token, *metadata), None) as stream:
            yield stream

    async def _unary(self, method: "_Method[FoundT]", request: bytes, timeout_seconds: float | None) -> FoundT:
        async def once(metadata: Metadata, seconds: float | None) -> FoundT:
            return await self._connection.unary(method, request, metadata, seconds)

        return await self._as_myself(once, timeout_seconds)

    async def _as_myself(
        self, once: Callable[[Metadata, float | None], Awaitable[FoundT]], timeout_seconds: float | None
    ) -> FoundT:
        """A call with the token, and once more with another one where etcd refused it because of the first."""
        if self._credentials is None:
            return await once((), timeout_seconds)
        left = _countdown(timeout_seconds)
        metadata = await self._credentials.metadata(self._authenticate, left())
        try:
            return await once(metadata, left())
        except grpc.aio.AioRpcError as error:
            if not self._credentials.refused(metadata, error):
                raise
        return await once(await self._credentials.metadata(self._authenticate, left()), left())

    async def _authenticate(self, request: rpc_pb2.AuthenticateRequest, seconds: float) -> rpc_pb2.AuthenticateResponse:
        method = _Method(_path("Auth/Authenticate"), rpc_pb2.AuthenticateResponse.FromString)
        return await self._connection.unary(method, request.SerializeToString(), (), seconds)


class ClientCalls(Calls):
    """Calls as one client: with its metadata, its token if it has one, and nothing of the proxy's."""

    def __init__(self, connection: "_Connection", metadata: Metadata) -> None:
        self._connection, self._metadata = connection, metadata

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[WatchStream]:
        """Watch/Watch, cancelled at the end of the block."""
        async with self._connection.stream(_WATCH, self._metadata, None) as stream:
            yield stream

    @asynccontextmanager
    async def keep_alive(self) -> AsyncIterator[KeepAliveStream]:
        """Lease/LeaseKeepAlive, cancelled at the end of the block."""
        async with self._connection.stream(_KEEP_ALIVE, self._metadata, None) as stream:
            yield stream

    async def _unary(self, method: "_Method[FoundT]", request: bytes, timeout_seconds: float | None) -> FoundT:
        return await self._connection.unary(method, request, self._metadata, timeout_seconds)


@dataclass(frozen=True, slots=True)
class _Method(Generic[FoundT]):
    """A unary method by its path, and how its answer is read."""

    path: str
    read: Callable[[bytes], FoundT]


@dataclass(frozen=True, slots=True)
class _StreamMethod(Generic[RequestT, AnswerT]):
    """A method of streams by its path, and the messages of both directions."""

    path: str
    request: type[RequestT]
    answer: type[AnswerT]


@dataclass(frozen=True, slots=True)
class _Connection:
    """Calls over whichever channel is in use, with whatever metadata they are given."""

    channels: Channels
    waits: bool

    async def unary(
        self, method: _Method[FoundT], request: bytes, metadata: Metadata, timeout_seconds: float | None
    ) -> FoundT:
        if self.waits:
            timeout_seconds = await self.channels.wait_ready(timeout_seconds)
        with self.channels.current() as channel:
            answer = await channel.unary.call(method.path, request, metadata, timeout_seconds)
        return method.read(answer)

    @asynccontextmanager
    async def stream(
        self, method: "_StreamMethod[RequestT, AnswerT]", metadata: Metadata, timeout_seconds: float | None
    ) -> AsyncIterator[Stream[RequestT, AnswerT]]:
        if self.waits:
            timeout_seconds = await self.channels.wait_ready(timeout_seconds)
        with self.channels.current() as channel:
            async with channel.streams.use() as streams:
                start: grpc.aio.StreamStreamMultiCallable[RequestT, AnswerT] = streams.stream_stream(
                    method.path, method.request.SerializeToString, method.answer.FromString
                )
                call = start(metadata=tuple(metadata), timeout=timeout_seconds)
                try:
                    yield Stream(call)
                finally:
                    call.cancel()


def why(error: Exception, seconds: float | None = None) -> str:
    """An error of a call, in one short line for logs; `seconds` is how long an answer was waited for."""
    if isinstance(error, TimeoutError) or _is_late(error):
        return f"no answer within {seconds:g} s" if seconds else "no answer in time"
    said = f"{error.code().name}: {error.details()}" if isinstance(error, grpc.aio.AioRpcError) else str(error)
    flat = " ".join(said.split()) or type(error).__name__
    return flat if len(flat) <= MAX_WHY_CHARACTERS else f"{flat[: MAX_WHY_CHARACTERS - 1]}…"


def _is_late(error: Exception) -> bool:
    return isinstance(error, grpc.aio.AioRpcError) and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED


def _countdown(seconds: float | None) -> Callable[[], float | None]:
    """What is left of so many seconds whenever it is asked; always None of None."""
    time = asyncio.get_running_loop().time
    end = time() + (seconds or 0.0)
    return lambda: None if seconds is None else max(end - time(), 0.0)


def _same(message: bytes) -> bytes:
    return message


def _path(method: str) -> str:
    return f"/etcdserverpb.{method}"


_WATCH = _StreamMethod(_path("Watch/Watch"), rpc_pb2.WatchRequest, rpc_pb2.WatchResponse)
_KEEP_ALIVE = _StreamMethod(
    _path("Lease/LeaseKeepAlive"), rpc_pb2.LeaseKeepAliveRequest, rpc_pb2.LeaseKeepAliveResponse
)
