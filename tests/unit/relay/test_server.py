"""The listener's own choices; what it does on sockets stands in the integration ring."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from greenroom.http2.frames import GOAWAY, HEADER_BYTES, PREFACE, SETTINGS, pack
from greenroom.relay import server as server_module
from greenroom.relay.calls import Answer, HandedOverCall
from greenroom.relay.limits import Limits
from greenroom.relay.server import Address, RelayServer
from greenroom.tls.contexts import load_client, load_server
from tests.support.certificates import HERE, Authority
from tests.support.h2_peers import STREAM, ByContent, Notes, Talk, data, frames_in


async def never(call: HandedOverCall) -> Answer:
    raise AssertionError(call)


class Known:
    """Upstreams in an order that tests change."""

    def __init__(self, *addresses: Address) -> None:
        self.addresses = list(addresses)

    def in_order(self) -> list[Address]:
        return self.addresses


def server(upstreams: Known, notes: Notes | None = None) -> RelayServer:
    return RelayServer(
        inspector=ByContent(), handler=never, observer=notes or Notes(), upstreams=upstreams, host="127.0.0.1", port=0
    )


async def test_a_relay_that_was_not_started_has_no_port_and_can_be_stopped() -> None:
    made = server(Known(("127.0.0.1", 1)))
    with pytest.raises(AssertionError):
        _ = made.port
    assert made.connections == 0
    await made.stop(0)


async def test_an_error_that_nobody_expects_disconnects_the_client_and_is_told() -> None:
    """A host name that is none at all is no OSError. The client would wait for ever otherwise."""
    notes = Notes()
    made = server(Known(("x" * 64, 1)), notes)
    await made.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
    assert await reader.read() == b""
    writer.close()
    await made.stop(0)
    assert notes.bugs == ["UnicodeError"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody here has a call to finish."""
    monkeypatch.setattr(server_module, "LEAVE_GRACE_SECONDS", 0.05)
    monkeypatch.setattr(server_module, "_LEAVE_WITHIN_SECONDS", 0.05)


class FakeUpstream:
    """Greets whoever comes, unless it is `silent`, and says nothing else."""

    def __init__(self, *, silent: bool = False) -> None:
        self.silent = silent
        self.address: Address = ("", 0)
        self.writers: list[asyncio.StreamWriter] = []
        self.changed = asyncio.Condition()

    async def joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        async with self.changed:
            self.changed.notify_all()
        if not self.silent:
            writer.write(pack(SETTINGS, 0, 0))
        with suppress(ConnectionResetError):
            await reader.read(-1)
        writer.close()
        self.writers.remove(writer)

    async def has(self, clients: int) -> None:
        async with asyncio.timeout(10), self.changed:
            await self.changed.wait_for(lambda: len(self.writers) == clients)


@asynccontextmanager
async def upstream(*, silent: bool = False) -> AsyncIterator[FakeUpstream]:
    fake = FakeUpstream(silent=silent)
    listening = await asyncio.start_server(fake.joined, "127.0.0.1", 0)
    fake.address = listening.sockets[0].getsockname()
    async with listening:
        yield fake


@asynccontextmanager
async def started(upstreams: Known) -> AsyncIterator[RelayServer]:
    made = server(upstreams)
    await made.start()
    yield made
    await made.stop(0)


