"""What monitoring sees of who was refused, and whether the newest access file is in force."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from greenroom.access.admission import Admission
from greenroom.access.refusals import Refusal
from greenroom.access.reloading import AccessInForce


class Reloaded(Protocol):
    """A file that is read again and again."""

    failures: int

    @property
    def is_newest(self) -> bool:
        """Whether what it says now is in force."""


class AccessMetrics:
    """In the registry of the proxy's other metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        help_text = "Calls of the control API and HTTP requests that access refused, by its cause."
        self._refused = Counter("greenroom_control_refused", help_text, ["cause"], registry=registry)
        # A rate over a counter that appears with its first event misses that event, which may be the only one.
        for cause in Refusal:
            self._refused.labels(cause)

    def refused(self, cause: str) -> None:
        """A call was refused."""
        self._refused.labels(cause).inc()

    def show(self, file: Reloaded) -> None:
        """From here on the access file is shown, as of each scrape."""
        self._registry.register(_FromFile(file))


def counted_admission(
    access: AccessInForce | None,
    registry: CollectorRegistry,
    background: asyncio.TaskGroup,
    *,
    clock: Callable[[], datetime],
    log: Any,
) -> Admission:
    """The admission of one proxy: refusals are counted in the registry, and the file is looked at in the background."""
    metrics = AccessMetrics(registry)
    if access is not None:
        metrics.show(access)
        background.create_task(access.run())
    return Admission(access, clock=clock, log=log, on_refused=metrics.refused)


class _FromFile(Collector):
    def __init__(self, file: Reloaded) -> None:
        self._file = file

    def collect(self) -> Iterable[Metric]:
        """As of now."""
        newest = "1 where the access file as it is now is in force, 0 where it was refused and the one before is."
        yield GaugeMetricFamily("greenroom_access_loaded", newest, value=float(self._file.is_newest))
        failures = "Access files that were refused since the start."
        yield CounterMetricFamily("greenroom_access_reload_failures", failures, value=self._file.failures)
