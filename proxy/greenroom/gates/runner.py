"""The gate runner: it follows the instances, and carries out what the plan says.

The rule: no decisions here. Each run is a task; one that is to stop is cancelled once, and counts as running until
nothing of it is left. When the runner itself is cancelled all of that happens to every run.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from greenroom.errors import ControlError
from greenroom.gates.frontends import Frontends
from greenroom.gates.gate_run import GateRuns
from greenroom.gates.plan import Ending, Job, Plan, Start
from greenroom.gates.telling import Telling
from greenroom.pb.control.v1.control_pb2 import Instance, WatchInstancesResponse

RETRY_SECONDS: Final = 0.5
"""How soon a proxy that is back is noticed."""


class Stream(Protocol):
    """Who tells what becomes of all instances."""

    def watch(self, token: str) -> AsyncIterator[WatchInstancesResponse]: ...


@dataclass(slots=True)
class Runner:
    """`run` until cancelled; its tasks live in `group`."""

    plan: Plan
    runs: GateRuns
    frontends: Frontends | None
    stream: Stream
    group: asyncio.TaskGroup
    clock: Callable[[], datetime]
    log: Any
    away: str = "it has not answered yet"
    """Why nothing new is known at the moment; empty where the stream is open."""
    _tasks: dict[Job, "asyncio.Task[None]"] = field(default_factory=dict)
    _stopping: set[Job] = field(default_factory=set)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Follows, and has run what is to be run. ControlError where the proxy refuses to tell."""
        self.group.create_task(self._follow())
        while True:
            self._changed.clear()
            await self._until_changed(self._carry_out(self.clock()))

    def told(self, instance: Instance) -> None:
        """Something about an instance is known that the stream may not have told yet; that it is gone, it may have.

        Of the same record what the stream told counts: an answer may still show the claim that the verdict ended.
        """
        known = self.plan.instance(instance.id)
        if known is not None and known.record_revision < instance.record_revision:
            self.plan.told(instance)
            self._changed.set()

    async def _follow(self) -> None:
        telling = Telling(self.plan)
        while True:
            try:
                await self._follow_one(telling)
            except ControlError as error:
                self._met(error, telling)
            await asyncio.sleep(RETRY_SECONDS)

    async def _follow_one(self, telling: Telling) -> None:
        async with aclosing(self.stream.watch(telling.begin())) as stream:  # type: ignore[type-var]
            async for response in stream:
                telling.take(response)
                if telling.is_synced:
                    self._answers()
                    self._changed.set()

    def _met(self, error: ControlError, telling: Telling) -> None:
        if error.reason == ControlError.HISTORY_GONE:
            telling.forget_token()
            return
        if not error.may_pass and (error.reason or not telling.is_synced):
            raise error  # A refusal. Of what is between us and a proxy that has answered once, any trouble may pass.
        if self.away != str(error):
            self.log.warning("proxy.away", why=str(error))
        self.away = str(error)

    def _answers(self) -> None:
        if self.away:
            self.log.info("proxy.answers")
        self.away = ""

    def _carry_out(self, now: datetime) -> datetime | None:
        """Stops and starts what is to be; when to look again."""
        steps = self.plan.decide(now)
        for job in steps.stop:
            if job not in self._stopping:
                self._stopping.add(job)
                self._tasks[job].cancel()
        for start in steps.start:
            self._tasks[start.job] = self.group.create_task(self._run(start))
        wakes = [steps.wake, *self._look_at_frontends(now)]
        return min((wake for wake in wakes if wake is not None), default=None)

    def _look_at_frontends(self, now: datetime) -> list[datetime | None]:
        if self.frontends is None:
            return []
        return [self.frontends.look_at(one, self.plan.instance(one), now) for one in self.frontends.instances]

    async def _until_changed(self, wake: datetime | None) -> None:
        seconds = None if wake is None else max(0.0, (wake - self.clock()).total_seconds())
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _run(self, start: Start) -> None:
        ending = Ending.AGAIN
        try:
            ending = await self.runs.run(start)
        except Exception:
            # The outermost frame of a run: it must not end the others.
            self.log.exception("gate.broke", instance=start.job.instance, gate=start.job.gate)
        finally:
            del self._tasks[start.job]
            self._stopping.discard(start.job)
            self.plan.ended(start.job, ending, self.clock())
            self._changed.set()
