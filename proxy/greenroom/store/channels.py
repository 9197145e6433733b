"""The connections to etcd's members, and which of them the proxy's own calls go over.

The rule: a call goes to a member that is known to be good, else to one that can be reached. Where a member turns out
bad while another is good, calls on it end with UNAVAILABLE: they would hang, and begun again they go to the good one.
"""

import asyncio
import ipaddress
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass

import grpc

from greenroom.store.call_errors import unavailable
from greenroom.store.members import Address, Members, Standing, address_text
from greenroom.store.stream_channels import StreamChannels
from greenroom.store.unary import UnaryClient
from greenroom.tls.sides import UpstreamSide, context_of

AHEAD_BYTES = 256 * 1024
"""Enough for 10 MB/s where etcd is 20 ms away."""

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    # A watch's backlog can be of any size.
    ("grpc.max_receive_message_length", -1),
    # What etcd may send ahead on a stream that is not read: by itself gRPC comes to 16 MiB and more, and keeps that for
    # each watch of a preview whose client is slow.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", AHEAD_BYTES),
    # etcd takes pings no oftener than every 5 s. Without them a machine that vanished would never be noticed.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # gRPC waits by this one for a ping's answer, a minute by default, whatever the one above says.
    ("grpc.http2.ping_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    # Within a second or two of etcd's return, streams work again.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)

LONGEST_WAIT_SECONDS = 10.0
"""An etcd that is away for longer is told to clients, as it would be without a proxy."""
LEFT = "greenroom: this member of etcd does not answer; others do"


@dataclass(frozen=True, slots=True)
class Channel:
    """The two ways to one member: a connection of our own for unary calls, gRPC's for streams.

    gRPC's costs four times as much a call and leaks a KiB with each that is cancelled. Whether a member is connected is
    what the first one says; a stream whose connection is not there fails, and is begun again by whoever needs it.
    """

    unary: UnaryClient
    streams: StreamChannels


class Channels:
    """Made inside the running event loop. `members` is told by others; until then all are alike."""

    def __init__(self, addresses: Sequence[Address], tls: UpstreamSide | None = None) -> None:
        self.members, self._tls = Members(addresses), tls
        self._order = self.members.addresses
        self._channels = {address: self._made(address) for address in self._order}
        self._current = self._order[0]
        self._uses: set[_Use] = set()
        self._changed = asyncio.Event()

    @property
    def target(self) -> str:
        """gRPC's name of what is in use."""
        return target_of(self._current)

    def channel(self, address: Address) -> Channel:
        """The ways to a given member."""
        return self._channels[address]

    async def close(self) -> None:
        """Ends every call and the connections."""
        for channel in self._channels.values():
            await channel.unary.close()
            await channel.streams.close()

    def current(self) -> AbstractContextManager[Channel]:
        """The channel to use; another one is used from here on where this one's etcd cannot be reached.

        Where the member is left in the middle of the block, the block ends with AioRpcError, UNAVAILABLE.
        """
        return _Use(self)

    def taken_by(self, use: "_Use") -> tuple[Address, Channel]:
        """The best member there is, which is in use from now on."""
        if self.members.standing(self._current) is not Standing.GOOD:
            self._current = self._best_from(self._current)
        self._uses.add(use)
        return self._current, self._channels[self._current]

    def given_back(self, use: "_Use", error: BaseException | None) -> None:
        """The block is over, by this error or by none."""
        self._uses.discard(use)
        if not isinstance(error, grpc.aio.AioRpcError) or error.code() is not grpc.StatusCode.UNAVAILABLE:
            return
        if use.address == self._current:
            self._current = self._best_from(use.address, step=1)

    def leave(self, address: Address) -> None:
        """Ends the calls on a member. New ones go to the best there is, as always."""
        for use in self._uses:
            if use.address == address:
                use.end()

    async def wait_ready(self, timeout_seconds: float | None) -> float | None:
        """Returns once a channel is connected, which is then in use, or when it is no use to wait longer.

        Takes the time that the whole call has, None for any, and gives what is left of it.
        """
        is_good = self.members.standing(self._current) is Standing.GOOD
        if (is_good and self._channels[self._current].unary.is_ready) or self._use_ready():
            return timeout_seconds
        time = asyncio.get_running_loop().time
        start = time()
        longest = LONGEST_WAIT_SECONDS if timeout_seconds is None else min(timeout_seconds, LONGEST_WAIT_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(longest):
                await self._until_ready()
        return None if timeout_seconds is None else max(timeout_seconds - (time() - start), 0.0)

    async def _until_ready(self) -> None:
        while not self._use_ready():
            await self._changed.wait()

    def _made(self, address: Address) -> Channel:
        unary = UnaryClient(address, self._tell, tls=context_of(self._tls))
        return Channel(unary, StreamChannels(target_of(address), CHANNEL_OPTIONS, self._tls))

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _use_ready(self) -> bool:
        """Whether a member that may be used is connected; the one in use is preferred. Idle ones begin to connect."""
        order = self.members.best_from(self._order.index(self._current))
        is_any_good = self.members.standing(order[0]) is Standing.GOOD
        ready = [
            address
            for address in order
            if self._is_connected(address)
            # A member that is cut off from the others is connected too.
            and (not is_any_good or self.members.standing(address) is Standing.GOOD)
        ]
        if ready:
            self._current = ready[0]
        return bool(ready)

    def _is_connected(self, address: Address) -> bool:
        unary = self._channels[address].unary
        unary.connect()
        return unary.is_ready

    def _best_from(self, address: Address, *, step: int = 0) -> Address:
        return self.members.best_from(self._order.index(address) + step)[0]


class _Use:
    """One task's block of calls on a member, which can be ended from outside as asyncio.timeout ends its own."""

    __slots__ = ("_cancelling", "_channels", "_is_ended", "_task", "address")

    address: Address

    def __init__(self, channels: Channels) -> None:
        task = asyncio.current_task()
        assert task is not None, "calls are made by tasks"
        self._channels, self._task, self._cancelling, self._is_ended = channels, task, task.cancelling(), False

    def __enter__(self) -> Channel:
        self.address, channel = self._channels.taken_by(self)
        return channel

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        is_left = isinstance(error, asyncio.CancelledError) and self._is_over_by_itself()
        left = unavailable(LEFT) if is_left else None
        self._channels.given_back(self, left or error)
        if left is not None:
            raise left from None

    def end(self) -> None:
        """Cancels what the block waits for."""
        if not self._is_ended:
            self._is_ended = True
            self._task.cancel()

    def _is_over_by_itself(self) -> bool:
        """Whether a cancellation that arrived in the block is the one of `end` and of nobody else."""
        return self._is_ended and self._task.uncancel() <= self._cancelling


def target_of(address: Address) -> str:
    """gRPC's name for one of etcd's addresses."""
    return f"{_family(address[0])}:{address_text(address)}"


def _family(host: str) -> str:
    try:
        return f"ipv{ipaddress.ip_address(host).version}"
    except ValueError:
        return "dns"
