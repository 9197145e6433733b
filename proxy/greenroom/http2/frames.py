"""HTTP/2 frames: names, packing, and the reader that cuts a byte stream into them (RFC 9113, sections 4 and 6).

Rule of the reader: a frame passes unless its handler cuts it out. What passes leaves in runs, each one slice of the
bytes that came, so a batch of frames that need no change costs one copy.
"""

import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from types import FunctionType
from typing import Any, Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_BYTES: Final = 9
DEFAULT_FRAME_BYTES: Final = 16_384  # the size that every peer takes, so what the relay writes itself stays below
DEFAULT_WINDOW_BYTES: Final = 65_535
LARGEST_WINDOW_BYTES: Final = 2**31 - 1
LARGEST_STREAM_ID: Final = 2**31 - 1

DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9


ACK: Final = 0x1
END_STREAM: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITIZED: Final = 0x20

_HEADER: Final = struct.Struct(">HBBBL")
FRAME_HEADER: Final = struct.Struct(">LBL")
"""A frame's header as it is read fastest: length (upper three bytes) and type in one number, flags, stream id."""
_WORD: Final = struct.Struct(">L")


class Error(IntEnum):
    """The HTTP/2 error codes in use here."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    ENHANCE_YOUR_CALM = 0xB


class Fault(Exception):
    """A peer broke the protocol or a bound; the connection ends with `code` and `text`."""

    def __init__(self, code: Error, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def pack(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    length = len(payload)
    return _HEADER.pack(length >> 8, length & 0xFF, kind, flags, stream_id) + payload


def pack_rst(stream_id: int, code: Error) -> bytes:
    return pack(RST_STREAM, 0, stream_id, _WORD.pack(code))


def pack_window_update(stream_id: int, increment: int) -> bytes:
    return pack(WINDOW_UPDATE, 0, stream_id, _WORD.pack(increment))


def pack_goaway(last_stream_id: int, code: int, text: bytes = b"") -> bytes:
    return pack(GOAWAY, 0, 0, _WORD.pack(last_stream_id) + _WORD.pack(code) + text)


def pack_block(stream_id: int, block: bytes, flags: int = 0) -> bytes:
    """A header block as HEADERS and as many CONTINUATIONs as it needs; `flags` may hold END_STREAM."""
    pieces = [block[begin : begin + DEFAULT_FRAME_BYTES] for begin in range(0, len(block), DEFAULT_FRAME_BYTES)]
    frames = []
    for number, piece in enumerate(pieces):
        end = END_HEADERS if number == len(pieces) - 1 else 0
        frames.append(
            pack(CONTINUATION, end, stream_id, piece) if number else pack(HEADERS, flags | end, stream_id, piece)
        )
    return b"".join(frames)


def pack_data(stream_id: int, payload: bytes, flags: int = 0) -> list[bytes]:
    """`payload` as DATA frames of the size that every peer takes; END_STREAM in `flags` goes on the last one."""
    last = max(0, len(payload) - 1) // DEFAULT_FRAME_BYTES * DEFAULT_FRAME_BYTES
    frames = [
        pack(DATA, 0, stream_id, payload[begin : begin + DEFAULT_FRAME_BYTES])
        for begin in range(0, last, DEFAULT_FRAME_BYTES)
    ]
    frames.append(pack(DATA, flags, stream_id, payload[last:]))
    return frames


def word(data: bytes, position: int) -> int:
    """The 31 bit number at `position`: the top bit is reserved in every frame that has one."""
    value: int = _WORD.unpack_from(data, position)[0]
    return value & 0x7FFF_FFFF


def content_of(data: bytes, flags: int, begin: int, end: int) -> tuple[int, int]:
    """Where the content of a DATA or HEADERS payload at [begin, end) lies without padding and priority fields."""
    padding = 0
    if flags & PADDED:
        if begin == end:
            raise Fault(Error.FRAME_SIZE_ERROR, "padded frame without a pad length")
        padding = data[begin]
        begin += 1
    if flags & PRIORITIZED:
        begin += 5
    if begin + padding > end:
        raise Fault(Error.PROTOCOL_ERROR, "padding longer than its frame")
    return begin, end - padding


Take = Callable[[Any, int, int, int, int], int | None]
"""What a reader does with a frame of one type: the reader, flags, stream id, and where the frame lies in its `data`,
with its header. One that has dealt with the frames behind it as well returns where the next one begins."""


def handler_table(known: Mapping[int, Take], other: Take) -> tuple[Take, ...]:
    """One handler for each of the 256 frame types: those named, `other` for the rest.

    Made once for a class of readers: of functions, not of methods bound to one reader, for there are thousands.
    """
    return tuple(known.get(kind, other) for kind in range(256))


class FrameReader:
    """Cuts one direction's bytes into frames, calls a handler for each, writes the runs that pass to `out`.

    `handlers` has one for each frame type; whoever wants other rules for the next frame replaces it.
    """

    __slots__ = ("_rest", "_run", "data", "handlers", "largest_frame", "out")

    def __init__(self, out: list[bytes], handlers: tuple[Take, ...]) -> None:
        self.out = out
        self.handlers = handlers
        self.largest_frame = DEFAULT_FRAME_BYTES << 8 | 0xFF  # its length and type, as they are read
        self.data = b""
        self._rest = b""
        self._run = 0

    def __init_subclass__(cls) -> None:
        """Gives each class code of its own for the loop below.

        CPython makes code fast for the types it meets; code that meets clients' and upstream's readers in turn stays
        slow.
        """
        feed = FrameReader.feed
        if isinstance(feed, FunctionType):
            cls.feed = FunctionType(feed.__code__.replace(), feed.__globals__, "feed")  # type: ignore[method-assign]

    def feed(self, data: bytes) -> None:
        """Take the next bytes. A Fault of a handler, or one for a frame above the allowed size, goes through."""
        if self._rest:
            data = self._rest + data
        self.data = data
        self._run = position = 0
        size = len(data)
        unpack, largest = FRAME_HEADER.unpack_from, self.largest_frame
        last = size - HEADER_BYTES
        while position <= last:
            length_and_kind, flags, stream_id = unpack(data, position)
            end = position + HEADER_BYTES + (length_and_kind >> 8)
            if length_and_kind > largest or end > size:
                self._check_length(length_and_kind >> 8)
                break
            handler = self.handlers[length_and_kind & 0xFF]
            position = handler(self, flags, stream_id & 0x7FFF_FFFF, position, end) or end
        if self._run < position:
            self.out.append(data[self._run : position])
        self._rest = data[position:]
        self.data = b""

    def allow_frames_of(self, size_bytes: int) -> None:
        """The receiver of these frames takes them as large as that."""
        self.largest_frame = max(self.largest_frame, size_bytes << 8 | 0xFF)

    def _check_length(self, length: int) -> None:
        if length > self.largest_frame >> 8:
            raise Fault(Error.FRAME_SIZE_ERROR, f"frame of {length} bytes")

    def cut(self, begin: int, end: int) -> bytes:
        """Take the frame at [begin, end) out; what passed before it is written first. Returns the frame."""
        data = self.data
        if self._run < begin:
            self.out.append(data[self._run : begin])
        self._run = end
        return data[begin:end]
