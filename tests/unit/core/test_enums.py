"""Numbers for which etcd's own protocol has no name, wherever a request can hold one."""

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from greenroom.core.enums import check_enums
from greenroom.errors import RefusedWrite
from greenroom.pb.etcd import rpc_pb2

HOLDERS = (rpc_pb2.RangeRequest, rpc_pb2.Compare, rpc_pb2.WatchCreateRequest)
OTHERS = (rpc_pb2.PutRequest, rpc_pb2.DeleteRangeRequest)


def enums_of(message: type[Message]) -> list[FieldDescriptor]:
    return [field for field in message.DESCRIPTOR.fields if field.enum_type is not None]


def holding(message: type[Message], field: FieldDescriptor, number: int) -> Message:
    return message(**{field.name: [number] if field.is_repeated else number})


@pytest.mark.parametrize("message", HOLDERS)
def test_every_value_that_has_a_name_passes(message: type[Message]) -> None:
    assert enums_of(message)
    for field in enums_of(message):
        for number in field.enum_type.values_by_number:
            check_enums(holding(message, field, number))


@pytest.mark.parametrize("message", HOLDERS)
@pytest.mark.parametrize("number", [-1, 5, 1 << 30])
def test_a_value_without_a_name_is_refused_with_field_and_value(message: type[Message], number: int) -> None:
    """One sort_target of 5 makes etcd 3.4 exit, and every worker's store with it."""
    for field in enums_of(message):
        with pytest.raises(RefusedWrite, match=rf"{field.name} is \[?{number}\b.*{message.DESCRIPTOR.full_name}"):
            check_enums(holding(message, field, number))


def test_nothing_else_that_is_looked_into_holds_one() -> None:
    assert not [field for message in OTHERS for field in enums_of(message)]
    for message in OTHERS:
        check_enums(message())
