"""Hand-over: who gets which call, and how each ends exactly once."""

import struct

import pytest

from greenroom.http2.frames import END_STREAM, HEADERS, RST_STREAM, Error, pack_rst
from greenroom.relay.calls import Answer, Code, HandedOverCall
from greenroom.relay.dialogue import CancelHandler, StartHandler
from greenroom.relay.limits import Limits, Totals
from tests.support.h2_peers import FORWARD, UNARY, Frame, Talk, data


def test_a_handed_over_call_carries_all_that_the_handler_needs() -> None:
    talk = Talk()
    head = talk.head(1, UNARY, (b"token", b"t"), (b"x-bin", b"AAE"), (b"grpc-timeout", b"500m"), (b"user-agent", b"u"))
    talk.client(head, data(1, b"hold it"))
    assert talk.calls() == [HandedOverCall(UNARY, ("work of", b"hold it"), (("token", "t"), ("x-bin", b"\0\1")), 0.5)]
    assert talk.notes.handed_over == [UNARY]


def test_upstream_sees_a_head_and_a_cancel_of_it_and_no_byte_of_the_message() -> None:
    talk = Talk()
    head = talk.head(1, UNARY)
    talk.client(head, data(1, b"hold"))
    assert talk.raw_to_upstream() == head + pack_rst(1, Error.CANCEL)


def test_nothing_of_a_handed_over_stream_goes_up_afterwards() -> None:
    talk = Talk()
    talk.call(1, UNARY, b"hold", end=False)
    talk.client(data(1, b"more", end=False), pack_rst(1, Error.CANCEL), data(1, b"late"))
    assert talk.to_upstream() == []


def test_each_handed_over_call_is_answered_once() -> None:
    talk = Talk()
    talk.call(1, UNARY, b"hold")
    talk.answer(1, Answer(b"first"))
    talk.answer(1, Answer(b"second"))
    talk.answer(3, Answer(b"never asked"))
    assert [frame.ends for frame in talk.to_client() if frame.kind == HEADERS] == [False, True]


def test_a_deadline_that_cannot_be_read_is_refused_at_the_hand_over_only() -> None:
    """As etcd 3.4 refuses it: without an answer."""
    talk, field = Talk(), (b"grpc-timeout", b"5x")
    talk.client(talk.head(1, UNARY, field), data(1, b"plain"))
    assert talk.notes.refused == []
    talk.client(talk.head(3, UNARY, field), data(3, b"hold"))
    assert talk.notes.refused == [(UNARY, Code.INTERNAL)]
    assert talk.calls() == []
    assert Frame(RST_STREAM, 0, 3, struct.pack(">L", Error.CANCEL)) in talk.to_upstream()
    assert Frame(RST_STREAM, 0, 3, struct.pack(">L", Error.PROTOCOL_ERROR)) in talk.to_client()
    assert talk.core.open_streams == 1


def test_handlers_are_bounded_and_make_room_when_they_end() -> None:
    talk = Talk(Limits(handlers=2))
    for stream_id in (1, 3, 5):
        talk.call(stream_id, UNARY, b"hold")
    assert talk.notes.refused == [(UNARY, Code.RESOURCE_EXHAUSTED)]
    talk.answer(1, Answer(b""))
    talk.client(pack_rst(3, Error.CANCEL))
    talk.call(7, UNARY, b"hold")
    talk.call(9, UNARY, b"hold")
    assert len(talk.notes.refused) == 1


def test_the_end_of_a_connection_cancels_its_handlers_and_frees_the_process_bounds() -> None:
    limits = Limits(handlers=1, process_handlers=1)
    totals = Totals(limits)
    talk = Talk(limits, totals=totals)
    other = Talk(limits, totals=totals)
    talk.call(1, UNARY, b"hold")
    other.call(1, UNARY, b"hold")
    assert other.notes.refused == [(UNARY, Code.RESOURCE_EXHAUSTED)]
    talk.effects()
    talk.core.end()
    assert talk.effects() == [CancelHandler(1)]
    other.call(3, UNARY, b"hold")
    assert [effect.stream_id for effect in other.effects() if isinstance(effect, StartHandler)] == [3]


