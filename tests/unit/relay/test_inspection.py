"""Messages of inspected calls: nothing that was not decided takes effect upstream."""

import gzip
import struct

import pytest

from greenroom.http2.frames import (
    DATA,
    END_STREAM,
    HEADERS,
    PADDED,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    pack,
    pack_window_update,
)
from greenroom.http2.settings import build
from greenroom.relay.calls import Code
from greenroom.relay.limits import Limits
from greenroom.relay.messages import frame_message
from tests.support.h2_peers import FORWARD, STREAM, UNARY, Frame, Talk, data, frames_in, raw_data


def content(frames: list[Frame]) -> bytes:
    return b"".join(frame.content for frame in frames if frame.kind == DATA)


def pieces(whole: bytes, size: int) -> list[bytes]:
    return [whole[begin : begin + size] for begin in range(0, len(whole), size)]


def window_updates(frames: list[Frame]) -> dict[int, int]:
    found: dict[int, int] = {}
    for frame in frames:
        if frame.kind == WINDOW_UPDATE:
            found[frame.stream_id] = found.get(frame.stream_id, 0) + struct.unpack(">L", frame.payload)[0]
    return found


def test_a_message_that_passes_goes_up_byte_for_byte() -> None:
    talk = Talk()
    wire = talk.head(1, UNARY) + data(1, b"plain")
    talk.client(wire)
    assert talk.raw_to_upstream() == wire
    assert talk.inspector.seen == [(UNARY, b"plain")]
    assert talk.notes.relayed == [UNARY]


def test_a_call_means_the_same_in_one_piece_and_frame_by_frame() -> None:
    """Most calls come whole, and are dealt with in one go: the outcome must not depend on it."""
    for message in (b"plain", b"hold", b"edit me", b"bad", b"crash", b"", b"edit-only"):
        for path in (UNARY, FORWARD):
            whole, apart = Talk(), Talk()
            whole.client(whole.head(1, path) + data(1, message))
            apart.client(apart.head(1, path))
            apart.client(data(1, message))
            assert whole.raw_to_upstream() == apart.raw_to_upstream()
            assert whole.calls() == apart.calls()
            assert whole.to_client() == apart.to_client()
            assert whole.inspector.seen == apart.inspector.seen
            assert vars(whole.notes) == vars(apart.notes)
            assert repr(whole.core) == repr(apart.core)
            assert whole.core._dialogue.up.left == apart.core._dialogue.up.left


def test_a_call_cut_anywhere_is_looked_into_once() -> None:
    cut, length = 0, 2
    while cut < length - 1:
        cut += 1
        talk = Talk()
        wire = talk.head(1, UNARY) + data(1, b"plain")
        length = len(wire)
        talk.client(wire[:cut])
        talk.client(wire[cut:])
        assert talk.raw_to_upstream() == wire
        assert talk.inspector.seen == [(UNARY, b"plain")]
        assert talk.notes.relayed == [UNARY]


def test_a_call_beyond_upstreams_window_waits_for_it() -> None:
    talk = Talk()
    talk.core._dialogue.up.left = 12
    talk.client(talk.head(1, UNARY), data(1, b"plain"), talk.head(3, UNARY), data(3, b"plain"))
    sent = talk.to_upstream()
    assert content(sent) == frame_message(b"plain") + b"\0\0"
    talk.upstream(pack_window_update(0, 100))
    assert content(talk.to_upstream()) == frame_message(b"plain")[2:]


def test_the_frame_that_completes_a_message_waits_for_the_decision() -> None:
    talk = Talk()
    wire = frame_message(b"hold me")
    talk.client(talk.head(1, UNARY), raw_data(1, wire[:-1]))
    assert content(talk.to_upstream()) == wire[:-1]
    talk.client(raw_data(1, wire[-1:], end=True))
    assert talk.to_upstream() == [Frame(RST_STREAM, 0, 1, b"\0\0\0\x08")]
    assert [call.work for call in talk.calls()] == [("work of", b"hold me")]


@pytest.mark.parametrize("size", [1, 2, 5, 6, 7, 100])
@pytest.mark.parametrize("message", [b"hold", b"bad", b"crash", b"edit me", b"edit-only"])
def test_no_cut_lets_the_end_of_a_decided_message_through(message: bytes, size: int) -> None:
    talk = Talk()
    wire = frame_message(message)
    parts = pieces(wire, size)
    talk.client(talk.head(1, UNARY), *[raw_data(1, part) for part in parts[:-1]], raw_data(1, parts[-1], end=True))
    sent = content(talk.to_upstream())
    assert len(sent) < len(wire) or sent == frame_message(message.upper())
    assert talk.inspector.seen == [(UNARY, message)]