class Client:
    """Opens one stream that never ends, as keepalives are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.seen = b""

    @classmethod
    async def connect(cls, relay: RelayServer) -> "Client":
        client = cls(*await asyncio.open_connection("127.0.0.1", relay.port))
        stream = Talk(greeted=False).head(1, STREAM) + data(1, b"keep", end=False)
        client.writer.write(PREFACE + pack(SETTINGS, 0, 0) + stream)
        return client

    @classmethod
    async def served(cls, relay: RelayServer) -> "Client":
        """Connected, and greeted by an upstream."""
        client = await cls.connect(relay)
        async with asyncio.timeout(10):
            client.seen = await client.reader.readexactly(HEADER_BYTES)
        return client

    async def kinds_until_closed(self) -> list[int]:
        async with asyncio.timeout(10):
            kinds = [frame.kind for frame in frames_in(self.seen + await self.reader.read(-1))]
        self.writer.close()
        return kinds


async def test_clients_of_an_upstream_that_is_left_come_again_to_another_one() -> None:
    """Their keepalives and watches would stay on the old connection for ever, so that is closed after the GOAWAY."""
    async with upstream() as bad, upstream() as good, started(Known(bad.address, good.address)) as relay:
        clients = [await Client.served(relay) for _ in range(3)]
        relay._upstreams = Known(good.address, bad.address)
        others = [await Client.served(relay) for _ in range(2)]
        assert relay.leave(bad.address) == 3
        assert relay.leave(bad.address) == 0, "they were told already"
        for client in clients:
            kinds = await client.kinds_until_closed()
            assert kinds[0] == SETTINGS
            assert GOAWAY in kinds
        assert relay.connections == 2
        clients = [await Client.served(relay) for _ in range(3)]
        await good.has(5)
        for client in (*clients, *others):
            client.writer.close()


async def test_a_client_that_waits_for_the_first_word_of_a_bad_upstream_is_sent_away_too() -> None:
    """A stopped process: the kernel takes connections for it, and nobody ever answers."""
    async with upstream(silent=True) as bad, started(Known(bad.address)) as relay:
        client = await Client.connect(relay)
        await bad.has(1)
        assert relay.leave(bad.address) == 1
        assert await client.kinds_until_closed() == [SETTINGS, GOAWAY]


async def test_many_are_sent_away_in_batches_with_time_for_others_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_LEAVE_AT_ONCE", 2)
    async with upstream() as bad, started(Known(bad.address)) as relay:
        clients = [await Client.served(relay) for _ in range(5)]
        assert relay.leave(bad.address) == 5
        served_between = 0
        while relay.connections:
            await asyncio.sleep(0)
            served_between += 1
        assert served_between > 5
        for client in clients:
            assert GOAWAY in await client.kinds_until_closed()


async def test_a_relay_that_stops_while_clients_are_sent_away_leaves_nothing() -> None:
    async with upstream() as bad, started(Known(bad.address)) as relay:
        client = await Client.served(relay)
        relay.leave(bad.address)
        await relay.stop(0)
        assert relay.connections == 0
        assert GOAWAY in await client.kinds_until_closed()


async def test_while_no_upstream_is_there_few_clients_are_dialled_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds come again and again during an outage."""
    monkeypatch.setattr(server_module, "_AWAY_SECONDS", 60.0)
    notes = Notes()
    made = server(Known(("127.0.0.1", 1)), notes)
    await made.start()
    for _ in range(5):
        with suppress(ConnectionResetError):
            await (await Client.connect(made)).kinds_until_closed()
    await made.stop(0)
    assert notes.undialled == ["127.0.0.1:1"]


async def test_a_client_that_comes_after_upstream_is_back_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_AWAY_SECONDS", 0.0)
    async with upstream() as good, started(Known(("127.0.0.1", 1))) as relay:
        with suppress(ConnectionResetError):
            await (await Client.connect(relay)).kinds_until_closed()
        relay._upstreams = Known(good.address)
        client = await Client.served(relay)
        client.writer.close()


