"""The asyncio edge with sockets that are none: who is read, who is closed, which handlers run."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from greenroom.http2.frames import (
    ACK,
    DATA,
    GOAWAY,
    HEADERS,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Error,
    pack,
    pack_rst,
)
from greenroom.relay.calls import Answer, HandedOverCall
from greenroom.relay.connection import ClientProtocol, Connection, UpstreamProtocol
from greenroom.relay.core import LOOK_AGAIN_SECONDS, RelayCore
from greenroom.relay.limits import Limits
from greenroom.relay.turns import Turns
from tests.support.h2_peers import FORWARD, UNARY, ByContent, Frame, Notes, Talk, data, frames_in


class Socket:
    """A transport that keeps what is written and done to it."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.reading = True
        self.closing = False
        self.aborted = False

    def write(self, data: bytes) -> None:
        assert not self.closing
        self.written += data

    def is_reading(self) -> bool:
        return self.reading

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = self.aborted = True

    def take(self) -> list[Frame]:
        frames = frames_in(bytes(self.written).removeprefix(PREFACE))
        self.written.clear()
        return frames


class Edge:
    """A connection between two such sockets."""

    def __init__(
        self,
        handler: Callable[[HandedOverCall], Coroutine[Any, Any, Answer]] | None = None,
        core: type[RelayCore] = RelayCore,
    ) -> None:
        self.calls: list[HandedOverCall] = []
        self.notes = Notes()
        self.tasks: list[asyncio.Task[None]] = []
        self.gone: list[Connection] = []
        self.talk = Talk(greeted=False)  # for its encoder
        limits = Limits()
        made = core(ByContent(), limits, asyncio.get_running_loop().time(), observer=self.notes)
        self.turns = Turns(limits.process_handlers_at_work, limits.handler_turn_seconds)
        self.connection = Connection(
            made, handler or self._handle, self.notes, limits, self.turns, self._spawn, self.gone.append
        )
        self.client, self.upstream = Socket(), Socket()
        self.client_protocol = ClientProtocol(self.connection)
        self.upstream_protocol = UpstreamProtocol(self.connection)

    async def _handle(self, call: HandedOverCall) -> Answer:
        self.calls.append(call)
        return Answer(b"ours")

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.append(task)
        return task

    def open(self) -> "Edge":
        self.client_protocol.connection_made(cast(asyncio.Transport, self.client))
        self.client_protocol.data_received(PREFACE + pack(SETTINGS, 0, 0))
        self.upstream_protocol.connection_made(cast(asyncio.Transport, self.upstream))
        self.upstream_protocol.data_received(pack(SETTINGS, 0, 0) + pack(SETTINGS, ACK, 0))
        self.client_protocol.data_received(pack(SETTINGS, ACK, 0))
        self.client.take()
        self.upstream.take()
        return self

    def call(self, stream_id: int, path: bytes, message: bytes, *headers: tuple[bytes, bytes]) -> None:
        self.client_protocol.data_received(self.talk.head(stream_id, path, *headers) + data(stream_id, message))

    async def settle(self) -> None:
        await asyncio.gather(*self.tasks, return_exceptions=True)


def statuses(edge: Edge) -> list[bytes]:
    blocks = [edge.talk.fields(frame) for frame in edge.client.take() if frame.kind == HEADERS]
    return [fields[b"grpc-status"] for fields in blocks if b"grpc-status" in fields]


async def test_what_the_client_sends_before_upstream_is_there_goes_up_then() -> None:
    edge = Edge()
    edge.client_protocol.connection_made(cast(asyncio.Transport, edge.client))
    await asyncio.sleep(0)
    assert not edge.client.reading, "nothing takes its bytes yet"
    edge.client_protocol.data_received(PREFACE + pack(SETTINGS, 0, 0))
    edge.call(1, FORWARD, b"x")
    edge.upstream_protocol.connection_made(cast(asyncio.Transport, edge.upstream))
    await asyncio.sleep(0)
    assert [frame.kind for frame in edge.upstream.take()] == [SETTINGS, HEADERS, DATA]
    assert edge.client.reading
    assert edge.client.written == b"", "SETTINGS of upstream come first"


