"""The names of what is stored, and clipping: the one idea that hides it."""

from itertools import product

import pytest

from greenroom.core.keyspace import (
    BUDGET,
    CLAIMS,
    FIRST_CLIENT_KEY,
    RECORDS,
    ROLLOUT_HOLDS,
    ROOT,
    SHADOWS,
    TEMPLATES_DIGEST,
    InstanceId,
    Key,
    claim_key,
    claimed_gate,
    clip,
    held_key,
    holder,
    in_range,
    instance_id,
    is_reserved,
    lease_of,
    prefix_end,
    record_key,
    rollout_hold_key,
    shadow_key,
    shadow_prefix,
)

INSTANCE = instance_id(0x6177A228983C0B2B)
STORED = (
    BUDGET,
    TEMPLATES_DIGEST,
    record_key(INSTANCE),
    shadow_key(INSTANCE, Key(b"v1/mdc/ns/c/e/6177a228983c0b2b")),
    rollout_hold_key("freeze"),
)


@pytest.mark.parametrize(("lease", "name"), [(1, "1"), (0xABC, "abc"), ((1 << 63) - 1, "7fffffffffffffff")])
def test_an_instance_is_named_by_its_lease_in_hexadecimal(lease: int, name: str) -> None:
    assert instance_id(lease) == name
    assert lease_of(instance_id(lease)) == lease


def test_whose_a_shadow_or_a_record_is() -> None:
    assert holder(shadow_key(INSTANCE, Key(b"v1/mdc/x"))) == INSTANCE
    assert holder(record_key(INSTANCE)) == INSTANCE


@pytest.mark.parametrize("lease", [0, -1, 1 << 63])
def test_no_lease_no_instance(lease: int) -> None:
    with pytest.raises(ValueError, match="is no lease id"):
        instance_id(lease)


@pytest.mark.parametrize(
    "text", ["", "0", "01", "ABC", "aBc", "0xab", " ab", "ab\n", "+ab", "-ab", "a_b", "xyz", "٣", "8000000000000000"]
)
def test_only_one_spelling_of_a_lease_id_is_taken(text: str) -> None:
    """int() reads most of these; a worker under such a name would be another instance than its lease's."""
    with pytest.raises(ValueError, match=r"lease id|invalid literal"):
        lease_of(text)  # type: ignore[arg-type]


def test_stored_names_are_fixed() -> None:
    """Other replicas, and proxies of other versions, look for these very keys."""
    assert record_key(INSTANCE) == b"\x01greenroom/instances/6177a228983c0b2b"
    assert shadow_key(INSTANCE, Key(b"a/b")) == b"\x01greenroom/held/6177a228983c0b2b/a/b"
    assert rollout_hold_key("freeze") == b"\x01greenroom/rollout-holds/freeze"
    assert claim_key(InstanceId("7f"), "smoke") == b"\x01greenroom/claims/smoke/7f"
    assert all(key.startswith(ROOT) for key in STORED)


@pytest.mark.parametrize("key", [b"v1/mdc/x", b"/", b"a//b", b"\xff\x00"])
def test_a_shadow_names_the_key_that_it_stands_for(key: bytes) -> None:
    assert held_key(shadow_key(INSTANCE, Key(key))) == key


@pytest.mark.parametrize(
    "key", [b"", b"v1/mdc/x", record_key(INSTANCE), SHADOWS, SHADOWS + b"abc", b"\x01greenroom/hel"]
)
def test_what_is_no_shadow_stands_for_nothing(key: bytes) -> None:
    assert held_key(key) is None


def test_no_instance_holds_the_shadows_of_another() -> None:
    short, long = instance_id(0xAB), instance_id(0xABC)
    inside = shadow_key(long, Key(b"k"))
    assert not inside.startswith(shadow_prefix(short))
    assert not in_range(inside, shadow_prefix(short), prefix_end(shadow_prefix(short)))


def etcd_prefix_end(prefix: bytes) -> bytes:
    """The rule as etcd's clients write it: raise the last byte that can be raised and cut what follows."""
    for at in range(len(prefix) - 1, -1, -1):
        if prefix[at] < 0xFF:
            return prefix[:at] + bytes([prefix[at] + 1])
    return b"\0"


def test_prefix_end_is_etcds() -> None:
    prefixes = [bytes(letters) for size in range(4) for letters in product((0, 1, 0x61, 0xFE, 0xFF), repeat=size)]
    assert [prefix_end(prefix) for prefix in prefixes] == [etcd_prefix_end(prefix) for prefix in prefixes]


@pytest.mark.parametrize(
    ("prefix", "end"),
    [(b"v1/mdc/", b"v1/mdc0"), (b"a\xff", b"b"), (b"\xff", b"\0"), (b"\xff\xff", b"\0"), (b"", b"\0"), (b"\0", b"\1")],
)
def test_prefix_end_where_a_prefix_has_no_next_key(prefix: bytes, end: bytes) -> None:
    assert prefix_end(prefix) == end


@pytest.mark.parametrize(
    ("key", "reserved"),
    [
        (b"\0", True),
        (b"\1", True),
        (b"\1\xff\xff", True),
        (b"\0\xff", True),
        (b"\2", False),
        (b"", False),
        (b"a", False),
    ],
)
def test_reserved_is_what_lies_below_the_first_client_key(key: bytes, reserved: bool) -> None:
    assert is_reserved(key) is reserved


@pytest.mark.parametrize(
    ("key", "range_end", "start"),
    [
        (b"", b"\0", b""),
        (b"a", b"b", b"a"),
        (b"\2", b"\0", b"\2"),
        (b"\0", b"\0", b"\2"),
        (b"\1", b"\2", b"\2"),
        (b"\0", b"", b"\0"),
        (b"\0\0", b"\0", b"\1\xff"),
        (ROOT, b"\0", b"\1" + b"\xff" * (len(ROOT) - 1)),
        (BUDGET, b"", b"\1" + b"\xff" * (len(BUDGET) - 1)),
    ],
)
def test_a_start_moves_up_and_keeps_its_length(key: bytes, range_end: bytes, start: bytes) -> None:
    assert clip(key, range_end) == start
    assert len(start) == len(key)


@pytest.mark.parametrize(
    "start", [b"\0", b"\0\0", b"\0\xff\xff", b"\1", ROOT, RECORDS, SHADOWS, ROLLOUT_HOLDS, CLAIMS, *STORED]
)
def test_no_clipped_range_holds_anything_stored(start: bytes) -> None:
    ends = (b"", b"\0", FIRST_CLIENT_KEY, prefix_end(ROOT), b"\1\xff\xff", b"zz")
    assert not [(key, end) for end in ends for key in STORED if in_range(key, clip(start, end), end)]


@pytest.mark.parametrize(
    ("key", "start", "range_end", "inside"),
    [
        (b"b", b"b", b"", True),
        (b"bb", b"b", b"", False),
        (b"b", b"b", b"c", True),
        (b"c", b"b", b"c", False),
        (b"a", b"b", b"\0", False),
        (b"\xff\xff", b"b", b"\0", True),
        (b"b", b"c", b"a", False),
    ],
)
def test_in_range_follows_etcd(key: bytes, start: bytes, range_end: bytes, inside: bool) -> None:
    assert in_range(key, start, range_end) is inside


def test_a_claim_names_its_gate_and_instance() -> None:
    assert claimed_gate(claim_key(InstanceId("7f"), "first_token")) == ("7f", "first_token")
    assert claimed_gate(CLAIMS + b"smoke") is None
    assert claimed_gate(b"v1/claims/smoke/7f") is None
