"""Gated calls carried out on etcd: read, decide, write fenced, and again while the fence is lost.

The reads that decide are the proxy's own; what the client wrote is sent with the client's own metadata, so that etcd
judges its permissions as without a proxy. Where the proxy has rights of its own, etcd is asked first whether the client
may do what it asks for: nothing is decided, nor opened or said, for one that may not.
"""

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import grpc

from greenroom.core import txns
from greenroom.core.alternatives import alternative, look
from greenroom.core.compares import never
from greenroom.core.gating import MANY_CARDS, Gated, LookAtLease, entry_of, gate_call, needs_of, public_entries
from greenroom.core.keyspace import InstanceId, Key, lease_of, record_key
from greenroom.core.permissions import permission_probes, writes_gated_keys
from greenroom.core.policy import Policy, Requirements
from greenroom.core.publication import adoption_txn
from greenroom.core.record import GatedEntry, Record
from greenroom.core.remembered import after, is_enough, newborn
from greenroom.core.restore import FenceLost, settle
from greenroom.core.snapshot import Snapshot
from greenroom.core.templates import GatedKey, GatedKeys, KeyKind
from greenroom.core.worker_calls import Uses, examine
from greenroom.errors import FenceContended, GreenroomError, NotReady
from greenroom.pb.etcd import rpc_pb2
from greenroom.relay.calls import Metadata
from greenroom.serve.memory import Memory
from greenroom.store.credentials import for_itself
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

    `opened` is told of instances whose record this proxy opened, `held_later` of released ones of which it held a
    later card, `ungated` of each card that was written publicly because no rule matches it, `denied` of instances whose
    client may write their keys, and may not have them held.
    """

    upstream: Upstream
    gated_keys: GatedKeys
    policy: Policy
    clock: Callable[[], datetime]
    opened: Callable[[InstanceId], None]
    ungated: Callable[[InstanceId, GatedEntry], None]
    fence_lost: Callable[[], None]
    denied: Callable[[InstanceId], None]
    memory: Memory
    held_later: Callable[[InstanceId, Record], None]

    async def carry_out(
        self, txn: rpc_pb2.TxnRequest, uses: Uses, metadata: Metadata, timeout_seconds: float | None
    ) -> rpc_pb2.TxnResponse:
        """The client's answer. FenceContended where the fence was lost until the time was up.

        NotReady where etcd does not permit the proxy's own user what it needs.
        """
        time_left = _TimeLeft(timeout_seconds)
        if self.upstream.has_user:
            for probe in permission_probes(txn, uses):
                await self._as_client(probe, metadata, time_left)
        try:
            return await self._until_settled(txn, uses, metadata, time_left)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.PERMISSION_DENIED:
                raise
            if writes_gated_keys(txn, self.gated_keys):
                self.denied(uses.instance)
                raise
        # It may not see what is held, so all that there is for it is what everybody sees.
        return await self._as_client(txn, metadata, time_left)

    async def _until_settled(
        self, txn: rpc_pb2.TxnRequest, uses: Uses, metadata: Metadata, time_left: "_TimeLeft"
    ) -> rpc_pb2.TxnResponse:
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
        if uses.writes_in_else:
            return await self._one_branch(txn, uses, metadata, time_left)
        answer = await self._without_a_read(txn, uses, metadata, time_left)
        if isinstance(answer, rpc_pb2.TxnResponse):
            return answer
        snapshot = await self._read(uses.instance, tuple(uses.keys), time_left)
        return await self._whole(txn, uses, snapshot, metadata, time_left)

    async def _one_branch(
        self, txn: rpc_pb2.TxnRequest, uses: Uses, metadata: Metadata, time_left: "_TimeLeft"
    ) -> rpc_pb2.TxnResponse | FenceLost | Adopted:
        """A Txn whose Else writes, by that one of its branches that is to run."""
        snapshot = await self._read(uses.instance, tuple(uses.keys), time_left)
        reads = look(txn, uses)
        looked = await self._as_client(reads, metadata, time_left) if reads else None
        branch = alternative(txn, uses, snapshot, looked)
        if branch.other:
            await self._as_client(branch.other, metadata, time_left)
        if used := examine(branch.call, self.gated_keys):
            answer = await self._whole(branch.call, used, snapshot, metadata, time_left)
        else:
            answer = await self._as_client(branch.call, metadata, time_left)
        return branch.told(answer) or FenceLost() if isinstance(answer, rpc_pb2.TxnResponse) else answer

    async def _whole(
        self, txn: rpc_pb2.TxnRequest, uses: Uses, snapshot: Snapshot, metadata: Metadata, time_left: "_TimeLeft"
    ) -> rpc_pb2.TxnResponse | FenceLost | Adopted:
        """A call without an Else that writes, from a read of the instance that asked for all keys of the call."""
        if snapshot.record is not None and len(snapshot.record.cards) >= MANY_CARDS:
            snapshot = await self._read(uses.instance, snapshot.read_again(), time_left)
        planned = self._plan(txn, uses, snapshot, lease_was_seen=False)
        if isinstance(planned, LookAtLease):
            lease = await self._look_at_lease(uses.instance, time_left)
            if public := self._public_keys(uses.instance, lease):
                keys = tuple(dict.fromkeys((*uses.keys, *(gated.key for gated in public))))
                snapshot = await self._read(uses.instance, keys, time_left)
                await self._check_may_be_held(uses.instance, metadata, time_left)
                if await self._adopted(snapshot, public, time_left):
                    return Adopted()
            planned = self._plan(txn, uses, snapshot, lease_was_seen=True)
        assert isinstance(planned, Gated)
        return await self._send(planned, uses, snapshot, metadata, time_left)

    async def _without_a_read(
        self, txn: rpc_pb2.TxnRequest, uses: Uses, metadata: Metadata, time_left: "_TimeLeft"
    ) -> rpc_pb2.TxnResponse | FenceLost | None:
        """The call planned from what is known already; None where that is not enough. See `core.remembered`."""
        snapshot = self.memory.recall(uses.instance)
        is_new = snapshot is None and self._is_ruled(uses)
        if is_new:
            try:
                lease = await self._look_at_lease(uses.instance, time_left)
            except NotReady:  # It may have a record, and then nobody has to see its lease.
                return None
            snapshot = newborn(uses.instance, uses.keys, lease, self.gated_keys)
        if snapshot is None or not is_enough(snapshot, txn, uses):
            return None
        try:
            planned = self._plan(txn, uses, snapshot, lease_was_seen=is_new)
        except GreenroomError:  # Only what was read is a reason to refuse anything.
            return None
        if isinstance(planned, LookAtLease):
            return None
        return await self._send(planned, uses, snapshot, metadata, time_left)

    def _is_ruled(self, uses: Uses) -> bool:
        """Whether a call puts what a rule matches: if its instance is new, it is opened."""
        return any(needs_of(self.policy, uses.keys[key], content) for key, content in uses.contents.items())

    async def _send(
        self, planned: Gated, uses: Uses, snapshot: Snapshot, metadata: Metadata, time_left: "_TimeLeft"
    ) -> rpc_pb2.TxnResponse | FenceLost:
        self.memory.keep(uses.instance, None)  # Whatever comes of it may never be known.
        answer = await self._as_client(planned.txn, metadata, time_left)
        settled = settle(planned, answer)
        if isinstance(settled, rpc_pb2.TxnResponse):
            self.memory.keep(uses.instance, after(snapshot, planned, answer))
        if answer.succeeded:
            self._tell(uses, snapshot, planned)
        return settled

    async def _as_client(
        self, txn: rpc_pb2.TxnRequest, metadata: Metadata, time_left: "_TimeLeft"
    ) -> rpc_pb2.TxnResponse:
        return await self.upstream.as_client(metadata).txn(txn, timeout_seconds=time_left.seconds())

    async def _read(self, instance: InstanceId, keys: Sequence[Key], time_left: "_TimeLeft") -> Snapshot:
        """EtcdRefusal for more keys than one read can ask for: a part of them would be taken for all."""
        return await read_snapshot(self.upstream, instance, keys, timeout_seconds=time_left.seconds())

    def _tell(self, uses: Uses, snapshot: Snapshot, planned: Gated) -> None:
        """What the Txn did, for logs and metrics."""
        if planned.opens:
            self.opened(uses.instance)
        elif planned.record is not None and planned.holds_later(snapshot):
            self.held_later(uses.instance, planned.record)
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

    async def _look_at_lease(self, instance: InstanceId, time_left: "_TimeLeft") -> rpc_pb2.LeaseTimeToLiveResponse:
        request = rpc_pb2.LeaseTimeToLiveRequest(ID=lease_of(instance), keys=True)
        with for_itself():
            return await self.upstream.lease_time_to_live(request, timeout_seconds=time_left.seconds())

    def _public_keys(self, instance: InstanceId, lease: rpc_pb2.LeaseTimeToLiveResponse) -> list[GatedKey]:
        """The gated keys that lie publicly on the instance's lease."""
        found = (self.gated_keys.classify(key) for key in lease.keys)
        return [gated for gated in found if isinstance(gated, GatedKey) and gated.instance == instance]

    async def _check_may_be_held(self, instance: InstanceId, metadata: Metadata, time_left: "_TimeLeft") -> None:
        """Etcd's error for a client that may not write its record: none is opened for it by the proxy's rights."""
        if self.upstream.has_user:
            record = record_key(instance)
            probe = rpc_pb2.TxnRequest(compare=[never(record)], success=[txns.keep(record, b"")])
            await self._as_client(probe, metadata, time_left)

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
        with for_itself():
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
