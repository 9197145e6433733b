"""Claims in etcd: each on a lease of its own, made, renewed and given back under the record's fence.

The rule: no clock of ours ends a claim, and no lease is left behind by one that could not be made. Who may not claim is
told so before a lease is granted, for many runners may ask again and again.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from greenroom.core import claims
from greenroom.core.claims import Claim, ClaimSeen, PlannedClaim
from greenroom.core.keyspace import InstanceId
from greenroom.core.record import Record
from greenroom.errors import FenceContended
from greenroom.pb.etcd import rpc_pb2
from greenroom.store.credentials import for_itself
from greenroom.store.fenced import DEADLINE_SECONDS, FIRST_JITTER_SECONDS, LONGEST_JITTER_SECONDS, Clock
from greenroom.store.own_leases import OwnLeases
from greenroom.store.upstream import Upstream

Plan = Callable[[ClaimSeen], PlannedClaim]
Check = Callable[[InstanceId, Record], None]


@dataclass(frozen=True, slots=True)
class NewClaim:
    """What a runner asks for."""

    instance: InstanceId
    gate: str
    attempt: int
    runner: str
    ttl_seconds: int


@dataclass(frozen=True, slots=True)
class HeldClaim:
    """A claim in force. `lease` is its token."""

    instance: InstanceId
    gate: str
    lease: int
    claim: Claim


class ClaimStore:
    """Makes, renews and gives back. Errors are those of core/claims, FenceContended, and etcd's as AioRpcError.

    `check` raises where an instance is none of the caller's business: it is asked of the record that is claimed under.
    """

    def __init__(
        self,
        upstream: Upstream,
        *,
        clock: Clock,
        log: Any,
        check: Check = lambda *_: None,
        on_lost_fence: Callable[[], None] = lambda: None,
    ) -> None:
        self._upstream, self._clock = upstream, clock
        self._leases = OwnLeases(upstream, left_event="claim.lease_left", log=log)
        self._check, self._on_lost_fence = check, on_lost_fence

    async def claim(self, asked: NewClaim) -> HeldClaim:
        """The claim, on a new lease of at least the time that was asked for; etcd may make a short one longer."""
        claims.check(await self._read(asked.instance, asked.gate), asked.attempt)
        lease = await self._leases.grant(asked.ttl_seconds)
        held: HeldClaim | None = None
        try:
            held = await self._put(asked, lease)
        finally:
            if held is None:
                await asyncio.shield(self._leases.revoke(lease.ID))
        return held

    async def renew(self, instance: InstanceId, gate: str, lease: int) -> HeldClaim:
        """The claim with its whole time again."""
        claims.renewal_txn(await self._read(instance, gate), lease, self._clock())
        request = rpc_pb2.LeaseKeepAliveRequest(ID=lease)
        kept = await self._upstream.lease_keep_alive(request, timeout_seconds=DEADLINE_SECONDS)
        expires = self._clock() + timedelta(seconds=kept.TTL if kept else 0)
        claim = await self._carry_out(instance, gate, lambda seen: claims.renewal_txn(seen, lease, expires))
        return HeldClaim(instance, gate, lease, claim)

    async def release(self, instance: InstanceId, gate: str, lease: int) -> HeldClaim:
        """The claim as it was; its attempt is free again."""
        claim = await self._carry_out(instance, gate, lambda seen: claims.release_txn(seen, lease))
        await self._leases.revoke_if_empty(lease)
        return HeldClaim(instance, gate, lease, claim)

    async def _put(self, asked: NewClaim, lease: rpc_pb2.LeaseGrantResponse) -> HeldClaim:
        now = self._clock()
        expires = now + timedelta(seconds=lease.TTL)
        claim = Claim(runner=asked.runner, attempt=asked.attempt, claimed=now, expires=expires)
        stored = await self._carry_out(asked.instance, asked.gate, lambda seen: claims.claim_txn(seen, claim, lease.ID))
        return HeldClaim(asked.instance, asked.gate, lease.ID, stored)

    async def _carry_out(self, instance: InstanceId, gate: str, plan: Plan) -> Claim:
        """Does what is planned, whatever else happens to the gate meanwhile."""
        jitter_seconds = FIRST_JITTER_SECONDS
        deadline = asyncio.get_running_loop().time() + DEADLINE_SECONDS
        while not await self._done(planned := plan(await self._read(instance, gate))):
            if asyncio.get_running_loop().time() > deadline:
                raise FenceContended(
                    f"gate {gate!r} of instance {instance} kept changing for the whole time of this call; try again",
                    instance=instance,
                )
            await asyncio.sleep(random.uniform(0, jitter_seconds))
            jitter_seconds = min(2 * jitter_seconds, LONGEST_JITTER_SECONDS)
        return claims.as_stored(planned.claim)

    async def _read(self, instance: InstanceId, gate: str) -> ClaimSeen:
        with for_itself():
            answer = await self._upstream.txn(claims.read_request(instance, gate), timeout_seconds=DEADLINE_SECONDS)
        seen = claims.seen_from(instance, gate, answer)
        if seen.record is not None:
            self._check(instance, seen.record)
        return seen

    async def _done(self, planned: PlannedClaim) -> bool:
        """Whether the Txn found everything as it was read."""
        with for_itself():
            answer = await self._upstream.txn(planned.txn, timeout_seconds=DEADLINE_SECONDS)
        if not answer.succeeded:
            self._on_lost_fence()
        return answer.succeeded
