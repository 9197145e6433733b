"""Header blocks: a bounded decoder for what clients send, an encoder for what the relay says (RFC 7541).

Rule of the decoder: every block of a connection goes through it exactly once, in order, for its dynamic table has to
stay equal to the one upstream has. Rule of the encoder: static table and literals without indexing only, so that a
block can be written between any two others.
"""

from base64 import b64encode
from collections.abc import Iterable
from typing import Final

from hpack.exceptions import HPACKDecodingError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from greenroom.http2.frames import Error, Fault

Field = tuple[bytes, bytes]

_STATIC: Final[list[Field]] = [(b"", b""), *((bytes(name), bytes(value)) for name, value in HeaderTable.STATIC_TABLE)]
_STATIC_COUNT: Final = len(_STATIC) - 1
_ENTRY_OVERHEAD_BYTES: Final = 32
_SLACK_BYTES: Final = 128  # the static table's longest entry, and two overheads
DEFAULT_TABLE_BYTES: Final = 4_096
# Upstream may offer its clients a larger table; the relay keeps a copy of each, so the offer is cut down to this.
LARGEST_TABLE_BYTES: Final = 65_536
# What most requests say alike, whoever makes them. Nothing of a user's own is among it.
_COMMON_NAMES: Final = frozenset(
    (b":authority", b":path", b"content-type", b"te", b"user-agent", b"grpc-accept-encoding", b"accept-encoding")
)
_LONGEST_COMMON_VALUE_BYTES: Final = 256
_COMMON_FIELDS: Final = 1_024  # paths times addresses times versions of clients; beyond that the oldest are forgotten
# No count or length in a sane block needs more; bounds the work on a hostile one.
_LARGEST_NUMBER: Final = 2**24

SIZE_UPDATE_TO_ZERO: Final = b"\x20"
# ":status: 200" of the static table, then the static name 31 (content-type) with a literal value.
RESPONSE_HEADERS: Final = b"\x88\x0f\x10\x10application/grpc"


def _corrupt(text: str) -> Fault:
    return Fault(Error.COMPRESSION_ERROR, text)


class KnownFields:
    """Fields that clients send alike, so that the tables of thousands of them hold each one once."""

    __slots__ = ("_fields",)

    def __init__(self) -> None:
        self._fields: dict[Field, Field] = {}

    def same(self, field: Field) -> Field:
        """`field`, or an equal one that is there already."""
        name, value = field
        if name not in _COMMON_NAMES or len(value) > _LONGEST_COMMON_VALUE_BYTES:
            return field
        same = self._fields.setdefault(field, field)
        if len(self._fields) > _COMMON_FIELDS:
            del self._fields[next(iter(self._fields))]  # the oldest
        return same


class HeaderDecoder:
    """Decodes one direction's blocks. `changes` counts what was done to the dynamic table."""

    __slots__ = ("_capacity", "_known", "_list_bytes", "_size", "_table", "capacity_limit", "changes")

    def __init__(self, header_list_bytes: int, known: KnownFields | None = None) -> None:
        self._list_bytes = header_list_bytes
        self._known = known
        self._table: list[Field] = []  # oldest first: index 62 is the last one
        self._size = 0
        self._capacity = DEFAULT_TABLE_BYTES
        self.capacity_limit = DEFAULT_TABLE_BYTES
        self.changes = 0

    def decode(self, block: bytes) -> list[Field]:
        """The fields of a block. Faults with COMPRESSION_ERROR, or ENHANCE_YOUR_CALM if the list is too long."""
        try:
            return self._decode(block)
        except IndexError:
            raise _corrupt("header block refers to nothing or ends too early") from None
        except (HPACKDecodingError, ValueError):
            raise _corrupt("header block with a broken string") from None

    def _decode(self, block: bytes) -> list[Field]:
        fields: list[Field] = []
        table = self._table
        position = self._size_updates(block)
        size = len(block)
        while position < size:
            first = block[position]
            if first > 0x80 and first != 0xFF:  # an index of one octet, by far the most frequent
                index = first - 0x80
                field = _STATIC[index] if index <= _STATIC_COUNT else table[_STATIC_COUNT - index]
                position += 1
            else:
                field, position = self._long_field(block, position, first)
            fields.append(field)
        # A field is at most an entry of the table and twice the block (compressed text grows to 8/5), so the sum of a
        # few is no question.
        if len(fields) * (self._capacity + 2 * size + _SLACK_BYTES) > self._list_bytes:
            self._check_sum(fields)
        return fields

    def _check_sum(self, fields: list[Field]) -> None:
        if sum(size_of(field) for field in fields) > self._list_bytes:
            raise Fault(Error.ENHANCE_YOUR_CALM, "header list too long")

    def _size_updates(self, block: bytes) -> int:
        """Apply those that the block begins with; where its fields begin."""
        position = 0
        while block[position : position + 1] and 0x20 <= block[position] < 0x40:
            capacity, position = _number(block, position, 0x1F)
            self._resize(capacity)
        return position

    def _long_field(self, block: bytes, position: int, first: int) -> tuple[Field, int]:
        if first >= 0x80:
            index, position = _number(block, position, 0x7F)
            return self._entry(index), position
        if first < 0x20:
            return self._literal(block, position, 0x0F)
        if first < 0x40:
            raise _corrupt("table size update inside a block")
        field, position = self._literal(block, position, 0x3F)
        self._insert(field)
        return field, position

    def _entry(self, index: int) -> Field:
        if index == 0:
            raise _corrupt("index 0")
        return _STATIC[index] if index <= _STATIC_COUNT else self._table[_STATIC_COUNT - index]

    def _literal(self, block: bytes, position: int, mask: int) -> tuple[Field, int]:
        index = block[position] & mask
        if index == 0:
            name, position = _string(block, position + 1)
        else:
            if index == mask:
                index, position = _number(block, position, mask)
            else:
                position += 1
            name = self._entry(index)[0]
        value, position = _string(block, position)
        return (name, value), position

    def _insert(self, field: Field) -> None:
        self._table.append(field if self._known is None else self._known.same(field))
        self._size += size_of(field)
        self.changes += 1
        if self._size > self._capacity:
            self._evict()

    def _resize(self, capacity: int) -> None:
        if capacity > self.capacity_limit:
            raise _corrupt("table size above the one offered")
        self._capacity = capacity
        self.changes += 1
        self._evict()

    def _evict(self) -> None:
        table = self._table
        gone = 0
        while self._size > self._capacity:
            self._size -= size_of(table[gone])
            gone += 1
        del table[:gone]


