"""The header blocks of the proxy's own requests (RFC 7541), the requests of one connection in order.

The rule: what all calls of a method say alike goes into the peer's table once and is one byte of each later block. It
is little, so nothing is ever evicted, and positions are simply counted. What a caller gives, tokens above all, is sent
as "never indexed": it is a secret, and no table of anybody's should keep it.
"""

from base64 import b64encode
from collections.abc import Iterable
from typing import Final

from greenroom.http2.header_blocks import DEFAULT_TABLE_BYTES, SIZE_UPDATE_TO_ZERO, Field, encode_string, size_of

_POST: Final = b"\x83"  # ":method: POST" of the static table; so are the two below
_HTTP, _HTTPS = b"\x86", b"\x87"  # ":scheme: http" and ":scheme: https"
_NEWEST_INDEX: Final = 62
_MOST_ENTRIES: Final = 60
"""So that each index is one byte: up to 126."""
_STATIC_NAMES: Final = {b":authority": 1, b":path": 4, b"content-type": 31, b"user-agent": 58}
_INDEXING: Final = 0x40
_NEVER_INDEXED: Final = b"\x10"
_TIMEOUT_NAME: Final = b"\x00" + encode_string(b"grpc-timeout")

# gRPC takes eight digits at most: tens of minutes in microseconds, a day in milliseconds, three years in seconds.
_LARGEST_NUMBER: Final = 99_999_999
_UNITS: Final = ((1e6, b"u"), (1e3, b"m"), (1.0, b"S"))


class RequestBlocks:
    """Encodes for one connection, whose peer has the table that RFC 7541 starts with until `table_bytes` is called."""

    def __init__(self, authority: str, user_agent: str, *, is_secure: bool = False) -> None:
        self._beginning = _POST + (_HTTPS if is_secure else _HTTP)
        self._common: list[Field] = [
            (b":authority", authority.encode()),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
            (b"user-agent", user_agent.encode()),
        ]
        self._entries: dict[Field, int] = {}
        self._room_bytes = DEFAULT_TABLE_BYTES
        self._steady: dict[str, bytes] = {}
        self._opening = b""

    def table_bytes(self, size: int) -> None:
        """The peer's HEADER_TABLE_SIZE. One that is smaller than the first is not used at all."""
        if size < DEFAULT_TABLE_BYTES and self._room_bytes:
            self._entries.clear()
            self._steady.clear()
            self._room_bytes, self._opening = 0, SIZE_UPDATE_TO_ZERO

    def block(
        self, path: str, metadata: Iterable[tuple[str, str | bytes]] = (), timeout_seconds: float | None = None
    ) -> bytes:
        """The block of one request. It must be sent, before any other one: the tables of both ends are in step."""
        # First, for what cannot be encoded must not leave entries in a table that the peer never hears of.
        own = b"" if timeout_seconds is None else _TIMEOUT_NAME + encode_string(timeout_text(timeout_seconds))
        for name, value in metadata:
            own += _NEVER_INDEXED + encode_string(name.encode("ascii")) + encode_string(_value(value))
        return (self._steady.get(path) or self._method(path)) + own

    def _method(self, path: str) -> bytes:
        known, opening = len(self._entries), self._opening
        self._opening = b""
        fields = ((b":path", path.encode("ascii")), *self._common)
        block = opening + self._beginning + b"".join(map(self._field, fields))
        if len(self._entries) != known:
            self._steady.clear()  # Each new entry moves the older ones by one.
        elif not opening:
            self._steady[path] = block
        return block

    def _field(self, field: Field) -> bytes:
        number = self._entries.get(field)
        if number is not None:
            return bytes((0x80 | _NEWEST_INDEX + len(self._entries) - 1 - number,))
        if size_of(field) > self._room_bytes or len(self._entries) >= _MOST_ENTRIES:
            return b"\x00" + encode_string(field[0]) + encode_string(field[1])
        self._room_bytes -= size_of(field)
        self._entries[field] = len(self._entries)
        index = _STATIC_NAMES.get(field[0])
        name = bytes((_INDEXING | index,)) if index else bytes((_INDEXING,)) + encode_string(field[0])
        return name + encode_string(field[1])


def timeout_text(seconds: float) -> bytes:
    """`grpc-timeout` for so long: at least a microsecond, and as exact as eight digits allow."""
    for scale, unit in _UNITS:
        number = max(int(seconds * scale), 1)
        if number <= _LARGEST_NUMBER:
            return b"%d%b" % (number, unit)
    return b"%dS" % _LARGEST_NUMBER


def _value(value: str | bytes) -> bytes:
    return b64encode(value).rstrip(b"=") if isinstance(value, bytes) else value.encode("ascii")
