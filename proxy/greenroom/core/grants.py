"""Which keys whom an etcd with auth on must let read and write, for cards to be held and released.

The rule: as little as will do. What a worker registers lies in the reserved area meanwhile, under the worker's own
lease and written as the worker's user; rollout holds are operators', and never workers'. The proxy publishes a card
under the worker's lease, and etcd lets nobody put a key on a lease who may not write all that is on it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from greenroom.core.keyspace import FIRST_CLIENT_KEY, RECORDS, SHADOWS, prefix_end
from greenroom.core.policy import Policy

FIRST_RESERVED_KEY = b"\x01"
"""Keys of a zero byte are reserved too, but nobody's: no shell can write one in a command."""
DYNAMO_LEASED_PREFIXES = (b"v1/event_channels/", b"v1/event_sources/")
"""What Dynamo's workers put on their leases beside cards and instance records."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Reading and writing from `key` up to `range_end`, as etcd has it: none for the one key, a zero byte for all."""

    key: bytes
    range_end: bytes

    @classmethod
    def of_prefix(cls, prefix: bytes) -> "Grant":
        """All keys that begin so."""
        return cls(prefix, prefix_end(prefix))

    @property
    def is_prefix(self) -> bool:
        """Whether it is a prefix's, as people name most grants."""
        return self.range_end == prefix_end(self.key)

    def covers(self, other: "Grant") -> bool:
        """Whether all that the other grants is granted by this."""
        if not self.range_end:
            return self == other
        return self.key <= other.key and _last(other) <= _last(self)

    def overlaps(self, other: "Grant") -> bool:
        """Whether both grant some key."""
        return (False, max(self.key, other.key)) < min(_last(self), _last(other))


WORKER_GRANTS = (Grant.of_prefix(SHADOWS), Grant.of_prefix(RECORDS))
"""For every worker's user, beside what it needs without a proxy."""
RESERVED = Grant(FIRST_RESERVED_KEY, FIRST_CLIENT_KEY)


def proxy_grants(policy: Policy, also: Iterable[bytes] = ()) -> tuple[Grant, ...]:
    """For the proxies' user: the reserved area, the gated keys, where workers say that they listen, and `also`."""
    gated_keys = policy.gated_keys()
    records = (template.prefix for template in gated_keys.instance_records)
    leased = () if policy.templates else DYNAMO_LEASED_PREFIXES
    prefixes = {*gated_keys.prefixes, *records, *leased, *also}
    return RESERVED, *(Grant.of_prefix(prefix) for prefix in sorted(prefixes) if not _begins(prefix, prefixes))


def beyond_workers(granted: Sequence[Grant]) -> list[Grant]:
    """Those of a worker's grants that reach further into the reserved area than they should: to rollout holds, say."""
    return [
        grant
        for grant in granted
        if grant.overlaps(Grant(b"\0", FIRST_CLIENT_KEY)) and not any(own.covers(grant) for own in WORKER_GRANTS)
    ]


def _begins(prefix: bytes, prefixes: Iterable[bytes]) -> bool:
    """Whether another, shorter one of the prefixes stands for this one too."""
    return any(prefix.startswith(other) and prefix != other for other in prefixes)


def _last(grant: Grant) -> tuple[bool, bytes]:
    """Where it ends, so that ends compare: that of all keys is above every other."""
    if not grant.range_end:
        return False, grant.key + b"\0"
    return grant.range_end == b"\0", grant.range_end
