"""The control port: the control API over gRPC, with health and reflection."""

from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from greenroom.access.admission import Admission
from greenroom.addresses import Address
from greenroom.control.grpc_health import BoundedHealth
from greenroom.control.json_requests import MAX_BODY_BYTES
from greenroom.control.methods import SERVICE_NAME, generic_handler
from greenroom.control.reflection import AdmittingReflection
from greenroom.control.service import ControlService
from greenroom.errors import StartError
from greenroom.store.follower import Follower
from greenroom.tls.sides import ServerSide

SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    # A request is read strictly, in Python, by the loop that relays keepalives: a large one would hold them all up.
    ("grpc.max_receive_message_length", MAX_BODY_BYTES),
    # Without this a second proxy would share the port instead of being told that it is taken.
    ("grpc.so_reuseport", 0),
    # Clients ping idle connections; gRPC's default answers them with GOAWAY.
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # A reader of a stream whose machine vanished would else be written to for a quarter of an hour.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
)
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class ControlServer:
    """Listens on one port, in plaintext unless there is `tls`. `start`, then `run` in a task, then `stop`."""

    def __init__(
        self,
        service: ControlService,
        follower: Follower,
        admission: Admission,
        *,
        host: str,
        port: int,
        log: Any,
        tls: ServerSide | None = None,
    ) -> None:
        self._service, self._follower, self._log, self._tls = service, follower, log, tls
        self._address = str(Address(host, port))
        self._server = grpc.aio.server(options=SERVER_OPTIONS)
        self._health = BoundedHealth(admission)
        self._told: int | None = None
        self._server.add_generic_rpc_handlers((generic_handler(service, log, admission),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (SERVICE_NAME, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflects = AdmittingReflection(names, admission)
        # It has no types.
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(reflects, self._server)  # type: ignore[no-untyped-call]

    async def start(self) -> int:
        """Listens, NOT_SERVING as yet; the port. StartError where it cannot be had."""
        try:
            port = self._add_port()
        except RuntimeError as error:
            words = "the port is taken, or the address is not this machine's"
            raise StartError(f"--control-listen '{self._address}': {words}") from error
        await self._tell_health()
        await self._server.start()
        return port

    def _add_port(self) -> int:
        if self._tls is None:
            return self._server.add_insecure_port(self._address)
        return self._server.add_secure_port(self._address, self._tls.grpc_credentials())

    async def run(self) -> None:
        """Keeps the health answer in step with the follower, until cancelled."""
        with self._follower.subscribe() as changes:
            while True:
                await self._tell_health()
                await changes.next()

    async def stop(self, grace_seconds: float = 1.0) -> None:
        """Takes no more calls, ends streams, and after the grace whatever else is not done."""
        self._service.stop_watches()
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_seconds)

    async def _tell_health(self) -> None:
        """The instances change all the time, and this hardly ever."""
        status = SERVING if self._follower.ready else NOT_SERVING
        if status == self._told:
            return
        self._told = status
        for name in ("", SERVICE_NAME):
            await self._health.set(name, status)
