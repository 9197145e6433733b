"""What the reserved area held at a revision that is past, and what is different now: for readers who were away since.

The rule: etcd is the history. Nothing is logged here, so that any proxy can answer, also one that was started just now;
what etcd has compacted is gone, and that is said. Old revisions are never asked for inside a Txn: an etcd that compacts
them between its check and its reading ends itself.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from weakref import WeakValueDictionary

import grpc

from greenroom.core import claims, rollout_holds
from greenroom.core import record as records
from greenroom.core.claims import Claim
from greenroom.core.keyspace import (
    CLAIMS,
    RECORDS,
    ROLLOUT_HOLDS,
    SHADOWS,
    InstanceId,
    Key,
    claimed_gate,
    held_key,
    record_key,
)
from greenroom.core.rollout_holds import RolloutHold
from greenroom.errors import HistoryGone, UnreadableRecord
from greenroom.pb.etcd import kv_pb2, rpc_pb2
from greenroom.store.fenced import DEADLINE_SECONDS
from greenroom.store.mirror import Mirror
from greenroom.store.mirrored import MirroredInstance
from greenroom.store.prefix_follower import read_prefix
from greenroom.store.upstream import Upstream

START_ANEW = "start anew, without a resume token"


@dataclass(frozen=True)
class Past:
    """The reserved area at `revision`, and which instance records were public; None: that is not known any more.

    It was read from the etcd with the id `cluster`, whose revision was `store_revision` by then.
    """

    revision: int
    cluster: int
    store_revision: int
    records: Mapping[bytes, kv_pb2.KeyValue]
    holds: Mapping[bytes, kv_pb2.KeyValue]
    shadows: Mapping[bytes, int]
    addresses: Mapping[bytes, int] | None
    claims: Mapping[bytes, kv_pb2.KeyValue] = field(default_factory=dict)

    @cached_property
    def revisions(self) -> Mapping[bytes, int]:
        """The mod_revision of each record, shadow, rollout hold and claim."""
        read = (*self.records.items(), *self.holds.items(), *self.claims.items())
        found = {key: kv.mod_revision for key, kv in read}
        return {**found, **self.shadows}

    @cached_property
    def rollout_holds(self) -> tuple[RolloutHold, ...]:
        """Those that were in force, in the order of their names."""
        return tuple(rollout_holds.decode(key, kv.value) for key, kv in sorted(self.holds.items()))

    def instance(self, instance: InstanceId) -> MirroredInstance | None:
        """One instance as it was, but for its address; None where it had no readable record."""
        if instance not in self._instances:
            self._instances[instance] = self._instance(instance)
        return self._instances[instance]

    def _instance(self, instance: InstanceId) -> MirroredInstance | None:
        kv = self.records.get(record_key(instance))
        if kv is None:
            return None
        try:
            record = records.decode(kv.value, instance)
        except UnreadableRecord:
            return None
        held = self._held.get(instance, frozenset())
        return MirroredInstance(instance, record, kv.mod_revision, held, None, self._on_gates.get(instance, {}))

    @cached_property
    def _instances(self) -> dict[InstanceId, MirroredInstance | None]:
        """Those that were read already."""
        return {}

    @cached_property
    def _held(self) -> Mapping[InstanceId, frozenset[Key]]:
        found: dict[InstanceId, set[Key]] = {}
        for shadow in self.shadows:
            instance, _, _ = shadow[len(SHADOWS) :].partition(b"/")
            if (key := held_key(shadow)) is not None:
                found.setdefault(InstanceId(instance.decode("utf-8", "replace")), set()).add(key)
        return {instance: frozenset(keys) for instance, keys in found.items()}

    @cached_property
    def _on_gates(self) -> Mapping[InstanceId, Mapping[str, Claim]]:
        found: dict[InstanceId, dict[str, Claim]] = {}
        for key, kv in self.claims.items():
            claimed, claim = claimed_gate(key), claims.decode(kv.value)
            if claimed is not None and claim is not None:
                instance, gate = claimed
                found.setdefault(instance, {})[gate] = claim
        return found


class History:
    """Reads the past from etcd, once for all who ask for the same revision at the same time."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._read: WeakValueDictionary[tuple[object, ...], Past] = WeakValueDictionary()
        self._one_at_a_time = asyncio.Lock()

    async def at(self, revision: int, addresses_at: Mapping[bytes, int]) -> Past:
        """The store at `revision`, and the names under each prefix of workers' addresses at a revision of its own.

        HistoryGone where etcd has compacted it or, set back, never had it; AioRpcError where etcd does not answer.
        """
        asked = (revision, *sorted(addresses_at.items()))
        async with self._one_at_a_time:
            past = self._read.get(asked)
            if past is None:
                past = self._read[asked] = await self._at(revision, addresses_at)
            return past

    async def cluster(self) -> int:
        """etcd's id of its cluster."""
        return (await self._header()).cluster_id

    async def _header(self) -> rpc_pb2.ResponseHeader:
        request = rpc_pb2.RangeRequest(key=RECORDS, count_only=True)
        return (await self._upstream.range(request, timeout_seconds=DEADLINE_SECONDS)).header

    async def _at(self, revision: int, addresses_at: Mapping[bytes, int]) -> Past:
        try:
            header = await self._header()
            recorded, _ = await read_prefix(self._upstream, RECORDS, revision=revision)
            holds, _ = await read_prefix(self._upstream, ROLLOUT_HOLDS, revision=revision)
            claimed, _ = await read_prefix(self._upstream, CLAIMS, revision=revision)
            shadows, _ = await read_prefix(self._upstream, SHADOWS, revision=revision, keys_only=True)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.OUT_OF_RANGE:
                raise
            raise HistoryGone(
                f"etcd has no history at revision {revision} ({error.details()}): {START_ANEW}"
            ) from error
        return Past(
            revision,
            header.cluster_id,
            header.revision,
            {kv.key: kv for kv in recorded},
            {kv.key: kv for kv in holds},
            {kv.key: kv.mod_revision for kv in shadows},
            await self._addresses(addresses_at),
            {kv.key: kv for kv in claimed},
        )

    async def _addresses(self, at: Mapping[bytes, int]) -> Mapping[bytes, int] | None:
        """None where they cannot be known: compacted, never read, or the proxy's role may not read them."""
        if not all(at.values()):
            return None
        found: dict[bytes, int] = {}
        try:
            for prefix, revision in at.items():
                kvs, _ = await read_prefix(self._upstream, prefix, revision=revision, keys_only=True)
                found |= {kv.key: kv.mod_revision for kv in kvs}
        except grpc.aio.AioRpcError as error:
            if error.code() in (grpc.StatusCode.OUT_OF_RANGE, grpc.StatusCode.PERMISSION_DENIED):
                return None
            raise
        return found


