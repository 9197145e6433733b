"""Puts the proxy together: the one place where its parts are made, started in order, and stopped in the reverse one.

The rule: workers are let in last. Whatever can fail has been tried by then, and a start that fails leaves nothing.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog

from greenroom import __version__
from greenroom.addresses import Address
from greenroom.control.access_metrics import counted_admission
from greenroom.control.announce import Announcer
from greenroom.control.gateway import Gateway
from greenroom.control.health import Health
from greenroom.control.http import HttpServer, Readiness, api_routes, http_app
from greenroom.control.metrics import Metrics
from greenroom.control.policy_in_force import PolicyInForce
from greenroom.control.preview_metrics import PreviewMetrics
from greenroom.control.server import ControlServer
from greenroom.control.service import ControlService
from greenroom.control.tls_metrics import FromTls
from greenroom.core.fleet import Limits
from greenroom.core.keyspace import InstanceId
from greenroom.core.methods import METHODS
from greenroom.core.templates import GatedKeys
from greenroom.embedded import EmbeddedEtcd
from greenroom.errors import GreenroomError, StartError
from greenroom.etcd_ports import EtcdPort, etcd_ports
from greenroom.logs import configure_logs
from greenroom.observer import LoggingObserver
from greenroom.places import Places, places_of
from greenroom.policy_source import PolicySource
from greenroom.preview.previews import Previews
from greenroom.processes import allow_many_open_files
from greenroom.relay.server import RelayServer
from greenroom.serve.handlers import CallHandler
from greenroom.serve.memory import Memory
from greenroom.settings import Settings
from greenroom.starting import ask_for_leader, credentials_of, start_errors, through_elections
from greenroom.stopping import stopped_by_signals
from greenroom.store.fleet import MirroredFleet
from greenroom.store.follower import Follower
from greenroom.store.members import Address as MemberAddress
from greenroom.store.members import address_text
from greenroom.store.mirror import Mirror
from greenroom.store.presence import Presence, refuse_foreign_keys, refuse_small_role
from greenroom.store.prober import Prober
from greenroom.store.reconciler import Reconciler
from greenroom.store.upstream import Upstream
from greenroom.tls.reloading import keep_looking
from greenroom.tls.sides import Sides, context_of

START_SECONDS = 10.0
"""etcd must answer within this."""
SYNC_SECONDS = 60.0
"""The mirror must be complete within this: tens of thousands of instances are a few seconds' work on a busy machine."""
DRAIN_SECONDS = 3.0
"""So long clients may finish their calls; they go on at another proxy, or wait."""
CONTROL_GRACE_SECONDS = 1.0


class Door:
    """The workers' port as readiness sees it: shut before workers are let in, and again once the proxy stops."""

    def __init__(self) -> None:
        self._open = False

    def open(self) -> None:
        """Workers are let in."""
        self._open = True

    def close(self) -> None:
        """No more workers are let in: whoever spreads connections should go elsewhere."""
        self._open = False

    @property
    def why_not_ready(self) -> str | None:
        """The reason, for people; None while workers are let in."""
        return None if self._open else "the workers' port is not open"


