"""The runner's metrics."""

from greenroom.gates.measures import Measures
from greenroom.gates.result import Outcome
from tests.support.shown import shown


def test_states_are_those_of_the_moment() -> None:
    instances = [shown("1", gates={"smoke": "FAILED", "other": "FAILED"})]
    measures = Measures(("smoke",), lambda: instances)

    def state(instance: str, gate: str = "smoke") -> float | None:
        labels = {"gate": gate, "instance": instance}
        return measures.registry.get_sample_value("greenroom_runner_gate_state", labels)

    assert (state("1"), state("1", "other")) == (-1, None)
    instances[:] = [shown("2", gates={"smoke": "PASSED"})]
    assert (state("1"), state("2")) == (None, 1)


def test_durations_are_counted_by_gate_and_outcome() -> None:
    measures = Measures(("smoke",), list)
    measures.ended("smoke", Outcome.PASSED, 2.5)
    measures.ended("smoke", Outcome.PASSED, 4.0)
    labels = {"gate": "smoke", "outcome": "passed"}
    assert measures.registry.get_sample_value("greenroom_runner_gate_seconds_sum", labels) == 6.5
    assert measures.registry.get_sample_value("greenroom_runner_gate_seconds_count", labels) == 2
