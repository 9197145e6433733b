"""Rollout holds in etcd: created only where absent, ended by an etcd lease of their own or by being lifted.

The rule: no clock of ours ends a hold, and no lease is left behind by one that could not be created.
"""

import asyncio
from datetime import datetime, timedelta
from typing import Any

from greenroom.control.requests import NewRolloutHold
from greenroom.core import rollout_holds, txns
from greenroom.core.keyspace import ROLLOUT_HOLDS, Key, prefix_end, rollout_hold_key
from greenroom.core.rollout_holds import RolloutHold
from greenroom.errors import FenceContended, RolloutHoldExists, UnknownRolloutHold
from greenroom.pb.etcd import kv_pb2, rpc_pb2
from greenroom.store.fenced import DEADLINE_SECONDS
from greenroom.store.own_leases import OwnLeases
from greenroom.store.upstream import Upstream

MAX_LIFT_ROUNDS = 5
"""Nobody edits a hold, so even a second round is rare."""


class HoldStore:
    """Creates, lists and lifts. etcd's errors come out as grpc.aio.AioRpcError."""

    def __init__(self, upstream: Upstream, *, log: Any) -> None:
        self._upstream = upstream
        self._leases = OwnLeases(upstream, left_event="rollout_hold.lease_left", log=log)

    async def create(self, asked: NewRolloutHold, now: datetime) -> RolloutHold:
        """The hold as stored; RolloutHoldExists where its id is taken."""
        lease, expires = await self._grant(asked.ttl_seconds, now)
        hold = RolloutHold(
            hold_id=asked.hold_id,
            reason=asked.reason,
            actor=asked.actor,
            selector=asked.selector,
            created=now,
            expires=expires,
        )
        created = False
        try:
            created = await self._put_if_absent(hold, lease)
        finally:
            if lease and not created:
                await asyncio.shield(self._leases.revoke(lease))
        if not created:
            raise RolloutHoldExists(
                f"a rollout hold {asked.hold_id} is in force already: lift it first, or choose another id",
                rollout_hold=asked.hold_id,
            )
        return as_stored(hold)

    async def all(self) -> list[RolloutHold]:
        """Every hold in force."""
        request = rpc_pb2.RangeRequest(key=ROLLOUT_HOLDS, range_end=prefix_end(ROLLOUT_HOLDS))
        answer = await self._upstream.range(request, timeout_seconds=DEADLINE_SECONDS)
        return [rollout_holds.decode(kv.key, kv.value) for kv in answer.kvs]

    async def lift(self, hold_id: str) -> RolloutHold:
        """The hold as it was; UnknownRolloutHold where there is none of that id."""
        key = rollout_hold_key(hold_id)
        for _ in range(MAX_LIFT_ROUNDS):
            found = await self._get(key)
            if found is None:
                raise await self._unknown(hold_id)
            if await self._delete(key, found.mod_revision):
                if found.lease:
                    await self._leases.revoke_if_empty(found.lease)
                return rollout_holds.decode(found.key, found.value)
        raise FenceContended(f"rollout hold {hold_id} kept changing; try again", rollout_hold=hold_id)

    async def _grant(self, ttl_seconds: int | None, now: datetime) -> tuple[int, datetime | None]:
        """A lease that ends the hold, and when; etcd may make a very short one longer."""
        if ttl_seconds is None:
            return 0, None
        granted = await self._leases.grant(ttl_seconds)
        return granted.ID, now + timedelta(seconds=granted.TTL)

    async def _put_if_absent(self, hold: RolloutHold, lease: int) -> bool:
        key = rollout_hold_key(hold.hold_id)
        txn = rpc_pb2.TxnRequest(compare=[txns.absent(key)], success=[txns.put(key, rollout_holds.encode(hold), lease)])
        return (await self._upstream.txn(txn, timeout_seconds=DEADLINE_SECONDS)).succeeded

    async def _get(self, key: Key) -> kv_pb2.KeyValue | None:
        answer = await self._upstream.range(rpc_pb2.RangeRequest(key=key), timeout_seconds=DEADLINE_SECONDS)
        return answer.kvs[0] if answer.kvs else None

    async def _delete(self, key: Key, mod_revision: int) -> bool:
        txn = rpc_pb2.TxnRequest(compare=[txns.unchanged(key, mod_revision)], success=[txns.delete(key)])
        return (await self._upstream.txn(txn, timeout_seconds=DEADLINE_SECONDS)).succeeded

    async def _unknown(self, hold_id: str) -> UnknownRolloutHold:
        known = ", ".join(hold.hold_id for hold in await self.all()) or "none"
        return UnknownRolloutHold(
            f"no rollout hold {hold_id}: it was lifted or expired; in force: {known}", rollout_hold=hold_id
        )


def as_stored(hold: RolloutHold) -> RolloutHold:
    """The hold as every later reader sees it: etcd keeps its times to the millisecond."""
    return rollout_holds.decode(rollout_hold_key(hold.hold_id), rollout_holds.encode(hold))
