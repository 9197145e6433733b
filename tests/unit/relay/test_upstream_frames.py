"""Upstream's frames: what reaches the client, what is swallowed."""

import struct

import hpack
import pytest

from greenroom.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Error,
    pack,
    pack_goaway,
    pack_rst,
    pack_window_update,
)
from greenroom.http2.settings import build
from greenroom.relay.calls import Answer
from greenroom.relay.limits import Limits
from tests.support.h2_peers import FORWARD, STREAM, UNARY, Frame, Talk, data, frames_in, raw_data


def test_an_answer_reaches_the_client_byte_for_byte() -> None:
    talk = Talk()
    talk.call(1, FORWARD, b"x")
    answer = talk.response(1)
    talk.upstream(answer)
    assert b"".join(talk.core.to_client) == answer


def test_an_answer_cut_anywhere_ends_its_call_once_and_spends_the_window() -> None:
    """Most come in one piece, and are dealt with in one go: the outcome must not depend on it."""
    cut, length = 0, 1
    while cut < length:
        cut += 1
        talk = Talk()
        talk.call(1, UNARY, b"plain")
        talk.upstream(talk.response(1))  # later blocks need nothing put before them
        talk.to_client()
        talk.call(3, UNARY, b"plain")
        answer = pack_window_update(0, 5) + pack(PING, 0, 0, bytes(8)) + talk.response(3, b"body")
        before, length = talk.core._dialogue.down.left, len(answer)
        talk.upstream(answer[:cut])
        talk.upstream(answer[cut:])
        assert b"".join(talk.core.to_client) == answer
        assert talk.core.open_streams == 0
        assert talk.core._dialogue.answered == 2
        assert talk.core._dialogue.down.left == before - 9


def test_an_answer_beyond_the_clients_window_waits_for_it() -> None:
    talk = Talk()
    talk.call(1, UNARY, b"plain")
    talk.upstream(talk.response(1))
    talk.to_client()
    talk.call(3, UNARY, b"plain")
    talk.core._dialogue.down.left = 4
    talk.upstream(talk.response(3, b"body"))
    assert [frame.kind for frame in talk.to_client()] == [HEADERS, DATA]
    talk.client(pack_window_update(0, 100))
    assert [frame.kind for frame in talk.to_client()] == [DATA, HEADERS]
    assert talk.core.open_streams == 0


def test_frames_of_another_stream_between_those_of_an_answer_pass_in_order() -> None:
    talk = Talk()
    for stream_id in (1, 3, 5):
        talk.call(stream_id, UNARY, b"plain")
    talk.upstream(talk.response(1))
    talk.to_client()
    three, five = frames_of(talk.response(3, b"three")), frames_of(talk.response(5, b"five"))
    mixed = b"".join(part for pair in zip(three, five, strict=True) for part in pair)
    talk.upstream(mixed)
    assert b"".join(talk.core.to_client) == mixed
    assert talk.core.open_streams == 0


def frames_of(wire: bytes) -> list[bytes]:
    return [pack(frame.kind, frame.flags, frame.stream_id, frame.payload) for frame in frames_in(wire)]


def test_the_first_frame_to_the_client_is_upstreams_settings() -> None:
    """The client sends what is refused before upstream said anything."""
    talk = Talk(greeted=False)
    talk.client(PREFACE, pack(SETTINGS, 0, 0), talk.head(1, b"/unknown", flags=END_STREAM))
    assert talk.to_client() == []
    talk.upstream(pack(SETTINGS, 0, 0, build([(3, 100)])))
    assert [frame.kind for frame in talk.to_client()] == [SETTINGS, HEADERS]


def test_the_relay_says_settings_itself_before_a_goaway() -> None:
    talk = Talk(greeted=False)
    talk.client(b"GET / HTTP/1.1\r\n\r\n")
    assert [frame.kind for frame in talk.to_client()] == [SETTINGS, GOAWAY]


def test_upstream_has_to_begin_with_settings() -> None:
    talk = Talk(greeted=False)
    talk.client(PREFACE, pack(SETTINGS, 0, 0))
    talk.upstream(pack(PING, 0, 0, bytes(8)))
    assert talk.closed() is not None


