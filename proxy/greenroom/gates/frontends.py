"""The frontends of a runner: one for each instance whose gates run, for as long as somebody has a use for it.

The rule: it is taken down with the release or the end of the lease; after a failure it stays for a while, for whoever
wants to look. What is of no use any more is never used again: the next run has a fresh one.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from greenroom.gates.frontend import Frontend, FrontendFailed, FrontendSettings, Previews
from greenroom.gates.instance_environment import model_of
from greenroom.gates.plan import is_public, waits_for_a_person
from greenroom.pb.control.v1 import control_pb2
from greenroom.pb.control.v1.control_pb2 import Instance


class Fate(Enum):
    """What becomes of a frontend, by what its instance is."""

    STAY = "stay"
    STAY_A_WHILE = "stay a while"
    END = "end"


@dataclass(slots=True)
class _Open:
    frontend: Frontend
    task: "asyncio.Task[None]"
    ends: datetime | None = None


@dataclass(slots=True)
class Frontends:
    """Those that are up, by instance; `spawn` makes a task that ends with the runner."""

    settings: FrontendSettings
    previews: Previews
    spawn: Callable[[Any], "asyncio.Task[None]"]
    log: Any
    _open: dict[str, _Open] = field(default_factory=dict)

    @asynccontextmanager
    async def use(self, instance: Instance) -> AsyncIterator[str]:
        """The URL of the instance's own frontend, once it lists the model; FrontendFailed."""
        frontend = self._of(instance.id)
        try:
            async with frontend.use(model_of(instance)) as url:
                yield url
        except FrontendFailed:
            self._end(instance.id, frontend)
            raise

    def look_at(self, instance_id: str, instance: Instance | None, now: datetime) -> datetime | None:
        """Goes by what the instance is now (None: gone); when to look again."""
        found = self._in_use(instance_id)
        if found is None:
            return None
        match fate(instance):
            case Fate.STAY:
                found.ends = None
            case Fate.STAY_A_WHILE:
                found.ends = found.ends or self._kept(found.frontend, now)
            case Fate.END:
                found.ends = now
        if found.ends is not None and found.ends <= now:
            self._end(instance_id, found.frontend)
            return None
        return found.ends

    @property
    def instances(self) -> list[str]:
        """Whose frontends are up."""
        return list(self._open)

    def _of(self, instance_id: str) -> Frontend:
        found = self._in_use(instance_id)
        if found is None:
            frontend = Frontend(instance_id, self.settings, self.previews, self.log)
            found = self._open[instance_id] = _Open(frontend, self.spawn(frontend.run()))
        return found.frontend

    def _in_use(self, instance_id: str) -> _Open | None:
        """An instance's own; one that is over is let go of."""
        found = self._open.get(instance_id)
        if found is None or not found.frontend.is_over:
            return found
        self._end(instance_id, found.frontend)
        return None

    def _kept(self, frontend: Frontend, now: datetime) -> datetime:
        seconds = self.settings.keep_failed_seconds
        self.log.info("frontend.kept", instance=frontend.instance, url=frontend.url, seconds=seconds)
        return now + timedelta(seconds=seconds)

    def _end(self, instance_id: str, frontend: Frontend) -> None:
        found = self._open.get(instance_id)
        if found is not None and found.frontend is frontend:
            del self._open[instance_id]
            frontend.take_down()
            found.task.cancel()


def fate(instance: Instance | None) -> Fate:
    """What becomes of the frontend of an instance, None for one that is gone."""
    if instance is None:
        return Fate.END
    if is_public(instance):
        return Fate.END
    is_rejected = instance.state == control_pb2.INSTANCE_STATE_REJECTED
    return Fate.STAY_A_WHILE if is_rejected or waits_for_a_person(instance) else Fate.STAY
