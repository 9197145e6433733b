"""Encodings that parsers disagree about, each by hand; that it holds for all of them is a property test's business."""

import pytest
from google.protobuf import descriptor_pb2, struct_pb2
from google.protobuf.message import Message

from greenroom.core.strict import AMBIGUOUS, MALFORMED, MAX_DEPTH, OK, Finding, Reading, schema_of
from greenroom.pb.etcd import election_pb2, rpc_pb2
from tests.support.wire import (
    END_GROUP,
    FIXED32,
    FIXED64,
    LENGTH,
    START_GROUP,
    VARINT,
    bytes_field,
    number_field,
    parse_as_etcd,
    tag,
    varint,
)

RANGE, WATCH, TXN = rpc_pb2.RangeRequest, rpc_pb2.WatchRequest, rpc_pb2.TxnRequest
KEY = bytes_field(1, b"a")


def scan(message: type[Message], data: bytes) -> Finding:
    return schema_of(message).scan(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        KEY,
        bytes_field(2, b"b") + KEY,
        KEY + bytes_field(2, b""),
        KEY + number_field(3, 0) + number_field(7, 0) + number_field(5, 0),
        number_field(3, -1),
        number_field(4, (1 << 63) - 1),
        number_field(5, -1),
        number_field(5, (1 << 31) - 1),
        number_field(7, 1),
        bytes_field(1, bytes(1000)),
    ],
)
def test_explicit_zeros_any_order_and_the_largest_numbers_mean_one_thing(data: bytes) -> None:
    assert scan(RANGE, data) == OK
    assert parse_as_etcd(RANGE, data) == RANGE.FromString(data)


@pytest.mark.parametrize(
    "data",
    [
        KEY + KEY,
        KEY + number_field(3, 1) + bytes_field(1, b"b"),
        number_field(7, 0) + number_field(7, 0),
        tag(1, LENGTH, extra=1) + b"\1a",
        tag(1, LENGTH) + varint(1, extra=1) + b"a",
        tag(3, VARINT) + varint(5, extra=1),
        tag(3, VARINT) + varint(0, extra=1),
        tag(3, VARINT) + varint(5, extra=9),
        number_field(7, 2),
        number_field(5, 1 << 31),
        number_field(5, 1 << 32),
        number_field(5, -1 << 32),
    ],
)
def test_repeated_padded_and_wide_values_are_ambiguous(data: bytes) -> None:
    assert scan(RANGE, data) == AMBIGUOUS


@pytest.mark.parametrize(
    "data",
    [
        tag(1, VARINT) + b"\1",
        tag(3, LENGTH) + b"\1a",
        tag(3, FIXED64) + bytes(8),
        tag(3, FIXED32) + bytes(4),
        tag(1, START_GROUP) + tag(1, END_GROUP),
        tag(1, LENGTH) + b"\2a",
        tag(1, LENGTH) + varint((1 << 64) - 1),
        tag(1, LENGTH),
        tag(3, VARINT),
        tag(3, VARINT) + b"\x80",
        tag(3, VARINT) + b"\xff" * 10 + b"\1",
        tag(3, VARINT) + b"\xff" * 9 + b"\2",
        b"\x80",
        tag(0, VARINT) + b"\0",
        tag(0, LENGTH) + b"\0",
        tag((1 << 32) + 1, LENGTH) + b"\1a",
        b"\x0e",
        b"\x0f",
    ],
)
def test_what_some_parser_refuses_is_malformed(data: bytes) -> None:
    """Among them a field number of 2**32 + 1, which etcd's parser cuts to 1: a key that nobody else sees."""
    assert scan(RANGE, data) == MALFORMED
    assert scan(RANGE, KEY + data) == MALFORMED


@pytest.mark.parametrize("data", [number_field(31, 1), bytes_field(31, b""), tag(31, FIXED32) + bytes(4)])
def test_an_unknown_field_is_named(data: bytes) -> None:
    assert scan(RANGE, KEY + data) == Finding(Reading.UNKNOWN_FIELD, 31, "etcdserverpb.RangeRequest")


def test_an_unknown_field_is_named_with_the_message_it_is_in() -> None:
    inside = bytes_field(1, bytes_field(3, b"k") + number_field(99, 1))
    assert scan(TXN, inside) == Finding(Reading.UNKNOWN_FIELD, 99, "etcdserverpb.Compare")


def test_an_unknown_field_behind_an_ambiguous_one_is_still_found() -> None:
    """Ambiguous bytes are replaced by our own serialisation, which would drop the field without a word."""
    assert scan(RANGE, KEY + KEY + number_field(31, 1)).reading is Reading.UNKNOWN_FIELD
    twice = bytes_field(1, bytes_field(3, b"k") * 2)
    assert scan(TXN, twice + number_field(31, 1)).reading is Reading.UNKNOWN_FIELD
    assert scan(TXN, twice + bytes_field(1, number_field(31, 1))).reading is Reading.UNKNOWN_FIELD


