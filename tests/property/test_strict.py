"""The strict scan: what a serialiser writes is OK, what was tampered with is not, and OK bytes have one meaning.

The second opinion on meaning is a parser with etcd's own habits (tests/support/wire.py) beside protobuf's.
"""

from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from greenroom.core.strict import OK, Reading, schema_of
from greenroom.pb.etcd import election_pb2, rpc_pb2
from tests.support.wire import (
    FIXED64,
    LENGTH,
    VARINT,
    bytes_field,
    join,
    number_field,
    parse_as_etcd,
    split,
    tag,
    varint,
)

MESSAGES = (
    rpc_pb2.RangeRequest,
    rpc_pb2.PutRequest,
    rpc_pb2.DeleteRangeRequest,
    rpc_pb2.TxnRequest,
    rpc_pb2.WatchRequest,
    rpc_pb2.LeaseTimeToLiveRequest,
    election_pb2.ProclaimRequest,
)
SCHEMAS = {message: schema_of(message) for message in MESSAGES}

_INT64 = st.one_of(
    st.sampled_from([0, 1, 127, 128, -1, (1 << 63) - 1, -(1 << 63)]), st.integers(-(1 << 63), (1 << 63) - 1)
)
_INT32 = st.one_of(st.integers(-2, 5), st.integers(-(1 << 31), (1 << 31) - 1))
_VALUES = {
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=5),
    FieldDescriptor.TYPE_INT64: _INT64,
    FieldDescriptor.TYPE_ENUM: _INT32,
    FieldDescriptor.TYPE_BOOL: st.booleans(),
}


@st.composite
def messages(draw: st.DrawFn, message: type[Message], depth: int = 3) -> Any:
    """Any message that protobuf itself could be given, unknown enum values among them."""
    made = message()
    for field in message.DESCRIPTOR.fields:
        if draw(st.booleans()) and (depth or field.message_type is None):
            _fill(draw, made, field, depth)
    return made


def _fill(draw: st.DrawFn, made: Message, field: FieldDescriptor, depth: int) -> None:
    """Members of a oneof displace each other, so at most one stays."""
    if field.message_type is None:
        values = _VALUES[field.type]
        if field.is_repeated:
            getattr(made, field.name).extend(draw(st.lists(values, max_size=2)))
        else:
            setattr(made, field.name, draw(values))
        return
    inner = messages(field.message_type._concrete_class, depth - 1)
    if field.is_repeated:
        getattr(made, field.name).extend(draw(st.lists(inner, max_size=2)))
    else:
        getattr(made, field.name).CopyFrom(draw(inner))


any_message = st.sampled_from(MESSAGES).flatmap(lambda message: messages(message))


@given(any_message)
def test_what_protobuf_writes_is_ok(message: Message) -> None:
    data = message.SerializeToString()
    assert SCHEMAS[type(message)].scan(data) == OK
    assert parse_as_etcd(type(message), data) == message


@given(any_message, st.randoms())
def test_the_order_of_fields_does_not_matter(message: Message, random: Any) -> None:
    fields = split(message.SerializeToString())
    random.shuffle(fields)
    assert SCHEMAS[type(message)].scan(join(fields)) == OK


def _repeat_field(data: st.DataObject, message: type[Message], fields: list[tuple[int, int, bytes]]) -> bytes:
    singular = [field for field in message.DESCRIPTOR.fields if not field.is_repeated]
    assume(singular)
    field = data.draw(st.sampled_from(singular))
    given = join([own for own in fields if own[0] == field.number])
    again = given or _empty(field)
    return (b"" if given else again) + join(fields) + again


def _two_oneof_members(data: st.DataObject, message: type[Message], fields: list[tuple[int, int, bytes]]) -> bytes:
    """Perhaps the same one twice."""
    assume(message.DESCRIPTOR.oneofs)
    member = st.sampled_from(list(message.DESCRIPTOR.oneofs[0].fields))
    return data.draw(
        st.permutations([join(fields), _empty(data.draw(member)), _empty(data.draw(member))]).map(b"".join)
    )


def _empty(field: FieldDescriptor) -> bytes:
    return bytes_field(field.number, b"") if _is_length(field) else number_field(field.number, 0)


def _pad_a_varint(data: st.DataObject, message: type[Message], fields: list[tuple[int, int, bytes]]) -> bytes:
    assume(fields)
    at = data.draw(st.integers(0, len(fields) - 1))
    number, wire_type, value = fields[at]
    # Tags have room for five bytes, so two more is the most that protobuf's parser reads of the longest one here.
    extra = data.draw(st.integers(1, 2))
    if data.draw(st.booleans()):
        padded = tag(number, wire_type, extra) + (varint(len(value)) + value if wire_type == LENGTH else value)
    elif wire_type == LENGTH:
        padded = tag(number, wire_type) + varint(len(value), extra) + value
    else:
        assume(len(value) + extra <= 10)
        padded = tag(number, wire_type) + value[:-1] + bytes([value[-1] | 0x80]) + b"\x80" * (extra - 1) + b"\0"
    return join(fields[:at]) + padded + join(fields[at + 1 :])


