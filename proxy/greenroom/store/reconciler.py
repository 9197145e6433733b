"""The reconciler: does what is due by itself, however the proxy died that should have done it.

A verdict usually releases or rejects in its own Txn. What is left is this: a hold was lifted, a deadline passed, a
proxy died between a verdict and what follows from it, a policy was waited for. The rule: the mirror only hints at what
may be due; the plan is made from a fresh read and carried out under the fence. Of several proxies one wins, and the
others see that nothing is left to do.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import grpc

from greenroom.backoff import Backoff
from greenroom.core import verdicts
from greenroom.core.decide import Release, Wait, decide, lapses_at
from greenroom.core.fleet import UNLIMITED, Limits
from greenroom.core.keyspace import InstanceId
from greenroom.core.record import State
from greenroom.core.verdicts import KeptInService, Unchanged
from greenroom.errors import GreenroomError, UnknownInstance
from greenroom.store.changes import Changes, Subscription
from greenroom.store.drain import Drain
from greenroom.store.fenced import DEADLINE_SECONDS, CarriedOut, Clock, carry_out
from greenroom.store.follower import Follower
from greenroom.store.schedule import Schedule
from greenroom.store.upstream import Upstream, why

MAX_CONCURRENT = 8
"""Operations under way at once: after a cluster-wide lift there may be thousands due."""
LOOKED_AT_AT_ONCE = 50
"""To look at an instance takes some 50 us, and meanwhile the workers' calls wait: of a large fleet that is seconds."""
LONGEST_SLEEP_SECONDS = 5.0
"""Due times are wall-clock times: a clock that was set is noticed within this."""
FIRST_RETRY_SECONDS = 0.5
LONGEST_RETRY_SECONDS = 30.0


