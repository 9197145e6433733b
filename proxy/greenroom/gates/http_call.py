"""One HTTP call over a connection of its own, for programs that run in an event loop.

The rule: no proxies, no redirects; whoever cancels it hangs up, which tells the other side that nobody waits any more.
Whatever goes wrong is one CallFailed.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import h11

from greenroom.addresses import Address
from greenroom.gates.url_place import UrlPlace

READ_BYTES: Final = 65536
MAX_KEPT_BYTES: Final = 65536
"""Of an answer's text: its end is what is told of it."""


class CallFailed(Exception):
    """No answer came; in words."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Its status, and the end of its text."""

    status: int
    text: str


async def get(place: UrlPlace) -> Answer:
    """Waits for the answer for as long as the caller does; CallFailed."""
    return await _called(place, h11.Request(method="GET", target=place.target, headers=_headers(place)), b"")


async def post(place: UrlPlace, body: bytes) -> Answer:
    """Posts JSON, and waits for the answer for as long as the caller does; CallFailed."""
    headers = [*_headers(place), ("content-type", "application/json"), ("content-length", str(len(body)))]
    return await _called(place, h11.Request(method="POST", target=place.target, headers=headers), body)


def _headers(place: UrlPlace) -> list[tuple[str, str]]:
    return [("host", str(place.address)), ("connection", "close")]


async def _called(place: UrlPlace, request: h11.Request, body: bytes) -> Answer:
    try:
        async with _connected(place.address) as (reader, writer):
            return await _asked(reader, writer, request, body)
    except (OSError, h11.ProtocolError, UnicodeError) as error:  # UnicodeError: of a host that is no name
        raise CallFailed(f"{place.address}: {_in_words(error)}") from error


def _in_words(error: Exception) -> str:
    match error:
        case ConnectionRefusedError(errno=int(number)):
            return os.strerror(number)  # asyncio's words for it name the address again.
        case OSError(strerror=str(words)):
            return words
        case _:
            return str(error) or repr(error)


@asynccontextmanager
async def _connected(address: Address) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    context = ssl.create_default_context() if address.is_secure else None
    reader, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()  # What was to be read is read, and a peer that does not close must keep nobody.


async def _asked(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: h11.Request, body: bytes
) -> Answer:
    connection = h11.Connection(h11.CLIENT)
    for event in (request, h11.Data(data=body), h11.EndOfMessage()):
        writer.write(connection.send(event) or b"")
    await writer.drain()
    return await _answered(reader, connection)


async def _answered(reader: asyncio.StreamReader, connection: h11.Connection) -> Answer:
    status, text = 0, bytearray()
    while True:
        match connection.next_event():
            case h11.NEED_DATA:
                part = await reader.read(READ_BYTES)
                if not part and not status:
                    raise h11.RemoteProtocolError("closed the connection without an answer")
                connection.receive_data(part)
            case h11.Response(status_code=code):
                status = code
            case h11.Data(data=part):
                text += part
                del text[:-MAX_KEPT_BYTES]
            case h11.EndOfMessage():
                return Answer(status, text.decode("utf-8", "replace").strip())
