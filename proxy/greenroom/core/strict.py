"""Proves that the bytes of a protobuf message mean one thing to every parser.

Parsers differ on what no serialiser writes: protobuf merges a message that comes twice in a oneof, the parser etcd is
built with replaces it; a wide varint is cut here and refused there; a field of the wrong wire type is unknown to one
and an error to the other. A request that was read in one sense and runs in another is a leak. The rule: bytes are
passed on only if nothing in them is repeated, cut, skipped or guessed at. Explicit zeros and any order of fields are
allowed, for common clients write them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

MAX_DEPTH = 100
"""Messages within messages, as many as protobuf's own parser reads."""

MAX_TAG = (1 << 32) - 1
"""A field number has 29 bits. etcd's parser cuts wider tags, and then sees another field."""

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_WIDTHS = {_FIXED64: 8, _FIXED32: 4}
_WIRE_TYPES = {
    FieldDescriptor.TYPE_FIXED64: _FIXED64,
    FieldDescriptor.TYPE_SFIXED64: _FIXED64,
    FieldDescriptor.TYPE_DOUBLE: _FIXED64,
    FieldDescriptor.TYPE_FIXED32: _FIXED32,
    FieldDescriptor.TYPE_SFIXED32: _FIXED32,
    FieldDescriptor.TYPE_FLOAT: _FIXED32,
    FieldDescriptor.TYPE_STRING: _LENGTH,
    FieldDescriptor.TYPE_BYTES: _LENGTH,
    FieldDescriptor.TYPE_MESSAGE: _LENGTH,
}
_WORD = 1 << 64
_SIGNED_32 = ((0, 1 << 31), (_WORD - (1 << 31), _WORD))
_RANGES = {
    FieldDescriptor.TYPE_BOOL: ((0, 2),),
    FieldDescriptor.TYPE_INT32: _SIGNED_32,
    FieldDescriptor.TYPE_ENUM: _SIGNED_32,
    FieldDescriptor.TYPE_UINT32: ((0, 1 << 32),),
    FieldDescriptor.TYPE_SINT32: ((0, 1 << 32),),
}


