"""Answers of local handlers, within the client's windows."""

import struct

from greenroom.http2.frames import (
    ACK,
    DATA,
    END_HEADERS,
    HEADERS,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Error,
    pack,
    pack_rst,
    pack_window_update,
)
from greenroom.http2.settings import build
from greenroom.relay.calls import Answer
from greenroom.relay.limits import Limits
from greenroom.relay.messages import frame_message
from tests.support.h2_peers import UNARY, Frame, Talk, data


def body(frames: list[Frame]) -> bytes:
    return b"".join(frame.payload for frame in frames if frame.kind == DATA)


def without_windows(frames: list[Frame]) -> list[Frame]:
    return [frame for frame in frames if frame.kind != WINDOW_UPDATE]


def held(talk: Talk, *stream_ids: int) -> None:
    for stream_id in stream_ids:
        talk.call(stream_id, UNARY, b"hold")
    talk.to_client()


def test_an_answer_is_headers_message_and_trailers() -> None:
    talk = Talk()
    held(talk, 1)
    talk.answer(1, Answer(b"message", trailers=(("x-a", "b"),)))
    headers, message, trailers = talk.to_client()
    assert talk.fields(headers) == {b":status": b"200", b"content-type": b"application/grpc"}
    assert message == Frame(DATA, 0, 1, frame_message(b"message"))
    assert talk.fields(trailers) == {b"grpc-status": b"0", b"grpc-message": b"", b"x-a": b"b"}
    assert trailers.ends
    assert talk.core.open_streams == 0


def test_an_error_is_trailers_only() -> None:
    talk = Talk()
    held(talk, 1)
    talk.answer(1, Answer(None, 9, "no"))
    (only,) = talk.to_client()
    assert only.ends
    assert talk.fields(only)[b":status"] == b"200"


def test_after_upstreams_headers_an_answer_has_no_second_ones() -> None:
    talk = Talk()
    talk.client(talk.head(1, UNARY))
    talk.upstream(pack(HEADERS, END_HEADERS, 1, b"\x20\x88"))
    talk.client(data(1, b"hold"))
    talk.to_client()
    talk.answer(1, Answer(None, 9, "no"))
    (only,) = talk.to_client()
    assert only.ends
    assert b":status" not in talk.fields(only)


def test_an_answer_before_the_clients_end_is_followed_by_a_reset_without_error() -> None:
    talk = Talk()
    talk.call(1, UNARY, b"hold", end=False)
    talk.to_client()
    talk.answer(1, Answer(b""))
    assert talk.to_client()[-1] == Frame(RST_STREAM, 0, 1, struct.pack(">L", Error.NO_ERROR))
    talk.client(data(1, b"late"))
    assert talk.to_upstream() == []


def test_a_small_stream_window_lets_an_answer_out_in_parts() -> None:
    talk = Talk(client_settings=build([(4, 8)]))
    held(talk, 1)
    talk.answer(1, Answer(b"0123456789"))
    assert body(talk.to_client()) == frame_message(b"0123456789")[:8]
    talk.client(pack_window_update(1, 6))
    assert body(talk.to_client()) == b"345678"
    talk.client(pack_window_update(1, 1))
    assert [frame.kind for frame in talk.to_client()] == [DATA, HEADERS]


def test_windows_opened_before_the_decision_count() -> None:
    talk = Talk(client_settings=build([(4, 0)]))
    talk.client(talk.head(1, UNARY), pack_window_update(1, 15), data(1, b"hold"))
    talk.answer(1, Answer(b"0123456789"))
    assert body(talk.to_client()) == frame_message(b"0123456789")


def test_a_larger_initial_window_counts_when_its_acknowledgement_passes() -> None:
    talk = Talk(client_settings=build([(4, 0)]))
    held(talk, 1)
    talk.answer(1, Answer(b"abc"))
    talk.client(pack(SETTINGS, 0, 0, build([(4, 100)])))
    assert body(talk.to_client()) == b""
    talk.upstream(pack(SETTINGS, ACK, 0))
    assert [frame.kind for frame in talk.to_client()] == [SETTINGS, DATA, HEADERS]


def test_a_window_that_turned_negative_lets_nothing_out() -> None:
    talk = Talk()
    held(talk, 1)
    talk.answer(1, Answer(bytes(70_000)))
    talk.to_client()
    talk.client(pack(SETTINGS, 0, 0, build([(4, 10)])), pack_window_update(0, 100_000), pack_window_update(1, 65_525))
    assert body(talk.to_client()) == b""
    talk.client(pack_window_update(1, 1))
    assert len(body(talk.to_client())) == 1


def test_the_connection_window_bounds_all_answers_together() -> None:
    talk = Talk(client_settings=build([(4, 2**20)]))
    held(talk, 1, 3)
    talk.answer(1, Answer(bytes(65_530)))
    talk.answer(3, Answer(bytes(100)))
    first = talk.to_client()
    assert len(body(first)) == 65_535
    assert max(len(frame.payload) for frame in first) <= 16_384
    talk.client(pack_window_update(0, 50))
    assert len(body(talk.to_client())) == 50
    talk.client(pack_window_update(0, 55))
    assert len(body(talk.to_client())) == 55
    assert talk.core.open_streams == 0


def test_a_stream_that_nobody_reads_does_not_hold_up_another() -> None:
    talk = Talk(client_settings=build([(4, 0)]))
    held(talk, 1, 3)
    talk.answer(1, Answer(b"one"))
    talk.answer(3, Answer(b"two"))
    talk.client(pack_window_update(3, 100))
    assert body(talk.to_client()) == frame_message(b"two")


def test_a_reset_frees_an_unsent_answer() -> None:
    talk = Talk(Limits(unsent_answer_bytes=20), client_settings=build([(4, 0)]))
    held(talk, 1, 3, 5)
    talk.answer(1, Answer(b"0123456789"))
    talk.answer(3, Answer(b"0123456789"))
    refused = without_windows(talk.to_client())
    assert [frame.stream_id for frame in refused if frame.ends] == [3]
    assert talk.fields(refused[0])
    talk.client(pack_rst(1, Error.CANCEL))
    talk.answer(5, Answer(b"0123456789"))
    talk.client(pack_window_update(5, 100))
    assert body(talk.to_client()) == frame_message(b"0123456789")


def test_long_texts_are_cut_to_what_clients_take() -> None:
    talk = Talk()
    held(talk, 1)
    talk.answer(1, Answer(None, 13, "x" * 100_000))
    assert len(talk.fields(talk.to_client()[0])[b"grpc-message"]) == 2_048
