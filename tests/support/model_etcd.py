"""An etcd small enough to be in many states at once: a value, executing the same messages that the real one gets.

The rule: exact in what it does (`tests/property/test_model_etcd.py` compares it with a real etcd), and a loud
NotImplementedError for what it does not do: reads of the past, sort orders, sizes, watches.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import grpc

from greenroom.pb.etcd import kv_pb2, rpc_pb2

MAX_OPERATIONS = 128
TOO_MANY_OPERATIONS = (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: too many operations in txn request")
DUPLICATE_KEY = (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: duplicate key given in txn request")
EMPTY_KEY = (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: key is not provided")
VALUE_PROVIDED = (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: value is provided")
LEASE_PROVIDED = (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: lease is provided")
KEY_NOT_FOUND = (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: key not found")
LEASE_NOT_FOUND = (grpc.StatusCode.NOT_FOUND, "etcdserver: requested lease not found")
LEASE_EXISTS = (grpc.StatusCode.FAILED_PRECONDITION, "etcdserver: lease already exists")

Compare = rpc_pb2.Compare
Refused = tuple[grpc.StatusCode, str]


class Refusal(Exception):
    """etcd's refusal: nothing was done."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused[1])
        self.code, self.text = refused


class Item(NamedTuple):
    """A key as it stands."""

    key: bytes
    value: bytes
    lease: int
    create_revision: int
    mod_revision: int
    version: int

    def message(self, *, keys_only: bool = False) -> kv_pb2.KeyValue:
        fields = self._asdict()
        return kv_pb2.KeyValue(**(fields | {"value": b""} if keys_only else fields))


class Change(NamedTuple):
    """One key's part in a revision; `item` is None where it was deleted. Changes of a revision are in their order."""

    key: bytes
    item: Item | None


@dataclass(frozen=True, slots=True, eq=False)
class ModelEtcd:
    """One state of the store. Every operation answers and returns the state after it; this one stays as it is.

    `fingerprint` stands for the state and its whole past.
    """

    revision: int = 1
    items: Mapping[bytes, Item] = field(default_factory=dict)
    leases: frozenset[int] = frozenset()
    past: "ModelEtcd | None" = None
    changes: tuple[Change, ...] = ()
    fingerprint: int = 0

    def txn(self, request: rpc_pb2.TxnRequest) -> tuple["ModelEtcd", rpc_pb2.TxnResponse]:
        """Refusal, or the whole Txn at one revision."""
        _check_txn(request, MAX_OPERATIONS)
        _written(request.success)
        _written(request.failure)
        # Which branches run is settled before anything is written, for nested Txns too.
        path = list(self._path(request))
        self._check_taken(request, iter(path))
        writing = _Writing(self)
        answer = writing.txn(request, iter(path))
        after = self._after(writing)
        answer.header.revision = after.revision
        return after, answer

    def put(self, request: rpc_pb2.PutRequest) -> tuple["ModelEtcd", rpc_pb2.PutResponse]:
        after, answer = self.txn(rpc_pb2.TxnRequest(success=[rpc_pb2.RequestOp(request_put=request)]))
        return after, answer.responses[0].response_put

    def delete(self, request: rpc_pb2.DeleteRangeRequest) -> tuple["ModelEtcd", rpc_pb2.DeleteRangeResponse]:
        after, answer = self.txn(rpc_pb2.TxnRequest(success=[rpc_pb2.RequestOp(request_delete_range=request)]))
        return after, answer.responses[0].response_delete_range

    def range(self, request: rpc_pb2.RangeRequest) -> rpc_pb2.RangeResponse:
        _, answer = self.txn(rpc_pb2.TxnRequest(success=[rpc_pb2.RequestOp(request_range=request)]))
        return answer.responses[0].response_range

    def grant(self, lease: int) -> "ModelEtcd":
        if lease in self.leases:
            raise Refusal(LEASE_EXISTS)
        return self._with(self.items, (), self.leases | {lease})

    def revoke(self, lease: int) -> "ModelEtcd":
        """The lease and, at one revision and in the order of their names, its keys."""
        if lease not in self.leases:
            raise Refusal(LEASE_NOT_FOUND)
        gone = self.lease_keys(lease)
        items = {key: item for key, item in self.items.items() if key not in gone}
        return self._with(items, tuple(Change(key, None) for key in gone), self.leases - {lease})

    def lease_keys(self, lease: int) -> list[bytes]:
        return sorted(key for key, item in self.items.items() if item.lease == lease)

    def log(self) -> list[tuple[int, tuple[Change, ...]]]:
        """Every revision with its changes, from the first."""
        found = []
        state: ModelEtcd | None = self
        while state is not None:
            if state.changes:
                found.append((state.revision, state.changes))
            state = state.past
        return found[::-1]

    def _after(self, writing: "_Writing") -> "ModelEtcd":
        return self._with(writing.items, tuple(writing.changes), self.leases) if writing.changes else self

    def _with(self, items: Mapping[bytes, Item], changes: tuple[Change, ...], leases: frozenset[int]) -> "ModelEtcd":
        fingerprint = hash((self.fingerprint, changes, leases))
        return ModelEtcd(self.revision + bool(changes), items, leases, self, changes, fingerprint)

    def _path(self, request: rpc_pb2.TxnRequest) -> Iterator[bool]:
        taken = all(self._holds(compare) for compare in request.compare)
        yield taken
        for operation in request.success if taken else request.failure:
            if operation.HasField("request_txn"):
                yield from self._path(operation.request_txn)

    def _holds(self, compare: Compare) -> bool:
        found = list(_within(self.items, compare.key, compare.range_end))
        if not found:
            # A missing key is compared as one of zeros, but has no value to compare.
            return compare.target != Compare.VALUE and _compared(compare, Item(b"", b"", 0, 0, 0, 0))
        return all(_compared(compare, item) for item in found)

    def _check_taken(self, request: rpc_pb2.TxnRequest, path: Iterator[bool]) -> None:
        for operation in request.success if next(path) else request.failure:
            if operation.HasField("request_txn"):
                self._check_taken(operation.request_txn, path)
            elif operation.HasField("request_put"):
                self._check_put(operation.request_put)

    def _check_put(self, put: rpc_pb2.PutRequest) -> None:
        if (put.ignore_value or put.ignore_lease) and put.key not in self.items:
            raise Refusal(KEY_NOT_FOUND)
        if put.lease and put.lease not in self.leases:
            raise Refusal(LEASE_NOT_FOUND)