def test_forwarded_and_handed_over_calls_mix_on_one_connection() -> None:
    talk = Talk()
    for stream_id in range(1, 400, 2):
        talk.call(stream_id, UNARY, b"hold" if stream_id % 3 == 0 else b"plain")
    held = [effect.stream_id for effect in talk.effects() if isinstance(effect, StartHandler)]
    assert held == [stream_id for stream_id in range(1, 400, 2) if stream_id % 3 == 0]
    talk.to_client()
    for stream_id in range(1, 400, 2):
        if stream_id in held:
            talk.answer(stream_id, Answer(b"ours"))
        else:
            talk.upstream(talk.response(stream_id, b"theirs"))
    bodies = {frame.stream_id: frame.payload[5:] for frame in talk.to_client() if frame.kind == 0}
    assert bodies == {i: b"ours" if i in held else b"theirs" for i in range(1, 400, 2)}
    assert talk.core.open_streams == 0


def test_resets_go_up_in_order_after_the_head() -> None:
    talk = Talk()
    talk.client(talk.head(1, UNARY), talk.head(3, UNARY), data(3, b"hold"), data(1, b"hold"))
    kinds = [(frame.kind, frame.stream_id) for frame in talk.to_upstream()]
    assert kinds == [(HEADERS, 1), (HEADERS, 3), (RST_STREAM, 3), (RST_STREAM, 1)]


def test_a_head_that_ends_its_stream_can_be_refused() -> None:
    talk = Talk()
    talk.client(talk.head(1, b"/unknown", flags=END_STREAM))
    assert [frame.kind for frame in talk.to_client()] == [HEADERS]
    assert talk.to_upstream()[-1] == Frame(RST_STREAM, 0, 1, b"\0\0\0\x08")


def test_room_for_calls_that_are_over_is_given_back() -> None:
    """Three clients that were busy once must not leave everybody else with what they no longer use."""
    limits = Limits(process_streams=96, streams=1000)
    totals = Totals(limits)
    talks = [Talk(limits, totals=totals) for _ in range(3)]
    for talk in talks:
        for stream_id in range(1, 100, 2):
            talk.client(talk.head(stream_id, FORWARD), data(stream_id, b"busy"))
        for stream_id in range(1, 100, 2):
            talk.upstream(talk.response(stream_id))
    assert totals.streams.used > 0
    for talk in talks:
        talk.core.tick(1.0)
    assert totals.streams.used == 0


def test_a_client_that_takes_no_refusals_is_told_to_go() -> None:
    """Its window is shut, so the refusals wait, and each keeps its stream: without an end that is memory for ever."""
    talk = Talk(Limits(streams=10), client_settings=struct.pack(">HL", 4, 1 << 20))
    talk.call(1, UNARY, b"hold")
    talk.answer(1, Answer(bytes(60_000)))
    talk.call(3, FORWARD, b"more")
    talk.upstream(talk.response(3, bytes(16_000)))
    for stream_id in range(5, 5_001, 2):
        talk.now += 0.01
        talk.client(talk.head(stream_id, b"/unknown", flags=END_STREAM))
    assert talk.closed() == "too many calls at once"


def test_the_bytes_of_handed_over_calls_are_bounded_and_make_room_when_they_end() -> None:
    """A handler keeps its parsed request for as long as etcd takes: 512 of 4 MiB are too many for a small machine."""
    talk = Talk(Limits(copied_bytes=20))
    for stream_id in (1, 3, 5):
        talk.call(stream_id, UNARY, b"hold 0123")
    assert talk.notes.refused == [(UNARY, Code.RESOURCE_EXHAUSTED)]
    talk.answer(1, Answer(b""))
    talk.client(pack_rst(3, Error.CANCEL))
    talk.call(7, UNARY, b"hold 0123")
    talk.call(9, UNARY, b"hold 0123")
    assert len(talk.notes.refused) == 1
    talk.answer(7, Answer(b""))
    talk.answer(9, Answer(b""))
    assert talk.held_bytes == 0


