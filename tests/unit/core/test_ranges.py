"""Clipping of each kind of request; that it hides exactly the reserved keys is a property test's business."""

import pytest

from greenroom.core.keyspace import BUDGET, ROOT, SHADOWS
from greenroom.core.ranges import MAX_PARTS, check_write, clip_range, clip_txn, clip_watch, leaves
from greenroom.errors import EtcdRefusal, RefusedWrite
from greenroom.pb.etcd import rpc_pb2

Operation = rpc_pb2.RequestOp
MOVED = b"\x01" + b"\xff" * (len(BUDGET) - 1)
RANGED = (rpc_pb2.RangeRequest, rpc_pb2.DeleteRangeRequest, rpc_pb2.Compare)


def get(key: bytes, range_end: bytes = b"") -> Operation:
    return Operation(request_range=rpc_pb2.RangeRequest(key=key, range_end=range_end))


def put(key: bytes) -> Operation:
    return Operation(request_put=rpc_pb2.PutRequest(key=key, value=b"v"))


def delete(key: bytes, range_end: bytes = b"") -> Operation:
    return Operation(request_delete_range=rpc_pb2.DeleteRangeRequest(key=key, range_end=range_end))


def nested(request: rpc_pb2.TxnRequest) -> Operation:
    return Operation(request_txn=request)


def clipped(request: rpc_pb2.TxnRequest) -> rpc_pb2.TxnRequest:
    return clip_txn(request, leaves(request))


@pytest.mark.parametrize("message", RANGED)
@pytest.mark.parametrize(
    ("key", "range_end"), [(b"a", b""), (b"a", b"b"), (b"\x02", b"\0"), (b"", b"\0"), (b"", b""), (b"\0", b"")]
)
def test_a_range_above_the_reserved_area_is_returned_itself(message, key: bytes, range_end: bytes) -> None:  # type: ignore[no-untyped-def]
    request = message(key=key, range_end=range_end)
    assert clip_range(request) is request


@pytest.mark.parametrize("message", RANGED)
@pytest.mark.parametrize(
    ("key", "range_end", "start"),
    [
        (b"\0", b"\0", b"\x02"),
        (b"\x01", b"\x02", b"\x02"),
        (BUDGET, b"", MOVED),
        (BUDGET, b"zz", MOVED),
        (b"\0\0", b"\0", b"\x01\xff"),
    ],
)
def test_a_range_that_starts_reserved_moves_up(message, key: bytes, range_end: bytes, start: bytes) -> None:  # type: ignore[no-untyped-def]
    request = message(key=key, range_end=range_end)
    moved = clip_range(request)
    assert (moved.key, moved.range_end) == (start, range_end)
    assert request.key == key, "the client's own request is not touched"
    assert moved.ByteSize() == request.ByteSize()


def test_everything_else_of_a_range_stays() -> None:
    request = rpc_pb2.RangeRequest(key=b"\0", range_end=b"\0", limit=7, serializable=True, min_mod_revision=3)
    moved = clip_range(request)
    moved.key = request.key
    assert moved == request


@pytest.mark.parametrize(
    ("key", "range_end", "start"),
    [
        (b"", b"\0", b"\x02"),
        (b"", b"b", b"\x02"),
        (b"\0", b"\0", b"\x02"),
        (ROOT, b"\0", b"\x01" + b"\xff" * (len(ROOT) - 1)),
        (BUDGET, b"", MOVED),
    ],
)
def test_a_watch_starts_above_the_reserved_area(key: bytes, range_end: bytes, start: bytes) -> None:
    """etcd takes an empty key on a watch alone, as the very first one."""
    request = rpc_pb2.WatchCreateRequest(key=key, range_end=range_end, prev_kv=True, watch_id=4)
    moved = clip_watch(request)
    assert (moved.key, moved.range_end, moved.prev_kv, moved.watch_id) == (start, range_end, True, 4)
    assert request.key == key


@pytest.mark.parametrize(("key", "range_end"), [(b"", b""), (b"\0", b""), (b"a", b""), (b"a", b"b"), (b"\x02", b"\0")])
def test_a_watch_that_sees_nothing_reserved_is_returned_itself(key: bytes, range_end: bytes) -> None:
    """An empty key without an end is the key of one zero byte: nobody's."""
    request = rpc_pb2.WatchCreateRequest(key=key, range_end=range_end)
    assert clip_watch(request) is request


