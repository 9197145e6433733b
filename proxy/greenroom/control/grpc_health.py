"""gRPC's health service: open to whoever probes, and a bounded number of streams."""

from contextlib import nullcontext
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2

from greenroom.access.admission import Admission
from greenroom.access.roles import HEALTH
from greenroom.control.admitted_streams import Streams
from greenroom.control.presented import presented_by
from greenroom.errors import AccessRefused, TooManyWatchers


class BoundedHealth(health.aio.HealthServicer):
    """gRPC's own servicer. Strangers may watch; who was known at the beginning may as long as that is so."""

    def __init__(self, admission: Admission) -> None:
        super().__init__()
        self._admission, self._streams = admission, Streams("health")

    async def Watch(  # noqa: N802  # the name is gRPC's
        self, request: health_pb2.HealthCheckRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> None:
        """Answers now and whenever it changes; RESOURCE_EXHAUSTED, or UNAUTHENTICATED once the caller is gone."""
        presented = presented_by(context)
        is_known = self._admission.knows(HEALTH, presented)
        try:
            with self._admission.call(HEALTH, presented) if is_known else nullcontext() as admitted:
                async with self._streams.one_more(admitted.check_again if admitted else _stays):
                    await super().Watch(request, context)
        except (AccessRefused, TooManyWatchers) as error:
            await context.abort(error.code, str(error))


def _stays() -> None:
    """A stranger is none later on, either."""
