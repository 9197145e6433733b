"""Which keys workers and proxies may read and write."""

import pytest

from greenroom.core.grants import RESERVED, WORKER_GRANTS, Grant, beyond_workers, proxy_grants
from greenroom.core.keyspace import BUDGET, TEMPLATES_DIGEST, InstanceId, Key, record_key, rollout_hold_key, shadow_key
from greenroom.core.policy import Policy, TemplatePolicy

ONE = InstanceId("abc1")
EVERYTHING = Grant(b"\0", b"\0")


def may(grants: tuple[Grant, ...], key: bytes) -> bool:
    return any(grant.covers(Grant(key, b"")) for grant in grants)


def test_workers_may_be_held_and_nothing_else() -> None:
    assert may(WORKER_GRANTS, record_key(ONE))
    assert may(WORKER_GRANTS, shadow_key(ONE, Key(b"v1/mdc/x")))
    for key in (rollout_hold_key("freeze"), BUDGET, TEMPLATES_DIGEST, b"\x01greenroom/proxies/one", b"v1/mdc/x"):
        assert not may(WORKER_GRANTS, key)


def test_proxies_may_all_that_is_reserved_and_what_dynamos_workers_lease() -> None:
    grants = proxy_grants(Policy(), [b"v1/planner/"])
    assert grants[0] == RESERVED
    for key in (BUDGET, b"v1/mdc/x", b"v1/instances/x", b"v1/event_channels/x", b"v1/event_sources/x", b"v1/planner/x"):
        assert may(grants, key)
    for key in (b"v1/", b"team/key", b"\x02"):
        assert not may(grants, key)


def test_own_templates_bring_their_own_prefixes_only() -> None:
    templates = (
        TemplatePolicy(pattern="svc/cards/{instance}"),
        TemplatePolicy(pattern="svc/i/{instance}", kind="instance"),
    )
    assert proxy_grants(Policy(templates=templates)) == (
        RESERVED,
        Grant.of_prefix(b"svc/cards/"),
        Grant.of_prefix(b"svc/i/"),
    )


def test_a_prefix_within_another_is_not_named_twice() -> None:
    grants = proxy_grants(Policy(), [b"v1/", b"v1/mdc/x/"])
    assert grants == (RESERVED, Grant.of_prefix(b"v1/"))


@pytest.mark.parametrize(
    ("grant", "other", "covers", "overlaps"),
    [
        (EVERYTHING, RESERVED, True, True),
        (RESERVED, EVERYTHING, False, True),
        (EVERYTHING, EVERYTHING, True, True),
        (RESERVED, Grant(b"\x02", b""), False, False),
        (RESERVED, Grant(b"\x01", b""), True, True),
        (RESERVED, Grant(b"\x01z", b"\x02"), True, True),
        (Grant(b"a", b""), Grant(b"a", b""), True, True),
        (Grant(b"a", b""), Grant(b"a", b"a\0"), False, True),
        (Grant(b"a", b"c"), Grant(b"b", b"d"), False, True),
        (Grant(b"a", b"b"), Grant(b"b", b"c"), False, False),
        (Grant(b"b", b"\0"), Grant(b"a", b"c"), False, True),
    ],
)
def test_what_lies_in_what(grant: Grant, other: Grant, *, covers: bool, overlaps: bool) -> None:
    assert grant.covers(other) is covers
    assert grant.overlaps(other) is overlaps
    assert other.overlaps(grant) is overlaps


def test_a_prefix_is_told_from_another_range() -> None:
    assert Grant.of_prefix(b"v1/").is_prefix
    assert RESERVED.is_prefix
    assert not Grant(b"a", b"").is_prefix
    assert not Grant(b"a", b"c").is_prefix


def test_workers_grants_that_reach_too_far_are_found() -> None:
    holds = Grant.of_prefix(rollout_hold_key(""))
    within = Grant.of_prefix(shadow_key(ONE, Key(b"")))
    assert beyond_workers([*WORKER_GRANTS, within, Grant.of_prefix(b"v1/"), holds, EVERYTHING]) == [holds, EVERYTHING]
