"""Takes the reserved area out of clients' requests: ranges start above it, its keys look absent, writes are refused.

Only the start of a range is ever changed (see `keyspace.clip`), so limits, counts, order, revisions and answers stay
etcd's own. The rule: a request that needs no change is returned itself, one that does is copied, never rebuilt field
by field.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import TypeVar

from greenroom.core.keyspace import FIRST_CLIENT_KEY, clip, is_reserved
from greenroom.errors import EtcdRefusal, RefusedWrite
from greenroom.pb.etcd import rpc_pb2

Ranged = rpc_pb2.RangeRequest | rpc_pb2.DeleteRangeRequest | rpc_pb2.Compare
"""What reads or deletes an exact key, or a range where it has a `range_end`."""

Leaf = Ranged | rpc_pb2.PutRequest
"""What a Txn consists of in the end."""

TOO_MANY_OPERATIONS = "etcdserver: too many operations in txn request"
MAX_PARTS = 10_000
"""Compares and operations of one Txn, at all depths together: etcd takes 128 a branch unless it is told otherwise.

Two MiB of empty operations are a million, and looking at them would stop everybody else's keepalives for seconds.
"""

_Ranged = TypeVar("_Ranged", bound=Ranged)


def clip_range(request: _Ranged) -> _Ranged:
    """A Range, DeleteRange or Compare that finds nothing reserved."""
    return _moved(request) if _must_move(request) else request


def clip_watch(request: rpc_pb2.WatchCreateRequest) -> rpc_pb2.WatchCreateRequest:
    """A watch that sees nothing reserved.

    Only here does etcd take an empty key: with a `range_end` as the very first key there can be, which is moved and
    makes the request longer; without one it means the key of one zero byte, which nobody has.
    """
    very_first = b"\0" if request.range_end else b""
    start = clip(request.key or very_first, request.range_end)
    if start == request.key:
        return request
    clipped = deepcopy(request)
    clipped.key = start
    return clipped


def clip_txn(request: rpc_pb2.TxnRequest, parts: Sequence[Leaf]) -> rpc_pb2.TxnRequest:
    """A Txn that finds nothing reserved, at any depth. RefusedWrite where one of its branches would write there.

    `parts` are its leaves: walking a Txn costs more than all that is asked of it, so it is done once by the caller.
    """
    must_move = False
    for leaf in parts:
        if leaf.key < FIRST_CLIENT_KEY:
            if isinstance(leaf, rpc_pb2.PutRequest):
                check_write(leaf.key)
            elif _must_move(leaf):
                must_move = True
    return _clipped(request) if must_move else request


def check_write(key: bytes) -> None:
    """RefusedWrite for a reserved key."""
    if is_reserved(key):
        raise RefusedWrite(f"key {key!r} is reserved: clients' keys start at {FIRST_CLIENT_KEY!r}")


def leaves(request: rpc_pb2.TxnRequest) -> list[Leaf]:
    """Every compare and every operation of both branches, at any depth; unset operations are left out.

    EtcdRefusal for more than MAX_PARTS of all these.
    """
    found: list[Leaf] = []
    _collect(request, found, MAX_PARTS)
    return found


def _collect(request: rpc_pb2.TxnRequest, found: list[Leaf], room: int) -> int:
    """Appends the leaves; how many parts more there may be."""
    compares, success, failure = request.compare, request.success, request.failure
    room -= len(compares) + len(success) + len(failure)
    if room < 0:
        raise EtcdRefusal(TOO_MANY_OPERATIONS)
    found += compares
    for operation in (*success, *failure):
        name = operation.WhichOneof("request")
        if name == "request_txn":
            room = _collect(operation.request_txn, found, room)
        elif name is not None:
            found.append(getattr(operation, name))
    return room


def _must_move(request: Ranged) -> bool:
    key = request.key
    return key < FIRST_CLIENT_KEY and clip(key, request.range_end) != key


def _moved(request: _Ranged) -> _Ranged:
    moved = deepcopy(request)
    moved.key = clip(request.key, request.range_end)
    return moved


def _clipped(request: rpc_pb2.TxnRequest) -> rpc_pb2.TxnRequest:
    clipped = deepcopy(request)
    for leaf in leaves(clipped):
        if not isinstance(leaf, rpc_pb2.PutRequest) and _must_move(leaf):
            leaf.key = clip(leaf.key, leaf.range_end)
    return clipped
