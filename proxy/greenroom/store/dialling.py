"""Where a transport to etcd is opened for the proxy's own unary calls.

The rule: nobody else dials for them, so whatever a connection to etcd needs is added here. A peer that vanished without
a word is noticed by the kernel, too.
"""

import asyncio
import os
import socket
import ssl
from typing import Final

from greenroom.store.members import Address
from greenroom.tls.words import in_words

USER_TIMEOUT_MILLISECONDS: Final = 15_000
"""Bytes that nobody acknowledges for so long: the connection is lost."""


async def dial(address: Address, protocol: asyncio.Protocol, tls: ssl.SSLContext | None = None) -> None:
    """Connects; the protocol has its transport then. OSError where nobody listens, or is not who he should be."""
    transport, _ = await asyncio.get_running_loop().create_connection(
        lambda: protocol, *address, ssl=tls, server_hostname=None if tls is None else address[0]
    )
    option, opened = getattr(socket, "TCP_USER_TIMEOUT", None), transport.get_extra_info("socket")
    if option is not None and opened is not None:  # Linux only.
        opened.setsockopt(socket.IPPROTO_TCP, option, USER_TIMEOUT_MILLISECONDS)


def reason_of(error: OSError) -> str:
    """Why it could not be connected, in the words of the operating system, whichever event loop tried."""
    if isinstance(error, ssl.SSLError):  # Its number is none of the system's.
        return f"TLS: {in_words(error)}"
    is_systems = error.errno is not None and error.errno > 0
    return os.strerror(error.errno) if is_systems and error.errno else str(error) or "no answer in time"
