"""Header blocks in several frames."""

import pytest

from greenroom.http2.frames import (
    CONTINUATION,
    END_HEADERS,
    HEADERS,
    PADDED,
    Error,
    Fault,
    handler_table,
    pack,
)
from greenroom.relay.blocks import BlockReader, stray
from greenroom.relay.limits import Limits


class Reader(BlockReader):
    """Keeps the blocks that come."""

    def __init__(self, limits: Limits) -> None:
        super().__init__([], handler_table({HEADERS: BlockReader.start_block}, stray), limits)
        self.whole: list[tuple[int, int, bytes, bytes]] = []

    def whole_block(self, flags: int, stream_id: int, block: bytes, frames: bytes) -> None:
        self.whole.append((flags, stream_id, block, frames))


def test_a_block_is_given_whole_with_its_frames_and_the_reader_goes_on() -> None:
    reader = Reader(Limits())
    wire = (
        pack(HEADERS, PADDED, 5, b"\x01ab\x00")
        + pack(CONTINUATION, 0, 5, b"")
        + pack(CONTINUATION, END_HEADERS, 5, b"c")
    )
    for _ in range(2):
        reader.feed(wire[:20])
        assert reader.out == []
        reader.feed(wire[20:])
        assert reader.whole == [(PADDED, 5, b"abc", wire)]
        reader.whole.clear()


@pytest.mark.parametrize("limits", [Limits(header_block_bytes=40), Limits(header_block_frames=2)])
def test_a_block_is_bounded(limits: Limits) -> None:
    reader = Reader(limits)
    reader.feed(pack(HEADERS, 0, 1, b"abc") + pack(CONTINUATION, 0, 1, b"abc"))
    with pytest.raises(Fault) as caught:
        reader.feed(pack(CONTINUATION, 0, 1, b"abcdefghijklmnop"))
    assert caught.value.code is Error.ENHANCE_YOUR_CALM


def test_another_frame_inside_is_a_fault() -> None:
    reader = Reader(Limits())
    with pytest.raises(Fault) as caught:
        reader.feed(pack(HEADERS, 0, 1) + pack(HEADERS, 0, 1))
    assert caught.value.code is Error.PROTOCOL_ERROR
