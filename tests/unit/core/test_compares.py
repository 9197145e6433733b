"""Compares evaluated as etcd does it, and guards, that hold only as long as a compare fails for the same reason.

`tests/property/test_compares.py` has the same for any compare, with a real etcd as the judge.
"""

import pytest

from greenroom.core.compares import MAX_COMPARED_KEYS, always, guard, holds, looking_at, never
from greenroom.errors import UnsupportedCall
from greenroom.pb.etcd import kv_pb2, rpc_pb2

Compare = rpc_pb2.Compare
EQUAL, NOT_EQUAL, GREATER, LESS = Compare.EQUAL, Compare.NOT_EQUAL, Compare.GREATER, Compare.LESS
A = kv_pb2.KeyValue(key=b"a", value=b"m", lease=7, create_revision=20, mod_revision=30, version=4)
B = kv_pb2.KeyValue(key=b"b", value=b"n", lease=7, create_revision=21, mod_revision=31, version=5)


def version(result: int, given: int, **more: bytes) -> Compare:
    return Compare(key=b"a", target=Compare.VERSION, result=result, version=given, **more)  # type: ignore[arg-type]


def value(result: int, given: bytes, **more: bytes) -> Compare:
    return Compare(key=b"a", target=Compare.VALUE, result=result, value=given, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("compare", "present", "absent"),
    [
        (version(EQUAL, 4), True, False),
        (version(EQUAL, 0), False, True),
        (version(NOT_EQUAL, 4), False, True),
        (version(GREATER, 3), True, False),
        (version(GREATER, -1), True, True),
        (version(LESS, 5), True, True),
        (version(LESS, 0), False, False),
        (Compare(key=b"a", target=Compare.CREATE, create_revision=20), True, False),
        (Compare(key=b"a", target=Compare.CREATE, result=LESS, create_revision=1), False, True),
        (Compare(key=b"a", target=Compare.MOD, mod_revision=30), True, False),
        (Compare(key=b"a", target=Compare.MOD, mod_revision=0), False, True),
        (Compare(key=b"a", target=Compare.LEASE, lease=7), True, False),
        (Compare(key=b"a", target=Compare.LEASE, result=LESS, lease=7), False, True),
        (value(EQUAL, b"m"), True, False),
        (value(NOT_EQUAL, b"m"), False, False),
        (value(GREATER, b"lz"), True, False),
        (value(GREATER, b"m\0"), False, False),
        (value(LESS, b"\xff"), True, False),
        (value(GREATER, b""), True, False),
        (value(EQUAL, b""), False, False),
    ],
)
def test_a_key_and_an_absent_one(compare: Compare, present: bool, absent: bool) -> None:
    """What is absent is zero everywhere, but its value is equal to none, nor different from any."""
    assert (holds(compare, [A]), holds(compare, [])) == (present, absent)


@pytest.mark.parametrize(
    ("compare", "expected"),
    [
        (Compare(key=b"a", target=Compare.VERSION, mod_revision=4), False),
        (Compare(key=b"a", target=Compare.VERSION, result=GREATER, value=b"x"), True),
        (Compare(key=b"a", target=Compare.VALUE, result=GREATER, version=9), True),
        (Compare(key=b"a", target=Compare.LEASE), False),
    ],
)
def test_what_is_given_for_another_target_counts_for_nothing(compare: Compare, expected: bool) -> None:
    assert holds(compare, [A]) == expected


@pytest.mark.parametrize(
    ("compare", "both", "none"),
    [
        (version(GREATER, 3, range_end=b"z"), True, False),
        (version(GREATER, 4, range_end=b"z"), False, False),
        (value(LESS, b"n", range_end=b"z"), False, False),
        (version(LESS, 1, range_end=b"z"), False, True),
    ],
)
def test_a_range_must_hold_as_a_whole_and_an_empty_one_is_one_absent_key(
    compare: Compare, both: bool, none: bool
) -> None:
    assert (holds(compare, [A, B]), holds(compare, [])) == (both, none)


@pytest.mark.parametrize("found", [[A], []], ids=["present", "absent"])
@pytest.mark.parametrize("compare", [version(EQUAL, 9), version(GREATER, 99), value(EQUAL, b"other")])
def test_the_guard_of_one_key_is_its_revision(compare: Compare, found: list[kv_pb2.KeyValue]) -> None:
    kept = Compare(key=b"a", target=Compare.MOD, mod_revision=30 if found else 0)
    assert guard(compare, found, more=False) == kept


def test_the_guard_of_a_range_is_the_first_key_that_fails_or_its_emptiness() -> None:
    """A key as a range of one, which nobody takes for a gated key that the client named."""
    compare = version(LESS, 5, range_end=b"z")
    kept = Compare(key=b"b", range_end=b"b\0", target=Compare.MOD, mod_revision=31)
    assert guard(compare, [A, B], more=False) == kept
    assert guard(version(LESS, 1, range_end=b"z"), [A, B], more=True).key == b"a"  # type: ignore[union-attr]
    empty = version(GREATER, 0, range_end=b"z")
    assert guard(empty, [], more=False) == version(EQUAL, 0, range_end=b"z")


def test_a_compare_that_holds_has_no_guard() -> None:
    assert guard(version(EQUAL, 4), [A], more=False) is None
    assert guard(version(LESS, 9, range_end=b"z"), [A, B], more=False) is None
    assert guard(version(EQUAL, 0, range_end=b"z"), [], more=False) is None


def test_what_lies_beyond_the_keys_looked_at_is_not_guessed() -> None:
    with pytest.raises(UnsupportedCall, match="more than 1000 keys, from b'a' to b'z'"):
        guard(version(LESS, 9, range_end=b"z"), [A, B], more=True)


def test_only_a_compare_of_values_reads_them_and_never_without_bound() -> None:
    reads = [looking_at(compare).request_range for compare in (version(EQUAL, 1, range_end=b"z"), value(EQUAL, b""))]
    assert reads == [
        rpc_pb2.RangeRequest(key=b"a", range_end=b"z", keys_only=True, limit=MAX_COMPARED_KEYS),
        rpc_pb2.RangeRequest(key=b"a", limit=MAX_COMPARED_KEYS),
    ]


@pytest.mark.parametrize("found", [[A, B], [A], []])
def test_always_and_never_need_no_key(found: list[kv_pb2.KeyValue]) -> None:
    compare = value(EQUAL, b"x", range_end=b"z")
    assert holds(always(compare), found)
    assert (always(compare).key, always(compare).range_end) == (b"a", b"z")
    assert not holds(never(b"a"), found)