def test_the_bytes_of_handed_over_calls_are_bounded_for_the_process_too() -> None:
    limits = Limits(process_copied_bytes=12)
    totals = Totals(limits)
    talk, other = Talk(limits, totals=totals), Talk(limits, totals=totals)
    talk.call(1, UNARY, b"hold 0123")
    other.call(1, UNARY, b"hold 0123")
    assert other.notes.refused == [(UNARY, Code.RESOURCE_EXHAUSTED)]
    talk.core.end()
    other.call(3, UNARY, b"hold 0123")
    assert len(other.notes.refused) == 1


def test_a_refused_hand_over_keeps_no_place_of_a_handler() -> None:
    talk = Talk(Limits(copied_bytes=8, handlers=1))
    talk.call(1, UNARY, b"hold 0123")
    assert talk.notes.refused == [(UNARY, Code.RESOURCE_EXHAUSTED)]
    talk.call(3, UNARY, b"hold")
    assert talk.notes.handed_over == [UNARY]


LARGE = (b"token", b"t" * 2_000)


def test_long_heads_are_bounded_and_make_room_when_their_streams_end() -> None:
    """They are kept as long as their streams: a watch with 64 KiB of metadata costs as much as ten connections."""
    talk = Talk(Limits(large_head_bytes=5_000))
    for stream_id in (1, 3, 5):
        talk.client(talk.head(stream_id, FORWARD, LARGE))
    assert talk.notes.refused == [(FORWARD, Code.RESOURCE_EXHAUSTED)]
    talk.client(pack_rst(1, Error.CANCEL))
    talk.upstream(pack_rst(3, Error.CANCEL))
    for stream_id in (7, 9):
        talk.client(talk.head(stream_id, FORWARD, LARGE))
    assert len(talk.notes.refused) == 1
    talk.client(talk.head(11, UNARY), data(11, b"plain"))
    assert talk.notes.refused == [(FORWARD, Code.RESOURCE_EXHAUSTED)], "short ones are not counted"


def test_long_heads_are_bounded_for_the_process_too() -> None:
    limits = Limits(process_large_head_bytes=4_000)
    totals = Totals(limits)
    talk, other = Talk(limits, totals=totals), Talk(limits, totals=totals)
    talk.client(talk.head(1, FORWARD, LARGE))
    other.client(other.head(1, FORWARD, LARGE))
    assert other.notes.refused == [(FORWARD, Code.RESOURCE_EXHAUSTED)]
    talk.core.end()
    other.client(other.head(3, FORWARD, LARGE))
    assert len(other.notes.refused) == 1


def test_a_long_head_that_comes_too_late_to_count_is_not_given_back_twice() -> None:
    talk = Talk(Limits(large_head_bytes=5_000))
    talk.client(talk.head(1, FORWARD, LARGE))
    talk.core.drain()
    for stream_id in (3, 5, 7):
        talk.client(talk.head(stream_id, FORWARD, LARGE))
    talk.client(pack_rst(1, Error.CANCEL))
    assert talk.core.drained


@pytest.mark.parametrize("streams", [1, 32, 33, 100])
def test_open_streams_are_bounded_and_make_room_when_they_end(streams: int) -> None:
    talk = Talk(Limits(streams=streams))
    for number in range(streams):
        talk.call(2 * number + 1, UNARY, b"plain")
    assert talk.notes.refused == []
    talk.call(2 * streams + 1, UNARY, b"plain")
    talk.client(talk.head(2 * streams + 3, FORWARD))
    assert talk.notes.refused == [(UNARY, Code.RESOURCE_EXHAUSTED), (FORWARD, Code.RESOURCE_EXHAUSTED)]
    talk.upstream(talk.response(1))
    talk.call(2 * streams + 5, UNARY, b"plain")
    assert len(talk.notes.refused) == 2


def test_streams_are_bounded_for_the_process_but_each_connection_has_a_few() -> None:
    limits = Limits(process_streams=64)
    totals = Totals(limits)
    talk, other = Talk(limits, totals=totals), Talk(limits, totals=totals)
    for number in range(100):
        talk.call(2 * number + 1, UNARY, b"plain")
    assert talk.core.open_streams == 64
    for number in range(32):
        other.call(2 * number + 1, UNARY, b"plain")
    assert other.notes.refused == []
    talk.core.end()
    assert totals.streams.used == 0
