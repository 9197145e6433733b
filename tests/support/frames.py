"""HTTP/2 frames and header blocks by hand, for clients of tests and of the benchmark.

The rule: nothing is taken from the program that is tested, and the standard library is enough, so that a process which
makes load starts in no time.
"""

import struct
from collections.abc import Iterator

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_HEADER_BYTES = 9
MESSAGE_HEADER_BYTES = 5
MAX_FRAME_BYTES = 16_384
LARGEST_WINDOW = 2**31 - 1
FIRST_WINDOW = 65_535

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM = ACK = 1
END_HEADERS = 4
ENABLE_PUSH, INITIAL_WINDOW_SIZE = 2, 4

# RFC 7541: the static table's own entries for these two, and the flag of a literal that the dynamic table takes up.
METHOD_POST, SCHEME_HTTP = b"\x83", b"\x86"
_LITERAL_INDEXED = 0x40
_INDEXED = 0x80
_FIRST_DYNAMIC_INDEX = 62
_STATIC_NAMES = {b":authority": 1, b":path": 4, b"content-type": 31, b"user-agent": 58}


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame, whole."""
    return struct.pack("!I", len(payload) << 8 | kind) + struct.pack("!BI", flags, stream) + payload


def setting(name: int, value: int) -> bytes:
    """One setting of a SETTINGS frame."""
    return struct.pack("!HI", name, value)


def window_update(stream: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, struct.pack("!I", increment))


def frames_in(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Kind, flags, stream and payload of each whole frame; what is left of `data` behind them is the caller's."""
    at = 0
    while at + FRAME_HEADER_BYTES <= len(data):
        begin = at + FRAME_HEADER_BYTES
        at = begin + int.from_bytes(data[at : at + 3], "big")
        if at > len(data):
            return
        stream = int.from_bytes(data[begin - 4 : begin], "big")
        yield data[begin - 6], data[begin - 5], stream, data[begin:at]


def framed_message(message: bytes, *, compressed: bool = False) -> bytes:
    """A message as gRPC puts it into DATA frames: whether it is compressed, its length, itself."""
    return struct.pack("!BI", compressed, len(message)) + message


def messages_in(content: bytes) -> Iterator[bytes]:
    """The whole messages of a stream's content."""
    at = 0
    while at + MESSAGE_HEADER_BYTES <= len(content):
        begin = at + MESSAGE_HEADER_BYTES
        at = begin + int.from_bytes(content[at + 1 : begin], "big")
        if at > len(content):
            return
        yield bytes(content[begin:at])


def header_blocks(path: str, user_agent: str) -> tuple[bytes, bytes]:
    """The block of a connection's first call, and that of all others: the first teaches the peer its fields."""
    fields = _request_fields(path) | {b"user-agent": user_agent.encode()}
    first = b"".join(_indexed_literal(name, value) for name, value in fields.items())
    last = _FIRST_DYNAMIC_INDEX + len(fields) - 1
    later = bytes(_INDEXED | last - number for number in range(len(fields)))
    return METHOD_POST + SCHEME_HTTP + first, METHOD_POST + SCHEME_HTTP + later


def header_block(path: str) -> bytes:
    """A request's block in literals that leave the table as it is: any client can send it at any time."""
    literals = (b"\x00" + _string(name) + _string(value) for name, value in _request_fields(path).items())
    return METHOD_POST + SCHEME_HTTP + b"".join(literals)


def _request_fields(path: str) -> dict[bytes, bytes]:
    return {
        b":authority": b"etcd",
        b":path": path.encode(),
        b"te": b"trailers",
        b"content-type": b"application/grpc",
    }


def _indexed_literal(name: bytes, value: bytes) -> bytes:
    static = _STATIC_NAMES.get(name)
    return bytes([_LITERAL_INDEXED | (static or 0)]) + (b"" if static else _string(name)) + _string(value)


def _string(text: bytes) -> bytes:
    assert len(text) < 127, f"too long for a length of one byte: {text!r}"
    return bytes([len(text)]) + text
