"""What a preview's clients may send: read strictly, reserved keys out of reach, gated keys to be read and no more.

The rule: what is sent on is our own serialisation of what was read here, so bytes need not mean the same to everybody;
but a field that is not known here might mean something to etcd, and is refused.
"""

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from greenroom.core.enums import check_enums
from greenroom.core.keyspace import is_reserved
from greenroom.core.preview import View
from greenroom.core.ranges import Leaf, check_write, clip_range, clip_txn, leaves
from greenroom.core.strict import Reading, Schema, schema_of
from greenroom.errors import GreenroomError, PreviewWrite, UnsupportedCall
from greenroom.pb.etcd import rpc_pb2

MessageT = TypeVar("MessageT", bound=Message)

_schemas: dict[type[Message], Schema] = {}


def parsed(message_type: type[MessageT], data: bytes) -> MessageT:
    """The request; UnsupportedCall for one with unknown fields, and as etcd's own server for what is none."""
    schema = _schemas.setdefault(message_type, schema_of(message_type))
    finding = schema.scan(data)
    if finding.reading is Reading.UNKNOWN_FIELD:
        raise UnsupportedCall(f"{finding.message} has a field {finding.number} that this version does not know")
    try:
        if finding.reading is Reading.MALFORMED:
            raise DecodeError
        return message_type.FromString(data)
    except DecodeError:
        name = message_type.DESCRIPTOR.full_name
        raise GreenroomError(f"error unmarshalling request: not a valid {name}") from None


def checked_read(request: rpc_pb2.RangeRequest) -> rpc_pb2.RangeRequest:
    """A Range as it may go on; RefusedWrite for numbers that have no meaning."""
    check_enums(request)
    return clip_range(request)


def checked_put(request: rpc_pb2.PutRequest, view: View) -> rpc_pb2.PutRequest:
    """A Put of a client's own key; PreviewWrite for a gated one, RefusedWrite for a reserved one."""
    check_write(request.key)
    _check_leaf(request, view)
    return request


def checked_delete(request: rpc_pb2.DeleteRangeRequest, view: View) -> rpc_pb2.DeleteRangeRequest:
    """A DeleteRange that reaches no gated key."""
    clipped = clip_range(request)
    _check_leaf(clipped, view)
    return clipped


def checked_txn(request: rpc_pb2.TxnRequest, view: View) -> rpc_pb2.TxnRequest:
    """A Txn about keys of which a preview shows what etcd has."""
    parts = leaves(request)
    for part in parts:
        check_enums(part)
    clipped = clip_txn(request, parts)
    for part in sorted(leaves(clipped), key=_is_write, reverse=True):
        _check_leaf(part, view)
    return clipped


def check_keys_of_lease(lease: rpc_pb2.LeaseTimeToLiveResponse, view: View) -> None:
    """PreviewWrite for a lease that a worker's cards, held or public, would go with: to end it is to delete them."""
    if any(is_reserved(key) or view.gated_keys.overlaps(key, b"") for key in lease.keys):
        raise PreviewWrite(
            f"lease {lease.ID:x} is a worker's: its gated keys would go with it, which a preview only shows"
        )


def _is_write(leaf: Leaf) -> bool:
    return isinstance(leaf, rpc_pb2.PutRequest | rpc_pb2.DeleteRangeRequest)


def _check_leaf(leaf: Leaf, view: View) -> None:
    range_end = b"" if isinstance(leaf, rpc_pb2.PutRequest) else leaf.range_end
    is_write = _is_write(leaf)
    if view.gated_keys.overlaps(leaf.key, range_end):
        if is_write:
            raise PreviewWrite(
                f"key {leaf.key!r} is gated, or the range from there has gated keys, which a preview only shows: "
                "workers register through the proxy's own port"
            )
        raise UnsupportedCall(f"a Txn through a preview neither reads nor compares gated keys, as from {leaf.key!r}")
    if view.only and not is_write and (range_end or view.is_its_own(leaf.key) is False):
        raise UnsupportedCall(
            f"a Txn through a preview of one instance alone reads no ranges, and no keys of another one: {leaf.key!r}"
        )
