"""The health answer follows the follower. Listening is shown in tests/integration."""

import asyncio

import pytest
from grpc_health.v1 import health_pb2

from greenroom.control.methods import SERVICE_NAME
from greenroom.control.server import NOT_SERVING, SERVING, ControlServer
from tests.support.callers import open_admission
from tests.support.control_side import EventLog
from tests.support.mirroring import fed_follower
from tests.unit.control.test_service import service_of


async def health_of(server: ControlServer, service: str) -> int:
    answer = await server._health.Check(health_pb2.HealthCheckRequest(service=service), None)
    return int(answer.status)


@pytest.mark.parametrize("service", ["", SERVICE_NAME])
async def test_it_serves_only_while_etcd_is_followed(service: str) -> None:
    follower = fed_follower()
    server = ControlServer(service_of(follower), follower, open_admission(), host="::1", port=0, log=EventLog())
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(server.run())
        for told, expected in (
            (lambda: None, NOT_SERVING),
            (lambda: follower.synced(follower.mirror.replace([]), 1), SERVING),
            (lambda: follower.went_away("gone"), NOT_SERVING),
        ):
            told()
            async with asyncio.timeout(60):
                while True:
                    await asyncio.sleep(0)
                    if running.done() or await health_of(server, service) == expected:
                        break
        running.cancel()
    await server.stop(0)


async def test_the_health_service_is_told_of_changes_of_readiness_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The instances change with every write of a fleet."""
    follower = fed_follower([])
    server = ControlServer(service_of(follower), follower, open_admission(), host="::1", port=0, log=EventLog())
    told: list[int] = []

    async def note(_: str, status: int) -> None:
        told.append(status)

    monkeypatch.setattr(server._health, "set", note)
    for _ in range(3):
        await server._tell_health()
    follower.went_away("gone")
    await server._tell_health()
    assert told == [SERVING, SERVING, NOT_SERVING, NOT_SERVING]
    await server.stop(0)
