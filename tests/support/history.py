"""What really happened in etcd, to compare with what clients were told.

The rule: read from etcd itself at the end, beside the proxy, over the whole of its uncompacted past.
"""

from tests.support.client import EtcdClient, prefix_end
from tests.support.steady import Happened, Watched, Written, happened
from tests.support.waiting import wait_for

READ_SECONDS = 30


def history(client: EtcdClient, prefix: bytes, until: int) -> list[Happened]:
    """Every event under the prefix, from the first to the one of revision `until`, which must be one of them."""
    with client.watch(prefix, prefix_end(prefix), start_revision=1) as log:
        # etcd sends the past in parts of 1,000 revisions, and each bears the revision of the present in its header.
        wait_for(
            lambda: any(event.kv.mod_revision >= until for event in log.events[-1:]), READ_SECONDS, "the last event"
        )
        return [happened(event) for event in log.events if event.kv.mod_revision <= until]


def missed(watched: Watched, truth: list[Happened]) -> str:
    """Where a watcher was told something else, as far as both go; empty when all is well.

    Either may be ahead: of a write in the last moment the watcher heard perhaps, and its writer no more.
    """
    should = [event for event in truth if event[2] < watched.next_revision]
    seen = [event for event in watched.events if event[2] <= truth[-1][2]]
    if seen == should:
        return ""
    at = next((place for place, pair in enumerate(zip(seen, should, strict=False)) if pair[0] != pair[1]), len(should))
    around = slice(max(at - 2, 0), at + 3)
    return f"{len(seen)} events for {len(should)}; from {at} on {seen[around]} for {should[around]}; {watched.streams}"


def lost(written: Written, truth: list[Happened]) -> dict[bytes, int]:
    """Writes that were acknowledged with a revision at which they are not in etcd."""
    there = {(key, revision) for kind, key, revision in truth if kind == "PUT"}
    return {key: revision for key, revision in written.acknowledged.items() if (key, revision) not in there}
