"""Greenroom's own leases are told from all others by their ids alone."""

import pytest

from greenroom.core.keyspace import LARGEST_LEASE
from greenroom.core.own_leases import check_grant, check_revoke, is_own_lease, new_own_lease
from greenroom.errors import RefusedWrite


def test_an_own_lease_is_one_that_etcd_takes_and_no_other_is_like_it() -> None:
    made = {new_own_lease() for _ in range(1000)}
    assert len(made) == 1000
    assert all(0 < lease <= LARGEST_LEASE and is_own_lease(lease) for lease in made)


def test_ids_as_etcd_and_its_clients_choose_them_are_not() -> None:
    """A member's id, 40 bits of a clock in milliseconds, a counter; and small, negative and extreme ones by hand."""
    first, last = 0x67726E0000000000, 0x67726EFFFFFFFFFF
    assert is_own_lease(first)
    assert is_own_lease(last)
    for lease in (0, 1, -1, -first, first - 1, last + 1, LARGEST_LEASE, -LARGEST_LEASE - 1, 0x694D9E3C5B7F2A01):
        assert not is_own_lease(lease), f"{lease:x}"


def test_what_clients_may_ask_for_and_end() -> None:
    for lease in (0, 1, LARGEST_LEASE):
        check_grant(lease)
        check_revoke(lease)
    with pytest.raises(RefusedWrite, match="Greenroom keeps for itself"):
        check_grant(new_own_lease())
    with pytest.raises(RefusedWrite, match="Greenroom's own, and no client's to end"):
        check_revoke(new_own_lease())
