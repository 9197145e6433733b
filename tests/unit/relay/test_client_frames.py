"""A client's frames: what goes up, what is answered, what ends the connection."""

import struct

import pytest

from greenroom.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITIZED,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Error,
    pack,
    pack_rst,
    pack_window_update,
)
from greenroom.http2.settings import build
from greenroom.relay.calls import Answer, Code
from greenroom.relay.limits import Limits
from tests.support.h2_peers import FORWARD, STREAM, UNARY, UNKNOWN_PATH, Frame, Talk, data, frames_in, raw_data


def goaway_code(talk: Talk) -> int:
    """The error code that ended the connection."""
    last = talk.to_client()[-1]
    assert last.kind == GOAWAY
    assert talk.closed() is not None
    code: int = struct.unpack(">L", last.payload[4:8])[0]
    return code


def test_a_message_after_the_end_of_its_call_is_a_fault_in_one_piece_too() -> None:
    for kind in (UNARY, FORWARD):
        talk = Talk()
        talk.client(talk.head(1, kind, flags=END_STREAM) + data(1, b"plain"))
        assert talk.closed() == "DATA after the end of its stream"
        assert talk.inspector.seen == []


def test_a_forwarded_call_goes_up_byte_for_byte() -> None:
    talk = Talk()
    wire = talk.head(1, FORWARD) + data(1, b"x", end=False, padding=3) + data(1, b"y")
    talk.client(wire)
    assert talk.raw_to_upstream() == wire
    assert talk.notes.relayed == [FORWARD]


@pytest.mark.parametrize("path", [UNKNOWN_PATH, b"//test/Unary", b"test/Unary", b"/test/Unary?x", b"/test/unary", b"*"])
def test_an_unknown_method_is_answered_here_but_its_head_goes_up(path: bytes) -> None:
    """The head has to: upstream's decoder would be out of step with the client's encoder otherwise."""
    talk = Talk()
    head = talk.head(1, path)
    talk.client(head, data(1, b"x"))
    assert talk.raw_to_upstream() == head + pack_rst(1, Error.CANCEL)
    answer = talk.to_client()
    fields = talk.fields(answer[0])
    assert (fields[b"grpc-status"], fields[b"grpc-message"]) == (b"12", f"nobody knows {path.decode()!r}".encode())
    assert answer[0].ends
    assert talk.notes.refused == [(b"", Code.UNIMPLEMENTED)]


def test_a_head_with_two_paths_is_refused() -> None:
    talk = Talk()
    talk.client(talk.head(1, FORWARD, (b":path", UNARY), flags=END_STREAM))
    assert talk.fields(talk.to_client()[0])[b"grpc-status"] == b"12"


def test_the_table_stays_in_step_across_refused_and_handed_over_calls() -> None:
    """The second call's path is an index that only the first, refused one has put into the table."""
    talk = Talk()
    talk.call(1, UNKNOWN_PATH, b"x")
    talk.call(3, UNARY, b"hold")
    talk.call(5, UNKNOWN_PATH, b"x")
    assert talk.notes.refused == [(b"", 12), (b"", 12)]
    assert talk.notes.handed_over == [UNARY]


def test_a_block_in_pieces_goes_up_in_one_run_when_it_is_whole() -> None:
    talk = Talk()
    block = talk.block(FORWARD, (b"token", b"t" * 100))
    first = pack(HEADERS, PADDED | PRIORITIZED, 1, b"\x02" + bytes(5) + block[:10] + bytes(2))
    middle, last = pack(CONTINUATION, 0, 1, block[10:20]), pack(CONTINUATION, END_HEADERS, 1, block[20:])
    talk.client(first, middle)
    assert talk.raw_to_upstream() == b""
    talk.upstream(pack(PING, 0, 0, b"12345678"))
    talk.client(last)
    assert talk.raw_to_upstream() == first + middle + last
    assert talk.notes.relayed == [FORWARD]


@pytest.mark.parametrize("kind", [DATA, HEADERS, PING, SETTINGS, WINDOW_UPDATE, 77])
def test_a_frame_inside_a_block_ends_the_connection(kind: int) -> None:
    talk = Talk()
    talk.client(pack(HEADERS, 0, 1, talk.block(FORWARD)), pack(kind, 0, 0, bytes(8)))
    assert goaway_code(talk) == Error.PROTOCOL_ERROR
    assert talk.raw_to_upstream() == b""