class Reconciler:
    """Works on what `follower` mirrors. `run` ends only by cancellation."""

    def __init__(
        self,
        upstream: Upstream,
        follower: Follower,
        *,
        clock: Clock,
        log: Any,
        on_carried_out: Callable[[CarriedOut], None] = lambda _: None,
        on_lost_fence: Callable[[], None] = lambda: None,
        limits: Callable[[], Limits] = lambda: UNLIMITED,
    ) -> None:
        self._upstream, self._follower, self._mirror = upstream, follower, follower.mirror
        self._clock, self._log = clock, log
        self._on_carried_out, self._on_lost_fence = on_carried_out, on_lost_fence
        self._schedule = Schedule()
        self._retries: dict[InstanceId, Backoff] = {}
        self._kept: dict[InstanceId, str] = {}
        """Whom the floor keeps in service, and why, as it was logged last."""
        self._busy: set[InstanceId] = set()
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self.limits = limits
        """Those that it keeps to, as they are at the moment."""
        self._kept_to = limits().releases
        self._drain = Drain(limits, self._carry_out, clock=clock)

    async def run(self) -> None:
        """Looks at each instance when it changes and when its time comes."""
        with self._follower.subscribe() as subscription:
            self._look_at(Changes(everything=True))
            async with asyncio.TaskGroup() as tasks:
                while True:
                    self._notice_other_limits()
                    for number, instance in enumerate(self._schedule.pop_due(self._clock()), 1):
                        self._start_if_due(instance, tasks, subscription)
                        if number % LOOKED_AT_AT_ONCE == 0:
                            await asyncio.sleep(0)
                    self._start_drain_if_due(tasks, subscription)
                    self._look_at(await self._next_changes(subscription))

    async def _next_changes(self, subscription: Subscription) -> Changes:
        """What changed, or nothing when the next due time is there."""
        try:
            async with asyncio.timeout(self._sleep_seconds()):
                return await subscription.next()
        except TimeoutError:
            return Changes()

    def _sleep_seconds(self) -> float:
        due = [when for when in (self._schedule.next_due(), self._drain_due()) if when is not None]
        if not due:
            return LONGEST_SLEEP_SECONDS
        return min(max((min(due) - self._clock()).total_seconds(), 0), LONGEST_SLEEP_SECONDS)

    def _look_at(self, changes: Changes) -> None:
        """Schedules what changed for now; only a lifted hold or a new connection makes it everything."""
        touched = changes.instances
        if changes.everything:
            touched |= self._mirror.names()
        self._drain.looked_at(touched)
        now = self._clock()
        for instance in touched:
            self._retries.pop(instance, None)
            self._schedule.at(instance, now)

    def _notice_other_limits(self) -> None:
        """A policy that was read again may have no queue any more, or a lower floor: nothing else tells of that."""
        releases = self.limits().releases
        if releases != self._kept_to:
            self._kept_to = releases
            self._look_at(Changes(everything=True))

    def _start_if_due(self, instance: InstanceId, tasks: asyncio.TaskGroup, subscription: Subscription) -> None:
        """Starts work on an instance, or schedules it for when something will be due."""
        if instance in self._busy:
            return
        mirrored = self._mirror.instance(instance)
        if mirrored is None or not self._follower.ready:
            self._forget(instance)
            return
        decision = decide(
            mirrored.current,
            live_cards=mirrored.live_cards,
            rollout_holds=self._mirror.rollout_holds,
            now=self._clock(),
            no_rejection_before=self._follower.no_rejection_before,
            claimed=mirrored.claimed,
            conflicts=self._mirror.conflicts(instance, mirrored.record, mirrored.held),
        )
        takes_a_turn = not mirrored.record.dry_run and mirrored.record.state is not State.RELEASED
        if isinstance(decision, Release) and self.limits().queues and takes_a_turn:
            # Its turn comes by itself: the fleet's queue has it, for as long as its passes last.
            decision = Wait(lapses_at(mirrored.record))
        if not isinstance(decision, Wait):
            self._busy.add(instance)
            tasks.create_task(self._work(instance, subscription))
            return
        self._forget(instance)
        if decision.until is not None:
            self._schedule.at(instance, decision.until)

    def _forget(self, instance: InstanceId) -> None:
        """Nothing is to be done about it."""
        self._retries.pop(instance, None)
        self._kept.pop(instance, None)

    def _start_drain_if_due(self, tasks: asyncio.TaskGroup, subscription: Subscription) -> None:
        due = self._drain_due()
        if due is not None and due <= self._clock():
            self._drain.begins()
            tasks.create_task(self._run_drain(subscription))

    def _drain_due(self) -> datetime | None:
        """None also while etcd is away: what changes when it is back wakes the loop."""
        return self._drain.due() if self._follower.ready else None

    async def _run_drain(self, subscription: Subscription) -> None:
        try:
            await self._drain.run()
        finally:
            subscription.wake()

    async def _work(self, instance: InstanceId, subscription: Subscription) -> None:
        """One operation. Afterwards the instance is looked at again, later and later while nothing comes of it."""
        try:
            async with self._slots:
                if isinstance(await self._carry_out(instance), CarriedOut):
                    self._retries.pop(instance, None)
        finally:
            self._busy.discard(instance)
            self._schedule.at(instance, self._retry_time(instance))
            # The loop sleeps until what was due next before this.
            subscription.wake()

    async def _carry_out(self, instance: InstanceId) -> CarriedOut | Unchanged | None:
        """What a Txn of ours did, or why none was sent; None where that failed."""
        mirrored = self._mirror.instance(instance)
        claimed = mirrored.claimed if mirrored else None
        try:
            done = await carry_out(
                self._upstream,
                instance,
                verdicts.reconcile(
                    self._follower.no_rejection_before,
                    claimed,
                    self.limits(),
                    partial(self._mirror.conflicts, instance),
                ),
                clock=self._clock,
                on_lost_fence=self._on_lost_fence,
            )
        except UnknownInstance:
            # Its lease ended meanwhile: nothing is left to do, and nothing to tell.
            return None
        except (GreenroomError, grpc.aio.AioRpcError) as error:
            self._log.warning("reconciler.retries", instance=instance, reason=why(error, DEADLINE_SECONDS))
            return None
        except Exception:
            # The outermost frame of one instance: a bug met on it must not stop the others' releases.
            self._log.exception("reconciler.failed", instance=instance)
            return None
        if isinstance(done, CarriedOut):
            self._on_carried_out(done)
        self._tell_if_kept(instance, done.why if isinstance(done, KeptInService) else "")
        return done

    def _tell_if_kept(self, instance: InstanceId, why: str) -> None:
        """Once for each reason, however often the withdrawal is tried."""
        if why and self._kept.get(instance) != why:
            self._log.warning("instance.kept_in_service", instance=instance, why=why)
        self._kept.pop(instance, None)
        if why:
            self._kept[instance] = why

    def _retry_time(self, instance: InstanceId) -> datetime:
        """The mirror usually tells sooner; this is for failures, and for a mirror that is behind."""
        backoff = self._retries.setdefault(instance, Backoff(FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS))
        return self._clock() + timedelta(seconds=backoff.next_seconds())