def test_the_first_block_begins_with_a_table_size_update() -> None:
    """A client that asked for a small table may insist on it; upstream says it in its own first block only."""
    talk = Talk()
    talk.call(1, FORWARD, b"x")
    talk.upstream(pack(HEADERS, END_HEADERS | END_STREAM, 1, b"\x88"))
    assert talk.to_client() == [Frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x20\x88")]
    talk.call(3, FORWARD, b"x")
    talk.upstream(pack(HEADERS, END_HEADERS, 3, b"\x88"))
    assert talk.to_client() == [Frame(HEADERS, END_HEADERS, 3, b"\x88")]


def test_an_injected_first_block_begins_with_a_table_size_update_too() -> None:
    talk = Talk()
    talk.client(talk.head(1, b"/unknown", flags=END_STREAM), talk.head(3, b"/unknown", flags=END_STREAM))
    blocks = [frame.payload for frame in talk.to_client()]
    assert blocks[0][:1] == b"\x20"
    assert blocks[1][:1] == b"\x88"


@pytest.mark.parametrize("update", [b"\x20", b""])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_long_block_goes_on_whole_and_nothing_is_written_inside(update: bytes, *, is_first: bool) -> None:
    talk = Talk()
    talk.call(1, FORWARD, b"x")
    block = b"\x88" + hpack.Encoder().encode([(b"a", b"b" * 30_000)], huffman=False)
    cuts = (update + block)[:10], (update + block)[10:15_000], (update + block)[15_000:]
    talk.upstream(pack(HEADERS, END_STREAM, 1, cuts[0]), pack(CONTINUATION, 0, 1, cuts[1]))
    if not is_first:
        talk.client(talk.head(3, b"/unknown", flags=END_STREAM))
        assert [frame.stream_id for frame in talk.to_client()] == [3]
    talk.upstream(pack(CONTINUATION, END_HEADERS, 1, cuts[2]))
    found = talk.to_client()
    assert b"".join(frame.payload for frame in found) == (b"\x20" if is_first else update) + block
    assert [frame.kind for frame in found] == [HEADERS] + [CONTINUATION] * (len(found) - 1)
    assert found[0].ends


def test_what_upstream_still_says_of_a_handed_over_call_is_swallowed() -> None:
    talk = Talk()
    talk.call(1, UNARY, b"hold")
    talk.upstream(
        pack(HEADERS, END_HEADERS, 1, b"\x20\x88"),
        data(1, b"x", end=False),
        pack_window_update(1, 9),
        pack_rst(1, Error.NO_ERROR),
    )
    assert [frame.kind for frame in talk.to_client()] == [WINDOW_UPDATE], "only the swallowed DATA's credit"
    assert talk.to_upstream() == [Frame(WINDOW_UPDATE, 0, 0, struct.pack(">L", 6))]
    talk.answer(1, Answer(b"ours"))
    assert b"ours" in talk.to_client()[1].payload


def test_swallowed_data_of_upstream_takes_from_the_debit_first() -> None:
    talk = Talk()
    talk.call(1, UNARY, b"hold")
    talk.answer(1, Answer(b"12345"))  # ten bytes with the prefix
    talk.call(3, UNARY, b"hold")
    talk.to_client()
    talk.upstream(data(3, b"x" * 25, end=False))
    assert talk.to_upstream() == [Frame(WINDOW_UPDATE, 0, 0, struct.pack(">L", 20))]


def test_upstream_hears_of_the_clients_window_only_beyond_the_debit() -> None:
    talk = Talk()
    talk.call(1, UNARY, b"hold")
    talk.answer(1, Answer(b"12345"))
    talk.client(pack_window_update(0, 4))
    assert talk.to_upstream() == []
    talk.client(pack_window_update(0, 9))
    assert talk.to_upstream() == [Frame(WINDOW_UPDATE, 0, 0, struct.pack(">L", 3))]
    talk.client(pack_window_update(0, 7))
    assert talk.to_upstream() == [Frame(WINDOW_UPDATE, 0, 0, struct.pack(">L", 7))]


def filled_up(talk: Talk) -> None:
    """An answer here takes all but 100 bytes of the client's connection window; upstream believes in all of it."""
    talk.client(talk.head(1, UNARY), pack_window_update(1, 10**6), data(1, b"hold"))
    talk.answer(1, Answer(bytes(65_535 - 105)))
    talk.call(3, FORWARD, b"x", end=False)
    talk.to_upstream()
    talk.to_client()


def test_data_beyond_the_clients_window_is_split_and_all_in_order_behind_it_waits() -> None:
    talk = Talk()
    filled_up(talk)
    talk.client(pack(SETTINGS, 0, 0))
    talk.upstream(
        raw_data(3, bytes(150)),
        pack(PING, 0, 0, bytes(8)),
        pack(SETTINGS, ACK, 0),
        pack(HEADERS, END_HEADERS | END_STREAM, 3, b"\x88"),
        pack_window_update(0, 5),
    )
    first = talk.to_client()
    assert [(frame.kind, len(frame.payload)) for frame in first] == [(DATA, 100), (PING, 8), (WINDOW_UPDATE, 4)]
    talk.client(pack_window_update(0, 65_535))
    later = talk.to_client()
    assert [(frame.kind, len(frame.payload)) for frame in later] == [(DATA, 50), (SETTINGS, 0), (HEADERS, 1)]


def test_an_empty_end_does_not_overtake_data_that_waits() -> None:
    talk = Talk()
    filled_up(talk)
    talk.upstream(raw_data(3, bytes(150)), raw_data(3, b"", end=True))
    assert not any(frame.ends for frame in talk.to_client())
    talk.client(pack_window_update(0, 65_535))
    assert [(len(frame.payload), frame.ends) for frame in talk.to_client()] == [(50, False), (0, True)]


def test_waiting_frames_go_before_injected_ones() -> None:
    talk = Talk()
    filled_up(talk)
    talk.upstream(raw_data(3, bytes(150)))
    talk.to_client()
    talk.call(5, UNARY, b"hold")
    talk.answer(5, Answer(b"ours"))
    talk.client(talk.head(7, b"/unknown", flags=END_STREAM))
    assert [frame.kind for frame in talk.to_client()] == [WINDOW_UPDATE]
    talk.client(pack_window_update(0, 1_000))
    assert [frame.stream_id for frame in talk.to_client()] == [3, 5, 5, 5, 7]


def test_padding_of_data_that_waits_is_credited_to_upstream() -> None:
    talk = Talk()
    filled_up(talk)
    talk.upstream(raw_data(3, bytes(101), padding=49))
    assert [(frame.kind, len(frame.payload)) for frame in talk.to_client()] == [(DATA, 100)]
    assert talk.to_upstream() == [Frame(WINDOW_UPDATE, 0, 3, struct.pack(">L", 50))], (
        "the connection's pays off the debit"
    )


def test_waiting_bytes_are_bounded() -> None:
    talk = Talk(Limits(waiting_bytes=100))
    filled_up(talk)
    talk.upstream(raw_data(3, bytes(200)))
    assert talk.closed() is None
    talk.upstream(raw_data(3, bytes(1)))
    assert talk.closed() is not None


def test_after_upstreams_end_the_clients_messages_are_swallowed_but_its_end_goes_up() -> None:
    talk = Talk()
    talk.call(1, UNARY, b"", end=False)
    talk.client(talk.head(3, UNARY), talk.head(5, STREAM), data(5, b"x", end=False))
    talk.upstream(*[pack(HEADERS, END_HEADERS | END_STREAM, stream_id, b"\x88") for stream_id in (1, 3, 5)])
    talk.to_upstream()
    talk.client(*[data(stream_id, b"late") for stream_id in (1, 3, 5)])
    assert talk.to_upstream() == [Frame(DATA, END_STREAM, stream_id, b"") for stream_id in (1, 3, 5)]
    assert talk.core.open_streams == 0


def test_half_close_of_a_stream_leaves_upstreams_half_open() -> None:
    talk = Talk()
    talk.call(1, STREAM, b"create", end=True)
    talk.upstream(pack(HEADERS, END_HEADERS, 1, b"\x20\x88"), data(1, b"event", end=False))
    assert [frame.kind for frame in talk.to_client()] == [HEADERS, DATA]
    assert talk.core.open_streams == 1
    talk.client(pack_rst(1, Error.CANCEL))
    assert [frame.kind for frame in talk.to_upstream()] == [RST_STREAM]


def test_upstreams_reset_reaches_the_client_and_frees_the_stream() -> None:
    talk = Talk()
    talk.call(1, FORWARD, b"x", end=False)
    talk.upstream(pack_rst(1, Error.NO_ERROR))
    assert [frame.kind for frame in talk.to_client()] == [RST_STREAM]
    assert talk.core.open_streams == 0


def goaway(frame: Frame) -> tuple[int, int]:
    last_id, code = struct.unpack_from(">LL", frame.payload)
    return last_id, code


def test_a_goaway_covers_what_ran_here_and_refuses_forwarded_calls_below_it() -> None:
    """The client would retry calls above the last id: the handed-over one ran already."""
    talk = Talk()
    for stream_id, path, message in ((1, FORWARD, b"x"), (3, FORWARD, b"x"), (5, UNARY, b"hold"), (7, FORWARD, b"x")):
        talk.call(stream_id, path, message)
    talk.to_client()
    talk.upstream(pack_goaway(1, 0, b"why"))
    first, second = talk.to_client()
    assert goaway(first) == (5, 0)
    assert first.payload[8:] == b"why"
    assert second == Frame(RST_STREAM, 0, 3, struct.pack(">L", Error.REFUSED_STREAM))
    talk.answer(5, Answer(b"done"))
    assert {frame.stream_id for frame in talk.to_client()} == {5}


def test_after_a_goaway_nothing_is_handed_over() -> None:
    talk = Talk()
    talk.upstream(pack_goaway(2**31 - 1, 0))
    assert goaway(talk.to_client()[0]) == (2**31 - 1, 0)
    talk.call(1, UNARY, b"hold")
    assert talk.calls() == []
    assert Frame(RST_STREAM, 0, 1, struct.pack(">L", Error.REFUSED_STREAM)) in talk.to_client()
    assert talk.notes.handed_over == []


def test_a_goodbye_in_two_steps_reaches_the_client_and_its_answer_goes_back() -> None:
    """gRPC in Go names the last call only after an answered PING has shown that the first GOAWAY came through."""
    talk = Talk()
    talk.call(1, FORWARD, b"x")
    talk.call(3, UNARY, b"hold")
    talk.to_client()
    talk.upstream(pack_goaway(2**31 - 1, 0, b"graceful_stop"), pack(PING, 0, 0, b"drained?"))
    first, ping = talk.to_client()
    assert goaway(first) == (2**31 - 1, 0)
    assert ping == Frame(PING, 0, 0, b"drained?")
    talk.client(pack(PING, ACK, 0, b"drained?"))
    assert talk.to_upstream() == [Frame(PING, ACK, 0, b"drained?")]
    talk.upstream(pack_goaway(1, 0))
    assert goaway(talk.to_client()[0]) == (3, 0), "the call that runs here is not to be made again"


def test_calls_above_the_last_id_take_no_effect() -> None:
    talk = Talk()
    talk.call(1, FORWARD, b"x")
    talk.upstream(pack_goaway(1, 0))
    talk.to_client()
    talk.client(talk.head(3, FORWARD), data(3, b"x"), talk.head(5, UNARY), data(5, b"hold"))
    assert [(frame.kind, frame.stream_id) for frame in talk.to_upstream()] == [
        (HEADERS, 3),
        (RST_STREAM, 3),
        (HEADERS, 5),
        (RST_STREAM, 5),
    ]
    assert [frame.kind for frame in talk.to_client()] == [WINDOW_UPDATE]
    assert talk.calls() == []


def test_a_larger_header_table_is_offered_within_bounds_and_understood() -> None:
    talk = Talk(upstream_settings=build([(1, 2**20)]))
    talk.encoder.header_table_size = 65_536
    talk.call(1, FORWARD, b"x")
    assert talk.closed() is None
    assert talk.notes.relayed == [FORWARD]


def test_larger_frames_pass_when_the_receiver_takes_them() -> None:
    talk = Talk(client_settings=build([(5, 30_000)]), upstream_settings=build([(5, 20_000)]))
    talk.call(1, FORWARD, b"x", end=False)
    talk.client(raw_data(1, bytes(20_000)))
    talk.upstream(raw_data(1, bytes(30_000)))
    assert talk.closed() is None
    talk.client(raw_data(1, bytes(20_001)))
    assert talk.closed() is not None


@pytest.mark.parametrize("frame", [pack(PUSH_PROMISE, END_HEADERS, 1, bytes(4)), pack(CONTINUATION, END_HEADERS, 1)])
def test_what_upstream_may_not_send_ends_the_connection(frame: bytes) -> None:
    talk = Talk()
    talk.call(1, FORWARD, b"x")
    talk.upstream(frame)
    assert talk.closed() is not None


def test_unknown_frames_end_at_the_relay() -> None:
    talk = Talk()
    talk.upstream(pack(77, 0, 0, b"what"))
    assert talk.to_client() == []
