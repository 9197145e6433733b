"""Numbers in requests for which etcd's protocol has no name, and what becomes of them: the request is refused.

Protobuf lets any number through, so that a newer peer may mean something by it. etcd 3.4 exits at a sort target that it
does not know: one client's slip would take the store from everybody. So a number passes only if it has a name here.
"""

from collections.abc import Mapping
from typing import Final

from google.protobuf.message import Message

from greenroom.errors import RefusedWrite
from greenroom.pb.etcd import rpc_pb2


def _enums(message: type[Message]) -> tuple[tuple[str, frozenset[int], bool], ...]:
    """Each enum field of a message: its name, the numbers that have a name, and whether it is a list of them."""
    fields = message.DESCRIPTOR.fields
    return tuple(
        (field.name, frozenset(enum.values_by_number), field.is_repeated)
        for field in fields
        if (enum := field.enum_type) is not None
    )


_ENUMS: Final[Mapping[type[Message], tuple[tuple[str, frozenset[int], bool], ...]]] = {
    message: _enums(message) for message in (rpc_pb2.RangeRequest, rpc_pb2.Compare, rpc_pb2.WatchCreateRequest)
}
"""No other message that is looked into has an enum."""


def check_enums(message: Message) -> None:
    """RefusedWrite where a field of this message (not of those within it) holds a number without a name."""
    for name, known, is_list in _ENUMS.get(type(message), ()):
        given = getattr(message, name)
        if not known.issuperset(given) if is_list else given not in known:
            kind = message.DESCRIPTOR.full_name
            raise RefusedWrite(f"{name} is {given}, which {kind} does not name: etcd might do anything with it")