def test_a_watch_created_twice_is_two_watches_to_two_parsers() -> None:
    """Merged it is the range from 0x02 to the end of all keys, replaced it is everything: a leak."""
    first = bytes_field(1, bytes_field(1, b"\x02"))
    second = bytes_field(1, bytes_field(2, b"\0"))
    merged = WATCH.FromString(first + second).create_request
    replaced = parse_as_etcd(WATCH, first + second).create_request
    assert (merged.key, replaced.key) == (b"\x02", b"")
    assert scan(WATCH, first) == scan(WATCH, second) == OK
    assert scan(WATCH, first + second) == AMBIGUOUS


def test_two_members_of_a_oneof_are_ambiguous() -> None:
    create, cancel = bytes_field(1, KEY), bytes_field(2, number_field(1, 7))
    assert scan(WATCH, create + cancel) == AMBIGUOUS
    compare = bytes_field(3, b"k") + number_field(4, 0)
    assert scan(rpc_pb2.Compare, compare) == OK
    assert scan(rpc_pb2.Compare, compare + bytes_field(7, b"v")) == AMBIGUOUS


def test_a_repeated_message_may_repeat_and_each_is_looked_into() -> None:
    compare = bytes_field(1, bytes_field(3, b"k"))
    assert scan(TXN, compare * 3) == OK
    assert scan(TXN, compare + bytes_field(1, bytes_field(3, b"k") * 2) + compare) == AMBIGUOUS


def test_a_message_outside_a_oneof_may_come_once() -> None:
    leader = bytes_field(1, bytes_field(2, b"key"))
    assert scan(election_pb2.ResignRequest, leader) == OK
    assert scan(election_pb2.ResignRequest, leader * 2) == AMBIGUOUS


@pytest.mark.parametrize(
    "filters", [number_field(5, 0) + number_field(5, 1), bytes_field(5, b"\0\1"), bytes_field(5, b"")]
)
def test_repeated_numbers_are_taken_packed_and_alone(filters: bytes) -> None:
    assert scan(rpc_pb2.WatchCreateRequest, filters) == OK


@pytest.mark.parametrize(
    ("packed", "finding"), [(varint(1, extra=1), AMBIGUOUS), (varint(1 << 40), AMBIGUOUS), (b"\x81", MALFORMED)]
)
def test_packed_numbers_are_judged_one_by_one(packed: bytes, finding: Finding) -> None:
    assert scan(rpc_pb2.WatchCreateRequest, bytes_field(5, b"\0" + packed)) == finding


def test_a_nested_message_ends_where_its_length_says() -> None:
    """A value that runs over the end of its message is inside for one parser and cut off for another."""
    overrun = tag(1, LENGTH) + b"\2" + tag(1, LENGTH) + b"\5" + b"abcde"
    assert scan(WATCH, overrun) == MALFORMED
    assert scan(WATCH, tag(1, LENGTH) + b"\1" + tag(3, VARINT) + b"\1") == MALFORMED
    assert scan(WATCH, tag(1, LENGTH) + b"\x09" + number_field(99, 1)) == MALFORMED


def nested_txn(depth: int) -> bytes:
    """A Txn in `depth` operations: two messages a level."""
    data = b""
    for _ in range(depth):
        data = bytes_field(2, bytes_field(4, data))
    return data


def test_depth_is_bounded_as_in_protobufs_parser() -> None:
    deepest = nested_txn(MAX_DEPTH // 2)
    assert scan(TXN, deepest) == OK
    assert scan(TXN, nested_txn(MAX_DEPTH // 2 + 1)) == MALFORMED
    assert scan(TXN, nested_txn(5_000)) == MALFORMED


def test_text_must_be_utf_8() -> None:
    named = rpc_pb2.AuthUserGetRequest
    assert scan(named, bytes_field(1, "ü".encode())) == OK
    assert scan(named, bytes_field(1, b"\xff")) == MALFORMED


def test_fixed_width_numbers_have_their_width() -> None:
    value = descriptor_pb2.UninterpretedOption
    number = value.DESCRIPTOR.fields_by_name["double_value"].number
    assert scan(value, tag(number, FIXED64) + bytes(8)) == OK
    assert scan(value, tag(number, FIXED64) + bytes(7)) == MALFORMED
    assert scan(value, (tag(number, FIXED64) + bytes(8)) * 2) == AMBIGUOUS


def test_maps_are_not_judged() -> None:
    with pytest.raises(ValueError, match="is a map"):
        schema_of(struct_pb2.Struct)
