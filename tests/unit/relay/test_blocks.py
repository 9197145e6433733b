"""Header blocks in several frames."""

import pytest

from greenroom.relay.blocks import BlockAssembly, stray
from greenroom.relay.frames import (
    CONTINUATION,
    END_HEADERS,
    HEADERS,
    PADDED,
    Error,
    Fault,
    FrameReader,
    handler_table,
    pack,
)
from greenroom.relay.limits import Limits


def reader_and_blocks(limits: Limits | None = None) -> tuple[FrameReader, list[tuple[int, int, bytes, bytes]]]:
    whole: list[tuple[int, int, bytes, bytes]] = []
    reader = FrameReader([], ())
    blocks = BlockAssembly(reader, limits or Limits(), lambda *found: whole.append(found))
    reader.handlers = handler_table({HEADERS: blocks.start}, stray)
    return reader, whole


def test_a_block_is_given_whole_with_its_frames_and_the_reader_goes_on() -> None:
    reader, whole = reader_and_blocks()
    wire = (
        pack(HEADERS, PADDED, 5, b"\x01ab\x00")
        + pack(CONTINUATION, 0, 5, b"")
        + pack(CONTINUATION, END_HEADERS, 5, b"c")
    )
    for _ in range(2):
        reader.feed(wire[:20])
        assert reader.out == []
        reader.feed(wire[20:])
        assert whole == [(PADDED, 5, b"abc", wire)]
        whole.clear()


@pytest.mark.parametrize("limits", [Limits(header_block_bytes=40), Limits(header_block_frames=2)])
def test_a_block_is_bounded(limits: Limits) -> None:
    reader, _ = reader_and_blocks(limits)
    reader.feed(pack(HEADERS, 0, 1, b"abc") + pack(CONTINUATION, 0, 1, b"abc"))
    with pytest.raises(Fault) as caught:
        reader.feed(pack(CONTINUATION, 0, 1, b"abcdefghijklmnop"))
    assert caught.value.code is Error.ENHANCE_YOUR_CALM


def test_another_frame_inside_is_a_fault() -> None:
    reader, _ = reader_and_blocks()
    with pytest.raises(Fault) as caught:
        reader.feed(pack(HEADERS, 0, 1) + pack(HEADERS, 0, 1))
    assert caught.value.code is Error.PROTOCOL_ERROR
