"""What monitoring wants to know of certificates: until when they are good, and whether new ones are taken up."""

from collections.abc import Iterable, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from greenroom.tls.sides import Side


class FromTls(Collector):
    """Read off the sides at any time. `use` is listen, control or upstream."""

    def __init__(self, sides: Sequence[Side]) -> None:
        self._sides = sides

    def collect(self) -> Iterable[Metric]:
        """The numbers as of now."""
        expires = _gauge("certificate_expiry_seconds", "When the certificate in use expires, in seconds since 1970.")
        stale = _gauge("files_refused", "1 while the files have changed into what cannot be used, else 0.")
        reloads = _counter("reloads", "Changed files that were taken up.")
        failures = _counter("reload_failures", "Changed files that could not be used.")
        refused = _counter("clients_refused", "Clients whose TLS or certificate was not taken; gRPC tells of none.")
        for side in self._sides:
            one, use = side.reloaded, [side.reloaded.use]
            if one.loaded.expires is not None:
                expires.add_metric(use, one.loaded.expires.timestamp())
            stale.add_metric(use, one.failure is not None)
            reloads.add_metric(use, one.reloads)
            failures.add_metric(use, one.failures)
            refused.add_metric(use, side.refused)
        return (expires, stale, reloads, failures, refused)


def _gauge(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"greenroom_tls_{name}", text, labels=["use"])


def _counter(name: str, text: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"greenroom_tls_{name}", text, labels=["use"])
