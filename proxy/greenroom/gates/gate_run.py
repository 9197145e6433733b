"""One run of a gate from its claim to its verdict.

The rule: what was found is reported, even where the claim was lost meanwhile, until the proxy takes or refuses it. A
run that is cancelled leaves no process, gives its claim back, and says nothing.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from greenroom.errors import ControlError, GateClaimed, TooManyClaims
from greenroom.gates.claiming import ClaimLost, Claims, Held, claimed
from greenroom.gates.environment import Variable
from greenroom.gates.exec_check import run_command
from greenroom.gates.frontend import FrontendFailed
from greenroom.gates.frontends import Frontends
from greenroom.gates.gate_config import GateCheck, Gates
from greenroom.gates.instance_environment import environment_of
from greenroom.gates.plan import Ending, Job, Start, is_public, is_renewal
from greenroom.gates.result import Outcome, Result
from greenroom.gates.url_check import ask_url
from greenroom.gates.url_place import UrlPlace
from greenroom.pb.control.v1.control_pb2 import Instance, ReportVerdictResponse

BEFORE_DEADLINE_SECONDS: Final = 1.0
"""A run that the attempt's deadline ends is ended so much earlier, for its reason to be told in time."""
REPORT_AGAIN_SECONDS: Final = 1.0
_OTHERS_TURN: Final = (GateClaimed.reason, TooManyClaims.reason)


class Verdicts(Claims, Protocol):
    """Who makes claims, and stores verdicts."""

    async def report(self, job: Job, result: Result) -> ReportVerdictResponse: ...


class Measured(Protocol):
    """Who counts."""

    def ended(self, gate: str, outcome: Outcome, seconds: float) -> None: ...


@dataclass(slots=True)
class GateRuns:
    """What every run needs. `frontends` None: checks ask where this process's environment says.

    `clock` is the time of day, which deadlines are told in; durations are measured by the loop's.
    """

    verdicts: Verdicts
    gates: Gates
    frontends: Frontends | None
    told: Callable[[Instance], None]
    measured: Measured
    control: str
    claim_seconds: float
    clock: Callable[[], datetime]
    log: Any

    async def run(self, start: Start) -> Ending:
        """Runs one attempt of a gate; how that ended. What the proxy says of the instance after a verdict is `told`."""
        try:
            return await self._run(start)
        except ControlError as error:
            turn = self.log.info if error.reason in _OTHERS_TURN else self.log.warning
            turn("gate.waits", **_named(start.job), why=str(error))
            return Ending.AGAIN

    async def _run(self, start: Start) -> Ending:
        result: Result | None = None
        loop = asyncio.get_running_loop()
        try:
            async with claimed(self.verdicts, start.job, self.claim_seconds, clock=loop.time) as held:
                result = await self._measured(start)
                return await self._reported(start, result, held)
        except ClaimLost as lost:
            # Once the check is over it costs nothing, and mostly the verdict on its way has ended the claim.
            said = self.log.warning if result is None else self.log.info
            said("claim.lost", **_named(start.job), why=str(lost))
            return Ending.AGAIN if result is None else await self._reported(start, result, Held())

    async def _measured(self, start: Start) -> Result:
        """Runs the check; what it takes to have a frontend is not its time."""
        loop, job = asyncio.get_running_loop(), start.job
        began, result = loop.time(), Result(Outcome.STOPPED)
        try:
            async with self._base_url(start) as base_url:
                began = loop.time()
                self.log.info("gate.started", **_named(job))
                environment = environment_of(start.instance, job, control=self.control, base_url=base_url)
                result = await self._bounded(self.gates[job.gate], environment, start.deadline)
        except FrontendFailed as error:
            result = Result(Outcome.ERROR, str(error))
        finally:
            seconds = loop.time() - began
            self.measured.ended(job.gate, result.outcome, seconds)
            told = {"outcome": str(result.outcome), "seconds": round(seconds, 3), "reason": result.reason or None}
            self.log.info("gate.ended", **_named(job), **told)
        return result

    async def _bounded(self, gate: GateCheck, environment: Mapping[str, str], deadline: datetime | None) -> Result:
        seconds, what = gate.timeout_secs, f"not over after {gate.timeout_secs:g} s"
        if deadline is not None:
            left = (deadline - self.clock()).total_seconds() - BEFORE_DEADLINE_SECONDS
            # One that is over already is not held against anybody yet: the proxy says when it is.
            if 0 < left < seconds:
                seconds, what = left, f"not over at the attempt's deadline, {left:.0f} s after it began"
        if gate.exec is not None:
            return await run_command(gate.exec, environment, seconds, times_out=what)
        assert gate.url is not None, "a gate has one of both"
        # Where it may be was looked at when the configuration was read.
        return await ask_url(UrlPlace.of(gate.url, allow_remote=True), environment, seconds, times_out=what)

    @asynccontextmanager
    async def _base_url(self, start: Start) -> AsyncIterator[str]:
        """Where the instance answers. Once it is released the frontends of everybody show it."""
        if self.frontends is None or is_public(start.instance):
            yield os.environ.get(Variable.BASE_URL, "")
            return
        async with self.frontends.use(start.instance) as url:
            yield url

    async def _reported(self, start: Start, result: Result, held: Held) -> Ending:
        if is_renewal(start.instance, start.job.gate) and not result.outcome.is_decided:
            return Ending.AGAIN  # That says nothing of a pass: it holds as long as it does.
        answer = await self._report(start.job, result)
        held.is_over = True
        self.told(answer.instance)
        return Ending.DECIDED if result.outcome.is_decided else Ending.AGAIN

    async def _report(self, job: Job, result: Result) -> ReportVerdictResponse:
        while True:
            try:
                return await self.verdicts.report(job, result)
            except ControlError as error:
                if not error.may_pass:
                    raise
            await asyncio.sleep(REPORT_AGAIN_SECONDS)


def _named(job: Job) -> dict[str, Any]:
    return {"instance": job.instance, "gate": job.gate, "attempt": job.attempt}
