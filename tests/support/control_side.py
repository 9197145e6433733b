"""The control side of a proxy in the test's own event loop: everything but the relay, on a real etcd.

The rule: composed as the program composes it, on free ports, and whatever it logs is kept.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc

from greenroom.access.admission import Admission
from greenroom.control.announce import Announcer
from greenroom.control.http import HttpServer, Readiness, http_app
from greenroom.control.metrics import Metrics
from greenroom.control.server import ControlServer
from greenroom.control.service import ControlService
from greenroom.core.fleet import Limits
from greenroom.core.policy import ReleasesPolicy
from greenroom.core.templates import dynamo_gated_keys
from greenroom.pb.control.v1 import control_pb2_grpc
from greenroom.store.fleet import MirroredFleet
from greenroom.store.follower import Follower
from greenroom.store.mirror import Mirror
from greenroom.store.reconciler import Reconciler
from greenroom.store.upstream import Upstream
from tests.support.etcd import Etcd
from tests.support.policies import policy_in_force
from tests.support.ports import free_port
from tests.support.previews import previews_before
from tests.support.waiting import wait_for_async

GATED = dynamo_gated_keys(instances=False)


@dataclass
class MovableClock:
    """The time, and as much later as the test says."""

    ahead: timedelta = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def advance(self, seconds: float) -> None:
        self.ahead += timedelta(seconds=seconds)


@dataclass
class EventLog:
    """Logged events, in order. As a logger it has the methods that the product calls."""

    events: list[dict[str, Any]] = field(default_factory=list)
    bound: dict[str, Any] = field(default_factory=dict)

    def bind(self, **values: Any) -> "EventLog":
        return EventLog(self.events, {**self.bound, **values})

    def info(self, event: str, **values: Any) -> None:
        self.events.append({"event": event, "level": "info", **self.bound, **values})

    def warning(self, event: str, **values: Any) -> None:
        self.events.append({"event": event, "level": "warning", **self.bound, **values})

    def error(self, event: str, **values: Any) -> None:
        self.events.append({"event": event, "level": "error", **self.bound, **values})

    def exception(self, event: str, **values: Any) -> None:
        self.events.append({"event": event, "level": "error", **self.bound, **values})

    def named(self, event: str) -> list[dict[str, Any]]:
        return [one for one in self.events if one["event"] == event]

    async def wait_named(self, event: str, count: int = 1, timeout_seconds: float = 10) -> list[dict[str, Any]]:
        async def found() -> list[dict[str, Any]] | None:
            return self.named(event) if len(self.named(event)) >= count else None

        answer = await wait_for_async(found, timeout_seconds, f"{count} events {event}")
        assert answer is not None
        return answer


@dataclass
class ControlSide:
    """The parts, and a client of the control port."""

    upstream: Upstream
    follower: Follower
    announcer: Announcer
    metrics: Metrics
    log: EventLog
    clock: MovableClock
    service: ControlService
    stub: Any
    control_address: str
    http_address: str
    limits: Limits

    @property
    def mirror(self) -> Mirror:
        return self.follower.mirror

    def sample(self, name: str, **labels: str) -> float:
        """A metric's value; 0 where nothing was counted yet."""
        return self.metrics.registry.get_sample_value(f"greenroom_{name}", labels) or 0.0


@asynccontextmanager
async def control_side(
    etcd: Etcd,
    *,
    clock: MovableClock | None = None,
    reconciles: bool = True,
    gates: Collection[str] = ("smoke",),
    releases: ReleasesPolicy | None = None,
) -> AsyncIterator[ControlSide]:
    """A running control side whose mirror is whole."""
    side, runs, stop = await _compose(etcd, clock or MovableClock(), reconciles, gates, releases)
    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(run) for run in runs]
            try:
                async with asyncio.timeout(10):
                    await side.follower.wait_ready()
                yield side
            finally:
                await stop()
                for task in running:
                    task.cancel()
    finally:
        await side.upstream.close()


async def _compose(
    etcd: Etcd, clock: MovableClock, reconciles: bool, gates: Collection[str], releases: ReleasesPolicy | None
) -> Any:
    log = EventLog()
    upstream = Upstream([("127.0.0.1", etcd.port)])
    mirror = Mirror(GATED)
    metrics = Metrics(mirror, clock=clock, gates=gates, methods={"etcdserverpb.KV/Put"}, version="test")
    follower = Follower(upstream, mirror, GATED, clock=clock, log=log)
    announcer = Announcer(follower, clock=clock, log=log, metrics=metrics)
    fleet = MirroredFleet(mirror, clock=clock)
    limits = Limits(releases, fleet)
    told = ExitStack()
    told.enter_context(follower.told(fleet))
    reconciler = Reconciler(
        upstream,
        follower,
        clock=clock,
        log=log,
        on_carried_out=announcer.carried_out,
        on_lost_fence=metrics.fence_lost,
        limits=lambda: limits,
    )
    policy = policy_in_force(upstream, log=log, clock=clock)
    previews = previews_before(upstream, follower, clock=clock, log=log, registry=metrics.registry)
    service = ControlService(
        *(upstream, follower),
        clock=clock,
        log=log,
        announcer=announcer,
        metrics=metrics,
        policy=policy,
        previews=previews,
        limits=lambda: limits,
    )
    admission = Admission(None, clock=clock, log=log)
    server = ControlServer(service, follower, admission, host="127.0.0.1", port=free_port(), log=log)
    app = http_app(Readiness((follower,), upstream, policy), metrics, admission)
    http = HttpServer(app, host="127.0.0.1", port=free_port())
    control_address, http_address = f"127.0.0.1:{await server.start()}", f"127.0.0.1:{http.start()}"
    channel = grpc.aio.insecure_channel(control_address, options=(("grpc.enable_http_proxy", 0),))

    async def stop() -> None:
        await channel.close()
        http.stop()
        await server.stop(0)
        await previews.stop()
        told.close()

    runs = [follower.run(), announcer.run(), previews.run(), server.run(), http.run()]
    runs += [reconciler.run()] if reconciles else []
    stub = control_pb2_grpc.ControlStub(channel)
    addresses = control_address, http_address
    side = ControlSide(upstream, follower, announcer, metrics, log, clock, service, stub, *addresses, limits)
    return side, runs, stop