def test_a_txn_without_reserved_keys_is_returned_itself() -> None:
    request = rpc_pb2.TxnRequest(
        compare=[rpc_pb2.Compare(key=b"a", range_end=b"b")],
        success=[put(b"a"), get(b"a", b"\0"), Operation()],
        failure=[delete(b"a"), nested(rpc_pb2.TxnRequest(success=[put(b"b")]))],
    )
    assert clipped(request) is request


def test_a_txn_is_clipped_in_every_part_and_at_every_depth() -> None:
    inner = rpc_pb2.TxnRequest(compare=[rpc_pb2.Compare(key=BUDGET)], failure=[get(b"\0", b"\0"), put(b"k")])
    request = rpc_pb2.TxnRequest(
        compare=[rpc_pb2.Compare(key=b"a"), rpc_pb2.Compare(key=b"\0", range_end=b"\0")],
        success=[delete(BUDGET), put(b"k"), Operation()],
        failure=[nested(rpc_pb2.TxnRequest(success=[nested(inner)])), get(b"\x01", b"z")],
    )
    before = request.SerializeToString()
    moved = clipped(request)
    assert [compare.key for compare in moved.compare] == [b"a", b"\x02"]
    assert moved.success[0].request_delete_range.key == MOVED
    assert list(moved.success[1:]) == list(request.success[1:])
    deep = moved.failure[0].request_txn.success[0].request_txn
    assert (deep.compare[0].key, deep.failure[0].request_range.key) == (MOVED, b"\x02")
    assert deep.failure[1] == inner.failure[1]
    assert moved.failure[1].request_range.key == b"\x02"
    assert request.SerializeToString() == before, "the client's own request is not touched"


@pytest.mark.parametrize("branch", ["success", "failure"])
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_a_reserved_write_is_refused_wherever_it_hides(branch: str, depth: int) -> None:
    request = rpc_pb2.TxnRequest(**{branch: [get(b"a"), put(SHADOWS + b"ab/v1/mdc/x")]})
    for _ in range(depth):
        request = rpc_pb2.TxnRequest(failure=[nested(request)])
    with pytest.raises(RefusedWrite, match="held/ab/v1/mdc/x"):
        clipped(request)


@pytest.mark.parametrize("key", [b"\0", b"\x01", BUDGET, b"\x00\xff"])
def test_a_reserved_write_names_the_key(key: bytes) -> None:
    with pytest.raises(RefusedWrite) as refused:
        check_write(key)
    assert repr(key) in str(refused.value)


@pytest.mark.parametrize("key", [b"", b"\x02", b"a", b"\xff"])
def test_other_writes_are_etcds_business(key: bytes) -> None:
    """The empty key too: etcd refuses it with its own text."""
    check_write(key)


def test_leaves_are_everything_that_names_a_key() -> None:
    request = rpc_pb2.TxnRequest(
        compare=[rpc_pb2.Compare(key=b"1")],
        success=[put(b"2"), Operation(), nested(rpc_pb2.TxnRequest(compare=[rpc_pb2.Compare(key=b"3")]))],
        failure=[delete(b"4"), get(b"5"), nested(rpc_pb2.TxnRequest())],
    )
    assert [leaf.key for leaf in leaves(request)] == [b"1", b"2", b"3", b"4", b"5"]


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_a_txn_of_very_many_parts_is_refused_at_whatever_depth(depth: int) -> None:
    """Walking a million empty operations would keep everybody else waiting for seconds."""
    for parts, fits in ((MAX_PARTS - depth, True), (MAX_PARTS - depth + 1, False)):
        request = rpc_pb2.TxnRequest(success=[Operation() for _ in range(parts)])
        for _ in range(depth):
            request = rpc_pb2.TxnRequest(failure=[nested(request)])
        if fits:
            assert leaves(request) == []
        else:
            with pytest.raises(EtcdRefusal, match="too many operations in txn request"):
                leaves(request)
