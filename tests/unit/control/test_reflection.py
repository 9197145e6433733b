"""Reflection is for those who may look. That it lists the API is shown in tests/integration."""

from collections.abc import AsyncIterator

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2

from greenroom.control.reflection import AdmittingReflection
from tests.support.callers import admission, bearer
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
