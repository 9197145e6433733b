"""One run of a gate: claimed, run, reported; and what becomes of it when the proxy or the claim goes away.

What the command comes to is said here. Processes: tests/integration/test_gates_run.py.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from greenroom.errors import ControlError, FenceContended, GateClaimed, StaleAttempt, UnknownClaim
from greenroom.gates import gate_run
from greenroom.gates.gate_config import GateCheck
from greenroom.gates.gate_run import GateRuns
from greenroom.gates.plan import Ending, Job, Start
from greenroom.gates.result import Outcome, Result
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.claims import AWAY, ScriptedClaims, reached
from tests.support.control_side import EventLog
from tests.support.shown import NOW, shown

BUSY = ControlError("the record kept changing", FenceContended.reason)
JOB = Job(shown().id, "smoke", 2)
PASSED, NOISY = Result(Outcome.PASSED, "fine"), Result(Outcome.INCONCLUSIVE)


class LostAtReport(ScriptedClaims):
    """The proxy is back as soon as the claim is lost, which is while the verdict is reported."""

    async def renew(self, claim: pb.Claim) -> pb.Claim:
        await reached(self.calls, "claim", "report")
        self.answers.clear()
        raise ControlError("it has ended", UnknownClaim.reason)


class Run:
    """One run with what it needs, and what came of it. Its command comes to `result`; None: it never ends."""

    def __init__(
        self, result: Result | None, *, timeout_secs: float = 60, deadline_seconds: float | None = None, **answers: Any
    ) -> None:
        self.result = result
        self.environments: list[Mapping[str, str]] = []
        self.bounds: list[tuple[float, str]] = []
        self.claims = ScriptedClaims(answers)
        self.log, self.told = EventLog(), list[pb.Instance]()
        self.durations: list[tuple[str, Outcome]] = []
        deadline = None if deadline_seconds is None else NOW + timedelta(seconds=deadline_seconds)
        self.start = Start(JOB, shown(), deadline)
        gates = {"smoke": GateCheck(exec=("check",), timeout_secs=timeout_secs)}
        self.runs = GateRuns(
            self.claims, gates, None, self.told.append, self, "127.0.0.1:2390", 60, lambda: NOW, self.log
        )

    def ended(self, gate: str, outcome: Outcome, seconds: float) -> None:
        self.durations.append((gate, outcome))

    async def over(self) -> Ending:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(gate_run, "run_command", self._command)
            return await self.runs.run(self.start)

    async def _command(
        self, command: Sequence[str], environment: Mapping[str, str], seconds: float, *, times_out: str
    ) -> Result:
        self.environments.append(environment)
        self.bounds.append((seconds, times_out))
        if self.result is None:
            await asyncio.Event().wait()
        assert self.result is not None
        return self.result


async def test_a_run_is_claimed_run_and_reported() -> None:
    run = Run(PASSED)
    assert await run.over() is Ending.DECIDED
    assert run.claims.calls == ["claim", "report"]
    assert run.claims.results == [PASSED]
    assert run.environments[0]["GREENROOM_ATTEMPT"] == "2"
    assert [instance.id for instance in run.told] == [JOB.instance]
    assert run.durations == [("smoke", Outcome.PASSED)]
    named = {"instance": JOB.instance, "gate": "smoke", "attempt": 2}
    assert run.log.named("gate.started") == [{"event": "gate.started", "level": "info", **named}]
    (ended,) = run.log.named("gate.ended")
    assert ended.items() >= {**named, "outcome": "passed", "reason": "fine"}.items()


async def test_what_is_open_still_is_run_again() -> None:
    run = Run(NOISY)
    assert await run.over() is Ending.AGAIN
    assert run.claims.results == [NOISY]


async def test_what_another_runner_has_is_not_run() -> None:
    run = Run(PASSED, claim=[ControlError("ann has it", GateClaimed.reason)])
    assert await run.over() is Ending.AGAIN
    assert not run.environments
    assert run.log.named("gate.waits")[0].items() >= {"level": "info", "why": "ann has it"}.items()
    assert not run.log.named("gate.ended")


async def test_the_gates_time_ends_it() -> None:
    run = Run(PASSED, timeout_secs=0.1)
    await run.over()
    assert run.bounds == [(0.1, "not over after 0.1 s")]


async def test_the_attempts_deadline_ends_it_where_it_is_sooner() -> None:
    """A moment before, for the reason to be told in time."""
    run = Run(PASSED, deadline_seconds=13.5)
    await run.over()
    assert run.bounds == [(12.5, "not over at the attempt's deadline, 12 s after it began")]


async def test_a_deadline_that_is_over_is_the_proxys_to_judge() -> None:
    run = Run(PASSED, deadline_seconds=-5)
    assert await run.over() is Ending.DECIDED
    assert run.bounds == [(60, "not over after 60 s")]


async def test_a_verdict_is_reported_once_the_proxy_can_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("greenroom.gates.gate_run.REPORT_AGAIN_SECONDS", 0.01)
    run = Run(PASSED, report=[AWAY, BUSY, None])
    assert await run.over() is Ending.DECIDED
    assert run.claims.calls == ["claim", "report", "report", "report"]


async def test_even_where_the_claim_is_lost_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("greenroom.gates.gate_run.REPORT_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr("greenroom.gates.claiming.RENEWALS", 10_000)
    run = Run(PASSED, report=[AWAY] * 1000)
    run.runs.verdicts = LostAtReport(run.claims.answers)
    assert await run.over() is Ending.DECIDED
    assert run.log.named("claim.lost")[0]["level"] == "info"


async def test_a_lost_claim_ends_the_run_without_a_word() -> None:
    run = Run(None, renew=[ControlError("it has ended", UnknownClaim.reason)])
    run.runs.claim_seconds = 0.03
    assert await run.over() is Ending.AGAIN
    assert run.claims.calls == ["claim", "renew"]
    assert run.log.named("claim.lost")[0]["level"] == "warning"
    assert run.durations == [("smoke", Outcome.STOPPED)]


async def test_a_verdict_that_is_refused_is_told() -> None:
    run = Run(PASSED, report=[ControlError("attempt 3 is open", StaleAttempt.reason)])
    assert await run.over() is Ending.AGAIN
    assert run.log.named("gate.waits")[0].items() >= {"level": "warning", "why": "attempt 3 is open"}.items()


async def test_of_a_pass_that_holds_only_a_decision_is_reported() -> None:
    run = Run(NOISY)
    run.start.instance.gates[0].state = pb.GATE_STATE_PASSED
    assert await run.over() is Ending.AGAIN
    assert run.claims.calls == ["claim", "release"]


class OwnFrontends:
    """One frontend for whoever asks."""

    @asynccontextmanager
    async def use(self, _: pb.Instance) -> AsyncIterator[str]:
        yield "http://own/v1"


@pytest.mark.parametrize(("state", "asked"), [("HELD", "http://own/v1"), ("RELEASED", "http://everybodys/v1")])
async def test_a_pass_is_renewed_where_the_instance_is_to_be_seen(
    monkeypatch: pytest.MonkeyPatch, state: str, asked: str
) -> None:
    """One that a rollout hold keeps is in nobody's frontends: what answers there are others."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://everybodys/v1")
    run = Run(PASSED)
    frontends: Any = OwnFrontends()
    run.runs.frontends, run.start = frontends, Start(JOB, shown(state=state, gates={"smoke": "PASSED"}), None)
    await run.over()
    assert run.environments[0]["OPENAI_BASE_URL"] == asked


async def test_a_run_that_is_cancelled_gives_its_claim_back() -> None:
    run = Run(None)
    task = asyncio.ensure_future(run.over())
    await run.log.wait_named("gate.started")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await reached(run.claims.calls, "claim", "release")
    assert run.log.named("gate.ended")[0]["outcome"] == "stopped"
