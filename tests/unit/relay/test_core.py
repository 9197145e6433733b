"""The core as its edge sees it: time, draining, the end."""

import struct

import pytest

from greenroom.http2.frames import (
    ACK,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Error,
    pack,
    pack_rst,
)
from greenroom.relay.calls import Answer, Code
from greenroom.relay.limits import Limits
from tests.support.h2_peers import FORWARD, UNARY, Talk, data, raw_data


def ticked(talk: Talk, now: float) -> None:
    talk.now = now
    talk.core.tick(now)


@pytest.mark.parametrize("wire", [b"GET / HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n\r\nXX", b"\x16\x03\x01\x02\x00"])
def test_what_is_not_http2_is_closed_and_nothing_goes_up(wire: bytes) -> None:
    talk = Talk(greeted=False)
    for octet in wire:
        talk.client(bytes((octet,)))
    assert talk.closed() == "not an HTTP/2 client"
    assert talk.raw_to_upstream() == b""


@pytest.mark.parametrize("wire", [b"", PREFACE[:-1]], ids=["nothing", "all but a byte"])
def test_a_client_that_never_says_who_it_is_is_closed(wire: bytes) -> None:
    """A port scanner, or somebody who wants the proxy to run out of sockets: each connection holds two."""
    talk = Talk(Limits(preface_seconds=20), greeted=False)
    talk.client(wire)
    ticked(talk, 19.0)
    assert talk.closed() is None
    ticked(talk, 20.0)
    assert talk.closed() == "no HTTP/2 preface came in time"


def test_a_client_that_said_who_it_is_may_be_silent_for_long() -> None:
    talk = Talk(Limits(preface_seconds=20))
    ticked(talk, 100_000.0)
    assert talk.closed() is None


def test_a_dialogue_in_single_bytes_is_the_same_dialogue() -> None:
    talk = Talk(greeted=False)
    wire = PREFACE + pack(SETTINGS, 0, 0) + talk.head(1, UNARY) + data(1, b"plain")
    for octet in wire:
        talk.client(bytes((octet,)))
    answer = pack(SETTINGS, 0, 0) + talk.response(1)
    for octet in answer:
        talk.upstream(bytes((octet,)))
    assert talk.raw_to_upstream() == wire.replace(pack(SETTINGS, 0, 0), pack(SETTINGS, 0, 0, b"\0\1\0\0\0\0"))
    assert b"".join(talk.core.to_client) == answer


def test_silent_upstream_is_asked_while_streams_are_open_and_given_up() -> None:
    talk = Talk()
    ticked(talk, 100.0)
    assert talk.to_upstream() == [], "nobody waits for anything"
    talk.call(1, FORWARD, b"x")
    ticked(talk, 100.5)
    (asked,) = talk.to_upstream()
    assert asked.kind == PING
    ticked(talk, 105.0)
    assert talk.closed() is None
    ticked(talk, 105.5)
    assert talk.closed() == "upstream does not answer"
    assert talk.to_client()[-1].kind == GOAWAY


def test_the_answer_to_our_own_ping_ends_here() -> None:
    talk = Talk()
    talk.call(1, FORWARD, b"x")
    ticked(talk, 10.0)
    (asked,) = talk.to_upstream()
    talk.upstream(pack(PING, ACK, 0, asked.payload))
    assert talk.to_client() == []
    ticked(talk, 19.0)
    assert (talk.to_upstream(), talk.closed()) == ([], None)


def test_upstream_that_is_not_read_is_not_silent() -> None:
    talk = Talk()
    talk.call(1, FORWARD, b"x")
    talk.core.upstream_unread(50.0)
    ticked(talk, 55.0)
    assert talk.to_upstream() == []


def test_upstream_is_not_asked_for_calls_answered_here() -> None:
    talk = Talk()
    talk.call(1, UNARY, b"hold")
    ticked(talk, 100.0)
    assert talk.to_upstream() == []


def test_a_message_that_drips_is_refused_in_time() -> None:
    talk = Talk(Limits(undecided_seconds=60))
    talk.client(talk.head(1, UNARY), raw_data(1, b"\0\0\0"))
    talk.to_upstream()
    ticked(talk, 59.0)
    talk.client(raw_data(1, b"\0"))
    assert talk.notes.refused == []
    ticked(talk, 61.0)
    assert talk.notes.refused == [(UNARY, Code.RESOURCE_EXHAUSTED)]
    assert RST_STREAM in [frame.kind for frame in talk.to_upstream()]
    assert talk.core.open_streams == 0


def test_draining_lets_what_is_under_way_end_and_takes_nothing_new() -> None:
    talk = Talk()
    talk.call(1, FORWARD, b"x")
    talk.call(3, UNARY, b"hold")
    talk.to_client()
    talk.core.drain()
    (goaway,) = talk.to_client()
    assert struct.unpack_from(">LL", goaway.payload) == (3, Error.NO_ERROR)
    assert [frame.kind for frame in talk.call(5, UNARY, b"plain")] == [HEADERS, RST_STREAM]
    assert talk.inspector.seen == [(UNARY, b"hold")]
    talk.upstream(talk.response(1))
    assert not talk.core.drained
    talk.answer(3, Answer(b"ours"))
    assert talk.core.drained
    assert {frame.stream_id for frame in talk.to_client() if frame.kind != WINDOW_UPDATE} == {1, 3}


def test_draining_before_upstream_said_anything_closes() -> None:
    talk = Talk(greeted=False)
    talk.client(PREFACE, pack(SETTINGS, 0, 0))
    talk.core.drain()
    assert [frame.kind for frame in talk.to_client()] == [SETTINGS, GOAWAY]
    assert talk.closed() == "draining"


def test_after_the_end_nothing_is_taken_or_said() -> None:
    talk = Talk()
    talk.call(1, UNARY, b"hold")
    talk.client(pack(PING, 0, 0, b""))
    assert talk.closed() is not None
    talk.to_client()
    talk.client(talk.head(3, FORWARD))
    talk.upstream(pack(PING, 0, 0, bytes(8)))
    talk.answer(1, Answer(b"late"))
    talk.core.drain()
    ticked(talk, 100.0)
    assert (talk.to_client(), talk.to_upstream(), talk.effects()) == ([], [], [])


def test_a_goaway_tells_the_last_stream_that_was_worked_on() -> None:
    talk = Talk()
    talk.call(1, FORWARD, b"x")
    talk.call(3, UNARY, b"hold")
    talk.client(pack(PING, 0, 0, b""))
    goaway = talk.to_client()[-1]
    assert struct.unpack_from(">LL", goaway.payload) == (3, Error.FRAME_SIZE_ERROR)


def test_a_core_tells_its_state_in_a_log() -> None:
    talk = Talk()
    talk.client(talk.head(1, UNARY), pack_rst(1, Error.CANCEL), talk.head(3, UNARY))
    assert repr(talk.core) == "<RelayCore test:1 streams=1 undecided=1 answered=0>"


def test_the_last_id_told_never_goes_up_again() -> None:
    """The client has heard that later streams do not count, and may run their calls elsewhere."""
    talk = Talk()
    talk.call(1, FORWARD, b"x")
    talk.core.drain()
    talk.call(3, FORWARD, b"x")
    talk.client(pack(PING, 0, 0, b""))
    told = [struct.unpack_from(">L", frame.payload)[0] for frame in talk.to_client() if frame.kind == GOAWAY]
    assert told == [1, 1]