async def test_a_handed_over_call_is_answered_by_the_handler() -> None:
    edge = Edge().open()
    edge.call(1, UNARY, b"hold")
    await edge.settle()
    assert [call.work for call in edge.calls] == [("work of", b"hold")]
    assert [frame.kind for frame in edge.client.take()] == [WINDOW_UPDATE, HEADERS, DATA, HEADERS]


async def test_a_failing_handler_is_answered_internal_and_noted() -> None:
    async def fail(call: HandedOverCall) -> Answer:
        raise LookupError(call)

    edge = Edge(fail).open()
    edge.call(1, UNARY, b"hold")
    await edge.settle()
    assert statuses(edge) == [b"13"]
    assert edge.notes.failures == [(UNARY, "LookupError")]


async def test_a_handler_that_cancels_itself_is_answered_too() -> None:
    """A cancelled call of a gRPC library raises CancelledError in whoever awaits it."""

    async def give_up(call: HandedOverCall) -> Answer:
        raise asyncio.CancelledError

    edge = Edge(give_up).open()
    edge.call(1, UNARY, b"hold")
    await edge.settle()
    assert statuses(edge) == [b"13"]


async def test_the_clients_deadline_ends_a_handler() -> None:
    edge = Edge(hang).open()
    edge.call(1, UNARY, b"hold", (b"grpc-timeout", b"1m"))
    await edge.settle()
    assert statuses(edge) == [b"4"]
    assert edge.notes.failures == []


async def hang(call: HandedOverCall) -> Answer:
    await asyncio.Event().wait()
    raise AssertionError(call)


async def test_so_many_handlers_are_at_work_and_the_others_wait_for_their_turn() -> None:
    """Each may hold an answer of a MiB in several forms: what a client can ask for at once must not all be read."""
    at_work: list[HandedOverCall] = []
    most, go_on = 0, asyncio.Semaphore(0)

    async def work(call: HandedOverCall) -> Answer:
        nonlocal most
        at_work.append(call)
        most = max(most, len(at_work))
        await go_on.acquire()
        at_work.remove(call)
        return Answer(b"ours")

    edge = Edge(work).open()
    for number in range(40):
        edge.call(2 * number + 1, UNARY, b"hold")
    edge.call(81, UNARY, b"hold", (b"grpc-timeout", b"1m"))
    await edge.tasks[-1]
    assert statuses(edge) == [b"4"], "its deadline passed while it waited"
    assert len(at_work) == Limits().handlers_at_work
    edge.client_protocol.data_received(pack_rst(79, Error.CANCEL))
    for _ in range(40):
        go_on.release()
    await edge.settle()
    assert statuses(edge) == [b"0"] * 39
    assert most == Limits().handlers_at_work
    assert edge.turns.taken.used == 0


@pytest.mark.parametrize("end", ["reset", "client", "upstream"])
async def test_a_handler_whose_call_is_gone_is_cancelled(end: str) -> None:
    edge = Edge(hang).open()
    edge.call(1, UNARY, b"hold")
    await asyncio.sleep(0)
    match end:
        case "reset":
            edge.client_protocol.data_received(pack_rst(1, Error.CANCEL))
        case "client":
            edge.client_protocol.connection_lost(None)
        case _:
            edge.upstream_protocol.connection_lost(ConnectionResetError())
    await edge.settle()
    assert edge.tasks[0].cancelled()
    assert RST_STREAM not in [frame.kind for frame in edge.client.take()]


