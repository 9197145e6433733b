"""Protobuf's wire format by hand: encodings that no serialiser writes, and a second parser.

`parse_as_etcd` reads as the parser that etcd is built with does: it replaces a oneof's message where protobuf merges
it, cuts wide numbers, and refuses fields of a wrong wire type. It knows just what etcd's request messages need.
"""

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

VARINT, FIXED64, LENGTH, START_GROUP, END_GROUP, FIXED32 = 0, 1, 2, 3, 4, 5
_WORD = 1 << 64


def varint(value: int, extra: int = 0) -> bytes:
    """A number, with `extra` bytes more than it needs."""
    value %= _WORD
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(value & 0x7F)
    groups += [0] * extra
    return bytes([group | 0x80 for group in groups[:-1]] + [groups[-1]])


def tag(number: int, wire_type: int, extra: int = 0) -> bytes:
    return varint(number << 3 | wire_type, extra)


def number_field(number: int, value: int) -> bytes:
    return tag(number, VARINT) + varint(value)


def bytes_field(number: int, value: bytes) -> bytes:
    return tag(number, LENGTH) + varint(len(value)) + value


def split(data: bytes) -> list[tuple[int, int, bytes]]:
    """The fields of well-formed bytes as (number, wire type, encoded value without its length)."""
    return [
        (number, wire_type, varint(value) if isinstance(value, int) else value)
        for number, wire_type, value in _fields(data)
    ]


def join(fields: list[tuple[int, int, bytes]]) -> bytes:
    """The reverse of `split`."""
    return b"".join(
        tag(number, wire_type) + (varint(len(value)) + value if wire_type == LENGTH else value)
        for number, wire_type, value in fields
    )


def parse_as_etcd(message: type[Message], data: bytes) -> Any:
    """The message as etcd reads it; ValueError where etcd refuses it or skips a field."""
    parsed = message()
    for number, wire_type, value in _fields(data):
        field = message.DESCRIPTOR.fields_by_number.get(number)
        if field is None:
            raise ValueError(f"field {number} is unknown")
        _take(parsed, field, wire_type, value)
    return parsed


def _take(parsed: Message, field: Any, wire_type: int, value: Any) -> None:
    if field.message_type is not None:
        _expect(wire_type, LENGTH)
        _take_message(parsed, field, value)
    elif field.type in (FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_STRING):
        _expect(wire_type, LENGTH)
        setattr(parsed, field.name, value)
    elif field.is_repeated:
        packed = _packed(value) if wire_type == LENGTH else [value]
        getattr(parsed, field.name).extend(_cut(field, number) for number in packed)
    else:
        _expect(wire_type, VARINT)
        setattr(parsed, field.name, _cut(field, value))


def _take_message(parsed: Message, field: Any, value: bytes) -> None:
    nested = parse_as_etcd(field.message_type._concrete_class, value)
    if field.is_repeated:
        getattr(parsed, field.name).append(nested)
        return
    if field.containing_oneof is not None:
        parsed.ClearField(field.name)
    getattr(parsed, field.name).SetInParent()
    getattr(parsed, field.name).MergeFrom(nested)


def _expect(wire_type: int, expected: int) -> None:
    if wire_type != expected:
        raise ValueError(f"wire type {wire_type} instead of {expected}")


def _cut(field: FieldDescriptor, value: int) -> Any:
    if field.type == FieldDescriptor.TYPE_BOOL:
        return value != 0
    bits = 32 if field.type in (FieldDescriptor.TYPE_ENUM, FieldDescriptor.TYPE_INT32) else 64
    value %= 1 << bits
    return value - (1 << bits) if value >> (bits - 1) else value


def _fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    at = 0
    while at < len(data):
        wire, at = _number(data, at)
        number, wire_type = wire >> 3 & 0xFFFFFFFF, wire & 7
        if wire_type == VARINT:
            value, at = _number(data, at)
            yield number, wire_type, value
            continue
        if wire_type not in (LENGTH, FIXED32, FIXED64):
            raise ValueError(f"wire type {wire_type}")
        size, at = _number(data, at) if wire_type == LENGTH else ({FIXED32: 4, FIXED64: 8}[wire_type], at)
        if at + size > len(data):
            raise ValueError("cut off")
        yield number, wire_type, data[at : at + size]
        at += size


def _packed(data: bytes) -> list[int]:
    at, numbers = 0, []
    while at < len(data):
        number, at = _number(data, at)
        numbers.append(number)
    return numbers


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at == len(data):
            raise ValueError("cut off")
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value % _WORD, at
    raise ValueError("a number of more than ten bytes")
