"""What a client's call uses of gated keys, and whether it can be gated at all. Says no before anything is read.

A Put and a delete are looked at as a Txn of one operation, so there is one way through for all three.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from greenroom.core import txns
from greenroom.core.cards import Content, disagreement, read
from greenroom.core.keyspace import InstanceId, Key, lease_of
from greenroom.core.own_leases import is_own_lease
from greenroom.core.ranges import TOO_MANY_OPERATIONS, check_write
from greenroom.core.templates import GatedKey, GatedKeys, UnfitKey
from greenroom.errors import EtcdRefusal, RefusedWrite, UnsupportedCall
from greenroom.pb.etcd import rpc_pb2

WorkerRequest = rpc_pb2.PutRequest | rpc_pb2.DeleteRangeRequest | rpc_pb2.TxnRequest

DUPLICATE_KEY = "etcdserver: duplicate key given in txn request"
REQUEST_TOO_LARGE = "etcdserver: request is too large"
KEY_NOT_PROVIDED = "etcdserver: key is not provided"
VALUE_PROVIDED = "etcdserver: value is provided"
LEASE_PROVIDED = "etcdserver: lease is provided"
NOTHING_ASKED = "etcdserver: key not found"
"""Said of an operation in which nothing is set."""


@dataclass(frozen=True, slots=True)
class Uses:
    """The gated keys that a call names exactly, all of one instance, and what it puts there."""

    instance: InstanceId
    keys: Mapping[Key, GatedKey]
    puts: Mapping[Key, rpc_pb2.PutRequest]
    deletes: frozenset[Key]
    writes_in_else: bool = False
    """Then a branch is sent alone (see `alternatives`), and what it puts and deletes is asked of it by itself. So it is
    with an Else that reads at a revision, since etcd may refuse that, and would do so where the fence was lost too.
    """
    contents: Mapping[Key, Content] = field(default_factory=dict)
    """What is put, read once."""


def as_txn(request: WorkerRequest) -> rpc_pb2.TxnRequest:
    """The call as a Txn."""
    match request:
        case rpc_pb2.TxnRequest():
            return request
        case rpc_pb2.PutRequest():
            return rpc_pb2.TxnRequest(success=[txns.Operation(request_put=request)])
        case rpc_pb2.DeleteRangeRequest():
            return rpc_pb2.TxnRequest(success=[txns.Operation(request_delete_range=request)])
        case other:
            assert_never(other)


def examine(txn: rpc_pb2.TxnRequest, gated_keys: GatedKeys) -> Uses | None:
    """The gated keys of a call, or None where it names none.

    RefusedWrite: a reserved key, a key that fits no template, a value or lease that disagrees. UnsupportedCall: gated
    keys of two instances, or inside a nested Txn. EtcdRefusal: what etcd itself would refuse about the call as the
    client sent it, and would no longer see in what is sent instead.
    """
    found = _Found(gated_keys)
    for compare in txn.compare:
        if not compare.range_end:
            found.reads(compare.key)
    for operation in (*txn.success, *txn.failure):
        found.operation(operation)
    if not found.keys and not found.ranges:
        return None
    _check_as_etcd_does(txn)
    writes_in_else = any(map(_has_its_time, txn.failure))
    return Uses(found.one_instance(), found.keys, found.puts, frozenset(found.deletes), writes_in_else, found.contents)


class _Found:
    """Collects the gated keys of one call."""

    def __init__(self, gated_keys: GatedKeys) -> None:
        self.gated_keys = gated_keys
        self.keys: dict[Key, GatedKey] = {}
        self.puts: dict[Key, rpc_pb2.PutRequest] = {}
        self.contents: dict[Key, Content] = {}
        self.deletes: set[Key] = set()
        self.ranges: list[InstanceId] = []

    def reads(self, key: bytes) -> GatedKey | None:
        found = self.gated_keys.classify(key)
        if isinstance(found, GatedKey):
            self.keys[found.key] = found
            return found
        return None

    def operation(self, operation: txns.Operation) -> None:
        match operation.WhichOneof("request"):
            case "request_range":
                if not operation.request_range.range_end:
                    self.reads(operation.request_range.key)
            case "request_put":
                self._put(operation.request_put)
            case "request_delete_range":
                self._delete(operation.request_delete_range)
            case "request_txn":
                self._nested(operation.request_txn)

    def _put(self, request: rpc_pb2.PutRequest) -> None:
        if checked := check_put(request, self.gated_keys):
            gated, content = checked
            self.keys[gated.key], self.puts[gated.key], self.contents[gated.key] = gated, request, content

    def _delete(self, request: rpc_pb2.DeleteRangeRequest) -> None:
        if not request.range_end:
            if gated := self.reads(request.key):
                self.deletes.add(gated.key)
        elif instance := self.gated_keys.within_one_instance(request.key, request.range_end):
            self.ranges.append(instance)

    def _nested(self, txn: rpc_pb2.TxnRequest) -> None:
        inner = _Found(self.gated_keys)
        for compare in txn.compare:
            if not compare.range_end:
                inner.reads(compare.key)
        for operation in (*txn.success, *txn.failure):
            inner.operation(operation)
        if inner.keys or inner.ranges:
            named = [repr(key) for key in inner.keys] or list(inner.ranges)
            raise UnsupportedCall(f"gated keys inside a nested Txn are not supported: {named[0]}; use a flat Txn")

    def one_instance(self) -> InstanceId:
        instances = {gated.instance for gated in self.keys.values()} | set(self.ranges)
        if len(instances) > 1:
            raise UnsupportedCall(
                f"a Txn may use gated keys of one instance only, this one uses those of {', '.join(sorted(instances))}"
            )
        return instances.pop()


def check_put(request: rpc_pb2.PutRequest, gated_keys: GatedKeys) -> tuple[GatedKey, Content] | None:
    """The gated key of a Put and what it puts there, or None where its key is another.

    RefusedWrite for a reserved key, or one under a gated prefix that does not agree with itself.
    """
    key = bytes(request.key)
    check_write(key)
    match gated_keys.classify(key):
        case UnfitKey(_, expected):
            raise RefusedWrite(
                f"key {key!r} lies under a gated prefix and does not fit its shape, {expected} "
                "(the instance is the lease id in lower-case hexadecimal)"
            )
        case GatedKey() as gated:
            return gated, _agreeing(gated, request)
    return None


def _agreeing(gated: GatedKey, request: rpc_pb2.PutRequest) -> Content:
    lease = lease_of(gated.instance)
    if request.lease != lease and not (request.ignore_lease and not request.lease):
        given = f"{request.lease:x}" if request.lease > 0 else str(request.lease)
        raise RefusedWrite(
            f"key {gated.key!r} belongs to instance {gated.instance}, the Put is under lease {given}: "
            "a gated key must be put under its own instance's lease"
        )
    if is_own_lease(lease):
        # An instance on the lease of a rollout hold, say, could take the hold along when a person ends its lease.
        raise RefusedWrite(
            f"key {gated.key!r}: lease {gated.instance} is Greenroom's own, and nobody's to register with: "
            "ask etcd for a lease"
        )
    content = read(request.value)
    if not request.ignore_value and (difference := disagreement(gated, content)):
        raise RefusedWrite(f"key {gated.key!r}: {difference}")
    return content


def _has_its_time(operation: txns.Operation) -> bool:
    """Whether an operation of the Else may not be carried out but where etcd would come to it."""
    match operation.WhichOneof("request"):
        case "request_txn":
            return any(map(_has_its_time, (*operation.request_txn.success, *operation.request_txn.failure)))
        case "request_range":
            return operation.request_range.revision != 0
        case kind:
            return kind is not None


def _check_as_etcd_does(txn: rpc_pb2.TxnRequest) -> None:
    """EtcdRefusal for what is wrong with the request whatever etcd holds; of several things for the one it says."""
    _check_parts(txn, txns.MAX_OPERATIONS)
    _written(txn.success)
    _written(txn.failure)


def _check_parts(txn: rpc_pb2.TxnRequest, limit: int) -> None:
    """How many parts there are, and each by itself. What a Txn uses is taken off for those nested in it."""
    used = max(len(txn.compare), len(txn.success), len(txn.failure))
    if used > limit:
        raise EtcdRefusal(TOO_MANY_OPERATIONS)
    for compare in txn.compare:
        _check_key(compare.key)
    for operation in (*txn.success, *txn.failure):
        _check_operation(operation, limit - used)


def _check_operation(operation: txns.Operation, limit: int) -> None:
    match operation.WhichOneof("request"):
        case "request_range":
            _check_key(operation.request_range.key)
        case "request_put":
            _check_put_options(operation.request_put)
        case "request_delete_range":
            _check_key(operation.request_delete_range.key)
        case "request_txn":
            _check_parts(operation.request_txn, limit)
        case _:
            raise EtcdRefusal(NOTHING_ASKED)


def _check_put_options(put: rpc_pb2.PutRequest) -> None:
    _check_key(put.key)
    if put.ignore_value and put.value:
        raise EtcdRefusal(VALUE_PROVIDED)
    if put.ignore_lease and put.lease:
        raise EtcdRefusal(LEASE_PROVIDED)


def _check_key(key: bytes) -> None:
    if not key:
        raise EtcdRefusal(KEY_NOT_PROVIDED)


class _Deleted:
    """The ranges of keys that are deleted: sorted, and joined where they meet, so that one search finds a key."""

    def __init__(self) -> None:
        self._starts: list[bytes] = []
        self._ends: list[bytes] = []

    def __len__(self) -> int:
        return len(self._starts)

    def __contains__(self, key: bytes) -> bool:
        at = bisect_right(self._starts, key)
        return at > 0 and key < self._ends[at - 1]

    def delete(self, request: rpc_pb2.DeleteRangeRequest) -> None:
        """As etcd's check has it, to which a range end of one zero byte is just a small key, not the end of all."""
        start = bytes(request.key)
        self._add(start, bytes(request.range_end) or start + b"\0")

    def joined(self, other: "_Deleted") -> "_Deleted":
        """All ranges of both, in the one that had more of them."""
        large, small = (self, other) if len(self) >= len(other) else (other, self)
        for start, end in zip(small._starts, small._ends, strict=True):
            large._add(start, end)
        return large

    def _add(self, start: bytes, end: bytes) -> None:
        if start >= end:
            return
        first, last = bisect_left(self._ends, start), bisect_right(self._starts, end)
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]