@pytest.mark.parametrize("first", ["client", "upstream"])
async def test_one_side_gone_closes_the_other_and_both_gone_is_the_end(first: str) -> None:
    edge = Edge().open()
    protocols = [edge.client_protocol, edge.upstream_protocol]
    sockets = [edge.client, edge.upstream]
    if first == "upstream":
        protocols.reverse()
        sockets.reverse()
    protocols[0].connection_lost(None)
    assert sockets[1].closing
    assert edge.notes.closed == [f"{first} gone"]
    assert edge.gone == []
    protocols[1].connection_lost(None)
    assert edge.gone == [edge.connection]
    assert len(edge.notes.closed) == 1


async def test_a_broken_client_hears_why_before_both_are_closed() -> None:
    edge = Edge().open()
    edge.client_protocol.data_received(pack(SETTINGS, 0, 1))
    assert [frame.kind for frame in edge.client.take()] == [GOAWAY]
    assert edge.client.closing
    assert edge.upstream.closing


async def test_nobody_is_read_whose_bytes_have_nowhere_to_go() -> None:
    edge = Edge().open()
    await asyncio.sleep(0)
    edge.client_protocol.pause_writing()
    assert (edge.client.reading, edge.upstream.reading) == (False, False)
    edge.client_protocol.resume_writing()
    edge.upstream_protocol.pause_writing()
    assert (edge.client.reading, edge.upstream.reading) == (False, True)
    edge.upstream_protocol.resume_writing()
    assert (edge.client.reading, edge.upstream.reading) == (True, True)


async def test_a_client_that_takes_nothing_is_given_up_in_time() -> None:
    edge = Edge().open()
    edge.client_protocol.pause_writing()
    now = asyncio.get_running_loop().time()
    edge.connection.tick(now + 299)
    assert not edge.connection.closed
    edge.connection.tick(now + 302)
    assert edge.client.aborted
    assert edge.upstream.aborted
    assert edge.connection.tick(now + 303) is None


async def test_a_connection_says_when_to_look_at_it_again() -> None:
    edge = Edge().open()
    now = asyncio.get_running_loop().time()
    assert edge.connection.tick(now) == LOOK_AGAIN_SECONDS
    edge.call(1, FORWARD, b"watch")
    assert edge.connection.tick(now + 7) == pytest.approx(3.0, abs=0.1), "then upstream has been silent for 10 s"
    edge.client_protocol.connection_lost(None)
    assert edge.connection.tick(now + 8) is None


async def test_draining_closes_when_the_last_call_ends() -> None:
    edge = Edge().open()
    edge.call(1, UNARY, b"hold")
    edge.connection.drain()
    assert GOAWAY in [frame.kind for frame in edge.client.take()]
    assert not edge.client.closing
    await edge.settle()
    assert edge.client.closing
    assert edge.notes.closed == ["drained"]


async def test_an_upstream_that_comes_too_late_is_not_kept() -> None:
    edge = Edge()
    edge.client_protocol.connection_made(cast(asyncio.Transport, edge.client))
    edge.client_protocol.connection_lost(None)
    edge.upstream_protocol.connection_made(cast(asyncio.Transport, edge.upstream))
    assert edge.upstream.aborted


class Broken(RelayCore):
    """A core with a bug."""

    def answer(self, stream_id: int, answer: Answer, now: float) -> None:
        raise LookupError(stream_id)

    def tick(self, now: float) -> float:
        raise ZeroDivisionError


async def test_a_bug_while_an_answer_is_written_ends_the_connection_and_is_told() -> None:
    edge = Edge(core=Broken).open()
    edge.call(1, UNARY, b"hold")
    await edge.settle()
    assert edge.notes.bugs == ["LookupError"]
    assert (edge.client.aborted, edge.upstream.aborted) == (True, True)


async def test_a_bug_in_a_tick_ends_its_connection_only_and_is_told() -> None:
    edge = Edge(core=Broken).open()
    edge.connection.tick(0.0)
    assert edge.notes.bugs == ["ZeroDivisionError"]
    assert edge.client.aborted
