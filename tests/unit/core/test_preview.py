"""Which keys a preview shows, and where the held ones of a range lie."""

import pytest

from greenroom.core.keyspace import SHADOWS, InstanceId, prefix_end
from greenroom.core.preview import ALL_SHADOWS, View, is_empty
from greenroom.core.selectors import Selector
from greenroom.core.templates import dynamo_gated_keys
from greenroom.pb.etcd import kv_pb2
from tests.support.mirroring import ONE, TWO, record_kv
from tests.support.registering import MODEL, card_key, held_record, instance_record_key

GATED = dynamo_gated_keys(instances=False)
ALONE = View(GATED, instance=ONE, only=True, own_leases={7})
LEASE = int(ONE, 16)


def kv(key: bytes, lease: int = 0) -> kv_pb2.KeyValue:
    return kv_pb2.KeyValue(key=key, lease=lease)


@pytest.mark.parametrize(
    ("view", "shown"),
    [(View(GATED), {ONE, TWO}), (View(GATED, instance=ONE), {ONE}), (View(GATED, selector=Selector(model="x")), {TWO})],
)
def test_whose_held_keys_are_shown(view: View, shown: set[InstanceId]) -> None:
    """A selector is asked by the records; here they say that it matches the second one."""
    assert {instance for instance in (ONE, TWO) if view.shows_held(instance, {TWO})} == shown


def test_a_selector_looks_at_all_records_and_does_not_show_what_it_cannot_read() -> None:
    view = View(GATED, selector=Selector(model=MODEL))
    other = record_kv(TWO, held_record(TWO, model="other"))
    assert view.matching([record_kv(ONE), other]) == {ONE}
    assert not view.matches(b"of a later version")


@pytest.mark.parametrize(
    ("key", "lease", "is_shown"),
    [
        (card_key(ONE), LEASE, True),
        (card_key(ONE, "a"), LEASE, True),
        (card_key(TWO), LEASE, False),
        (instance_record_key(ONE), 0, True),
        (instance_record_key(TWO), 0, False),
        (b"v1/mdc/x", 0, False),
        (b"v1/event_channels/a", LEASE, True),
        (b"v1/event_channels/a", 7, True),
        (b"v1/event_channels/a", 8, False),
        (b"v1/config", 0, True),
    ],
)
def test_alone_a_key_is_told_by_its_name_else_by_its_lease(key: bytes, lease: int, is_shown: bool) -> None:
    """A frontend routes by any key under v1/mdc/, so one of a strange shape there is nobody's, and not shown."""
    assert ALONE.shows_public(kv(key, lease)) == is_shown
    assert View(GATED, instance=ONE).shows_public(kv(key, lease))


def test_where_the_held_keys_of_a_range_lie() -> None:
    one = SHADOWS + ONE.encode() + b"/"
    every, alone = View(GATED), View(GATED, instance=ONE)
    assert every.shadows(b"v1/mdc/", b"v1/mdc0") == ALL_SHADOWS
    assert alone.shadows(b"v1/mdc/", b"v1/mdc0") == (one + b"v1/mdc/", one + b"v1/mdc0")
    assert alone.shadows(b"v1/", b"\0") == (one + b"v1/", prefix_end(one))
    assert every.shadows(card_key(TWO), b"") == (SHADOWS + TWO.encode() + b"/" + card_key(TWO), b"")


@pytest.mark.parametrize(
    ("start", "range_end"),
    [(b"v1/a", b"v1/b"), (b"v1/mdc0", b"v1/mdc/"), (b"v1/mdc/x", b""), (b"v1/a", b""), (card_key(TWO), b"")],
)
def test_where_there_can_be_none(start: bytes, range_end: bytes) -> None:
    """Another range, an empty one, a key of no shape, a key of another instance."""
    assert View(GATED, instance=ONE).shadows(start, range_end) is None


def test_an_empty_range() -> None:
    assert is_empty(b"b", b"a")
    assert is_empty(b"a", b"a")
    assert not any(is_empty(b"b", end) for end in (b"", b"\0", b"c"))
