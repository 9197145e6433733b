"""What a program asks of an instance and its gates."""

from greenroom.client.reading import instance_of
from greenroom.client.values import ChangeKind, GateState, Outcome, RemovalReason, State
from tests.support.shown import shown


def test_words_are_those_of_the_documentation() -> None:
    assert [str(state) for state in State] == ["held", "released", "rejected", "withdrawn", "unknown"]
    assert [str(outcome) for outcome in Outcome] == ["passed", "failed", "inconclusive", "error"]
    assert f"{ChangeKind.REMOVED} {RemovalReason.NOT_MATCHING}" == "removed not_matching"


def test_a_gate_is_found_by_its_name_and_is_open_until_it_is_decided() -> None:
    states = {"a": "PENDING", "b": "INCONCLUSIVE", "c": "ERROR", "d": "PASSED", "e": "FAILED", "f": "OVERRIDDEN"}
    instance = instance_of(shown(gates=states))
    gates = [instance.gate(name) for name in states]
    assert [gate.is_open for gate in gates if gate] == [True, True, True, False, False, False]
    assert gates[3] is not None
    assert gates[3].state is GateState.PASSED
    assert instance.gate("g") is None


def test_what_an_instance_waits_for_is_one_line() -> None:
    assert instance_of(shown(rollout_hold="night")).waits_for == "smoke; rollout hold night by ann: incident"
    assert instance_of(shown(state="RELEASED", gates={"smoke": "PASSED"})).waits_for == ""
