"""Reflection is for those who may look, as long as they may. That it lists the API is shown in tests/integration."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2

from greenroom.access.admission import Admission
from greenroom.control import admitted_streams
from greenroom.control.reflection import AdmittingReflection
from tests.support.callers import Known, access_text, admission, bearer, known_callers
from tests.support.control_side import EventLog, MovableClock
from tests.unit.control.test_methods import Context

ASKED = reflection_pb2.ServerReflectionRequest(list_services="")


class Reflected(Context):
    async def write(self, message: reflection_pb2.ServerReflectionResponse) -> None:  # type: ignore[override]
        self.written.append(message.SerializeToString())

    async def abort(self, code: grpc.StatusCode, details: str) -> None:  # type: ignore[override]
        self.code = code


async def asked() -> AsyncIterator[reflection_pb2.ServerReflectionRequest]:
    yield ASKED


@pytest.mark.parametrize(
    ("token", "code", "answers"),
    [("grafana", None, 1), ("late", grpc.StatusCode.UNAUTHENTICATED, 0), ("", grpc.StatusCode.UNAUTHENTICATED, 0)],
)
async def test_it_answers_whom_the_access_file_knows(token: str, code: grpc.StatusCode | None, answers: int) -> None:
    context = Reflected(bearer(token) if token else None)
    servicer = AdmittingReflection(["greenroom.control.v1.Control"], admission())
    await servicer.ServerReflectionInfo(asked(), context)  # type: ignore[arg-type]
    assert (context.code, len(context.written)) == (code, answers)


async def test_a_stream_on_which_nothing_is_asked_ends_with_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admitted_streams, "CHECK_SECONDS", 0.0)
    known, is_open = Known(known_callers()), asyncio.Event()

    async def silence() -> AsyncIterator[reflection_pb2.ServerReflectionRequest]:
        is_open.set()
        await asyncio.Event().wait()
        yield ASKED

    context = Reflected(bearer("grafana"))
    servicer = AdmittingReflection(["a"], Admission(known, clock=MovableClock(), log=EventLog()))
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        tasks.create_task(servicer.ServerReflectionInfo(silence(), context))  # type: ignore[arg-type]
        await is_open.wait()
        known.known = known_callers(access_text("grafana"))
    assert (context.code, context.written) == (grpc.StatusCode.UNAUTHENTICATED, [])
