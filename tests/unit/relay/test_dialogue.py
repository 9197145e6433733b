"""Hand-over: who gets which call, and how each ends exactly once."""

import pytest

from greenroom.relay.calls import Answer, Code, HandedOverCall
from greenroom.relay.dialogue import CancelHandler, StartHandler
from greenroom.relay.frames import END_STREAM, HEADERS, RST_STREAM, Error, pack_rst
from greenroom.relay.limits import Limits, Totals
from tests.support.h2_peers import UNARY, Frame, Talk, data


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


@pytest.mark.parametrize("field", [(b"grpc-timeout", b"soon"), (b"x-bin", b"A")])
def test_a_head_that_cannot_be_read_is_refused_at_the_hand_over_only(field: tuple[bytes, bytes]) -> None:
    talk = Talk()
    talk.client(talk.head(1, UNARY, field), data(1, b"plain"))
    assert talk.notes.refused == []
    talk.client(talk.head(3, UNARY, field), data(3, b"hold"))
    assert talk.notes.refused == [(UNARY, Code.INTERNAL)]
    assert talk.calls() == []


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
