"""Reading an instance and carrying out a plan for it: read, plan, Txn, and again if somebody was faster.

The rule: nothing is decided from anything but the one read Txn, and what was decided is written by a Txn that compares
the same revisions. A lost fence is no error, it means reading again; only time bounds it.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import grpc

from greenroom.core import record as records
from greenroom.core.keyspace import InstanceId, Key
from greenroom.core.record import Record
from greenroom.core.rollout_holds import RolloutHold
from greenroom.core.snapshot import Snapshot, read_request, snapshot_from
from greenroom.core.verdicts import Behind, Effect, MoreKeys, Planned, Planner, Unchanged
from greenroom.errors import FenceContended, NotReady
from greenroom.store.credentials import for_itself
from greenroom.store.upstream import Upstream

Clock = Callable[[], datetime]

DEADLINE_SECONDS = 5.0
"""A record that is contended for longer is a sign of something wrong; whoever asked can ask again."""

FIRST_JITTER_SECONDS = 0.02
LONGEST_JITTER_SECONDS = 0.5
"""Two proxies that lost to each other must not meet again at once, and an etcd that is away is not to be flooded."""

_READ_AGAIN = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND})
"""UNAVAILABLE: the Txn may have happened, and the next read tells. NOT_FOUND: the lease ended, and the record too."""


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """What a Txn of this proxy did: the record before and after, and the revision at which it did it."""

    instance: InstanceId
    before: Record
    record: Record
    effect: Effect
    revision: int
    stop: RolloutHold | None = None
    """The rollout hold that it created."""


async def read_snapshot(
    upstream: Upstream,
    instance: InstanceId,
    keys: Sequence[Key] = (),
    *,
    timeout_seconds: float | None = None,
) -> Snapshot:
    """The instance at one revision, with these public keys.

    UnreadableRecord; NotReady where etcd does not let the proxy read it; else AioRpcError as etcd gives it.
    """
    request = read_request(instance, keys)
    with for_itself():
        answer = await upstream.txn(request, timeout_seconds=timeout_seconds)
    return snapshot_from(instance, keys, answer)


async def read_whole_snapshot(
    upstream: Upstream, instance: InstanceId, keys: Sequence[Key] = (), *, timeout_seconds: float | None = None
) -> Snapshot:
    """The instance at one revision, with the public place of each of its cards. `keys`: those already known."""
    snapshot = await read_snapshot(upstream, instance, keys, timeout_seconds=timeout_seconds)
    while snapshot.lacks_cards():
        again = snapshot.read_again()
        snapshot = await read_snapshot(upstream, instance, again, timeout_seconds=timeout_seconds)
    return snapshot


async def carry_out(
    upstream: Upstream,
    instance: InstanceId,
    planner: Planner,
    *,
    clock: Clock,
    deadline_seconds: float = DEADLINE_SECONDS,
    on_lost_fence: Callable[[], None] = lambda: None,
) -> CarriedOut | Unchanged:
    """Does what `planner` plans, whatever else happens to the instance meanwhile.

    FenceContended after `deadline_seconds`; whatever the planner raises; NotReady where etcd does not let the proxy do
    it, or the mirror stays too far behind; else AioRpcError as etcd gives it.
    """
    attempt = _Attempt(upstream, instance, planner, clock, _time() + deadline_seconds, on_lost_fence)
    jitter_seconds = FIRST_JITTER_SECONDS
    while (outcome := await attempt.once()) is None:
        await asyncio.sleep(random.uniform(0, jitter_seconds))
        jitter_seconds = min(2 * jitter_seconds, LONGEST_JITTER_SECONDS)
    return outcome


class _Attempt:
    """One operation, tried until its deadline."""

    def __init__(
        self,
        upstream: Upstream,
        instance: InstanceId,
        planner: Planner,
        clock: Clock,
        deadline: float,
        on_lost_fence: Callable[[], None],
    ) -> None:
        self._upstream, self._instance, self._planner, self._clock = upstream, instance, planner, clock
        self._deadline, self._on_lost_fence = deadline, on_lost_fence
        self._keys: tuple[Key, ...] = ()
        self._last_error: grpc.aio.AioRpcError | NotReady | None = None
        self._unanswered: list[CarriedOut] = []
        """What Txns without an answer did, if they happened. Their revision is the one of the record before them."""

    async def once(self) -> CarriedOut | Unchanged | None:
        """Reads, plans and writes; None where it must be tried again."""
        try:
            return await self._read_plan_write()
        except grpc.aio.AioRpcError as error:
            if error.code() not in _READ_AGAIN:
                raise
            self._last_error = error
            return None

    async def _read_plan_write(self) -> CarriedOut | Unchanged | None:
        snapshot = await read_snapshot(
            self._upstream, self._instance, self._keys, timeout_seconds=self._remaining_seconds()
        )
        if (happened := self._happened(snapshot)) is not None:
            return happened
        plan = self._planner(snapshot, self._clock())
        if isinstance(plan, MoreKeys):
            self._keys = snapshot.read_again()
            return await self._read_plan_write()
        if isinstance(plan, Behind):
            words = "what is known of other instances is older than the budget: the mirror is behind; try again"
            self._last_error = NotReady(words)
            return None
        if isinstance(plan, Unchanged):
            return plan
        return await self._write(snapshot, plan)

    async def _write(self, snapshot: Snapshot, plan: Planned) -> CarriedOut | None:
        assert snapshot.record is not None, "a plan was made for an instance without a record"
        done = CarriedOut(
            self._instance, snapshot.record, plan.record, plan.effect, snapshot.record_revision, plan.stop
        )
        try:
            with for_itself():
                answer = await self._upstream.txn(plan.txn, timeout_seconds=self._remaining_seconds())
        except grpc.aio.AioRpcError:
            self._unanswered.append(done)
            raise
        if not answer.succeeded:
            self._last_error = None
            self._on_lost_fence()
            return None
        return replace(done, revision=answer.header.revision)

    def _happened(self, snapshot: Snapshot) -> CarriedOut | None:
        """The Txn without an answer that was carried out: what it would have left is there, which was not before.

        Times and names in a record make it this Txn's own. Where the record went on meanwhile, that cannot be told.
        """
        if not self._unanswered or snapshot.record is None:
            return None
        left = records.encode(snapshot.record)
        for sent in self._unanswered:
            if snapshot.record_revision != sent.revision and records.encode(sent.record) == left:
                return replace(sent, revision=snapshot.record_revision)
        return None

    def _remaining_seconds(self) -> float:
        """How long the next call may take; raises when the time is up."""
        remaining = self._deadline - _time()
        if remaining > 0:
            return remaining
        if self._last_error is not None:
            raise self._last_error
        raise FenceContended(
            f"instance {self._instance} kept changing for the whole time of this call; try again",
            instance=self._instance,
        )


def _time() -> float:
    return asyncio.get_running_loop().time()