def _written(operations: Iterable[txns.Operation]) -> tuple[set[bytes], _Deleted]:
    """The keys and ranges that one branch writes; EtcdRefusal where two of its writes meet, as etcd refuses that.

    In etcd's order: nested puts meet the deletes around and before them, this branch's own puts meet everything.
    """
    branch = list(operations)
    puts: set[bytes] = set()
    deleted = _Deleted()
    for operation in branch:
        if operation.HasField("request_delete_range"):
            deleted.delete(operation.request_delete_range)
    for operation in branch:
        if operation.HasField("request_txn"):
            inner_puts, inner_deleted = _written_nested(operation.request_txn)
            _must_not_meet(inner_puts, puts, deleted)
            puts |= inner_puts
            deleted = deleted.joined(inner_deleted)
    for operation in branch:
        if operation.HasField("request_put"):
            key = bytes(operation.request_put.key)
            _must_not_meet({key}, puts, deleted)
            puts.add(key)
    return puts, deleted


def _written_nested(txn: rpc_pb2.TxnRequest) -> tuple[set[bytes], _Deleted]:
    """Both branches of a nested Txn; only one of them runs, so they may meet each other."""
    then_puts, then_deleted = _written(txn.success)
    else_puts, else_deleted = _written(txn.failure)
    return then_puts | else_puts, then_deleted.joined(else_deleted)


def _must_not_meet(keys: set[bytes], puts: set[bytes], deleted: _Deleted) -> None:
    if not keys.isdisjoint(puts) or (deleted and any(key in deleted for key in keys)):
        raise EtcdRefusal(DUPLICATE_KEY)
