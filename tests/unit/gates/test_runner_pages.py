"""The runner's pages."""

from typing import Any

import httpx
from prometheus_client import CollectorRegistry, Gauge
from starlette.applications import Starlette

from greenroom.gates.runner_pages import runner_app


async def asked(app: Starlette, path: str) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://runner") as client:
        return await client.get(path)


async def test_live_is_live_and_health_is_what_it_is_at_the_moment() -> None:
    said: dict[str, Any] = {"healthy": False, "validation": {"state": "HELD"}}
    app = runner_app(lambda: said, CollectorRegistry())
    assert (await asked(app, "/live")).status_code == 200
    answer = await asked(app, "/health")
    assert (answer.status_code, answer.json()) == (503, said)
    said["healthy"] = True
    assert (await asked(app, "/health")).status_code == 200


async def test_metrics_are_those_of_the_registry() -> None:
    registry = CollectorRegistry()
    Gauge("mine", "", registry=registry).set(7)
    assert "mine 7.0" in (await asked(runner_app(dict, registry), "/metrics")).text
