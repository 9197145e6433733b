"""etcd as its own calls: one channel, a method for each call that Greenroom makes by itself.

The rule: nothing is added and nothing explained. etcd's errors come out as grpc.aio.AioRpcError with their code, text
and trailers, and every call ends with its caller: an abandoned grpc.aio call never ends and is never collected.
"""

import ipaddress
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Generic, TypeVar, cast

import grpc
from google.protobuf.message import Message

from greenroom.pb.etcd import rpc_pb2

Address = tuple[str, int]
Metadata = Sequence[tuple[str, str | bytes]]

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    # A Range or a watch's backlog can be of any size; etcd judges what it takes.
    ("grpc.max_receive_message_length", -1),
    # etcd takes pings no oftener than every 5 s. Without them a machine that vanished would never be noticed.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # gRPC waits by this one for a ping's answer, a minute by default, whatever the one above says.
    ("grpc.http2.ping_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    # Within a second or two of etcd's return, calls work again.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # A write that may have happened is not sent twice behind the planner's back.
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)

RequestT = TypeVar("RequestT", bound=Message)
AnswerT = TypeVar("AnswerT", bound=Message)


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
        self._targets = targets(addresses)
        self._channels = [grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS) for target in self._targets]
        self._current = 0

    def __repr__(self) -> str:
        return f"Upstream({self._targets[self._current]})"

    async def close(self) -> None:
        """Ends every call and the connections."""
        for channel in self._channels:
            await channel.close()

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

    async def member_list(
        self, request: rpc_pb2.MemberListRequest, *, metadata: Metadata = (), timeout_seconds: float | None = None
    ) -> rpc_pb2.MemberListResponse:
        """Cluster/MemberList."""
        return await self._call("Cluster/MemberList", request, rpc_pb2.MemberListResponse, metadata, timeout_seconds)

    async def status(
        self, request: rpc_pb2.StatusRequest, *, metadata: Metadata = (), timeout_seconds: float | None = None
    ) -> rpc_pb2.StatusResponse:
        """Maintenance/Status of whichever member the channel is connected to."""
        return await self._call("Maintenance/Status", request, rpc_pb2.StatusResponse, metadata, timeout_seconds)

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
        with self._moving_on() as channel:
            start = channel.unary_unary(_path(method), type(request).SerializeToString, answer_type.FromString)
            call = start(request, metadata=tuple(metadata), timeout=timeout_seconds)
            try:
                return await call
            finally:
                call.cancel()

    @asynccontextmanager
    async def _stream(
        self, method: str, request_type: type[RequestT], answer_type: type[AnswerT], metadata: Metadata
    ) -> AsyncIterator[Stream[RequestT, AnswerT]]:
        with self._moving_on() as channel:
            start: grpc.aio.StreamStreamMultiCallable[RequestT, AnswerT] = channel.stream_stream(
                _path(method), request_type.SerializeToString, answer_type.FromString
            )
            call = start(metadata=tuple(metadata))
            try:
                yield Stream(call)
            finally:
                call.cancel()

    @contextmanager
    def _moving_on(self) -> Iterator[grpc.aio.Channel]:
        """The channel to use; the next one is used from here on where this one's etcd cannot be reached."""
        used = self._current
        try:
            yield self._channels[used]
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE and used == self._current:
                self._current = (used + 1) % len(self._channels)
            raise


def targets(addresses: Sequence[Address]) -> list[str]:
    """gRPC's names for etcd's addresses: literal ones as one target that it tries in turn, host names one each."""
    families = {_family(host) for host, _ in addresses}
    joined = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses]
    if families in ({"ipv4"}, {"ipv6"}):
        return [f"{families.pop()}:{','.join(joined)}"]
    return [f"{_family(host)}:{address}" for (host, _), address in zip(addresses, joined, strict=True)]


def _family(host: str) -> str:
    try:
        return f"ipv{ipaddress.ip_address(host).version}"
    except ValueError:
        return "dns"


def _path(method: str) -> str:
    return f"/etcdserverpb.{method}"
