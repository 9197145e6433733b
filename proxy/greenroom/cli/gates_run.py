"""A runner as `greenroom gates run` composes it: its port, its connection to the proxy, and the runner itself."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import structlog

from greenroom.addresses import Address
from greenroom.cli.client import OPTIONS
from greenroom.client.place import Place
from greenroom.control.http import HttpServer
from greenroom.core.policy import Policy
from greenroom.core.selectors import Selector
from greenroom.errors import ControlError, SettingsError
from greenroom.gates.agreement import unasked, why_refused, why_unasked
from greenroom.gates.control_calls import RunnerCalls
from greenroom.gates.environment import Variable
from greenroom.gates.frontend import FrontendSettings
from greenroom.gates.frontends import Frontends
from greenroom.gates.gate_config import Gates, WantedHold
from greenroom.gates.gate_run import GateRuns
from greenroom.gates.measures import Measures
from greenroom.gates.plan import Plan
from greenroom.gates.runner import RETRY_SECONDS, Runner
from greenroom.gates.runner_pages import runner_app
from greenroom.gates.selection import Selection, is_this_host
from greenroom.gates.validation import answer
from greenroom.logs import configure_logs
from greenroom.pb.control.v1.control_pb2 import Instance
from greenroom.settings import LogFormat, LogLevel
from greenroom.stopping import stopped_by_signals


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """What the options say. `name` is who claims and reports; unless `is_named`, a token or certificate goes before."""

    gates: Gates
    hold: WantedHold | None
    selector: Selector
    local: bool
    local_addresses: tuple[str, ...]
    frontend: FrontendSettings | None
    listen: Address
    name: str
    is_named: bool
    claim_seconds: float
    max_runs: int


def run_gates(settings: RunnerSettings, place: Place, log_level: LogLevel, log_format: LogFormat) -> None:
    """Runs gates until a signal; SettingsError where the proxy's rules say otherwise than the settings."""
    calls = RunnerCalls(place, OPTIONS, name=settings.name, is_named=settings.is_named)
    configure_logs(log_level, log_format)
    asyncio.run(_run(settings, calls, place.control, structlog.get_logger()))


async def _run(settings: RunnerSettings, calls: RunnerCalls, control: str, log: Any) -> None:
    with stopped_by_signals(log) as stopping:
        try:
            async with calls, asyncio.TaskGroup() as group:
                await _compose(settings, calls, control, group, log)
        except asyncio.CancelledError:
            if not stopping.is_set():
                raise
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None


async def _compose(
    settings: RunnerSettings, calls: RunnerCalls, control: str, group: asyncio.TaskGroup, log: Any
) -> None:
    selection = Selection(settings.gates, settings.selector, _near(settings), settings.hold)
    plan = Plan(settings.gates, _Chosen(selection, log), settings.max_runs, _checks_public(settings))

    def selected() -> list[Instance]:
        return [instance for instance in plan.instances if selection.selects(instance)]

    measures = Measures(settings.gates, selected)
    frontends = Frontends(settings.frontend, calls, group.create_task, log) if settings.frontend else None
    runs = GateRuns(
        calls,
        settings.gates,
        frontends,
        told=lambda instance: runner.told(instance),
        measured=measures,
        control=control,
        claim_seconds=settings.claim_seconds,
        clock=_now,
        log=log,
    )
    runner = Runner(plan, runs, frontends, calls, group, _now, log)
    app = runner_app(lambda: answer(selected(), selection, runner.away), measures.registry)
    http = HttpServer(app, host=settings.listen.host, port=settings.listen.port, option="--listen")
    listen = str(Address(settings.listen.host, http.start()))
    group.create_task(http.run())
    log.info("runner.started", listen=listen, control=control, runner=settings.name, gates=sorted(settings.gates))
    await _agree(settings, calls, log)
    await runner.run()


@dataclass(slots=True)
class _Chosen:
    """Whose gates are run. Of each that is held otherwise than this runner was told the log says so once."""

    selection: Selection
    log: Any
    _left_out: set[str] = field(default_factory=set)

    def __call__(self, instance: Instance) -> bool:
        if self.selection.runs(instance):
            return True
        if self.selection.selects(instance) and instance.id not in self._left_out:
            self._left_out.add(instance.id)
            self.log.error("hold.differs", instance=instance.id, why=self.selection.why_not(instance))
        return False


async def _agree(settings: RunnerSettings, calls: RunnerCalls, log: Any) -> None:
    """Waits for the proxy, and refuses what its policy does not fit; SettingsError."""
    policy = await _policy(calls, log)
    if policy is None:
        log.warning("policy.unknown", why="the proxy's policy is of a newer version: it is not looked at")
        return
    checks_public = _checks_public(settings)
    if why := why_refused(policy, settings.gates, settings.selector, settings.hold, checks_public=checks_public):
        raise SettingsError(why)
    if names := unasked(policy, settings.gates):
        log.warning("gates.unasked", gates=names, why=why_unasked(policy))


def _checks_public(settings: RunnerSettings) -> bool:
    """Whether checks reach who is released: a frontend of one instance's own has ended by then."""
    return settings.frontend is None or Variable.BASE_URL in os.environ


async def _policy(calls: RunnerCalls, log: Any) -> Policy | None:
    said = ""
    while True:
        try:
            return await calls.policy()
        except ControlError as error:
            if not error.may_pass:
                raise
            if said != str(error):
                log.warning("proxy.away", why=str(error))
            said = str(error)
        await asyncio.sleep(RETRY_SECONDS)


def _near(settings: RunnerSettings) -> Callable[[str], bool] | None:
    if not settings.local:
        return None
    return (lambda host: host in settings.local_addresses) if settings.local_addresses else is_this_host


def _now() -> datetime:
    return datetime.now(UTC)
