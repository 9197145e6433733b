"""Which etcd leases are Greenroom's own: those of rollout holds with an end, of claims and of proxies.

Clients can list leases and revoke any, and a revoked lease takes its keys along: a rollout hold would be lifted. So
Greenroom asks etcd for ids in a range of its own, which tells such a lease from a worker's without asking anybody.
"""

import random
from typing import Final

from greenroom.errors import RefusedWrite

_BITS: Final = 40
_RANGE: Final = 0x67726E  # "grn"
"""The upper three of an id's eight bytes. etcd makes the ids that it chooses of a member's id and a clock, which come
together here for one member in 32,768, in seven weeks of the year 2054."""


def new_own_lease() -> int:
    """An id to ask etcd for: one in 2**40, so two that are alike are not to be expected."""
    return _RANGE << _BITS | random.getrandbits(_BITS)


def is_own_lease(lease: int) -> bool:
    """Whether an id lies in Greenroom's range."""
    return lease >> _BITS == _RANGE


def check_grant(lease: int) -> None:
    """RefusedWrite for an id that a client must not choose."""
    if is_own_lease(lease):
        raise RefusedWrite(
            f"lease id {lease:x} is of those that Greenroom keeps for itself: "
            "choose another, or ask for 0 and etcd chooses"
        )


def check_revoke(lease: int) -> None:
    """RefusedWrite for a lease that a client must not end: a rollout hold would end with it, and releases go on."""
    if is_own_lease(lease):
        raise RefusedWrite(
            f"lease {lease:x} is Greenroom's own, and no client's to end: "
            "a rollout hold is lifted with `greenroom rollout-hold lift`"
        )
