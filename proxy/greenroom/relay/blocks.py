"""Puts header blocks together that come in several frames (RFC 9113, section 4.3).

Rule: nothing is written inside a block, so its frames are kept until the last one is there and then go together.
"""

from typing import Any, Final

from greenroom.http2.frames import (
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


def stray(reader: Any, flags: int, stream_id: int, begin: int, end: int) -> None:
    """The handler of a frame that has no place where it came."""
    raise Fault(Error.PROTOCOL_ERROR, _STRAY)


class _Begun:
    """A block whose end has not come, and the handlers that were in force before it."""

    __slots__ = ("flags", "fragments", "frames", "outside", "size_bytes", "stream_id")

    def __init__(self, flags: int, stream_id: int, outside: tuple[Take, ...]) -> None:
        self.flags = flags
        self.stream_id = stream_id
        self.outside = outside
        self.frames: list[bytes] = []
        self.fragments: list[bytes] = []
        self.size_bytes = 0


class BlockReader(FrameReader):
    """A reader whose `start_block` takes over the handlers from the first HEADERS frame to the end of its block."""

    __slots__ = ("_begun", "_limits")

    def __init__(self, out: list[bytes], handlers: tuple[Take, ...], limits: Limits) -> None:
        super().__init__(out, handlers)
        self._limits = limits
        self._begun: _Begun | None = None

    def whole_block(self, flags: int, stream_id: int, block: bytes, frames: bytes) -> None:
        """A block is whole: flags of its HEADERS frame, stream id, its bytes, and its frames as they came."""
        raise NotImplementedError

    def start_block(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        """A HEADERS frame without END_HEADERS."""
        self._begun = _Begun(flags, stream_id, self.handlers)
        self.handlers = _INSIDE
        self._add(self._begun, flags, begin, end)

    def _continuation(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        begun = self._begun
        if begun is None or stream_id != begun.stream_id:
            raise Fault(Error.PROTOCOL_ERROR, _STRAY)
        self._add(begun, 0, begin, end)
        if flags & END_HEADERS:
            self._begun = None
            self.handlers = begun.outside
            self.whole_block(begun.flags, stream_id, b"".join(begun.fragments), b"".join(begun.frames))

    def _add(self, begun: _Begun, flags: int, begin: int, end: int) -> None:
        content_begin, content_end = content_of(self.data, flags & (PADDED | PRIORITIZED), begin + HEADER_BYTES, end)
        begun.fragments.append(self.data[content_begin:content_end])
        begun.frames.append(self.cut(begin, end))
        begun.size_bytes += end - begin
        limits = self._limits
        if begun.size_bytes > limits.header_block_bytes or len(begun.frames) > limits.header_block_frames:
            raise Fault(Error.ENHANCE_YOUR_CALM, "header block too long")


_INSIDE: Final = handler_table({CONTINUATION: BlockReader._continuation}, stray)
