"""A LeaseKeepAlive stream through a preview: each keepalive is the client's own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import grpc
import pytest

from greenroom.pb.etcd import rpc_pb2
from greenroom.preview.keep_alives import KeepAliveCall
from greenroom.preview.streams import Closing

REQUEST, ANSWER = rpc_pb2.LeaseKeepAliveRequest(ID=7), rpc_pb2.LeaseKeepAliveResponse(ID=7, TTL=60)


class Client:
    """Stands in for gRPC's context: a client that sends one keepalive, and then half-closes or says no more."""

    def __init__(self, *, half_closes: bool) -> None:
        self.requests: list[Any] = [REQUEST.SerializeToString(), *([grpc.aio.EOF] if half_closes else [])]
        self.answers: list[bytes] = []

    async def read(self) -> Any:
        if not self.requests:
            await asyncio.Event().wait()
        return self.requests.pop(0)

    async def write(self, answer: bytes) -> None:
        self.answers.append(answer)


class Upstream:
    """Stands in for etcd, which answers each keepalive once, and ends the stream when nothing more can come."""

    def __init__(self) -> None:
        self.sent: list[rpc_pb2.LeaseKeepAliveRequest] = []
        self._answers: asyncio.Queue[rpc_pb2.LeaseKeepAliveResponse | None] = asyncio.Queue()

    @asynccontextmanager
    async def keep_alive(self) -> AsyncIterator["Upstream"]:
        yield self

    async def write(self, request: rpc_pb2.LeaseKeepAliveRequest) -> None:
        self.sent.append(request)
        self._answers.put_nowait(ANSWER)

    async def done_writing(self) -> None:
        self._answers.put_nowait(None)

    def goes_away(self) -> None:
        self._answers.put_nowait(None)

    async def read(self) -> rpc_pb2.LeaseKeepAliveResponse | None:
        return await self._answers.get()


async def test_who_half_closes_is_answered_what_is_outstanding_and_ends_cleanly() -> None:
    client, upstream = Client(half_closes=True), Upstream()
    await KeepAliveCall(cast(Any, upstream), cast(Any, client)).run(Closing())
    assert (upstream.sent, client.answers) == ([REQUEST], [ANSWER.SerializeToString()])


async def test_a_stream_that_etcd_ends_is_an_error() -> None:
    client, upstream = Client(half_closes=False), Upstream()
    upstream.goes_away()
    with pytest.raises(grpc.aio.AioRpcError, match="etcd ended the stream"):
        await KeepAliveCall(cast(Any, upstream), cast(Any, client)).run(Closing())
    assert len(upstream.sent) <= 1, "none but the client's own"
