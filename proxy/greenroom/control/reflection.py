"""Reflection for those who may look: it tells a stranger what to try."""

from collections.abc import AsyncIterable, Sequence
from typing import Any

import grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from greenroom.access.admission import Admission, Admitted
from greenroom.access.roles import REFLECTION
from greenroom.control.admitted_streams import Streams
from greenroom.control.presented import presented_by
from greenroom.errors import AccessRefused, TooManyWatchers


class AdmittingReflection:
    """gRPC's own servicer, within an admission."""

    def __init__(self, service_names: Sequence[str], admission: Admission) -> None:
        self._servicer = reflection.aio.ReflectionServicer(service_names)
        self._admission, self._streams = admission, Streams("reflection")

    async def ServerReflectionInfo(  # noqa: N802  # the name is gRPC's
        self,
        requests: AsyncIterable[reflection_pb2.ServerReflectionRequest],
        context: grpc.aio.ServicerContext[Any, Any],
    ) -> None:
        """Answers as long as there are requests and the caller is known; refused before the first one is read."""
        try:
            with self._admission.call(REFLECTION, presented_by(context)) as admitted:
                async with self._streams.one_more(admitted.check_again):
                    await self._answer(requests, context, admitted)
        except (AccessRefused, TooManyWatchers) as error:
            await context.abort(error.code, str(error))

    async def _answer(
        self,
        requests: AsyncIterable[reflection_pb2.ServerReflectionRequest],
        context: grpc.aio.ServicerContext[Any, Any],
        admitted: Admitted,
    ) -> None:
        answers: AsyncIterable[reflection_pb2.ServerReflectionResponse]
        # gRPC's own types take it for a coroutine; it is a generator.
        answers = self._servicer.ServerReflectionInfo(requests, context)  # type: ignore[assignment]
        async for answer in answers:
            admitted.check_again()
            await context.write(answer)
