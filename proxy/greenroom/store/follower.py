"""The follower keeps the mirror fresh and tells who subscribed what changed.

The rule: it follows the reserved area, on which readiness hangs, and beside it the workers' public instance records,
on which nothing hangs: they only say where a worker listens, and a role that may not read them loses just that.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

from greenroom.core.decide import grace_end
from greenroom.core.keyspace import ROOT
from greenroom.core.templates import GatedKeys
from greenroom.pb.etcd import kv_pb2
from greenroom.store.changes import Changes, Feed, Listener, Subscription
from greenroom.store.fenced import Clock
from greenroom.store.mirror import Mirror
from greenroom.store.prefix_follower import PrefixFollower
from greenroom.store.upstream import Upstream


class Follower:
    """Feeds `mirror` from `upstream`. `run` ends only by cancellation."""

    def __init__(self, upstream: Upstream, mirror: Mirror, gated_keys: GatedKeys, *, clock: Clock, log: Any) -> None:
        self._mirror, self._clock = mirror, clock
        self._feed = Feed()
        self._synced_since: datetime | None = None
        self._why_not = "the reserved area was not read yet"
        self._revision = 0
        self._syncs = 0
        prefixes = sorted({template.prefix for template in gated_keys.instance_records})
        self._address_revisions = dict.fromkeys(prefixes, 0)
        addresses = [PrefixFollower(upstream, prefix, _Addresses(self, prefix), log=log) for prefix in prefixes]
        self._followers = [PrefixFollower(upstream, ROOT, _Reserved(self), log=log), *addresses]

    async def run(self) -> None:
        """Follows until cancelled; from then on the mirror only grows old, and nobody is to take it for more."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for follower in self._followers:
                    tasks.create_task(follower.run())
        finally:
            self.went_away("the proxy is stopping")

    @property
    def ready(self) -> bool:
        """Whether the mirror is whole and etcd is being followed."""
        return self._synced_since is not None

    @property
    def why_not_ready(self) -> str | None:
        """The reason, for people; None while ready."""
        return None if self.ready else self._why_not

    @property
    def revision(self) -> int:
        """etcd's revision up to which the mirror is known to be right; 0 before the first sync."""
        return self._revision

    @property
    def syncs(self) -> int:
        """How often the reserved area was read as a whole: between two such readings anything may have happened."""
        return self._syncs

    @property
    def history(self) -> int | None:
        """The number of the latest such reading, for as long as nothing of what came after it was missed; else None.

        An etcd that is set back to a backup ends every watch. So whatever was seen under one number is of one history.
        """
        return self._syncs if self.ready else None

    @property
    def address_revisions(self) -> Mapping[bytes, int]:
        """As `revision`, for each prefix under which workers say their address; it goes on more slowly."""
        return self._address_revisions

    @property
    def no_rejection_before(self) -> datetime:
        """Until when no deadline is held against anyone: verdicts may be on their way after a start or an outage."""
        return grace_end(self._synced_since or self._clock())

    def subscribe(self) -> AbstractContextManager[Subscription]:
        """What changes in the mirror from here on."""
        return self._feed.subscribe()

    def told(self, listener: Listener) -> AbstractContextManager[None]:
        """The same for one that keeps changes in a way of its own."""
        return self._feed.told(listener)

    async def wait_ready(self) -> None:
        """Returns once the mirror is whole."""
        with self.subscribe() as changes:
            while not self.ready:
                await changes.next()

    def synced(self, changes: Changes, revision: int) -> None:
        """The reserved area was read as a whole."""
        self._synced_since = self._synced_since or self._clock()
        self._revision = revision
        self._syncs += 1
        self._feed.publish(changes)

    def moved_on(self, changes: Changes, revision: int) -> None:
        """Events of the reserved area up to `revision`."""
        self._revision = max(self._revision, revision)
        self._feed.publish(changes)

    def addresses_changed(self, changes: Changes, prefix: bytes, revision: int) -> None:
        """Workers' addresses under one prefix, as of `revision`."""
        self._address_revisions[prefix] = revision
        self._feed.publish(changes)

    def went_away(self, reason: str) -> None:
        """etcd does not answer: what the mirror shows may be old."""
        self._synced_since, self._why_not = None, f"etcd cannot be followed: {reason}"
        self._feed.publish(Changes(everything=True))

    @property
    def mirror(self) -> Mirror:
        """What is kept fresh."""
        return self._mirror


class _Reserved:
    """The reserved area: its fate is the follower's."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    def replace(self, kvs: Sequence[kv_pb2.KeyValue], revision: int) -> None:
        self._follower.synced(self._follower.mirror.replace(kvs, revision), revision)

    def apply(self, events: Sequence[kv_pb2.Event], revision: int) -> None:
        self._follower.moved_on(self._follower.mirror.apply(events), _reached(events, revision))

    def away(self, reason: str) -> None:
        self._follower.went_away(reason)


class _Addresses:
    """The instance records under one prefix. While they cannot be read, the last known addresses stand."""

    def __init__(self, follower: Follower, prefix: bytes) -> None:
        self._follower, self._prefix = follower, prefix

    def replace(self, kvs: Sequence[kv_pb2.KeyValue], revision: int) -> None:
        changes = self._follower.mirror.replace_addresses(self._prefix, kvs)
        self._follower.addresses_changed(changes, self._prefix, revision)

    def apply(self, events: Sequence[kv_pb2.Event], revision: int) -> None:
        changes = self._follower.mirror.apply_addresses(events)
        self._follower.addresses_changed(changes, self._prefix, _reached(events, revision))

    def away(self, reason: str) -> None:
        return


def _reached(events: Sequence[kv_pb2.Event], revision: int) -> int:
    """Up to where everything is known. etcd splits a long backlog, and each part names the revision of the whole."""
    return events[-1].kv.mod_revision if events else revision
