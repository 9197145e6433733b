"""The runner's own HTTP port: `/live` and `/health` for kubelets, `/metrics` for Prometheus."""

from collections.abc import Callable
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

HEALTHY, UNHEALTHY = 200, 503


def runner_app(health: Callable[[], dict[str, Any]], registry: CollectorRegistry) -> Starlette:
    """The three pages. They tell names of models and gates, and the ends of checks' outputs."""

    async def live(_: Request) -> Response:
        return PlainTextResponse("live\n")

    async def health_page(_: Request) -> Response:
        said = health()
        return JSONResponse(said, status_code=HEALTHY if said["healthy"] else UNHEALTHY)

    async def metrics(_: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return Starlette(routes=[Route("/live", live), Route("/health", health_page), Route("/metrics", metrics)])