def test_padding_around_a_message_is_no_part_of_it() -> None:
    talk = Talk()
    wire = talk.head(1, UNARY) + data(1, b"plain", padding=200)
    talk.client(wire)
    assert talk.raw_to_upstream() == wire
    assert talk.inspector.seen == [(UNARY, b"plain")]


def test_bad_padding_ends_the_connection() -> None:
    talk = Talk()
    talk.client(talk.head(1, UNARY), pack(DATA, PADDED, 1, b"\x09abc"))
    assert talk.closed() is not None


def test_an_edit_changes_the_message_in_place() -> None:
    talk = Talk()
    talk.client(talk.head(1, UNARY), data(1, b"edit me"))
    assert talk.to_upstream()[1:] == [Frame(DATA, END_STREAM, 1, frame_message(b"EDIT ME"))]
    assert window_updates(talk.to_client()) == {}


def test_an_edit_drops_padding_and_gives_its_window_back() -> None:
    talk = Talk()
    talk.client(talk.head(1, UNARY), data(1, b"edit me", end=False, padding=9))
    assert content(talk.to_upstream()) == frame_message(b"EDIT ME")
    assert window_updates(talk.to_client()) == {0: 10, 1: 10}


def test_an_edit_of_bytes_that_have_left_becomes_a_hand_over() -> None:
    talk = Talk()
    wire = frame_message(b"edit me")
    talk.client(talk.head(1, UNARY), raw_data(1, wire[:8]), raw_data(1, wire[8:], end=True))
    assert [call.work for call in talk.calls()] == [("edit of", b"edit me")]


def test_an_edit_that_leaves_the_bytes_gone_as_they_were_goes_on() -> None:
    talk = Talk()
    wire = frame_message(b"edit me")
    talk.client(talk.head(1, UNARY), raw_data(1, wire[:5]), raw_data(1, wire[5:], end=True))
    assert content(talk.to_upstream()) == frame_message(b"EDIT ME")


def test_an_edit_too_late_without_work_is_a_bug_and_ends_that_call_only() -> None:
    talk = Talk()
    wire = frame_message(b"edit-only")
    talk.client(talk.head(1, UNARY), raw_data(1, wire[:8]), raw_data(1, wire[8:], end=True))
    assert talk.fields(talk.to_client()[0])[b"grpc-status"] == b"13"
    assert talk.notes.failures == [(UNARY, "ValueError")]
    assert talk.call(3, UNARY, b"plain")[-1].payload == frame_message(b"plain")


@pytest.mark.parametrize(("message", "error"), [(b"crash", "ZeroDivisionError"), (b"grow", "ValueError")])
def test_a_failing_inspector_ends_that_call_only(message: bytes, error: str) -> None:
    talk = Talk()
    assert [frame.kind for frame in talk.call(1, UNARY, message)] == [HEADERS, RST_STREAM]
    assert talk.fields(talk.to_client()[0])[b"grpc-status"] == b"13"
    assert talk.notes.failures == [(UNARY, error)]
    assert talk.closed() is None


def test_a_refusal_is_answered_with_its_status_and_text() -> None:
    talk = Talk()
    assert [frame.kind for frame in talk.call(1, UNARY, b"bad", end=False)] == [HEADERS, RST_STREAM]
    answer = [frame for frame in talk.to_client() if frame.kind != WINDOW_UPDATE]
    assert [frame.kind for frame in answer] == [HEADERS, RST_STREAM]
    assert answer[0].ends
    assert answer[1].payload == bytes(4), "NO_ERROR: the client need not send the rest"
    fields = talk.fields(answer[0])
    assert (fields[b"grpc-status"], fields[b"grpc-message"]) == (b"3", b"bad message")


def test_what_is_swallowed_gives_the_client_its_windows_back() -> None:
    """On the stream only while the client has not ended it."""
    talk = Talk()
    talk.call(1, UNARY, b"hold", end=False)
    assert window_updates(talk.to_client()) == {0: 9, 1: 9}
    talk.client(raw_data(1, b"x", padding=4))
    assert window_updates(talk.to_client()) == {0: 6, 1: 6}
    talk.client(raw_data(1, b"xyz", end=True))
    assert window_updates(talk.to_client()) == {0: 3}
    talk.call(3, UNARY, b"hold")
    assert window_updates(talk.to_client()) == {0: 9}


