"""Which etcd leases are Greenroom's own: those of rollout holds with an end, of claims and of proxies.

Clients can list leases and revoke any, and a revoked lease takes its keys along: a rollout hold would be lifted. So
Greenroom asks etcd for ids in a range of its own, which tells such a lease from a worker's without asking anybody.
"""

import random
from typing import Final

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