async def run(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT. SettingsError before anything starts, StartError when it cannot go on."""
    log = structlog.get_logger()
    source = PolicySource(settings, clock=_now, log=log)
    if settings.upstream_user is not None:
        settings.read_upstream_password()
    settings.open_access(log)
    tls = Sides.load(settings, log=log)
    configure_logs(settings.log_level, settings.log_format)
    allow_many_open_files()
    places = places_of(settings)
    settings.preview_places.check()
    tls.warn_of_open_keys()
    with stopped_by_signals(log) as stopping:
        try:
            await _serve(settings, source, places, tls, log)
        except asyncio.CancelledError:
            if not stopping.is_set():
                raise
        except BaseExceptionGroup as errors:
            raise _first(errors) from None
    log.info("stopped")


async def _serve(settings: Settings, source: PolicySource, places: Places, tls: Sides, log: Any) -> None:
    async with AsyncExitStack() as stack:
        background = await stack.enter_async_context(_background())
        addresses = await _etcd(settings, stack, background)
        with start_errors(settings, addresses):
            await _Start(settings, source, places, tls, addresses, log, stack, background).everything()
        await asyncio.Event().wait()


@dataclass(frozen=True, slots=True)
class _Start:
    """One start: what `everything` makes ends with `stack`, its loops run in `background`."""

    settings: Settings
    source: PolicySource
    places: Places
    tls: Sides
    addresses: Sequence[Address]
    log: Any
    stack: AsyncExitStack
    background: asyncio.TaskGroup

    async def everything(self) -> None:
        """From the connection to etcd to the open door."""
        gated_keys = self.source.current.gated_keys()
        members = [(address.host, address.port) for address in self.addresses]
        upstream = Upstream(members, credentials_of(self.settings, self.log), tls=self.tls.upstream)
        self.stack.push_async_callback(upstream.close)
        self.background.create_task(keep_looking([side.reloaded for side in self.tls.all()]))
        prober = await self._prober(upstream)
        await through_elections(lambda: self._examine(upstream, gated_keys), log=self.log)
        follower = Follower(upstream, Mirror(gated_keys), gated_keys, clock=_now, log=self.log)
        fleet = MirroredFleet(follower.mirror, clock=_now)
        self.stack.enter_context(follower.told(fleet))
        metrics = self._metrics(follower.mirror)
        metrics.show_members(upstream.channels.members)
        metrics.registry.register(FromTls(self.tls.all()))
        announcer = Announcer(follower, clock=_now, log=self.log, metrics=metrics, control=self.places.control_to_name)
        reconciler = Reconciler(
            upstream,
            follower,
            clock=_now,
            log=self.log,
            on_carried_out=announcer.carried_out,
            on_lost_fence=metrics.fence_lost,
            limits=lambda: Limits(self.source.current.releases, fleet),
        )
        presence, door = self._presence(upstream, gated_keys), Door()
        readiness = Readiness((follower, presence, door), upstream, PolicyInForce(self.source, presence))
        self._follow_policy(presence, metrics, readiness.policy)
        previews = self._previews(upstream, follower, gated_keys, metrics)
        await self._control(upstream, follower, announcer, metrics, readiness, reconciler.limits, previews)
        self.stack.push_async_callback(presence.close)
        await through_elections(presence.start, log=self.log)
        own_loops = (announcer.run(), reconciler.run(), self.source.run(), previews.run())
        loops = (presence.run(), follower.run(), *own_loops)
        self.stack.push_async_callback(_ended, [self.background.create_task(loop) for loop in loops])
        await _synced(follower)
        memory = Memory(lambda: follower.history)
        for port in etcd_ports(self.settings, self.places, gated_keys):
            relay = await self._relay(port, upstream, memory, announcer, metrics)
            prober.on_leave(self._sent_away_by(relay))
        await self._open_previews(previews)
        door.open()
        self.stack.callback(door.close)
        self._announce()

    async def _examine(self, upstream: Upstream, gated_keys: GatedKeys) -> None:
        """Whether etcd is one that can be served: it has a leader, lets the proxy in, and holds no foreign keys."""
        await ask_for_leader(upstream)
        await upstream.log_in(timeout_seconds=START_SECONDS)
        await refuse_small_role(upstream, gated_keys.prefixes)
        await refuse_foreign_keys(upstream, timeout_seconds=START_SECONDS)

    async def _prober(self, upstream: Upstream) -> Prober:
        """Running, and so far that it is known which member to start with."""
        prober = Prober(upstream.channels, log=self.log)
        self.stack.push_async_callback(_ended, [self.background.create_task(prober.run())])
        await prober.first_round()
        return prober

    def _sent_away_by(self, relay: RelayServer) -> Callable[[MemberAddress], None]:
        def leave(address: MemberAddress) -> None:
            clients = relay.leave(address)
            if clients:
                self.log.info("clients.sent.away", member=address_text(address), clients=clients)

        return leave

    def _presence(self, upstream: Upstream, gated_keys: GatedKeys) -> Presence:
        return Presence(
            upstream,
            policy_digest=self.source.current.digest,
            templates_digest=gated_keys.digest,
            address=str(self.places.control),
            host=socket.gethostname(),
            version=__version__,
            log=self.log,
        )

    def _previews(self, upstream: Upstream, follower: Follower, gated_keys: GatedKeys, metrics: Metrics) -> Previews:
        places, told = self.settings.preview_places, PreviewMetrics(metrics.registry)
        return Previews(upstream, follower, gated_keys, places, clock=_now, log=self.log, told=told)

    async def _open_previews(self, previews: Previews) -> None:
        """The standing one; whatever is opened later ends with it, before what it is served from."""
        self.stack.push_async_callback(previews.stop)
        if self.settings.preview_listen is not None:
            await previews.open_standing(self.settings.preview_listen, self.settings.preview_selector)

    def _follow_policy(self, presence: Presence, metrics: Metrics, policy: PolicyInForce) -> None:
        metrics.show_policy(policy)
        self.source.on_change(lambda new: metrics.know_gates(new.gate_names))
        self.source.on_change(lambda new: presence.policy_changed(new.digest))

    def _metrics(self, mirror: Mirror) -> Metrics:
        methods = [path.decode().removeprefix("/") for path in METHODS]
        return Metrics(mirror, clock=_now, gates=self.source.current.gate_names, methods=methods, version=__version__)

    async def _control(
        self,
        upstream: Upstream,
        follower: Follower,
        announcer: Announcer,
        metrics: Metrics,
        readiness: Readiness,
        limits: Callable[[], Limits],
        previews: Previews,
    ) -> None:
        service = ControlService(
            upstream,
            follower,
            clock=_now,
            log=self.log,
            announcer=announcer,
            metrics=metrics,
            policy=readiness.policy,
            previews=previews,
            may_revoke_leases=self.settings.allow_revoke_lease,
            limits=limits,
        )
        access = self.settings.open_access(self.log)
        admission = counted_admission(access, metrics.registry, self.background, clock=_now, log=self.log)
        place = self.places.control
        control = ControlServer(
            service, follower, admission, host=place.host, port=place.port, log=self.log, tls=self.tls.control
        )
        await control.start()
        self.stack.push_async_callback(control.stop, CONTROL_GRACE_SECONDS)
        self.background.create_task(control.run())
        place = self.places.http
        health = Health(follower, limits, clock=_now)
        api = api_routes(Gateway(service, admission, version=__version__, log=self.log), health, admission)
        app = http_app(readiness, metrics, admission, api, open_metrics=self.settings.open_metrics)
        http = HttpServer(app, host=place.host, port=place.port, tls=self.tls.control, is_open=access is None)
        http.start()
        self.stack.push_async_callback(_finish, http, self.background.create_task(http.run()))

    async def _relay(
        self, port: EtcdPort, upstream: Upstream, memory: Memory, announcer: Announcer, metrics: Metrics
    ) -> RelayServer:
        gated_keys = self.source.current.gated_keys()
        observer = LoggingObserver(metrics, self.log, asyncio.get_running_loop().time)
        handler = CallHandler(
            upstream.for_clients(),
            gated_keys,
            lambda: self.source.current,
            clock=_now,
            opened=announcer.opened,
            held_later=announcer.held_later,
            ungated=announcer.ungated,
            fence_lost=metrics.fence_lost,
            denied=self._denied,
            refused=observer.call_answered_with,
            memory=memory,
            advertise_url=port.advertise_url,
            lease_answer=port.lease_answer,
        )
        relay = RelayServer(
            inspector=port.inspector,
            handler=handler,
            observer=observer,
            upstreams=upstream.channels.members,
            host=port.address.host,
            port=port.address.port,
            tls=context_of(self.tls.listen),
            upstream_tls=context_of(self.tls.upstream),
        )
        try:
            await relay.start()
        except OSError as error:
            raise StartError(f"{port.option} '{port.address}': {error.strerror or error}") from error
        self.stack.push_async_callback(relay.stop, DRAIN_SECONDS)
        return relay

    def _denied(self, instance: InstanceId) -> None:
        role = "its user may write its keys, and not have them held: `greenroom etcd-role` prints what it needs"
        self.log.warning("instance.denied", instance=instance, why=role)

    def _announce(self) -> None:
        self.log.info(
            "serving",
            listen=str(self.places.listen),
            **({"public": str(self.places.public)} if self.places.public else {}),
            control=str(self.places.control),
            http=str(self.places.http),
            etcd=",".join(map(str, self.addresses)),
            policy=self.source.describe(),
            version=__version__,
        )
        if not self.source.current.rules:
            self.log.warning("nothing.is.held", why="no rule, and --allow-ungated")


async def _etcd(settings: Settings, stack: AsyncExitStack, background: asyncio.TaskGroup) -> Sequence[Address]:
    """etcd's addresses; an embedded one is started, and the proxy ends when it does."""
    if not settings.embedded_etcd:
        return settings.upstream
    etcd = await EmbeddedEtcd.start(settings.data_dir, settings.embedded_etcd_listen)
    watching = background.create_task(_ends(etcd))
    stack.push_async_callback(etcd.stop)
    stack.callback(watching.cancel)
    return (etcd.address,)


async def _ends(etcd: EmbeddedEtcd) -> None:
    raise StartError(await etcd.ended())


async def _synced(follower: Follower) -> None:
    try:
        async with asyncio.timeout(SYNC_SECONDS):
            await follower.wait_ready()
    except TimeoutError:
        why = follower.why_not_ready
        raise StartError(f"could not read Greenroom's own keys from etcd within {SYNC_SECONDS:g} s: {why}") from None


async def _ended(loops: Sequence[asyncio.Task[None]]) -> None:
    """Ends loops before what they use is closed: a call on a closed connection would look like a bug."""
    for loop in loops:
        loop.cancel()
    await asyncio.wait(loops)


async def _finish(http: HttpServer, running: asyncio.Task[None]) -> None:
    http.stop()
    await asyncio.wait((running,), timeout=CONTROL_GRACE_SECONDS)


@asynccontextmanager
async def _background() -> AsyncIterator[asyncio.TaskGroup]:
    """Loops that end with the block: it is left by an exception or not at all, and either ends them."""
    async with asyncio.TaskGroup() as tasks:
        yield tasks


def _first(errors: BaseExceptionGroup) -> BaseException:
    """One line is for one error; the others mostly follow from it. Where one is a bug, all are shown."""
    expected, bugs = errors.split(GreenroomError)
    if bugs is not None or expected is None:
        return errors
    found: BaseException = expected
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


def _now() -> datetime:
    return datetime.now(UTC)