@pytest.mark.parametrize(
    ("wire", "code"),
    [
        (b"\x01\x00\x00\x00\x01x", Code.INTERNAL),
        (b"\x02\x00\x00\x00\x01x", Code.INTERNAL),
        (b"\x00\xff\xff\xff\xffx", Code.RESOURCE_EXHAUSTED),
        (frame_message(b"a") + frame_message(b"b"), Code.INTERNAL),
        (frame_message(b"a") + b"\x00", Code.INTERNAL),
    ],
)
@pytest.mark.parametrize("size", [3, 100])
def test_messages_that_cannot_be_taken_are_answered_here(wire: bytes, code: int, size: int) -> None:
    talk = Talk()
    talk.client(talk.head(1, UNARY), *[raw_data(1, part) for part in pieces(wire, size)])
    assert RST_STREAM in [frame.kind for frame in talk.to_upstream()]
    assert talk.notes.refused == [(UNARY, code)]
    assert len(talk.inspector.seen) <= (1 if size == 3 else 0)


def test_a_second_message_after_the_first_is_refused() -> None:
    talk = Talk()
    talk.call(1, UNARY, b"plain", end=False)
    talk.client(data(1, b"hold"))
    assert [frame.kind for frame in talk.to_upstream()] == [RST_STREAM]
    assert talk.notes.refused == [(UNARY, Code.INTERNAL)]
    assert talk.inspector.seen == [(UNARY, b"plain")]


@pytest.mark.parametrize("padding", [None, 7])
def test_an_empty_end_after_the_message_goes_up(padding: int | None) -> None:
    talk = Talk()
    talk.call(1, UNARY, b"plain", end=False)
    end = raw_data(1, b"", end=True, padding=padding)
    talk.client(end)
    assert talk.raw_to_upstream() == end


def test_a_stream_that_ends_without_a_message_is_upstreams_to_judge() -> None:
    talk = Talk()
    wire = talk.head(1, UNARY, flags=END_STREAM) + talk.head(3, UNARY) + raw_data(3, b"\0\0\0", end=True)
    talk.client(wire)
    assert talk.raw_to_upstream() == wire
    assert talk.inspector.seen == []


def test_a_message_above_the_bound_is_refused_at_its_prefix() -> None:
    talk = Talk(Limits(message_bytes=10))
    talk.client(talk.head(1, UNARY), data(1, bytes(11)))
    assert talk.notes.refused == [(UNARY, Code.RESOURCE_EXHAUSTED)]


def test_copies_of_unfinished_messages_are_bounded_and_given_back() -> None:
    talk = Talk(Limits(copied_bytes=20))
    begin = struct.pack(">BL", 0, 100) + b"x" * 10
    talk.client(talk.head(1, UNARY), raw_data(1, begin), talk.head(3, UNARY), raw_data(3, begin))
    assert talk.notes.refused == [(UNARY, Code.RESOURCE_EXHAUSTED)]
    talk.client(pack(RST_STREAM, 0, 1, bytes(4)), talk.head(5, UNARY), raw_data(5, begin))
    assert len(talk.notes.refused) == 1


def test_an_empty_message_is_looked_into_too() -> None:
    talk = Talk()
    talk.call(1, UNARY, b"")
    assert talk.inspector.seen == [(UNARY, b"")]


def test_a_stream_passes_its_messages_byte_for_byte() -> None:
    talk = Talk()
    wire = talk.head(1, STREAM) + raw_data(1, frame_message(b"one") + frame_message(b"two")) + data(1, b"", end=True)
    talk.client(wire)
    assert talk.raw_to_upstream() == wire
    assert [message for _, message in talk.inspector.seen] == [b"one", b"two", b""]


@pytest.mark.parametrize("size", [1, 3, 7, 16, 100])
def test_a_streams_messages_are_edited_one_by_one_whatever_the_cuts(size: int) -> None:
    talk = Talk()
    messages = [b"one", b"grow", b"edit", b"shrink it", b"", b"end"]
    wire = b"".join(map(frame_message, messages))
    talk.client(talk.head(1, STREAM), *[raw_data(1, part, padding=2) for part in pieces(wire, size)])
    expected = [b"one", b"grow+++", b"EDIT", b"shr", b"", b"end"]
    assert content(talk.to_upstream()) == b"".join(map(frame_message, expected))
    assert [message for _, message in talk.inspector.seen] == messages


