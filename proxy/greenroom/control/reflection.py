"""Reflection for those who may look: it tells a stranger what to try."""

from collections.abc import AsyncIterable, Sequence
from typing import Any

import grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from greenroom.access.admission import Admission
from greenroom.access.roles import REFLECTION
from greenroom.control.presented import presented_by
from greenroom.errors import AccessRefused


class AdmittingReflection:
    """gRPC's own servicer, within an admission."""

    def __init__(self, service_names: Sequence[str], admission: Admission) -> None:
        self._servicer = reflection.aio.ReflectionServicer(service_names)
        self._admission = admission

    async def ServerReflectionInfo(  # noqa: N802  # the name is gRPC's
        self,
        requests: AsyncIterable[reflection_pb2.ServerReflectionRequest],
        context: grpc.aio.ServicerContext[Any, Any],
    ) -> None:
        """Answers as long as there are requests; refused before the first one is read."""
        try:
            with self._admission.call(REFLECTION, presented_by(context)) as admitted:
                answers: AsyncIterable[reflection_pb2.ServerReflectionResponse]
                # gRPC's own types take it for a coroutine; it is a generator.
                answers = self._servicer.ServerReflectionInfo(requests, context)  # type: ignore[assignment]
                async for answer in answers:
                    admitted.check_again()
                    await context.write(answer)
        except AccessRefused as error:
            await context.abort(error.code, str(error))