def size_of(field: Field) -> int:
    """Bytes of a field as RFC 7541 counts them."""
    return len(field[0]) + len(field[1]) + _ENTRY_OVERHEAD_BYTES


def _number(block: bytes, position: int, mask: int) -> tuple[int, int]:
    value = block[position] & mask
    position += 1
    if value < mask:
        return value, position
    shift = 0
    while True:
        octet = block[position]
        position += 1
        value += (octet & 0x7F) << shift
        if value > _LARGEST_NUMBER or shift > 28:
            raise _corrupt("number too large")
        if octet < 0x80:
            return value, position
        shift += 7


def _string(block: bytes, position: int) -> tuple[bytes, int]:
    first = block[position]
    length = first & 0x7F
    if length == 0x7F:
        length, position = _number(block, position, 0x7F)
    else:
        position += 1
    end = position + length
    if end > len(block):
        raise _corrupt("string longer than its block")
    raw = block[position:end]
    return (decode_huffman(raw) if first >= 0x80 else raw), end


def encode_fields(fields: Iterable[Field]) -> bytes:
    """`fields` as literals without indexing, names new: valid whatever the receiver's table holds."""
    return b"".join(b"\x00" + encode_string(name) + encode_string(value) for name, value in fields)


def encode_string(text: bytes) -> bytes:
    """A string as a literal, not compressed."""
    length = len(text)
    if length < 0x7F:
        return bytes((length,)) + text
    prefix = bytearray((0x7F,))
    length -= 0x7F
    while length >= 0x80:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    prefix.append(length)
    return bytes(prefix) + text


def encode_trailers(code: int, details: str, trailers: Iterable[tuple[str, str | bytes]]) -> bytes:
    """The block that ends a gRPC answer: as etcd's library has it, with a text always, if only an empty one."""
    fields = [(b"grpc-status", b"%d" % code), (b"grpc-message", _percent_encoded(details))]
    fields += [(_printable(name.lower()), _trailer_value(value)) for name, value in trailers]
    return encode_fields(fields)


def _trailer_value(value: str | bytes) -> bytes:
    return b64encode(value).rstrip(b"=") if isinstance(value, bytes) else _printable(value)


def _printable(text: str) -> bytes:
    """`text` as a header may carry it: one bad character would cost the client its connection."""
    return bytes(o if 0x20 <= o <= 0x7E else 0x3F for o in text.encode("ascii", "replace"))


def _percent_encoded(text: str) -> bytes:
    """gRPC's encoding of a status text: printable ASCII but `%` stays."""
    octets = text.encode("utf-8", "replace")
    return b"".join(bytes((o,)) if 0x20 <= o <= 0x7E and o != 0x25 else b"%%%02X" % o for o in octets)
