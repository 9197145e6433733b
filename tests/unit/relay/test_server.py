"""The listener's own choices; what it does on sockets stands in the integration ring."""

import asyncio

import pytest

from greenroom.relay.calls import Answer, HandedOverCall
from greenroom.relay.server import Address, RelayServer
from tests.support.h2_peers import ByContent, Notes


async def never(call: HandedOverCall) -> Answer:
    raise AssertionError(call)


def server(upstreams: list[Address], notes: Notes | None = None) -> RelayServer:
    return RelayServer(
        inspector=ByContent(), handler=never, observer=notes or Notes(), upstreams=upstreams, host="127.0.0.1", port=0
    )


async def test_a_relay_without_upstream_is_not_made() -> None:
    with pytest.raises(ValueError, match="upstream"):
        server([])


async def test_a_relay_that_was_not_started_has_no_port_and_can_be_stopped() -> None:
    made = server([("127.0.0.1", 1)])
    with pytest.raises(AssertionError):
        _ = made.port
    assert made.connections == 0
    await made.stop(0)


async def test_an_error_that_nobody_expects_disconnects_the_client_and_is_told() -> None:
    """A host name that is none at all is no OSError. The client would wait for ever otherwise."""
    notes = Notes()
    made = server([("x" * 64, 1)], notes)
    await made.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
    assert await reader.read() == b""
    writer.close()
    await made.stop(0)
    assert notes.bugs == ["UnicodeError"]