def test_no_part_of_a_streams_message_goes_up_before_its_decision() -> None:
    talk = Talk()
    wire = frame_message(b"bad one")
    talk.client(talk.head(1, STREAM), raw_data(1, frame_message(b"ok") + wire[:-1]))
    assert content(talk.to_upstream()) == frame_message(b"ok")
    talk.client(raw_data(1, wire[-1:]))
    assert [frame.kind for frame in talk.to_upstream()] == [RST_STREAM]
    assert talk.notes.refused == [(STREAM, 3)]


def test_a_stream_cannot_be_handed_over() -> None:
    talk = Talk()
    talk.call(1, STREAM, b"hold", end=False)
    assert talk.notes.refused == [(STREAM, Code.INTERNAL)]
    assert talk.calls() == []


def test_a_longer_edit_is_paid_off_by_upstreams_next_window() -> None:
    talk = Talk()
    talk.call(1, STREAM, b"grow", end=False)
    assert window_updates(talk.to_client()) == {}
    talk.upstream(pack_window_update(0, 12), pack_window_update(1, 12))
    assert window_updates(talk.to_client()) == {0: 9, 1: 9}


def test_a_shorter_edit_is_credited_at_once() -> None:
    talk = Talk()
    talk.call(1, STREAM, b"shrink it", end=False)
    assert window_updates(talk.to_client()) == {0: 6, 1: 6}


def test_data_beyond_upstreams_real_window_waits_and_then_comes_in_order() -> None:
    talk = Talk(upstream_settings=build([(4, 20)]))
    talk.client(talk.head(1, STREAM), data(1, b"grow", end=False), data(1, b"123456", end=True))
    sent = talk.to_upstream()
    assert content(sent) == (frame_message(b"grow+++") + frame_message(b"123456"))[:20]
    assert not any(frame.ends for frame in sent)
    talk.upstream(pack_window_update(1, 3))
    sent = talk.to_upstream()
    assert content(sent) == frame_message(b"123456")[-3:]
    assert [frame.ends for frame in sent] == [True]


def test_waiting_data_of_a_stream_that_is_reset_does_not_hold_up_the_others() -> None:
    """Here the connection's window is shut, for all streams."""
    talk = Talk()
    talk.client(talk.head(1, FORWARD), *[raw_data(1, bytes(16_000))] * 4, talk.head(3, STREAM))
    talk.client(data(3, b"grow" + bytes(1_519), end=False), talk.head(5, STREAM))
    talk.to_upstream()
    talk.client(data(3, b"x", end=False), talk.head(7, STREAM))
    assert content(talk.to_upstream()) == frame_message(b"x")[:4]
    talk.client(pack(RST_STREAM, 0, 3, bytes(4)))
    assert [(frame.kind, frame.stream_id) for frame in talk.to_upstream()] == [(HEADERS, 7), (RST_STREAM, 3)]


def test_the_beginning_of_a_message_at_the_end_of_a_stream_is_upstreams_to_judge() -> None:
    talk = Talk()
    talk.client(talk.head(1, STREAM), raw_data(1, b"\0\0\0"), raw_data(1, b"\0", end=True))
    sent = talk.to_upstream()[1:]
    assert content(sent) == b"\0\0\0\0"
    assert sent[-1].ends


def test_a_streams_message_above_the_bound_is_refused() -> None:
    talk = Talk(Limits(stream_message_bytes=10))
    talk.client(talk.head(1, STREAM), raw_data(1, struct.pack(">BL", 0, 11)))
    assert talk.notes.refused == [(STREAM, Code.RESOURCE_EXHAUSTED)]


def test_settings_of_upstream_bound_what_a_stream_may_send() -> None:
    talk = Talk(upstream_settings=build([(4, 5)]))
    talk.upstream(pack(SETTINGS, 0, 0, build([(4, 100)])))
    talk.client(talk.head(1, STREAM), data(1, b"grow"))
    assert len(content(talk.to_upstream())) == 5, "the larger window counts only when acknowledged"
    talk.client(pack(SETTINGS, 1, 0))
    assert content(frames_in(talk.raw_to_upstream())) == frame_message(b"grow+++")[5:]


