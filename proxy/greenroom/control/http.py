"""The HTTP port: `/live`, `/ready`, `/metrics` for kubelets, load balancers and Prometheus; `/v1`, the control API."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Protocol

import grpc
import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from greenroom.access.admission import Admission
from greenroom.access.roles import HEALTH, METRICS
from greenroom.addresses import Address
from greenroom.control import connections
from greenroom.control.browsers import guarded
from greenroom.control.certified import IdentifyingProtocol, certified
from greenroom.control.gateway import Gateway, failure
from greenroom.control.health import Health, without_details
from greenroom.control.metrics import Metrics
from greenroom.control.policy_in_force import PolicyInForce
from greenroom.control.presented import presented_in
from greenroom.control.routes import VERBS
from greenroom.control.shared_answer import SharedAnswer
from greenroom.control.status import status_of
from greenroom.core.keyspace import ROOT
from greenroom.errors import AccessRefused, StartError
from greenroom.pb.etcd import rpc_pb2
from greenroom.store.upstream import Upstream, why
from greenroom.tls.sides import ServerSide, context_of

ETCD_ANSWERS_SECONDS = 2.0
"""Probes give up after a second or a few; an etcd that is slower than this is not there."""
BACKLOG = 128
GRACE_SECONDS = 1
"""The pages answer at once; whoever takes longer to read them must not hold up the program's end."""


Endpoint = Callable[[Request], Awaitable[Response]]


class Part(Protocol):
    """What can be in the way of a proxy's work."""

    @property
    def why_not_ready(self) -> str | None:
        """The reason, for people; None while nothing is."""


class Readiness:
    """Whether this proxy can do its work, and if not, why."""

    def __init__(self, parts: Sequence[Part], upstream: Upstream, policy: PolicyInForce) -> None:
        self._parts, self._upstream = parts, upstream
        self._etcd = SharedAnswer(self._why_etcd_does_not_answer, clock=time.monotonic)
        self.policy = policy

    async def reasons(self) -> list[str]:
        """What is missing, in words; empty when ready. Of etcd that is known for a second: anybody may ask."""
        reasons = (*(part.why_not_ready for part in self._parts), await self._etcd.get())
        return [reason for reason in reasons if reason is not None]

    def members(self) -> dict[str, str]:
        """What is known of each of etcd's members, by its address. A bad one is no reason where another is good."""
        return self._upstream.channels.members.told()

    async def _why_etcd_does_not_answer(self) -> str | None:
        """Asks for a read that needs a quorum: a member that is cut off answers a mere status."""
        request = rpc_pb2.RangeRequest(key=ROOT, count_only=True)
        try:
            await self._upstream.range(request, timeout_seconds=ETCD_ANSWERS_SECONDS)
        except grpc.aio.AioRpcError as error:
            return f"etcd does not answer: {why(error, ETCD_ANSWERS_SECONDS)}"
        return None


def http_app(
    readiness: Readiness,
    metrics: Metrics,
    admission: Admission,
    more: Sequence[Route] = (),
    *,
    open_metrics: bool = False,
) -> Starlette:
    """The three pages, and more routes.

    Probes know no tokens; metrics are for those who may look, or with `open_metrics` for all.
    """

    async def live(_: Request) -> Response:
        return PlainTextResponse("live\n")

    async def ready(_: Request) -> Response:
        reasons = await readiness.reasons()
        said = {"ready": not reasons, "reasons": reasons, "members": readiness.members()}
        said["policy"] = readiness.policy.told()
        return JSONResponse(said, status_code=503 if reasons else 200)

    async def metrics_page(request: Request) -> Response:
        try:
            with nullcontext() if open_metrics else admission.call(METRICS, presented_in(request)):
                return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)
        except AccessRefused as refused:
            return failure(status_of(refused))

    pages = (Route("/live", live), Route("/ready", ready), Route("/metrics", metrics_page))
    return Starlette(routes=[*pages, *more])


def api_routes(gateway: Gateway, health: Health, admission: Admission) -> list[Route]:
    """What is under /v1."""

    def probed(answer: Endpoint) -> Endpoint:
        async def probe(request: Request) -> Response:
            whole = await answer(request)
            return whole if admission.knows(HEALTH, presented_in(request)) else without_details(whole.status_code)

        return probe

    return [
        Route("/v1/health", probed(health.at_address)),
        Route("/v1/instances/{instance}/health", probed(health.of_instance)),
        Route("/v1/openapi.json", gateway.openapi),
        Route("/v1/{rest:path}", gateway.answer, methods=[verb.upper() for verb in VERBS]),
    ]


class HttpServer:
    """Serves an app in the running loop, in plaintext unless there is `tls`. `start` binds, `run` serves until `stop`.

    With `tls` each request's scope has what `identified` puts there. A port that `is_open` asks nobody who they are.
    `option` is what an error calls the address.
    """

    def __init__(
        self,
        app: Starlette,
        *,
        host: str,
        port: int,
        tls: ServerSide | None = None,
        is_open: bool = True,
        option: str = "--http-listen",
    ) -> None:
        self._host, self._port, self._option = host, port, option
        # Beyond this machine browsers are the least of those who can reach an open port, and services go by many names;
        # with TLS a stranger's name is in no certificate.
        own_names_only = is_open and tls is None and Address(host, port).is_loopback
        safe = guarded(app, own_names_only=own_names_only)
        config = uvicorn.Config(
            safe if tls is None else certified(safe, needs_certificate=tls.knows_clients),
            http=IdentifyingProtocol,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            # What a header says of where a request comes from is anybody's word.
            proxy_headers=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        config.load()
        config.ssl = context_of(tls)
        self._server = _Server(config)
        self._socket: socket.socket | None = None

    def start(self) -> int:
        """Binds the port, and gives it; StartError where it cannot be had."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        bound = socket.socket(family)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((self._host, self._port))
            bound.listen(BACKLOG)
        except OSError as error:
            bound.close()
            address = str(Address(self._host, self._port))
            raise StartError(f"{self._option} '{address}': {error.strerror}") from error
        self._socket = bound
        port: int = bound.getsockname()[1]
        return port

    async def run(self) -> None:
        """Serves until `stop`, or until cancelled."""
        assert self._socket is not None, "start comes first"
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            self._close(self._socket)

    def stop(self) -> None:
        """Takes no more requests; `run` returns once those under way are done."""
        self._server.should_exit = True
        if self._socket is not None and not self._server.started:
            self._socket.close()

    def _close(self, bound: socket.socket) -> None:
        """What uvicorn leaves open where it is cancelled."""
        for server in self._server.servers if self._server.started else ():
            server.close()
        for connection in list(self._server.server_state.connections):
            connection.shutdown()
        bound.close()


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """None: signals are the whole program's, not one port's."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn has it, but for who does not shake hands: asyncio waits for him for a minute."""
        await self.lifespan.startup()
        loop, context = asyncio.get_running_loop(), self.config.ssl
        handshake_seconds = None if context is None else connections.REQUEST_SECONDS
        self.servers = [
            await loop.create_server(
                self._connection, sock=bound, ssl=context, backlog=BACKLOG, ssl_handshake_timeout=handshake_seconds
            )
            for bound in sockets or ()
        ]
        self.started = True

    def _connection(self) -> IdentifyingProtocol:
        return IdentifyingProtocol(self.config, self.server_state, self.lifespan.state)
