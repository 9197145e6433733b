"""Gated calls carried out on etcd: read, decide, write fenced, and again while the fence is lost.

The reads that decide are the proxy's own; what the client wrote is sent with the client's own metadata, so that etcd
judges its permissions as without a proxy.
"""

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from greenroom.core.gating import MANY_CARDS, Gated, LookAtLease, entry_of, gate_call, needs_of, public_entries
from greenroom.core.keyspace import InstanceId, Key, lease_of
from greenroom.core.policy import Policy, Requirements
from greenroom.core.publication import adoption_txn
from greenroom.core.record import GatedEntry
from greenroom.core.restore import FenceLost, settle
from greenroom.core.snapshot import Snapshot
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
class GatedWrites:
    """The way of every gated write.

    `opened` is told of instances whose record this proxy opened, `ungated` of each card that was written publicly
    because no rule matches it.
    """

    upstream: Upstream
    gated_keys: GatedKeys
    policy: Policy
    clock: Callable[[], datetime]
    opened: Callable[[InstanceId], None]
    ungated: Callable[[InstanceId, GatedEntry], None]
    fence_lost: Callable[[], None]

    async def carry_out(
        self, txn: rpc_pb2.TxnRequest, uses: Uses, metadata: Metadata, timeout_seconds: float | None
    ) -> rpc_pb2.TxnResponse:
        """The client's answer. FenceContended where the fence was lost until the time was up."""
        time_left = _TimeLeft(timeout_seconds)
        while True:
            answer = await self._once(txn, uses, metadata, time_left)
            if isinstance(answer, rpc_pb2.TxnResponse):
                return answer
            if isinstance(answer, FenceLost):
                self.fence_lost()
            if time_left.is_up():
                raise FenceContended(
                    f"instance {uses.instance} kept changing while it was written to; try again", instance=uses.instance
                )
            await asyncio.sleep(random.uniform(0, JITTER_SECONDS))

    async def _once(
        self, txn: rpc_pb2.TxnRequest, uses: Uses, metadata: Metadata, time_left: "_TimeLeft"
    ) -> rpc_pb2.TxnResponse | FenceLost | Adopted:
        snapshot = await self._read(uses.instance, tuple(uses.keys), time_left)
        if snapshot.record is not None and len(snapshot.record.cards) >= MANY_CARDS:
            snapshot = await self._read(uses.instance, snapshot.read_again(), time_left)
        planned = self._plan(txn, uses, snapshot, lease_was_seen=False)
        if isinstance(planned, LookAtLease):
            if public := await self._public_keys(uses.instance, time_left):
                keys = tuple(dict.fromkeys((*uses.keys, *(gated.key for gated in public))))
                snapshot = await self._read(uses.instance, keys, time_left)
                if await self._adopted(snapshot, public, time_left):
                    return Adopted()
            planned = self._plan(txn, uses, snapshot, lease_was_seen=True)
        assert isinstance(planned, Gated)
        answer = await self.upstream.txn(planned.txn, metadata=metadata, timeout_seconds=time_left.seconds())
        settled = settle(planned, answer)
        if answer.succeeded:
            self._tell(uses, snapshot, planned)
        return settled

    async def _read(self, instance: InstanceId, keys: Sequence[Key], time_left: "_TimeLeft") -> Snapshot:
        """EtcdRefusal for more keys than one read can ask for: a part of them would be taken for all."""
        return await read_snapshot(self.upstream, instance, keys, timeout_seconds=time_left.seconds())

    def _tell(self, uses: Uses, snapshot: Snapshot, planned: Gated) -> None:
        """What the Txn did, for logs and metrics."""
        if planned.opens:
            self.opened(uses.instance)
        elif snapshot.record is None:
            for entry in self._ungated_cards(uses, snapshot):
                self.ungated(uses.instance, entry)

    def _ungated_cards(self, uses: Uses, snapshot: Snapshot) -> Iterator[GatedEntry]:
        """The cards that were put without a record, which is to say publicly, and without any rule."""
        for key, request in uses.puts.items():
            gated, found = uses.keys[key], snapshot.public.get(key)
            value = bytes(found.value if request.ignore_value and found else request.value)
            if gated.kind is KeyKind.CARD and needs_of(self.policy, gated, value) is None:
                yield entry_of(gated, value)

    def _plan(
        self, txn: rpc_pb2.TxnRequest, uses: Uses, snapshot: Snapshot, *, lease_was_seen: bool
    ) -> Gated | LookAtLease:
        return gate_call(txn, uses, snapshot, self.gated_keys, self.policy, self.clock(), lease_was_seen=lease_was_seen)

    async def _public_keys(self, instance: InstanceId, time_left: "_TimeLeft") -> list[GatedKey]:
        """The gated keys that lie publicly on the instance's lease."""
        request = rpc_pb2.LeaseTimeToLiveRequest(ID=lease_of(instance), keys=True)
        lease = await self.upstream.lease_time_to_live(request, timeout_seconds=time_left.seconds())
        found = (self.gated_keys.classify(key) for key in lease.keys)
        return [gated for gated in found if isinstance(gated, GatedKey) and gated.instance == instance]

    async def _adopted(self, snapshot: Snapshot, public: Sequence[GatedKey], time_left: "_TimeLeft") -> bool:
        """Open the record of an instance that serves already. True: read again, whether this proxy was fast enough.

        Public cards that no rule matches are nobody's concern: they make no record.
        """
        found = [gated for gated in public if gated.key in snapshot.public]
        needs = self._joined_needs(found, snapshot)
        if snapshot.record is not None or needs is None or all(gated.kind is not KeyKind.CARD for gated in found):
            return False
        entries = public_entries(snapshot, self.gated_keys)
        adoption = adoption_txn(snapshot, entries, needs, self.clock())
        await self.upstream.txn(adoption, timeout_seconds=time_left.seconds())
        return True

    def _joined_needs(self, found: Sequence[GatedKey], snapshot: Snapshot) -> Requirements | None:
        joined: Requirements | None = None
        for gated in found:
            needs = needs_of(self.policy, gated, snapshot.public[gated.key].value)
            joined = needs.joined(joined) if needs else joined
        return joined


class _TimeLeft:
    """Until when a call is to be answered. `given_seconds` is the client's own deadline, None where it has none."""

    def __init__(self, given_seconds: float | None) -> None:
        self._given = given_seconds is not None
        self._end = _time() + (DEFAULT_DEADLINE_SECONDS if given_seconds is None else given_seconds)

    def seconds(self) -> float | None:
        """How long one call to etcd may take; None for as long as etcd takes, which is what such a client expects."""
        return max(self._end - _time(), 0.0) if self._given else None

    def is_up(self) -> bool:
        """Whether it is not to be tried again."""
        return _time() >= self._end


def _time() -> float:
    return asyncio.get_running_loop().time()
