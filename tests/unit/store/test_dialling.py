"""Dialling: who is there, and why nobody is."""

import asyncio
import errno
import socket
import ssl

import pytest

from greenroom.store.dialling import USER_TIMEOUT_MILLISECONDS, dial, reason_of
from tests.support.h2_server import h2_server


class Socket(asyncio.Protocol):
    transport: asyncio.BaseTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport


async def test_a_connection_that_is_lost_without_a_word_is_noticed_by_the_kernel() -> None:
    async with h2_server() as server:
        protocol = Socket()
        await dial(server.address, protocol)
        opened = protocol.transport.get_extra_info("socket")
        option = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        assert option == USER_TIMEOUT_MILLISECONDS
        protocol.transport.close()


async def test_nobody_there_is_said_in_the_systems_words() -> None:
    with pytest.raises(OSError) as refused:  # noqa: PT011
        await dial(("127.0.0.1", 1), Socket())
    assert reason_of(refused.value) == "Connection refused"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.EHOSTUNREACH, "Connect call failed ('10.0.0.1', 2379)"), "No route to host"),
        (socket.gaierror(-2, "Name or service not known"), "[Errno -2] Name or service not known"),
        (ConnectionError("it does not speak HTTP/2"), "it does not speak HTTP/2"),
        (TimeoutError(), "no answer in time"),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"), "TLS: [SSL: WRONG_VERSION_NUMBER] wrong"),
    ],
)
def test_any_other_reason_is_short_too(error: OSError, reason: str) -> None:
    assert reason_of(error).startswith(reason)