def _unknown_field(data: st.DataObject, message: type[Message], fields: list[tuple[int, int, bytes]]) -> bytes:
    number = data.draw(st.integers(1, (1 << 29) - 1).filter(lambda n: n not in message.DESCRIPTOR.fields_by_number))
    return join(fields) + data.draw(st.sampled_from([number_field(number, 1), bytes_field(number, b"x")]))


def _wrong_wire_type(data: st.DataObject, message: type[Message], fields: list[tuple[int, int, bytes]]) -> bytes:
    assume(message.DESCRIPTOR.fields)
    field = data.draw(st.sampled_from(list(message.DESCRIPTOR.fields)))
    wrong = tag(field.number, VARINT) + b"\1" if _is_length(field) else tag(field.number, FIXED64) + bytes(8)
    return join(fields) + wrong


def _is_length(field: FieldDescriptor) -> bool:
    return field.type in (FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_MESSAGE)


MUTATIONS = (_repeat_field, _two_oneof_members, _pad_a_varint, _unknown_field, _wrong_wire_type)


def _mutated(data: st.DataObject, mutate: Any, message: type[Message], encoded: bytes) -> bytes:
    """The mutation here, or in one of the messages inside."""
    fields = split(encoded)
    inner = [
        at
        for at, (number, _, _) in enumerate(fields)
        if message.DESCRIPTOR.fields_by_number[number].message_type is not None
    ]
    if not inner or data.draw(st.booleans()):
        return mutate(data, message, fields)  # type: ignore[no-any-return]
    at = data.draw(st.sampled_from(inner))
    number, wire_type, value = fields[at]
    inside = message.DESCRIPTOR.fields_by_number[number].message_type._concrete_class
    return join([*fields[:at], (number, wire_type, _mutated(data, mutate, inside, value)), *fields[at + 1 :]])


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__.strip("_"))
# Not every message has a oneof, or a field that may come once; those drawn in vain are many.
@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(message=any_message, data=st.data())
def test_no_mutation_is_ok(mutate: Any, message: Message, data: st.DataObject) -> None:
    mutated = _mutated(data, mutate, type(message), message.SerializeToString())
    finding = SCHEMAS[type(message)].scan(mutated)
    assert finding.reading is not Reading.OK
    if mutate is _unknown_field:
        assert finding.reading is Reading.UNKNOWN_FIELD
    elif mutate is _wrong_wire_type:
        assert finding.reading is Reading.MALFORMED
    else:
        assert finding.reading is Reading.AMBIGUOUS


@st.composite
def odd_bytes(draw: st.DrawFn, message: type[Message]) -> bytes:
    """Bytes near real ones: two messages one after the other, bytes changed, put in, or cut."""
    data = draw(messages(message)).SerializeToString()
    if draw(st.booleans()):
        data += draw(messages(message)).SerializeToString()
    for _ in range(draw(st.integers(0, 2))):
        at, cut = draw(st.integers(0, len(data))), draw(st.integers(0, 1))
        data = (
            data[:at]
            + draw(st.sampled_from([b"", b"\0", b"\1", b"\x80", b"\x0a\x00", b"\x08", b"\xff"]))
            + data[at + cut :]
        )
    return data


@settings(max_examples=400)
@given(st.sampled_from(MESSAGES).flatmap(lambda message: st.tuples(st.just(message), odd_bytes(message))))
def test_bytes_that_are_ok_mean_the_same_to_both_parsers(case: tuple[type[Message], bytes]) -> None:
    message, data = case
    finding = SCHEMAS[message].scan(data)
    try:
        merged = message.FromString(data)
    except DecodeError:
        assert finding.reading is not Reading.OK
        return
    if finding.reading is Reading.OK:
        assert parse_as_etcd(message, data) == merged
        assert parse_as_etcd(message, merged.SerializeToString()) == merged
    elif finding.reading is Reading.AMBIGUOUS:
        assert SCHEMAS[message].scan(merged.SerializeToString()) == OK


@given(st.sampled_from(MESSAGES), st.binary(max_size=40))
def test_any_bytes_get_a_finding(message: type[Message], data: bytes) -> None:
    if SCHEMAS[message].scan(data).reading in (Reading.OK, Reading.AMBIGUOUS):
        assert message.FromString(data).IsInitialized()