class Dials:
    """What becomes of each dial is the test's to say, in the order in which they began."""

    def __init__(self, relay: RelayServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.outcomes: list[asyncio.Future[bool]] = []
        self._relay, self._begun = relay, asyncio.Condition()
        monkeypatch.setattr(relay, "_dialled", self._dialled)

    async def _dialled(self, connection: object, address: Address) -> bool:
        outcome = asyncio.get_running_loop().create_future()
        self.outcomes.append(outcome)
        async with self._begun:
            self._begun.notify_all()
        return await outcome

    async def begin(self) -> Client:
        """A client for whom upstream is dialled now."""
        count = len(self.outcomes) + 1
        client = await Client.connect(self._relay)
        async with asyncio.timeout(10), self._begun:
            await self._begun.wait_for(lambda: len(self.outcomes) == count)
        return client

    async def fail(self, number: int, client: Client) -> None:
        self.outcomes[number].set_result(False)
        with suppress(ConnectionResetError):
            await client.kinds_until_closed()


@pytest.mark.parametrize("first_succeeds", [True, False], ids=["after a success", "after a failure"])
async def test_dials_that_fail_late_keep_nobody_out(monkeypatch: pytest.MonkeyPatch, *, first_succeeds: bool) -> None:
    """A network that swallowed everything works again; the dials from before give up one after the other."""
    async with started(Known(("127.0.0.1", 1))) as relay:
        dials = Dials(relay, monkeypatch)
        clients = [await dials.begin() for _ in range(3)]
        if first_succeeds:
            dials.outcomes[0].set_result(True)
        else:
            monkeypatch.setattr(server_module, "_AWAY_SECONDS", 0.0)
            await dials.fail(0, clients[0])
        monkeypatch.setattr(server_module, "_AWAY_SECONDS", 60.0)
        await dials.fail(1, clients[1])
        latest = await dials.begin()
        dials.outcomes[-1].set_result(True)
        await dials.fail(2, clients[2])
        for client in (await dials.begin(), latest, clients[0]):
            client.writer.close()
        dials.outcomes[-1].set_result(True)


@dataclass
class Secured:
    """A relay whose clients speak TLS, and what one of them needs for that."""

    relay: RelayServer
    client: ssl.SSLContext

    def connect(self, *protocols: str) -> ssl.SSLSocket:
        """A connection that has agreed on one of these; for a thread of its own."""
        if protocols:
            self.client.set_alpn_protocols(protocols)
        return self.client.wrap_socket(socket.create_connection((HERE, self.relay.port)), server_hostname=HERE)


@asynccontextmanager
async def secured(folder: Path, upstreams: Known, limits: Limits | None = None) -> AsyncIterator[Secured]:
    files = Authority(folder).issue().files
    server_side = load_server(files, "h2", ssl.CERT_REQUIRED, print).context
    relay = RelayServer(
        inspector=ByContent(),
        handler=never,
        observer=Notes(),
        upstreams=upstreams,
        host=HERE,
        port=0,
        tls=server_side,
        limits=limits,
    )
    await relay.start()
    yield Secured(relay, load_client(files).context)
    await relay.stop(0)


@pytest.mark.parametrize("protocols", [(), ("http/1.1",)])
async def test_a_client_that_did_not_agree_on_http_2_is_disconnected(
    tmp_path: Path, protocols: tuple[str, ...]
) -> None:
    async with upstream() as there, secured(tmp_path, Known(there.address)) as made:
        made.client.set_alpn_protocols(list(protocols) or ["dot"])
        spoken = await asyncio.to_thread(made.connect, *protocols)
        with spoken, suppress(ConnectionError):
            assert await asyncio.to_thread(spoken.recv, 1) == b""
        assert made.relay.connections == 0


async def test_one_that_did_is_joined_and_not_waited_for_when_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gRPC's clients never answer TLS's farewell: those of a bad member would lose their leases meanwhile."""
    monkeypatch.setattr(server_module, "_FAREWELL_SECONDS", 0.05)
    patient = Limits(close_seconds=600)
    async with upstream() as there, secured(tmp_path, Known(there.address), patient) as made:
        spoken = await asyncio.to_thread(made.connect)
        await there.has(1)
        async with asyncio.timeout(20):
            await made.relay.stop(0)
        assert made.relay.connections == 0
        spoken.close()