class Reading(StrEnum):
    """What a scan found. Ambiguous bytes can be read, but not by everybody alike."""

    OK = "ok"
    AMBIGUOUS = "ambiguous"
    UNKNOWN_FIELD = "unknown field"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of a scan. `number` and `message` name the field and its message where it is unknown."""

    reading: Reading
    number: int = 0
    message: str = ""


OK = Finding(Reading.OK)
AMBIGUOUS = Finding(Reading.AMBIGUOUS)
MALFORMED = Finding(Reading.MALFORMED)

_Check = Callable[[int], bool]


class _Field:
    """How one tag is read. `seen_bit` is shared by the members of a oneof, and 0 where repeating is meant."""

    __slots__ = ("check", "message", "seen_bit", "text", "width")

    def __init__(self, seen_bit: int) -> None:
        self.seen_bit = seen_bit
        self.width = -1
        self.check: _Check | None = None
        self.message: Schema | None = None
        self.text = False


class Schema:
    """The tables of one message type, made once from its descriptor. ValueError for groups and maps."""

    __slots__ = ("_fields", "_name", "_numbers")

    def __init__(self, descriptor: Descriptor, known: dict[str, "Schema"] | None = None) -> None:
        known = {} if known is None else known
        known[descriptor.full_name] = self
        self._name = descriptor.full_name
        self._numbers = {field.number for field in descriptor.fields}
        self._fields: dict[int, _Field] = {}
        bits: dict[str, int] = {}
        for field in descriptor.fields:
            owner = field.containing_oneof or field
            bit = 0 if field.is_repeated else bits.setdefault(owner.full_name, 1 << len(bits))
            self._fields.update(_tags(field, bit, known))

    def scan(self, data: bytes) -> Finding:
        """What `data`, the whole of one message, is to different parsers."""
        try:
            return OK if self._scan(data, 0, len(data), 0) else AMBIGUOUS
        except _UnknownFieldError as unknown:
            return Finding(Reading.UNKNOWN_FIELD, unknown.number, unknown.message)
        except (_MalformedError, IndexError):
            return MALFORMED

    def _scan(self, data: bytes, at: int, end: int, depth: int) -> bool:
        """Whether data[at:end] is unambiguous."""
        fields, seen, clear = self._fields, 0, True
        while at < end:
            tag = data[at]
            at += 1
            if tag >= 0x80:
                tag, at, minimal = _varint(data, at - 1)
                clear = clear and minimal
            field = fields.get(tag)
            if field is None:
                raise self._stranger(tag)
            bit = field.seen_bit
            if seen & bit:
                clear = False
            seen |= bit
            if field.width > 0:
                at += field.width
                continue
            value = data[at]
            at += 1
            if value >= 0x80:
                value, at, minimal = _varint(data, at - 1)
                clear = clear and minimal
            if field.width == 0:
                clear = clear and (field.check is None or field.check(value))
                continue
            clear = _is_clear_inside(field, data, at, at + value, end, depth) and clear
            at += value
        if at > end:
            raise _MalformedError
        return clear

    def _stranger(self, tag: int) -> Exception:
        """A number nobody knows, or a known one in a wire type that only some parsers skip."""
        number = tag >> 3
        if number == 0 or number in self._numbers or tag > MAX_TAG or tag & 7 > _FIXED32:
            return _MalformedError()
        return _UnknownFieldError(number, self._name)


def schema_of(message: type[Message]) -> Schema:
    """The tables of a generated message class and of all that it can hold."""
    return Schema(cast(Descriptor, message.DESCRIPTOR))


class _MalformedError(Exception):
    pass


class _UnknownFieldError(Exception):
    def __init__(self, number: int, message: str) -> None:
        super().__init__(number, message)
        self.number = number
        self.message = message


def _tags(field: FieldDescriptor, bit: int, known: dict[str, Schema]) -> dict[int, _Field]:
    """The tags under which a field may come: two where a repeated scalar may be packed or not."""
    if field.type == FieldDescriptor.TYPE_GROUP:
        raise ValueError(f"{field.full_name} is a group")
    wire = _WIRE_TYPES.get(field.type, _VARINT)
    alone = _Field(bit)
    if wire == _LENGTH:
        alone.message = _nested(field, known)
        alone.text = field.type == FieldDescriptor.TYPE_STRING
        return {field.number << 3 | wire: alone}
    alone.width = _WIDTHS.get(wire, 0)
    alone.check = _in_ranges(_RANGES[field.type]) if field.type in _RANGES else None
    if not field.is_repeated:
        return {field.number << 3 | wire: alone}
    packed = _Field(bit)
    packed.check = alone.check or _anything
    if wire != _VARINT:
        raise ValueError(f"{field.full_name}: packed fixed-width numbers occur in no inspected message")
    return {field.number << 3 | wire: alone, field.number << 3 | _LENGTH: packed}


def _nested(field: FieldDescriptor, known: dict[str, Schema]) -> Schema | None:
    inner = field.message_type
    if inner is None:
        return None
    if inner.GetOptions().map_entry:
        raise ValueError(f"{field.full_name} is a map, whose repeated keys parsers may treat differently")
    return known.get(inner.full_name) or Schema(inner, known)


def _in_ranges(ranges: tuple[tuple[int, int], ...]) -> _Check:
    """Whether a number survives: what is out of range is cut to its type by some, kept or refused by others."""
    return lambda value: any(low <= value < high for low, high in ranges)


def _anything(_: int) -> bool:
    return True


def _is_clear_inside(field: _Field, data: bytes, at: int, stop: int, end: int, depth: int) -> bool:
    """Whether data[at:stop], the content of a field in a message that reaches to `end`, is unambiguous."""
    if stop > end:
        raise _MalformedError
    if field.message is not None:
        if depth == MAX_DEPTH:
            raise _MalformedError
        return field.message._scan(data, at, stop, depth + 1)
    return _scan_inside(field, data[at:stop]) if field.check is not None or field.text else True


def _scan_inside(field: _Field, content: bytes) -> bool:
    """Text must be UTF-8 (etcd's parser does not look); packed numbers are judged one by one."""
    if field.text:
        try:
            content.decode()
        except UnicodeDecodeError:
            raise _MalformedError from None
        return True
    clear, at = True, 0
    while at < len(content):
        value, at, minimal = _varint(content, at)
        clear = clear and minimal and field.check is not None and field.check(value)
    return clear


def _varint(data: bytes, at: int) -> tuple[int, int, bool]:
    """A varint of up to 64 bits, where the next byte is, and whether no shorter encoding has the same value."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >= _WORD:
                raise _MalformedError
            return value, at, byte > 0 or shift == 0
    raise _MalformedError
