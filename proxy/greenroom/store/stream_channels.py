"""gRPC's connection to one member of etcd, for streams; with TLS another one once the files have changed.

The rule: a stream stays on the channel that it was opened on, and a channel that was replaced is closed with its last
stream. gRPC's channels keep the certificates that they were made with, also when they connect again.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc

from greenroom.tls.sides import UpstreamSide

Options = Sequence[tuple[str, int]]


@dataclass(slots=True)
class _Made:
    """One channel, what it was made with, and how many streams are on it."""

    channel: grpc.aio.Channel
    credentials: grpc.ChannelCredentials | None
    streams: int = 0


class StreamChannels:
    """Made inside the running event loop."""

    def __init__(self, target: str, options: Options, tls: UpstreamSide | None) -> None:
        self._target, self._options, self._tls = target, options, tls
        self._newest = self._make()
        self._older: list[_Made] = []

    @asynccontextmanager
    async def use(self) -> AsyncIterator[grpc.aio.Channel]:
        """The channel for a stream that lasts as long as the block."""
        if self._tls is not None and self._tls.grpc_credentials() is not self._newest.credentials:
            self._older.append(self._newest)
            self._newest = self._make()
        made = self._newest
        made.streams += 1
        try:
            yield made.channel
        finally:
            made.streams -= 1
            await self._close_older()

    async def close(self) -> None:
        """Ends every stream and the connections."""
        for made in (*self._older, self._newest):
            await made.channel.close()

    async def _close_older(self) -> None:
        over = [made for made in self._older if not made.streams]
        self._older = [made for made in self._older if made.streams]
        for made in over:
            await made.channel.close()

    def _make(self) -> _Made:
        if self._tls is None:
            return _Made(grpc.aio.insecure_channel(self._target, options=self._options), None)
        credentials = self._tls.grpc_credentials()
        return _Made(grpc.aio.secure_channel(self._target, credentials, options=self._options), credentials)
