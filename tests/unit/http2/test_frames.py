"""Frames and the reader that cuts them out of a byte stream."""

import hyperframe.frame
import pytest

from greenroom.http2 import frames
from greenroom.http2.frames import Error, Fault, FrameReader
from tests.support.h2_peers import frames_in


def collected() -> tuple[FrameReader, list[bytes], list[tuple[int, int, int, bytes]]]:
    """A reader that cuts out every PING and notes each frame."""
    out: list[bytes] = []
    seen: list[tuple[int, int, int, bytes]] = []
    reader = FrameReader(out, ())

    def take(kind: int, flags: int, stream_id: int, begin: int, end: int) -> None:
        seen.append((kind, flags, stream_id, reader.data[begin + 9 : end]))
        if kind == frames.PING:
            reader.cut(begin, end)

    def handler(kind: int) -> frames.Take:
        return lambda _, flags, stream_id, begin, end: take(kind, flags, stream_id, begin, end)

    reader.handlers = tuple(handler(kind) for kind in range(256))
    return reader, out, seen


def test_frames_survive_any_cut_of_the_byte_stream() -> None:
    wire = frames.pack(0, 1, 3, b"abc") + frames.pack(6, 0, 0, b"12345678") + frames.pack(77, 2, 5, b"")
    for step in range(1, len(wire) + 1):
        reader, out, seen = collected()
        for begin in range(0, len(wire), step):
            reader.feed(wire[begin : begin + step])
        assert seen == [(0, 1, 3, b"abc"), (6, 0, 0, b"12345678"), (77, 2, 5, b"")]
        assert b"".join(out) == frames.pack(0, 1, 3, b"abc") + frames.pack(77, 2, 5, b"")


def test_a_batch_that_passes_leaves_as_one_piece() -> None:
    reader, out, _ = collected()
    wire = frames.pack(0, 0, 1, b"a") + frames.pack(0, 0, 1, b"b")
    reader.feed(wire)
    assert out == [wire]


def test_a_frame_above_the_allowed_size_is_a_fault_before_its_payload_came() -> None:
    reader, _, _ = collected()
    with pytest.raises(Fault) as caught:
        reader.feed(frames.pack(0, 0, 1, bytes(16_385))[:9])
    assert caught.value.code is Error.FRAME_SIZE_ERROR
    reader, _, seen = collected()
    reader.allow_frames_of(20_000)
    reader.feed(frames.pack(0, 0, 1, bytes(16_385)))
    assert len(seen) == 1


def test_the_reserved_bit_of_a_stream_id_means_nothing() -> None:
    reader, _, seen = collected()
    reader.feed(b"\x00\x00\x00\x00\x00\x80\x00\x00\x03")
    assert seen == [(0, 0, 3, b"")]


@pytest.mark.parametrize("size", [0, 1, 16_384, 16_385, 40_000])
def test_data_is_cut_into_frames_that_every_peer_takes(size: int) -> None:
    found = frames_in(b"".join(frames.pack_data(7, bytes(size), frames.END_STREAM)))
    assert sum(len(frame.payload) for frame in found) == size
    assert all(len(frame.payload) <= 16_384 for frame in found)
    assert [frame.ends for frame in found] == [False] * (len(found) - 1) + [True]


@pytest.mark.parametrize("size", [1, 16_384, 16_385, 40_000])
def test_a_long_block_goes_on_in_continuations(size: int) -> None:
    found = frames_in(frames.pack_block(9, bytes(size), frames.END_STREAM))
    assert [frame.kind for frame in found] == [frames.HEADERS] + [frames.CONTINUATION] * (len(found) - 1)
    assert [bool(frame.flags & frames.END_HEADERS) for frame in found] == [False] * (len(found) - 1) + [True]
    assert found[0].flags & frames.END_STREAM
    assert sum(len(frame.payload) for frame in found) == size


def test_packed_frames_are_those_of_another_library() -> None:
    rst = hyperframe.frame.RstStreamFrame(5, error_code=8)
    window = hyperframe.frame.WindowUpdateFrame(5, window_increment=77)
    goaway = hyperframe.frame.GoAwayFrame(0, last_stream_id=9, error_code=11, additional_data=b"calm")
    assert frames.pack_rst(5, Error.CANCEL) == rst.serialize()
    assert frames.pack_window_update(5, 77) == window.serialize()
    assert frames.pack_goaway(9, 11, b"calm") == goaway.serialize()


@pytest.mark.parametrize(
    ("payload", "flags", "content"),
    [
        (b"abc", 0, b"abc"),
        (b"\x02abc\x00\x00", frames.PADDED, b"abc"),
        (b"\x00", frames.PADDED, b""),
        (b"\x00\x00\x00\x00\x10abc", frames.PRIORITIZED, b"abc"),
        (b"\x01\x00\x00\x00\x00\x10abc\x00", frames.PADDED | frames.PRIORITIZED, b"abc"),
    ],
)
def test_content_lies_between_priority_and_padding(payload: bytes, flags: int, content: bytes) -> None:
    begin, end = frames.content_of(payload, flags, 0, len(payload))
    assert payload[begin:end] == content


@pytest.mark.parametrize(
    ("payload", "flags"),
    [(b"", frames.PADDED), (b"\x02a", frames.PADDED), (b"\x00\x00", frames.PRIORITIZED)],
)
def test_padding_longer_than_its_frame_is_a_fault(payload: bytes, flags: int) -> None:
    with pytest.raises(Fault):
        frames.content_of(payload, flags, 0, len(payload))
