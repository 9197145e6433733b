"""The runner's metrics: where each gate of its instances stands, and how long runs take."""

from collections.abc import Callable, Collection, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from greenroom.gates.result import Outcome
from greenroom.gates.validation import gate_value
from greenroom.pb.control.v1.control_pb2 import Instance

BUCKETS_SECONDS: Final = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
"""Checks take from a second to as long as a benchmark does."""


class Measures:
    """Counts runs; states are read from `instances` when somebody asks."""

    def __init__(self, gates: Collection[str], instances: Callable[[], Collection[Instance]]) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_GateStates(gates, instances))
        self._seconds = Histogram(
            "greenroom_runner_gate_seconds",
            "How long runs of a gate took, by how they ended.",
            ("gate", "outcome"),
            buckets=BUCKETS_SECONDS,
            registry=self.registry,
        )

    def ended(self, gate: str, outcome: Outcome, seconds: float) -> None:
        """A run is over."""
        self._seconds.labels(gate, outcome.value).observe(seconds)


class _GateStates(Collector):
    def __init__(self, gates: Collection[str], instances: Callable[[], Collection[Instance]]) -> None:
        self._gates, self._instances = gates, instances

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(
            "greenroom_runner_gate_state",
            "A gate of an instance: 0 pending, 1 passed or overridden, -1 failed.",
            labels=("gate", "instance"),
        )
        for instance in self._instances():
            for status in instance.gates:
                if status.gate in self._gates:
                    family.add_metric((status.gate, instance.id), gate_value(status))
        yield family
