"""A racing proxy: the product's handler, follower and reconciler, with workers and reporters that use them.

The rule: nothing of the product is replaced; only the network between a worker and its proxy is left out.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from typing import Any

import structlog

from greenroom.core.keyspace import InstanceId
from greenroom.core.record import Record
from greenroom.core.transitions import Outcome
from greenroom.core.verdicts import Effect, verdict
from greenroom.serve.handlers import CallHandler
from greenroom.serve.memory import Memory
from greenroom.store.fenced import CarriedOut, carry_out, read_snapshot
from greenroom.store.fleet import MirroredFleet
from greenroom.store.follower import Follower
from greenroom.store.mirror import Mirror
from greenroom.store.reconciler import Reconciler
from tests.faults.racing.process import Racer, Told, run
from tests.faults.racing.words import POLICIES, POLICY, Round, Touched
from tests.faults.racing.worker import RacingWorker
from tests.support.story import Decided, Withdrew

REPORTS_AT_LEAST, REPORTS_AT_MOST = 4, 9
LATE, AGAIN = 0.1, 0.5
"""How often a gate that is decided is reported on again; a continuous one that has passed wants it."""
LOOKED = 4
"""Jitters at most until somebody has looked at what a withdrawal stopped."""
OUTCOMES = {Outcome.PASSED: 90, Outcome.FAILED: 5, Outcome.INCONCLUSIVE: 3, Outcome.ERROR: 2}
GATED_KEYS = POLICY.gated_keys()
"""The same by each of POLICIES, as it must be of proxies of one etcd."""


def main(pipe: Connection, told: Told) -> None:
    run(pipe, told, _actors, _reconciling)


def _actors(racer: Racer, told: Round) -> list[Coroutine[Any, Any, None]]:
    handler = CallHandler(
        racer.upstream,
        GATED_KEYS,
        lambda: POLICIES[racer.asks],
        clock=racer.clock,
        ungated=lambda *_: None,
        opened=lambda _: None,
        held_later=lambda *_: None,
        fence_lost=racer.fence_lost,
        denied=lambda _: None,
        refused=lambda *_: None,
        memory=Memory(lambda: 1),
        advertise_url="http://127.0.0.1:2379",
    )
    return [RacingWorker(racer, handler, told).live(), Reporter(racer, told).live()]


@asynccontextmanager
async def _reconciling(racer: Racer) -> AsyncIterator[None]:
    """The proxy's own loops, ended with the block."""
    structlog.configure(processors=[_only_trouble, structlog.processors.KeyValueRenderer()])
    log = structlog.get_logger()
    follower = Follower(racer.upstream, Mirror(GATED_KEYS), GATED_KEYS, clock=racer.clock, log=log)

    racer.fleet = fleet = MirroredFleet(follower.mirror, clock=racer.clock)

    def carried_out(done: CarriedOut) -> None:
        racer.say(Touched(done.revision, str(done.instance), f"{racer.name}'s reconciler: {done.effect}"))

    reconciler = Reconciler(
        racer.upstream,
        follower,
        clock=racer.clock,
        log=log,
        on_carried_out=carried_out,
        on_lost_fence=racer.fence_lost,
        limits=racer.limits,
    )
    loops = [asyncio.create_task(loop) for loop in (follower.run(), reconciler.run())]
    try:
        with follower.told(fleet):
            await follower.wait_ready()
            yield
    finally:
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)


def _only_trouble(_: Any, method: str, event: Any) -> Any:
    if method in ("debug", "info"):
        raise structlog.DropEvent
    return event


class Reporter:
    """Looks at an instance, takes its time, and reports; sometimes late, sometimes twice, sometimes both ways."""

    def __init__(self, racer: Racer, told: Round) -> None:
        self.racer, self.round = racer, told
        self.instance = InstanceId(told.instance)
        self.rng = told.rng(racer.name + " reporter")
        self.seen: list[tuple[int, Record]] = []

    async def live(self) -> None:
        for _ in range(self.rng.randint(REPORTS_AT_LEAST, REPORTS_AT_MOST)):
            await asyncio.sleep(self.rng.uniform(0, self.round.jitter_seconds))
            await self.racer.tolerate(self._look())
            await asyncio.sleep(self.rng.uniform(0, self.round.jitter_seconds))
            await self._report_some()

    async def _look(self) -> None:
        snapshot = await read_snapshot(self.racer.upstream, self.instance)
        if snapshot.record is not None and (snapshot.shadows or snapshot.is_released):
            self.seen.append((snapshot.revision, snapshot.record))

    async def _report_some(self) -> None:
        """For what was seen last; now and then for what was seen before."""
        if not self.seen:
            return
        looked_at, record = self.seen[-1] if self.rng.random() < 0.85 else self.rng.choice(self.seen)
        for gate, standing in record.gates.items():
            if standing.state.is_open or self.rng.random() < (AGAIN if standing.must_be_renewed else LATE):
                outcome = self.rng.choices([*OUTCOMES], [*OUTCOMES.values()])[0]
                await self.racer.tolerate(self._report(gate, standing.attempt, outcome, looked_at))

    async def _report(self, gate: str, attempt: int, outcome: Outcome, looked_at: int) -> None:
        planner = verdict(gate, attempt, outcome, reason="raced", reporter=self.racer.name, limits=self.racer.limits())
        done = await carry_out(
            self.racer.upstream,
            self.instance,
            planner,
            clock=self.racer.clock,
            on_lost_fence=self.racer.fence_lost,
        )
        if not isinstance(done, CarriedOut):
            return
        if outcome.gate_state.is_open:
            self.racer.say(Touched(done.revision, self.instance, f"{gate} {outcome}"))
        else:
            passed, again = outcome is Outcome.PASSED, done.before.gates[gate].must_be_renewed
            self.racer.say(Decided(done.revision, self.instance, gate, passed, looked_at, again))
        if done.effect is Effect.WITHDRAWN:
            self.racer.say(Withdrew(done.revision, self.instance, by_person=False))
            await self.racer.go_on(done.stop, LOOKED * self.round.jitter_seconds)
