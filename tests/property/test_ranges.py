"""A clipped range over a store with reserved keys finds what the client's range finds in a store without them.

The store is a sorted list with etcd's rule of ranges: no `range_end` is one key, `\\0` is all from the start on.
"""

from bisect import bisect_left
from collections.abc import Iterable
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom.core.keyspace import BUDGET, RECORDS, ROLLOUT_HOLDS, ROOT, SHADOWS, TEMPLATES_DIGEST, prefix_end
from greenroom.core.ranges import clip_range, clip_txn, clip_watch, leaves
from greenroom.pb.etcd import rpc_pb2

STORED = (
    BUDGET,
    TEMPLATES_DIGEST,
    RECORDS + b"ab",
    SHADOWS + b"ab/v1/mdc/x",
    ROLLOUT_HOLDS + b"freeze",
    ROOT + b"proxies/1",
)
LETTERS = (b"\0", b"\x01", b"\x02", b"g", b"\xfe", b"\xff")
SHORT_KEYS = [b"".join(letters) for size in range(4) for letters in product(LETTERS, repeat=size)]
EDGES = [
    *(variant for key in (ROOT, *STORED) for variant in (key, key + b"\0", key[:-1], prefix_end(key), key + b"\xff")),
    b"\x01" + b"\xff" * (len(BUDGET) - 1),
]
PUBLIC = [key for key in SHORT_KEYS if key >= b"\x02"]

any_key = st.one_of(st.sampled_from(SHORT_KEYS), st.sampled_from(EDGES), st.binary(max_size=24))
stores = st.sets(st.one_of(st.sampled_from(PUBLIC), st.binary(min_size=1).map(lambda key: b"\x02" + key)), max_size=12)


def found(store: Iterable[bytes], key: bytes, range_end: bytes) -> list[bytes]:
    """What etcd finds, in its order. `key` is not empty: etcd refuses that, but on a watch."""
    keys = sorted(store)
    first = bisect_left(keys, key)
    if not range_end:
        return keys[first : first + 1] if keys[first : first + 1] == [key] else []
    last = len(keys) if range_end == b"\0" else bisect_left(keys, range_end)
    return keys[first:last]


def test_every_short_range_finds_exactly_the_public_keys() -> None:
    with_reserved = [*PUBLIC[:40], *STORED]
    for key, range_end in product(SHORT_KEYS[1:], SHORT_KEYS):
        clipped = clip_range(rpc_pb2.RangeRequest(key=key, range_end=range_end))
        expected = found(PUBLIC[:40], key, range_end)
        assert found(with_reserved, clipped.key, clipped.range_end) == expected, (key, range_end)


@given(stores, any_key.filter(bool), any_key)
def test_any_range_finds_exactly_the_public_keys(store: set[bytes], key: bytes, range_end: bytes) -> None:
    for message in (rpc_pb2.RangeRequest, rpc_pb2.DeleteRangeRequest, rpc_pb2.Compare):
        clipped = clip_range(message(key=key, range_end=range_end))
        assert found({*store, *STORED}, clipped.key, clipped.range_end) == found(store, key, range_end)
        assert (len(clipped.key), clipped.range_end) == (len(key), range_end)


@given(stores, any_key, any_key)
def test_any_watch_sees_exactly_the_public_keys(store: set[bytes], key: bytes, range_end: bytes) -> None:
    clipped = clip_watch(rpc_pb2.WatchCreateRequest(key=key, range_end=range_end))
    seen = found({*store, *STORED}, clipped.key or b"\0", clipped.range_end)
    assert seen == found(store, key or b"\0", range_end)


@given(any_key, any_key)
def test_clipping_twice_is_clipping_once(key: bytes, range_end: bytes) -> None:
    once = clip_range(rpc_pb2.RangeRequest(key=key, range_end=range_end))
    assert clip_range(once) is once


@st.composite
def txns(draw: st.DrawFn, depth: int = 2) -> rpc_pb2.TxnRequest:
    """Txns that write public keys only."""

    def operation() -> rpc_pb2.RequestOp:
        start, end = draw(any_key), draw(any_key)
        match draw(st.integers(0, 4 if depth else 3)):
            case 0:
                return rpc_pb2.RequestOp()
            case 1:
                return rpc_pb2.RequestOp(request_put=rpc_pb2.PutRequest(key=b"\x02" + start, value=end))
            case 2:
                return rpc_pb2.RequestOp(request_range=rpc_pb2.RangeRequest(key=start, range_end=end))
            case 3:
                return rpc_pb2.RequestOp(request_delete_range=rpc_pb2.DeleteRangeRequest(key=start, range_end=end))
        return rpc_pb2.RequestOp(request_txn=draw(txns(depth=depth - 1)))

    def operations() -> list[rpc_pb2.RequestOp]:
        return [operation() for _ in range(draw(st.integers(0, 3)))]

    compares = [
        rpc_pb2.Compare(key=draw(any_key), range_end=draw(any_key), version=1) for _ in range(draw(st.integers(0, 2)))
    ]
    return rpc_pb2.TxnRequest(compare=compares, success=operations(), failure=operations())


@settings(max_examples=60)
@given(txns())
def test_a_txn_is_clipped_leaf_by_leaf_and_otherwise_as_it_was(request: rpc_pb2.TxnRequest) -> None:
    before = request.SerializeToString()
    clipped = clip_txn(request, leaves(request))
    expected = [leaf.key if isinstance(leaf, rpc_pb2.PutRequest) else clip_range(leaf).key for leaf in leaves(request)]
    assert [leaf.key for leaf in leaves(clipped)] == expected
    assert (clipped is request) == (expected == [leaf.key for leaf in leaves(request)])
    assert request.SerializeToString() == before
    for moved, leaf in zip(leaves(clipped), leaves(request), strict=True):
        moved.key = leaf.key
    assert clipped == request
