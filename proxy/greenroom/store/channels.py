"""The connections to etcd's members, and which of them is in use.

The rule: one that cannot be reached is left for the next one, and nobody is told of a member that is not asked.
"""

import asyncio
import ipaddress
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import grpc

Address = tuple[str, int]

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

LONGEST_WAIT_SECONDS = 10.0
"""An etcd that is away for longer is told to clients, as it would be without a proxy."""
POLL_SECONDS = 0.02
"""Asking a channel for its state costs a microsecond, and goes on only while etcd is away."""


class Channels:
    """Made inside the running event loop. One channel where gRPC itself can try all addresses, else one each."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self._targets = targets(addresses)
        self._channels = [grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS) for target in self._targets]
        self._current = 0

    @property
    def target(self) -> str:
        """gRPC's name of what is in use."""
        return self._targets[self._current]

    async def close(self) -> None:
        """Ends every call and the connections."""
        for channel in self._channels:
            await channel.close()

    @contextmanager
    def current(self) -> Iterator[grpc.aio.Channel]:
        """The channel to use; the next one is used from here on where this one's etcd cannot be reached."""
        used = self._current
        try:
            yield self._channels[used]
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE and used == self._current:
                self._current = (used + 1) % len(self._channels)
            raise

    async def wait_ready(self, timeout_seconds: float | None) -> float | None:
        """Returns once a channel is connected, which is then in use, or when it is no use to wait longer.

        Takes the time that the whole call has, None for any, and gives what is left of it.
        """
        if self._use_ready():
            return timeout_seconds
        time = asyncio.get_running_loop().time
        start = time()
        longest = LONGEST_WAIT_SECONDS if timeout_seconds is None else min(timeout_seconds, LONGEST_WAIT_SECONDS)
        # gRPC tells one channel's changes to one waiter, and here any channel will do.
        while not self._use_ready() and time() - start < longest:  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)
        return None if timeout_seconds is None else max(timeout_seconds - (time() - start), 0.0)

    def _use_ready(self) -> bool:
        """Whether some channel is connected; the one in use is preferred. Those that are idle begin to connect."""
        count = len(self._channels)
        for number in ((self._current + step) % count for step in range(count)):
            if self._channels[number].get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY:
                self._current = number
                return True
        return False


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