def is_behind(mirror: Mirror, past: Past) -> bool:
    """Whether the mirror has not come to the past's revision yet: it lacks a write, or still has what was deleted."""
    known = mirror.revisions
    up_to = max(mirror.newest, mirror.read_at)
    lacks = any(revision > known.get(key, up_to) for key, revision in past.revisions.items())
    return lacks or any(known[key] <= past.revision for key in known.keys() - past.revisions.keys())


def touched_since(past: Past, mirror: Mirror) -> frozenset[InstanceId]:
    """Whatever may look different from how it was: more than that at times, never less."""
    keys = _different(past.revisions, mirror.revisions)
    if past.addresses is None:
        return _everything(past, mirror)
    keys |= _different(past.addresses, mirror.address_revisions)
    touched = {instance for key in keys if (instance := mirror.named(key)) is not None}
    holds = [key for key in keys if key.startswith(ROLLOUT_HOLDS)]
    return frozenset(touched | _stopped(holds, past, mirror))


def _different(then: Mapping[bytes, int], now: Mapping[bytes, int]) -> set[bytes]:
    return {key for key in then.keys() | now.keys() if then.get(key) != now.get(key)}


def _everything(past: Past, mirror: Mirror) -> frozenset[InstanceId]:
    named = (mirror.named(key) for key in past.records)
    return frozenset({one.instance for one in mirror.instances()}.union(one for one in named if one is not None))


def _stopped(keys: Iterable[bytes], past: Past, mirror: Mirror) -> set[InstanceId]:
    """Those that the rollout holds of these keys are about, as the holds were or as they are."""
    ids = {key.removeprefix(ROLLOUT_HOLDS).decode("utf-8", "replace") for key in keys}
    holds = [hold for hold in (*past.rollout_holds, *mirror.rollout_holds) if hold.hold_id in ids]
    if not holds:
        return set()
    return {one.instance for one in mirror.instances() if any(hold.stops(one.record) for hold in holds)}