class _Writing:
    """The state of one Txn on its way; reads in it see its writes."""

    def __init__(self, before: ModelEtcd) -> None:
        self.items = dict(before.items)
        self.revision = before.revision
        self.changes: list[Change] = []

    def txn(self, request: rpc_pb2.TxnRequest, path: Iterator[bool]) -> rpc_pb2.TxnResponse:
        answer = rpc_pb2.TxnResponse(succeeded=next(path))
        for operation in request.success if answer.succeeded else request.failure:
            response = answer.responses.add()
            match operation.WhichOneof("request"):
                case "request_range":
                    response.response_range.CopyFrom(self.range(operation.request_range))
                case "request_put":
                    response.response_put.CopyFrom(self.put(operation.request_put))
                case "request_delete_range":
                    response.response_delete_range.CopyFrom(self.delete(operation.request_delete_range))
                case "request_txn":
                    response.response_txn.CopyFrom(self.txn(operation.request_txn, path))
        # Only the outermost answer says its revision; `ModelEtcd.txn` fills it in.
        answer.header.SetInParent()
        return answer

    def range(self, request: rpc_pb2.RangeRequest) -> rpc_pb2.RangeResponse:
        if request.revision or request.sort_order or request.max_mod_revision or request.min_create_revision:
            raise NotImplementedError(f"a model reads only the present, by key: {request}")
        found = list(_within(self.items, request.key, request.range_end))
        kept = [item for item in found if item.mod_revision >= request.min_mod_revision]
        shown = [] if request.count_only else kept[: request.limit or None]
        answer = rpc_pb2.RangeResponse(count=len(found), more=not request.count_only and len(shown) < len(kept))
        answer.kvs.extend(item.message(keys_only=request.keys_only) for item in shown)
        answer.header.revision = self._revision_now
        return answer

    def put(self, request: rpc_pb2.PutRequest) -> rpc_pb2.PutResponse:
        before, now = self.items.get(request.key), self.revision + 1
        item = Item(
            key=request.key,
            value=before.value if before and request.ignore_value else request.value,
            lease=before.lease if before and request.ignore_lease else request.lease,
            create_revision=before.create_revision if before else now,
            mod_revision=now,
            version=before.version + 1 if before else 1,
        )
        self.items[request.key] = item
        self.changes.append(Change(request.key, item))
        answer = rpc_pb2.PutResponse(prev_kv=before.message() if before and request.prev_kv else None)
        answer.header.revision = now
        return answer

    def delete(self, request: rpc_pb2.DeleteRangeRequest) -> rpc_pb2.DeleteRangeResponse:
        gone = list(_within(self.items, request.key, request.range_end))
        for item in gone:
            del self.items[item.key]
            self.changes.append(Change(item.key, None))
        answer = rpc_pb2.DeleteRangeResponse(deleted=len(gone))
        if request.prev_kv:
            answer.prev_kvs.extend(item.message() for item in gone)
        answer.header.revision = self._revision_now
        return answer

    @property
    def _revision_now(self) -> int:
        return self.revision + bool(self.changes)