def test_a_continuation_of_another_stream_ends_the_connection() -> None:
    talk = Talk()
    talk.client(pack(HEADERS, 0, 1, talk.block(FORWARD)), pack(CONTINUATION, END_HEADERS, 3))
    assert goaway_code(talk) == Error.PROTOCOL_ERROR


def test_a_flood_of_continuations_is_bounded_in_frames_and_bytes() -> None:
    talk = Talk()
    talk.client(pack(HEADERS, 0, 1), *[pack(CONTINUATION, 0, 1)] * 64)
    assert goaway_code(talk) == Error.ENHANCE_YOUR_CALM
    talk = Talk()
    talk.client(pack(HEADERS, 0, 1), *[pack(CONTINUATION, 0, 1, bytes(16_000))] * 5)
    assert goaway_code(talk) == Error.ENHANCE_YOUR_CALM


def test_a_block_that_cannot_be_decoded_ends_the_connection() -> None:
    talk = Talk()
    talk.client(pack(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff"))
    assert goaway_code(talk) == Error.COMPRESSION_ERROR


@pytest.mark.parametrize("stream_id", [0, 2, 1, 3])
def test_a_reused_or_even_stream_id_ends_the_connection(stream_id: int) -> None:
    """The head of a used id would be trailers; etcd ends the connection for them as well."""
    talk = Talk()
    talk.call(3, FORWARD, b"x", end=False)
    talk.client(talk.head(stream_id, FORWARD, flags=END_STREAM))
    assert goaway_code(talk) == Error.PROTOCOL_ERROR


@pytest.mark.parametrize(
    "frame",
    [
        pack(DATA, 0, 5, b"x"),
        pack(DATA, 0, 0, b"x"),
        pack_rst(5, Error.CANCEL),
        pack_window_update(5, 1),
        pack_window_update(0, 0),
        pack(PUSH_PROMISE, END_HEADERS, 1, bytes(4)),
        pack(CONTINUATION, END_HEADERS, 1),
        pack(PING, 0, 1, bytes(8)),
        pack(SETTINGS, 0, 1),
        pack(GOAWAY, 0, 1, bytes(8)),
    ],
)
def test_a_frame_that_has_no_place_ends_the_connection(frame: bytes) -> None:
    talk = Talk()
    talk.call(1, FORWARD, b"x", end=False)
    talk.client(frame)
    assert goaway_code(talk) == Error.PROTOCOL_ERROR
    assert talk.raw_to_upstream() == b""


@pytest.mark.parametrize(
    "frame", [pack(PING, 0, 0, bytes(7)), pack(RST_STREAM, 0, 1, bytes(3)), pack(WINDOW_UPDATE, 0, 0, bytes(5))]
)
def test_a_frame_of_a_wrong_length_ends_the_connection(frame: bytes) -> None:
    talk = Talk()
    talk.call(1, FORWARD, b"x", end=False)
    talk.client(frame)
    assert goaway_code(talk) == Error.FRAME_SIZE_ERROR


def test_data_after_the_end_of_its_stream_ends_the_connection() -> None:
    talk = Talk()
    talk.call(1, FORWARD, b"x")
    talk.client(data(1, b"y"))
    assert goaway_code(talk) == Error.STREAM_CLOSED


def test_the_first_frame_has_to_be_settings() -> None:
    talk = Talk(greeted=False)
    talk.client(PREFACE, talk.head(1, FORWARD))
    assert goaway_code(talk) == Error.PROTOCOL_ERROR


def test_upstream_sees_no_header_table_and_one_frame_for_each() -> None:
    talk = Talk(greeted=False)
    talk.client(PREFACE, pack(SETTINGS, 0, 0, build([(1, 4096), (4, 70_000)])), pack(SETTINGS, 0, 0))
    sent = talk.raw_to_upstream()
    assert sent.startswith(PREFACE)
    assert frames_in(sent[len(PREFACE) :]) == [
        Frame(SETTINGS, 0, 0, build([(1, 0), (4, 70_000)])),
        Frame(SETTINGS, 0, 0, build([(1, 0)])),
    ]


def test_priority_and_unknown_frames_end_at_the_relay() -> None:
    talk = Talk()
    talk.client(pack(PRIORITY, 0, 5, bytes(5)), pack(77, 255, 9, b"what"), pack(PING, 0, 0, b"12345678"))
    assert [frame.kind for frame in talk.to_upstream()] == [PING]


def test_the_clients_reset_goes_up_and_nothing_of_the_stream_after_it() -> None:
    talk = Talk()
    talk.call(1, FORWARD, b"x", end=False)
    talk.client(pack_rst(1, Error.CANCEL), raw_data(1, b"late"), pack_window_update(1, 5), pack_rst(1, Error.CANCEL))
    assert talk.to_upstream() == [Frame(RST_STREAM, 0, 1, b"\0\0\0\x08")]
    assert talk.to_client() == [Frame(WINDOW_UPDATE, 0, 0, struct.pack(">L", 4))]


def test_rapid_reset_is_bounded_by_what_was_answered() -> None:
    limits = Limits(spare_resets=3, resets_per_answered_call=2)
    talk = Talk(limits)
    talk.call(1, FORWARD, b"x")
    talk.upstream(talk.response(1))
    for stream_id in range(3, 13, 2):
        talk.client(talk.head(stream_id, FORWARD), pack_rst(stream_id, Error.CANCEL))
    assert talk.closed() is None
    talk.client(talk.head(13, FORWARD), pack_rst(13, Error.CANCEL))
    assert goaway_code(talk) == Error.ENHANCE_YOUR_CALM


@pytest.mark.parametrize("frame", [pack(PING, 0, 0, bytes(8)), pack(PING, ACK, 0, bytes(8)), pack(PRIORITY, 0, 1)])
def test_floods_of_control_frames_are_bounded(frame: bytes) -> None:
    talk = Talk(Limits(control_frames_per_second=10))
    talk.client(frame * 8)
    assert talk.closed() is None
    talk.client(frame * 3)
    assert goaway_code(talk) == Error.ENHANCE_YOUR_CALM


def test_a_flood_of_settings_is_bounded() -> None:
    talk = Talk(Limits(unacknowledged_settings=5))
    talk.client(pack(SETTINGS, 0, 0) * 6)
    assert goaway_code(talk) == Error.ENHANCE_YOUR_CALM


def test_a_flood_of_empty_data_is_bounded_but_an_empty_end_is_not_one() -> None:
    talk = Talk(Limits(empty_data_frames_per_second=3))
    for stream_id in range(1, 21, 2):
        talk.client(talk.head(stream_id, FORWARD), raw_data(stream_id, b"", end=True))
    assert talk.closed() is None
    talk.client(talk.head(21, FORWARD), raw_data(21, b"") * 4)
    assert goaway_code(talk) == Error.ENHANCE_YOUR_CALM


def test_calls_without_a_message_are_bounded_and_make_room_when_they_go() -> None:
    talk = Talk(Limits(undecided_streams=2))
    talk.client(*[talk.head(stream_id, UNARY) for stream_id in (1, 3, 5)])
    assert talk.notes.refused == [(UNARY, Code.RESOURCE_EXHAUSTED)]
    talk.client(data(1, b"x"), pack_rst(3, Error.CANCEL), talk.head(7, UNARY), talk.head(9, UNARY))
    assert len(talk.notes.refused) == 1


def test_open_streams_are_bounded() -> None:
    talk = Talk(Limits(streams=2))
    talk.client(*[talk.head(stream_id, FORWARD) for stream_id in (1, 3, 5)])
    assert talk.notes.refused == [(FORWARD, Code.RESOURCE_EXHAUSTED)]


def test_calls_compressed_as_nobody_reads_them_are_refused_where_messages_are_looked_into() -> None:
    talk = Talk()
    talk.client(*[talk.head(i, path, (b"grpc-encoding", b"snappy")) for i, path in ((1, UNARY), (3, STREAM))])
    assert talk.notes.refused == [(UNARY, Code.UNIMPLEMENTED), (STREAM, Code.UNIMPLEMENTED)]
    talk.client(talk.head(5, FORWARD, (b"grpc-encoding", b"snappy")))
    talk.client(talk.head(7, STREAM, (b"grpc-encoding", b"gzip")))
    assert talk.notes.relayed == [FORWARD, STREAM]


def test_windows_that_overflow_end_the_connection() -> None:
    talk = Talk()
    talk.client(pack_window_update(0, 2**31 - 1))
    assert goaway_code(talk) == Error.FLOW_CONTROL_ERROR
    talk = Talk()
    talk.client(talk.head(1, UNARY), pack_window_update(1, 2**31 - 1))
    assert goaway_code(talk) == Error.FLOW_CONTROL_ERROR


def test_pings_after_a_hand_over_are_answered_here_unless_upstream_spoke() -> None:
    talk = Talk()
    talk.call(1, UNARY, b"hold")
    ping = pack(PING, 0, 0, b"12345678")
    talk.client(ping)
    assert [frame.kind for frame in talk.to_upstream()] == [PING]
    talk.to_client()
    talk.client(ping)
    assert talk.to_upstream() == []
    assert talk.to_client() == [Frame(PING, ACK, 0, b"12345678")]
    talk.call(3, FORWARD, b"x")
    talk.upstream(talk.response(3))
    talk.client(ping)
    assert [frame.kind for frame in talk.to_upstream()] == [PING]


def test_the_clients_reset_cancels_the_handler_and_does_not_go_up() -> None:
    talk = Talk()
    talk.call(1, UNARY, b"hold")
    talk.effects()
    talk.client(pack_rst(1, Error.CANCEL))
    assert talk.to_upstream() == []
    assert [repr(effect) for effect in talk.effects()] == ["CancelHandler(stream_id=1)"]
    talk.answer(1, Answer(b"late"))
    assert all(frame.kind == WINDOW_UPDATE for frame in talk.to_client())


@pytest.mark.parametrize("path", [STREAM, FORWARD])
def test_streams_that_were_answered_may_be_reset_as_often_as_the_client_likes(path: bytes) -> None:
    """A reset is how gRPC clients end a Watch or a LeaseKeepAlive."""
    talk = Talk()
    for stream_id in range(1, 501, 2):
        talk.call(stream_id, path, b"create", end=False)
        talk.upstream(pack(HEADERS, END_HEADERS, stream_id, b"\x20\x88"), data(stream_id, b"created", end=False))
        talk.client(pack_rst(stream_id, Error.CANCEL))
    assert talk.closed() is None
    assert talk.core.open_streams == 0


def test_streams_reset_before_any_answer_end_the_connection() -> None:
    talk = Talk()
    for stream_id in range(1, 501, 2):
        talk.client(talk.head(stream_id, STREAM), pack_rst(stream_id, Error.CANCEL))
    assert goaway_code(talk) == Error.ENHANCE_YOUR_CALM


def shut(talk: Talk) -> None:
    """Upstream believes in no window of the connection any more, and one more message waits for it."""
    talk.client(talk.head(1, STREAM), data(1, b"grow", end=False))
    talk.client(talk.head(3, FORWARD), *[raw_data(3, bytes(16_000))] * 4, raw_data(3, bytes(65_535 - 64_000 - 9)))
    talk.to_upstream()


def test_a_streams_window_update_does_not_overtake_its_own_head() -> None:
    """Upstream would take it for a frame on an idle stream, and end the connection."""
    talk = Talk()
    shut(talk)
    talk.client(talk.head(5, FORWARD), pack_window_update(5, 100), pack_window_update(3, 100))
    assert [(frame.kind, frame.stream_id) for frame in talk.to_upstream()] == [(WINDOW_UPDATE, 3)]
    talk.upstream(pack_window_update(0, 1_000))
    later = [(frame.kind, frame.stream_id) for frame in talk.to_upstream()]
    assert later == [(DATA, 3), (HEADERS, 5), (WINDOW_UPDATE, 5)]
    talk.client(pack_window_update(5, 100))
    assert [frame.kind for frame in talk.to_upstream()] == [WINDOW_UPDATE]


@pytest.mark.parametrize("frame", [pack(DATA, 0, 1), pack(DATA, END_STREAM, 1), pack_rst(1, Error.CANCEL)])
def test_a_flood_of_frames_on_a_stream_that_is_over_is_bounded(frame: bytes) -> None:
    talk = Talk(Limits(empty_data_frames_per_second=3, control_frames_per_second=3))
    talk.client(talk.head(1, FORWARD), pack_rst(1, Error.CANCEL))
    talk.now = 5.0
    talk.client(frame * 3)
    assert talk.closed() is None
    talk.client(frame)
    assert goaway_code(talk) == Error.ENHANCE_YOUR_CALM


@pytest.mark.parametrize("stream_id", [0, 1, 3])
def test_a_flood_of_window_updates_is_bounded(stream_id: int) -> None:
    talk = Talk(Limits(window_updates_per_second=10))
    talk.call(1, FORWARD, b"x", end=False)
    talk.client(talk.head(3, FORWARD), pack_rst(3, Error.CANCEL))
    talk.client(pack_window_update(stream_id, 1) * 10)
    assert talk.closed() is None
    talk.client(pack_window_update(stream_id, 1))
    assert goaway_code(talk) == Error.ENHANCE_YOUR_CALM
