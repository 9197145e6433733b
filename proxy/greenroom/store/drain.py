"""The drain: lets the queue in, one after the other in the order of their turns, for as long as there is room.

The rule: one release at a time, since all of them write the budget; of several proxies each tries, and one wins. Who
cannot be released does not keep the others waiting: he is passed over, and tried again later and later.
"""

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta

from greenroom.backoff import Backoff
from greenroom.core.fleet import Limits
from greenroom.core.keyspace import InstanceId
from greenroom.core.verdicts import Queued, Unchanged
from greenroom.store.fenced import CarriedOut, Clock

FIRST_RETRY_SECONDS = 0.05
"""For a mirror that is behind: it shows room, or somebody in the queue, where etcd has none."""
LONGEST_RETRY_SECONDS = 2.0
FIRST_FAILURE_SECONDS = 0.5
LONGEST_FAILURE_SECONDS = 30.0

CarryOut = Callable[[InstanceId], Awaitable[CarriedOut | Unchanged | None]]
"""Reconciles one instance; None where that failed."""


class Drain:
    """The queue of `limits`' fleet, whose instances `carry_out` releases."""

    def __init__(self, limits: Callable[[], Limits], carry_out: CarryOut, *, clock: Clock) -> None:
        self._limits, self._carry_out, self._clock = limits, carry_out, clock
        self._is_running = False
        self._fruitless = Backoff(FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS)
        self._not_before: datetime | None = None
        self._failures: dict[InstanceId, Backoff] = {}
        self._passed_over: dict[InstanceId, datetime] = {}

    def looked_at(self, instances: Iterable[InstanceId]) -> None:
        """Something about these changed: whatever failed may go now."""
        for instance in instances:
            self._failures.pop(instance, None)
            self._passed_over.pop(instance, None)

    def due(self) -> datetime | None:
        """When to run next, as far as is known; None: when something changes."""
        limits, now = self._limits(), self._clock()
        if self._is_running or not limits.queues or self._next(limits, now, frozenset()) is None:
            return None
        return max(self._room_from(limits, now), self._not_before or now)

    def begins(self) -> None:
        """`run` is about to be called: nothing is due until it has ended."""
        self._is_running = True

    async def run(self) -> None:
        """Releases whoever's turn it is until nobody is left, or there is no room."""
        try:
            released = await self._release_all()
        finally:
            self._is_running = False
        if released:
            self._fruitless.reset()
            self._not_before = None
        else:
            self._not_before = self._clock() + timedelta(seconds=self._fruitless.next_seconds())

    async def _release_all(self) -> int:
        released, tried = 0, set[InstanceId]()
        while (instance := self._next(self._limits(), self._clock(), tried)) is not None:
            tried.add(instance)
            done = await self._carry_out(instance)
            if isinstance(done, Queued):
                break
            if done is None:
                self._pass_over(instance)
            released += isinstance(done, CarriedOut)
        return released

    def _next(self, limits: Limits, now: datetime, tried: Iterable[InstanceId]) -> InstanceId | None:
        waiting = (one for one in limits.fleet.queue() if one not in tried)
        return next((one for one in waiting if self._passed_over.get(one, now) <= now), None)

    def _room_from(self, limits: Limits, now: datetime) -> datetime:
        releases, budget = limits.releases, limits.fleet.budget
        if releases is None or budget is None:
            return now
        left = budget.unsettled(now, releases.settle_seconds, exists=limits.fleet.exists)
        return left.room_from(releases) or now

    def _pass_over(self, instance: InstanceId) -> None:
        backoff = self._failures.setdefault(instance, Backoff(FIRST_FAILURE_SECONDS, LONGEST_FAILURE_SECONDS))
        self._passed_over[instance] = self._clock() + timedelta(seconds=backoff.next_seconds())