def _within(items: Mapping[bytes, Item], key: bytes, range_end: bytes) -> Iterator[Item]:
    if not range_end:
        if key in items:
            yield items[key]
        return
    for name in sorted(items):
        if _lies_within(name, key, range_end):
            yield items[name]


_RESULTS: Mapping[int, Callable[[int], bool]] = {
    Compare.EQUAL: lambda sign: sign == 0,
    Compare.NOT_EQUAL: lambda sign: sign != 0,
    Compare.GREATER: lambda sign: sign > 0,
    Compare.LESS: lambda sign: sign < 0,
}


def _compared(compare: Compare, item: Item) -> bool:
    sides: tuple[bytes | int, bytes | int]
    match compare.target:
        case Compare.VERSION:
            sides = item.version, compare.version
        case Compare.CREATE:
            sides = item.create_revision, compare.create_revision
        case Compare.MOD:
            sides = item.mod_revision, compare.mod_revision
        case Compare.VALUE:
            sides = item.value, compare.value
        case _:
            sides = item.lease, compare.lease
    sign = (sides[0] > sides[1]) - (sides[0] < sides[1])  # type: ignore[operator]
    return _RESULTS[compare.result](sign)


def _check_txn(request: rpc_pb2.TxnRequest, limit: int) -> None:
    largest = max(len(request.compare), len(request.success), len(request.failure))
    if largest > limit:
        raise Refusal(TOO_MANY_OPERATIONS)
    if any(not compare.key for compare in request.compare):
        raise Refusal(EMPTY_KEY)
    for operation in (*request.success, *request.failure):
        _check_operation(operation, limit - largest)


def _check_operation(operation: rpc_pb2.RequestOp, limit: int) -> None:
    kind = operation.WhichOneof("request")
    if kind is None:
        raise NotImplementedError("an operation without a request")
    if kind == "request_txn":
        # What the Txn around it uses is taken off.
        return _check_txn(operation.request_txn, limit)
    if not getattr(operation, kind).key:
        raise Refusal(EMPTY_KEY)
    put = operation.request_put
    if put.ignore_value and put.value:
        raise Refusal(VALUE_PROVIDED)
    if put.ignore_lease and put.lease:
        raise Refusal(LEASE_PROVIDED)
    return None


_Ranges = list[tuple[bytes, bytes]]


def _written(operations: Iterable[rpc_pb2.RequestOp]) -> tuple[set[bytes], _Ranges]:
    """What one branch puts and deletes; DUPLICATE_KEY where a put meets another write, in the order etcd looks."""
    branch = list(operations)
    deletes = [op.request_delete_range for op in branch if op.HasField("request_delete_range")]
    ranges: _Ranges = [(delete.key, delete.range_end) for delete in deletes]
    puts: set[bytes] = set()
    for operation in branch:
        if operation.HasField("request_txn"):
            then, then_ranges = _written(operation.request_txn.success)
            otherwise, other_ranges = _written(operation.request_txn.failure)
            _must_be_alone(then | otherwise, puts, ranges)
            puts |= then | otherwise
            ranges += then_ranges + other_ranges
    for operation in branch:
        if operation.HasField("request_put"):
            _must_be_alone({operation.request_put.key}, puts, ranges)
            puts.add(operation.request_put.key)
    return puts, ranges


def _must_be_alone(keys: set[bytes], puts: set[bytes], ranges: _Ranges) -> None:
    # etcd takes a delete of everything from a key on for an empty interval here, and so lets it meet a put.
    if keys & puts or any(_lies_within(key, start, end) for key in keys for start, end in ranges if end != b"\0"):
        raise Refusal(DUPLICATE_KEY)


def _lies_within(key: bytes, start: bytes, end: bytes) -> bool:
    if not end:
        return key == start
    return key >= start and (end == b"\0" or key < end)
