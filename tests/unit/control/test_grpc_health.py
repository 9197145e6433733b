"""gRPC health: who may watch, for how long, and how many. That it answers is shown in tests/integration."""

import asyncio

import grpc
import pytest
from grpc_health.v1 import health_pb2

from greenroom.access.admission import Admission
from greenroom.control import admitted_streams
from greenroom.control.grpc_health import BoundedHealth
from tests.support.callers import Known, access_text, bearer, known_callers, open_admission
from tests.support.control_side import EventLog, MovableClock
from tests.unit.control.test_methods import Context

ASKED = health_pb2.HealthCheckRequest()


class Watching(Context):
    """A call of Watch: says when the first answer is there, and keeps what the call was ended with."""

    def __init__(self, authorization: str | None = None) -> None:
        super().__init__(authorization)
        self.answered = asyncio.Event()

    async def write(self, message: health_pb2.HealthCheckResponse) -> None:  # type: ignore[override]
        self.answered.set()

    async def abort(self, code: grpc.StatusCode, details: str) -> None:  # type: ignore[override]
        self.code = code


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admitted_streams, "CHECK_SECONDS", 0.0)


async def ended_as(health: BoundedHealth, context: Watching) -> grpc.StatusCode | None:
    async with asyncio.timeout(10):
        await health.Watch(ASKED, context)  # type: ignore[arg-type]
    return context.code


@pytest.mark.usefixtures("often")
async def test_a_stream_ends_with_the_token_that_opened_it() -> None:
    known = Known(known_callers())
    health, context = BoundedHealth(Admission(known, clock=MovableClock(), log=EventLog())), Watching(bearer("ci"))
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(ended_as(health, context))
        await context.answered.wait()
        known.known = known_callers(access_text("ci"))
    assert watching.result() is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("token", [None, "stranger"])
async def test_a_stranger_may_watch_and_stays(token: str | None) -> None:
    """Probes have no tokens."""
    known = Known(known_callers())
    health = BoundedHealth(Admission(known, clock=MovableClock(), log=EventLog()))
    context = Watching(bearer(token) if token else None)
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(ended_as(health, context))
        await context.answered.wait()
        known.known = known_callers(access_text("ci"))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not watching.done()
        watching.cancel()
    assert context.code is None


async def test_they_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admitted_streams, "MAX_STREAMS", 1)
    health, first, second = BoundedHealth(open_admission()), Watching(), Watching()
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(ended_as(health, first))
        await first.answered.wait()
        assert await ended_as(health, second) is grpc.StatusCode.RESOURCE_EXHAUSTED
        watching.cancel()
    assert not second.answered.is_set()
