"""Claims and verdicts of a proxy that is not there: tests say what each call is answered with.

The rule: whoever needs to know what a real proxy answers asks one; here it is about what the runner makes of it.
"""

from dataclasses import dataclass, field

from greenroom.errors import ControlError
from greenroom.gates.plan import Job
from greenroom.gates.result import Result
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.waiting import wait_for_async

AWAY = ControlError("nobody answers", ControlError.UNREACHABLE)


@dataclass(slots=True)
class ScriptedClaims:
    """Takes note of the calls; `answers` has what a call is to raise, by its name, one after another."""

    answers: dict[str, list[ControlError | None]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)

    async def claim(self, job: Job, ttl_seconds: float) -> pb.Claim:
        self._called("claim")
        return pb.Claim(name=f"instances/{job.instance}/gates/{job.gate}/claim", lease="5", attempt=job.attempt)

    async def renew(self, claim: pb.Claim) -> pb.Claim:
        self._called("renew")
        return claim

    async def release(self, claim: pb.Claim) -> None:
        self._called("release")

    async def report(self, job: Job, result: Result) -> pb.ReportVerdictResponse:
        self._called("report")
        self.results.append(result)
        return pb.ReportVerdictResponse(instance=pb.Instance(id=job.instance))

    def _called(self, name: str) -> None:
        self.calls.append(name)
        waiting = self.answers.get(name, [])
        if waiting and (error := waiting.pop(0)) is not None:
            raise error


async def reached(calls: list[str], *wanted: str) -> None:
    """Returns once these calls have been made, in this order."""

    async def made() -> bool:
        return calls[: len(wanted)] == list(wanted)

    await wait_for_async(made, 20, f"{wanted} are called")
