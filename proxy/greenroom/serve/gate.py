"""Gated calls carried out on etcd: read, decide, write fenced, and again while the fence is lost.

The reads that decide are the proxy's own; what the client wrote is sent with the client's own metadata, so that etcd
judges its permissions as without a proxy.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from greenroom.core.gating import MANY_CARDS, Gated, LookAtLease, gate_call, needs_of, public_entries
from greenroom.core.keyspace import InstanceId, lease_of
from greenroom.core.policy import Policy, Requirements
from greenroom.core.publication import adoption_txn
from greenroom.core.restore import FenceLost, settle
from greenroom.core.snapshot import MAX_READ_KEYS, Snapshot
from greenroom.core.templates import GatedKey, GatedKeys, KeyKind
from greenroom.core.worker_calls import Uses
from greenroom.errors import FenceContended
from greenroom.pb.etcd import rpc_pb2
from greenroom.relay.calls import Metadata
from greenroom.store.fenced import read_snapshot
from greenroom.store.upstream import Upstream

DEFAULT_DEADLINE_SECONDS = 5.0
"""How long a client without a deadline of its own waits for a record that keeps changing."""
JITTER_SECONDS = 0.01
"""Two proxies that lost to each other must not meet again at once."""


@dataclass(frozen=True, slots=True)
class Adopted:
    """The instance served already, and was given a record: decide again with it."""


@dataclass(frozen=True, slots=True)
class Gate:
    """The way of every gated write. `opened` is told of instances whose record this proxy opened."""

    upstream: Upstream
    gated_keys: GatedKeys
    policy: Policy
    clock: Callable[[], datetime]
    opened: Callable[[InstanceId], None]
    fence_lost: Callable[[], None]

    async def carry_out(
        self, txn: rpc_pb2.TxnRequest, uses: Uses, metadata: Metadata, timeout_seconds: float | None
    ) -> rpc_pb2.TxnResponse:
        """The client's answer. FenceContended where the fence was lost until the time was up."""
        loop = asyncio.get_running_loop()
        end = loop.time() + (DEFAULT_DEADLINE_SECONDS if timeout_seconds is None else timeout_seconds)
        while True:
            answer = await self._once(txn, uses, metadata, timeout_seconds)
            if isinstance(answer, rpc_pb2.TxnResponse):
                return answer
            if isinstance(answer, FenceLost):
                self.fence_lost()
            if loop.time() >= end:
                raise FenceContended(
                    f"instance {uses.instance} kept changing while it was written to; try again", instance=uses.instance
                )
            await asyncio.sleep(random.uniform(0, JITTER_SECONDS))

    async def _once(
        self, txn: rpc_pb2.TxnRequest, uses: Uses, metadata: Metadata, timeout_seconds: float | None
    ) -> rpc_pb2.TxnResponse | FenceLost | Adopted:
        snapshot = await read_snapshot(self.upstream, uses.instance, tuple(uses.keys))
        if snapshot.record is not None and len(snapshot.record.cards) >= MANY_CARDS:
            keys = snapshot.read_again()[:MAX_READ_KEYS]
            snapshot = await read_snapshot(self.upstream, uses.instance, keys)
        planned = self._plan(txn, uses, snapshot, lease_was_seen=False)
        if isinstance(planned, LookAtLease):
            if public := await self._public_keys(uses.instance):
                keys = tuple(dict.fromkeys((*uses.keys, *(gated.key for gated in public))))[:MAX_READ_KEYS]
                snapshot = await read_snapshot(self.upstream, uses.instance, keys)
                if await self._adopted(snapshot, public):
                    return Adopted()
            planned = self._plan(txn, uses, snapshot, lease_was_seen=True)
        assert isinstance(planned, Gated)
        answer = await self.upstream.txn(planned.txn, metadata=metadata, timeout_seconds=timeout_seconds)
        settled = settle(planned, answer)
        if planned.opens and answer.succeeded:
            self.opened(uses.instance)
        return settled

    def _plan(
        self, txn: rpc_pb2.TxnRequest, uses: Uses, snapshot: Snapshot, *, lease_was_seen: bool
    ) -> Gated | LookAtLease:
        return gate_call(txn, uses, snapshot, self.gated_keys, self.policy, self.clock(), lease_was_seen=lease_was_seen)

    async def _public_keys(self, instance: InstanceId) -> list[GatedKey]:
        """The gated keys that lie publicly on the instance's lease."""
        request = rpc_pb2.LeaseTimeToLiveRequest(ID=lease_of(instance), keys=True)
        lease = await self.upstream.lease_time_to_live(request)
        found = (self.gated_keys.classify(key) for key in lease.keys)
        return [gated for gated in found if isinstance(gated, GatedKey) and gated.instance == instance]

    async def _adopted(self, snapshot: Snapshot, public: Sequence[GatedKey]) -> bool:
        """Open the record of an instance that serves already. True: read again, whether this proxy was fast enough.

        Public cards that no rule matches are nobody's concern: they make no record.
        """
        found = [gated for gated in public if gated.key in snapshot.public]
        needs = self._joined_needs(found, snapshot)
        if snapshot.record is not None or needs is None or all(gated.kind is not KeyKind.CARD for gated in found):
            return False
        entries = public_entries(snapshot, self.gated_keys)
        await self.upstream.txn(adoption_txn(snapshot, entries, needs, self.clock()))
        return True

    def _joined_needs(self, found: Sequence[GatedKey], snapshot: Snapshot) -> Requirements | None:
        joined: Requirements | None = None
        for gated in found:
            needs = needs_of(self.policy, gated, snapshot.public[gated.key].value)
            joined = needs.joined(joined) if needs else joined
        return joined
