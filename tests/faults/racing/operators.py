"""The last racing process: operators who stop and lift rollouts, and decide all that people can; leases' ends.

The rule: what people decide is done by the product's own plans, carried out as the control API does it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from multiprocessing.connection import Connection
from typing import Any

from greenroom.core.keyspace import InstanceId, rollout_hold_key
from greenroom.core.record import Record
from greenroom.core.rollout_holds import RolloutHold, encode
from greenroom.core.selectors import Selector
from greenroom.core.transitions import overridden, rejected, retried
from greenroom.core.verdicts import Effect, Planner, drop, edit, reconcile, withdrawal
from greenroom.errors import WrongState
from greenroom.pb.etcd import rpc_pb2
from greenroom.store.fenced import CarriedOut, carry_out
from tests.faults.racing.process import CALL_SECONDS, Racer, Told, run
from tests.faults.racing.words import Kind, Round, Touched
from tests.support.model_actors import lapsed_between
from tests.support.story import Decided, Dropped, Lapsed, LeaseEnded, Overrode, Rejected, Retried, Withdrew

REVOKED = 0.25
"""The part of the instances whose lease ends in the middle of everything."""
HOLDS = 0.5
PATIENCE = 4
WITHDRAWAL_TRIES = 5
"""Jitters between two of an operator's actions: most instances are to be registered, and some released, by then."""
DEADLINES = 0.04
AFTER_EVERY_DEADLINE = timedelta(hours=2)


def main(pipe: Connection, told: Told) -> None:
    run(pipe, told, _actors, _nothing)


@asynccontextmanager
async def _nothing(_: Racer) -> AsyncIterator[None]:
    yield


def _actors(racer: Racer, told: Round) -> list[Coroutine[Any, Any, None]]:
    actors = [HoldOperator(racer, told).live(), Operator(racer, told).live()]
    return actors if told.kind is Kind.EXPIRING else [*actors, _lease_end(racer, told)]


async def _lease_end(racer: Racer, told: Round) -> None:
    rng = told.rng("lease end")
    if rng.random() < REVOKED:
        await asyncio.sleep(rng.uniform(0, 12 * told.jitter_seconds))
        answer = await racer.upstream.lease_revoke(rpc_pb2.LeaseRevokeRequest(ID=told.lease))
        racer.say(LeaseEnded(answer.header.revision, told.instance))


class HoldOperator:
    """Stops releases for a moment. The judge sees the holds in etcd itself."""

    def __init__(self, racer: Racer, told: Round) -> None:
        self.racer, self.round, self.rng = racer, told, told.rng("rollout holds")

    async def live(self) -> None:
        if self.rng.random() > HOLDS:
            return
        await self._pause()
        await self._create()
        await self._pause()
        await self._pause()
        await self._lift()

    async def _create(self) -> None:
        component = self.rng.choice((self.round.component, self.round.component, None))
        hold = RolloutHold(
            hold_id=self.round.instance, reason="raced", actor=self.racer.name, selector=Selector(component=component)
        )
        request = rpc_pb2.PutRequest(key=rollout_hold_key(hold.hold_id), value=encode(hold))
        await self.racer.upstream.put(request, timeout_seconds=CALL_SECONDS)

    async def _lift(self) -> None:
        request = rpc_pb2.DeleteRangeRequest(key=rollout_hold_key(self.round.instance))
        await self.racer.upstream.delete_range(request, timeout_seconds=CALL_SECONDS)

    async def _pause(self) -> None:
        await asyncio.sleep(self.rng.uniform(0, 4 * self.round.jitter_seconds))


class Operator:
    """A person with more power than patience."""

    def __init__(self, racer: Racer, told: Round) -> None:
        self.racer, self.round, self.rng = racer, told, told.rng("operator")
        self.instance = InstanceId(told.instance)

    async def live(self) -> None:
        actions: list[Callable[[], Coroutine[Any, Any, None]]] = [
            *(self._withdraw, self._withdraw, self._withdraw, self._retry, self._override, self._reject, self._drop)
        ]
        for _ in range(self.rng.randint(1, 5)):
            await self._pause()
            deadline = self.rng.random() < DEADLINES
            await self.racer.tolerate(self._deadline() if deadline else self.rng.choice(actions)())

    async def _withdraw(self) -> None:
        """As soon as there is something to withdraw: its workers are still at it then."""
        for _ in range(WITHDRAWAL_TRIES):
            await self._pause()
            with contextlib.suppress(WrongState):
                return await self._withdraw_now()
        return None

    async def _withdraw_now(self) -> None:
        by_person = self.rng.random() < 0.5
        planner = withdrawal(self.racer.name, "raced", by_person=by_person, limits=self.racer.limits())
        if done := await self._carry_out(planner):
            self.racer.say(Withdrew(done.revision, self.instance, by_person))
            await self.racer.go_on(done.stop, PATIENCE * self.round.jitter_seconds)

    async def _pause(self) -> None:
        await asyncio.sleep(self.rng.uniform(0, PATIENCE * self.round.jitter_seconds))

    async def _retry(self) -> None:
        def change(record: Record, now: datetime) -> Record:
            return retried(record, (), self.racer.name, "raced", now)

        if done := await self._carry_out(edit(change, self.racer.limits())):
            self.racer.say(Retried(done.revision, self.instance))

    async def _reject(self) -> None:
        def change(record: Record, now: datetime) -> Record:
            return rejected(record, self.racer.name, "raced", now)

        if done := await self._carry_out(edit(change)):
            self.racer.say(Rejected(done.revision, self.instance))

    async def _drop(self) -> None:
        if done := await self._carry_out(drop(self.racer.name, "raced")):
            self.racer.say(Dropped(done.revision, self.instance))

    async def _override(self) -> None:
        def change(record: Record, now: datetime) -> Record:
            return overridden(record, self.racer.name, "raced", now)

        if self.rng.random() < 0.3 and (done := await self._carry_out(edit(change, self.racer.limits()))):
            self.racer.say(Overrode(done.revision, self.instance))

    async def _deadline(self) -> None:
        """The reconciler's own plan at a time when every deadline has passed."""
        done = await self._carry_out(reconcile(None, limits=self.racer.limits()), ahead=AFTER_EVERY_DEADLINE)
        if done is None:
            return
        self.racer.say(Touched(done.revision, self.instance, f"deadlines: {done.effect}"))
        if done.effect is Effect.WITHDRAWN:
            self.racer.say(Withdrew(done.revision, self.instance, by_person=False))
            return
        if lapsed := lapsed_between(done.before, done.record):
            self.racer.say(Lapsed(done.revision, self.instance, lapsed))
            return
        failed = [name for name, gate in done.record.gates.items() if gate.state != done.before.gates[name].state]
        for gate in failed:
            self.racer.say(Decided(done.revision, self.instance, gate, passed=False, looked_at=done.revision))

    async def _carry_out(self, planner: Planner, ahead: timedelta = timedelta()) -> CarriedOut | None:
        done = await carry_out(
            self.racer.upstream,
            self.instance,
            planner,
            clock=lambda: self.racer.clock() + ahead,
            on_lost_fence=self.racer.fence_lost,
        )
        return done if isinstance(done, CarriedOut) else None
