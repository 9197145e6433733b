"""etcd as its own calls: one channel, a method for each call that Greenroom makes by itself.

The rule: nothing is added and nothing explained. etcd's errors come out as grpc.aio.AioRpcError with their code, text
and trailers, and every call ends with its caller: an abandoned grpc.aio call never ends and is never collected.
"""

import copy
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Generic, TypeVar, cast

import grpc
from google.protobuf.message import Message

from greenroom.pb.etcd import rpc_pb2
from greenroom.store.channels import Address, Channels

Metadata = Sequence[tuple[str, str | bytes]]

MAX_WHY_CHARACTERS = 200
"""gRPC lists every address that it tried; nobody reads further than this."""

RequestT = TypeVar("RequestT", bound=Message)
AnswerT = TypeVar("AnswerT", bound=Message)
GivenT = TypeVar("GivenT")
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


class Upstream:
    """Calls to one etcd cluster. Made inside the running event loop; `close` ends it."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self._channels = Channels(addresses)
        self._waits = False

    def __repr__(self) -> str:
        return f"Upstream({self._channels.target})"

    def for_clients(self) -> "Upstream":
        """The same connections, for calls that are made on a client's behalf.

        An etcd that is back already is waited for: gRPC leaves up to two seconds between its tries, in which calls fail
        though a client that came a moment before found etcd through the relay, and workers give up at the first error.
        """
        view = copy.copy(self)
        view._waits = True
        return view

    async def close(self) -> None:
        """Ends every call and the connections."""
        await self._channels.close()

    async def txn(
        self, request: rpc_pb2.TxnRequest, *, metadata: Metadata = (), timeout_seconds: float | None = None
    ) -> rpc_pb2.TxnResponse:
        """KV/Txn. Without a timeout it waits as long as etcd does; likewise all the others."""
        return await self._call("KV/Txn", request, rpc_pb2.TxnResponse, metadata, timeout_seconds)

    async def range(
        self, request: rpc_pb2.RangeRequest, *, metadata: Metadata = (), timeout_seconds: float | None = None
    ) -> rpc_pb2.RangeResponse:
        """KV/Range."""
        return await self._call("KV/Range", request, rpc_pb2.RangeResponse, metadata, timeout_seconds)

    async def put(
        self, request: rpc_pb2.PutRequest, *, metadata: Metadata = (), timeout_seconds: float | None = None
    ) -> rpc_pb2.PutResponse:
        """KV/Put."""
        return await self._call("KV/Put", request, rpc_pb2.PutResponse, metadata, timeout_seconds)

    async def delete_range(
        self, request: rpc_pb2.DeleteRangeRequest, *, metadata: Metadata = (), timeout_seconds: float | None = None
    ) -> rpc_pb2.DeleteRangeResponse:
        """KV/DeleteRange."""
        return await self._call("KV/DeleteRange", request, rpc_pb2.DeleteRangeResponse, metadata, timeout_seconds)

    async def lease_grant(
        self, request: rpc_pb2.LeaseGrantRequest, *, metadata: Metadata = (), timeout_seconds: float | None = None
    ) -> rpc_pb2.LeaseGrantResponse:
        """Lease/LeaseGrant."""
        return await self._call("Lease/LeaseGrant", request, rpc_pb2.LeaseGrantResponse, metadata, timeout_seconds)

    async def lease_revoke(
        self, request: rpc_pb2.LeaseRevokeRequest, *, metadata: Metadata = (), timeout_seconds: float | None = None
    ) -> rpc_pb2.LeaseRevokeResponse:
        """Lease/LeaseRevoke."""
        return await self._call("Lease/LeaseRevoke", request, rpc_pb2.LeaseRevokeResponse, metadata, timeout_seconds)

    async def lease_time_to_live(
        self, request: rpc_pb2.LeaseTimeToLiveRequest, *, metadata: Metadata = (), timeout_seconds: float | None = None
    ) -> rpc_pb2.LeaseTimeToLiveResponse:
        """Lease/LeaseTimeToLive. A lease that is not there answers a TTL of -1."""
        answer_type = rpc_pb2.LeaseTimeToLiveResponse
        return await self._call("Lease/LeaseTimeToLive", request, answer_type, metadata, timeout_seconds)

    async def status(
        self, request: rpc_pb2.StatusRequest, *, metadata: Metadata = (), timeout_seconds: float | None = None
    ) -> rpc_pb2.StatusResponse:
        """Maintenance/Status of whichever member the channel is connected to."""
        return await self._call("Maintenance/Status", request, rpc_pb2.StatusResponse, metadata, timeout_seconds)

    async def plain(
        self, path: str, request: bytes, *, metadata: Metadata = (), timeout_seconds: float | None = None
    ) -> bytes:
        """Any unary call, by its path as on the wire (`/package.Service/Method`); request and answer are bytes."""
        return await self._unary(path, request, _same, _same, metadata, timeout_seconds)

    @asynccontextmanager
    async def watch(self, *, metadata: Metadata = ()) -> AsyncIterator[WatchStream]:
        """Watch/Watch, cancelled at the end of the block."""
        request_type, answer_type = rpc_pb2.WatchRequest, rpc_pb2.WatchResponse
        async with self._stream("Watch/Watch", request_type, answer_type, metadata) as stream:
            yield stream

    @asynccontextmanager
    async def lease_keep_alive(self, *, metadata: Metadata = ()) -> AsyncIterator[KeepAliveStream]:
        """Lease/LeaseKeepAlive, cancelled at the end of the block."""
        request_type, answer_type = rpc_pb2.LeaseKeepAliveRequest, rpc_pb2.LeaseKeepAliveResponse
        async with self._stream("Lease/LeaseKeepAlive", request_type, answer_type, metadata) as stream:
            yield stream

    async def _call(
        self,
        method: str,
        request: Message,
        answer_type: type[AnswerT],
        metadata: Metadata,
        timeout_seconds: float | None,
    ) -> AnswerT:
        write, read = type(request).SerializeToString, answer_type.FromString
        return await self._unary(_path(method), request, write, read, metadata, timeout_seconds)

    async def _unary(
        self,
        path: str,
        request: GivenT,
        write: Callable[[GivenT], bytes],
        read: Callable[[bytes], FoundT],
        metadata: Metadata,
        timeout_seconds: float | None,
    ) -> FoundT:
        if self._waits:
            timeout_seconds = await self._channels.wait_ready(timeout_seconds)
        with self._channels.current() as channel:
            call = channel.unary_unary(path, write, read)(request, metadata=tuple(metadata), timeout=timeout_seconds)
            try:
                return await call
            finally:
                call.cancel()

    @asynccontextmanager
    async def _stream(
        self, method: str, request_type: type[RequestT], answer_type: type[AnswerT], metadata: Metadata
    ) -> AsyncIterator[Stream[RequestT, AnswerT]]:
        with self._channels.current() as channel:
            start: grpc.aio.StreamStreamMultiCallable[RequestT, AnswerT] = channel.stream_stream(
                _path(method), request_type.SerializeToString, answer_type.FromString
            )
            call = start(metadata=tuple(metadata))
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


def _same(message: bytes) -> bytes:
    return message


def _path(method: str) -> str:
    return f"/etcdserverpb.{method}"