def test_a_streams_shut_window_does_not_hold_up_the_other_streams() -> None:
    """One Watch whose window etcd does not open must not stop the heartbeats beside it."""
    talk = Talk(upstream_settings=build([(4, 20)]))
    talk.client(talk.head(1, STREAM), data(1, b"grow", end=False), data(1, b"123456", end=False))
    talk.to_upstream()
    talk.client(talk.head(3, UNARY), data(3, b"plain"), talk.head(5, STREAM), data(5, b"other"))
    sent = talk.to_upstream()
    assert [(frame.kind, frame.stream_id) for frame in sent] == [(HEADERS, 3), (DATA, 3), (HEADERS, 5), (DATA, 5)]
    talk.client(raw_data(1, b"", end=True))
    assert talk.to_upstream() == [], "within a stream the order is kept"
    talk.upstream(pack_window_update(1, 3))
    assert [(frame.content, frame.ends) for frame in talk.to_upstream()] == [(b"456", False), (b"", True)]


def test_a_streams_waiting_data_is_forgotten_when_it_is_reset() -> None:
    talk = Talk(upstream_settings=build([(4, 20)]))
    talk.client(talk.head(1, STREAM), data(1, b"grow", end=False), data(1, b"123456", end=False))
    talk.to_upstream()
    talk.to_client()
    talk.client(pack(RST_STREAM, 0, 1, bytes(4)))
    assert [frame.kind for frame in talk.to_upstream()] == [RST_STREAM]
    talk.upstream(pack_window_update(1, 100), pack_window_update(0, 100))
    assert talk.to_upstream() == []
    assert window_updates(talk.to_client()) == {0: 100}, "three bytes of it are what the edit added"


GZIP = (b"grpc-encoding", b"gzip")


def compressed(message: bytes) -> bytes:
    return b"\x01" + frame_message(gzip.compress(message))[1:]


def test_a_compressed_message_is_decided_by_what_it_says_and_passes_as_it_came() -> None:
    talk = Talk()
    wire = talk.head(1, UNARY, GZIP) + raw_data(1, compressed(b"plain"), end=True)
    talk.client(wire)
    assert talk.raw_to_upstream() == wire
    assert talk.inspector.seen == [(UNARY, b"plain")]


def test_a_compressed_message_that_is_held_never_goes_up() -> None:
    talk = Talk()
    talk.client(talk.head(1, UNARY, GZIP), raw_data(1, compressed(b"hold me"), end=True))
    assert content(talk.to_upstream()) == b""
    assert [call.work for call in talk.calls()] == [("work of", b"hold me")]
    assert talk.held_bytes == len(b"hold me")


def test_a_compressed_message_that_would_be_edited_is_handed_over() -> None:
    talk = Talk()
    talk.client(talk.head(1, UNARY, GZIP), raw_data(1, compressed(b"edit me"), end=True))
    talk.client(talk.head(3, UNARY, GZIP), raw_data(3, compressed(b"edit-only"), end=True))
    assert content(talk.to_upstream()) == b""
    assert [call.work for call in talk.calls()] == [("edit of", b"edit me")]
    assert talk.notes.failures == [(UNARY, "ValueError")]


@pytest.mark.parametrize("path", [UNARY, STREAM])
def test_a_compressed_message_that_cannot_be_read_is_refused(path: bytes) -> None:
    talk = Talk(Limits(message_bytes=1_000, stream_message_bytes=1_000))
    broken = b"\x01" + frame_message(b"nonsense")[1:]
    for number, wire in enumerate((broken, compressed(bytes(1_001)))):
        stream_id = 2 * number + 1
        talk.client(talk.head(stream_id, path, GZIP), raw_data(stream_id, wire, end=True))
    assert content(talk.to_upstream()) == b""
    assert talk.notes.refused == [(path, Code.INTERNAL), (path, Code.RESOURCE_EXHAUSTED)]
    assert talk.inspector.seen == []


def test_compressed_and_other_messages_of_a_stream_pass_as_they_came_or_as_they_were_edited() -> None:
    talk = Talk()
    wire = compressed(b"one") + frame_message(b"two")
    talk.client(talk.head(1, STREAM, GZIP), raw_data(1, wire), raw_data(1, compressed(b"grow")))
    assert content(talk.to_upstream()) == wire + frame_message(b"grow+++")
