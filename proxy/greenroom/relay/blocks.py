"""Puts header blocks together that come in several frames (RFC 9113, section 4.3).

Rule: nothing is written inside a block, so its frames are kept until the last one is there and then go together.
"""

from collections.abc import Callable
from typing import Final

from .frames import (
    CONTINUATION,
    END_HEADERS,
    HEADER_BYTES,
    PADDED,
    PRIORITIZED,
    Error,
    Fault,
    FrameReader,
    Take,
    content_of,
    handler_table,
)
from .limits import Limits

_STRAY: Final = "CONTINUATION without HEADERS, or another frame inside a header block"

Whole = Callable[[int, int, bytes, bytes], None]
"""Called with the flags of the HEADERS frame, the stream id, the block, and its frames as they came."""


def stray(flags: int, stream_id: int, begin: int, end: int) -> None:
    """The handler of a frame that has no place where it came."""
    raise Fault(Error.PROTOCOL_ERROR, _STRAY)


class BlockAssembly:
    """Takes over a reader's handlers from the first HEADERS frame to the end of its block."""

    def __init__(self, reader: FrameReader, limits: Limits, whole: Whole) -> None:
        self._reader = reader
        self._limits = limits
        self._whole = whole
        self._inside = handler_table({CONTINUATION: self._continuation}, stray)
        self._outside: tuple[Take, ...] = ()
        self._flags = self._stream_id = 0
        self._frames: list[bytes] = []
        self._fragments: list[bytes] = []
        self._bytes = 0

    def start(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        """A HEADERS frame without END_HEADERS."""
        self._outside = self._reader.handlers
        self._reader.handlers = self._inside
        self._flags, self._stream_id, self._bytes = flags, stream_id, 0
        self._add(flags, begin, end)

    def _continuation(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        if stream_id != self._stream_id:
            raise Fault(Error.PROTOCOL_ERROR, _STRAY)
        self._add(0, begin, end)
        if flags & END_HEADERS:
            self._end()

    def _add(self, flags: int, begin: int, end: int) -> None:
        content_begin, content_end = content_of(
            self._reader.data, flags & (PADDED | PRIORITIZED), begin + HEADER_BYTES, end
        )
        self._fragments.append(self._reader.data[content_begin:content_end])
        self._bytes += end - begin
        self._frames.append(self._reader.cut(begin, end))
        if self._bytes > self._limits.header_block_bytes or len(self._frames) > self._limits.header_block_frames:
            raise Fault(Error.ENHANCE_YOUR_CALM, "header block too long")

    def _end(self) -> None:
        self._reader.handlers = self._outside
        block, frames = b"".join(self._fragments), b"".join(self._frames)
        self._fragments.clear()
        self._frames.clear()
        self._whole(self._flags, self._stream_id, block, frames)
