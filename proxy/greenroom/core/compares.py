"""What a compare comes to, by the keys it is about, and what must stay as it is for a failing one to keep failing.

The rule: etcd's own reading of compares, to the letter. A missing key is compared as one of zeros, but has no value. A
range compare must hold for every key in the range; over an empty range it is made against such a missing key.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from greenroom.core import txns
from greenroom.errors import UnsupportedCall
from greenroom.pb.etcd import kv_pb2, rpc_pb2

Compare = txns.Compare

MAX_COMPARED_KEYS = 1000
"""Of one range: they are all looked at here, and a range may hold every key that there is."""

_MISSING = kv_pb2.KeyValue()
_RESULTS: Mapping[int, Callable[[Any, Any], bool]] = {
    Compare.EQUAL: operator.eq,
    Compare.NOT_EQUAL: operator.ne,
    Compare.GREATER: operator.gt,
    Compare.LESS: operator.lt,
}


def looking_at(compare: Compare) -> txns.Operation:
    """The read of the keys that a compare is about; their values only where it compares values."""
    read = rpc_pb2.RangeRequest(key=compare.key, range_end=compare.range_end, limit=MAX_COMPARED_KEYS)
    read.keys_only = compare.target != Compare.VALUE
    return txns.Operation(request_range=read)


def holds(compare: Compare, found: Sequence[kv_pb2.KeyValue]) -> bool:
    """Whether a compare holds for the keys found in its range."""
    if not found:
        return compare.target != Compare.VALUE and _holds_for(compare, _MISSING)
    return all(_holds_for(compare, kv) for kv in found)


def guard(compare: Compare, found: Sequence[kv_pb2.KeyValue], *, more: bool) -> Compare | None:
    """What holds as long as a failing compare keeps failing for the same reason; None where it does not fail.

    `more`: its range has keys beside those found. UnsupportedCall where what it comes to depends on those.
    """
    failing = next((kv for kv in found if not _holds_for(compare, kv)), None)
    if failing is None and more:
        raise UnsupportedCall(
            f"a compare over more than {MAX_COMPARED_KEYS} keys, from {bytes(compare.key)!r} to "
            f"{bytes(compare.range_end)!r}, in a Txn that uses gated keys and writes in its Else is not supported"
        )
    if holds(compare, found):
        return None
    if not compare.range_end:
        return txns.unchanged(compare.key, failing.mod_revision if failing else 0)
    if failing is None:
        return _none_in(compare)
    # One key that fails is enough, and it shows its own deletion, which the range would not. It is named as a range
    # of one: a range is about what is public, and this key may be gated, and another instance's.
    return Compare(
        key=failing.key,
        range_end=failing.key + b"\0",
        target=Compare.MOD,
        result=Compare.EQUAL,
        mod_revision=failing.mod_revision,
    )


def always(compare: Compare) -> Compare:
    """A compare of the same keys that always holds: etcd asks whether the client may read them."""
    return Compare(
        key=compare.key, range_end=compare.range_end, target=Compare.VERSION, result=Compare.GREATER, version=-1
    )


def never(key: bytes) -> Compare:
    """A compare that never holds."""
    return Compare(key=key, target=Compare.VERSION, result=Compare.LESS, version=0)


def _none_in(compare: Compare) -> Compare:
    """The range is empty: only a missing key has no version."""
    return Compare(
        key=compare.key, range_end=compare.range_end, target=Compare.VERSION, result=Compare.EQUAL, version=0
    )


def _holds_for(compare: Compare, kv: kv_pb2.KeyValue) -> bool:
    has, given = _sides(compare, kv)
    return _RESULTS[compare.result](has, given)


def _sides(compare: Compare, kv: kv_pb2.KeyValue) -> tuple[Any, Any]:
    """What the key has and what it is compared with: two numbers, or two values. A side that is not given is zero."""
    match compare.target:
        case Compare.VERSION:
            return kv.version, compare.version
        case Compare.CREATE:
            return kv.create_revision, compare.create_revision
        case Compare.MOD:
            return kv.mod_revision, compare.mod_revision
        case Compare.VALUE:
            return kv.value, compare.value
        case Compare.LEASE:
            return kv.lease, compare.lease
        case other:
            raise AssertionError(f"the inspector lets no compare of target {other} through")
