"""What probes are answered."""

import pytest

from greenroom.core.selectors import Selector
from greenroom.gates.gate_config import WantedHold
from greenroom.gates.selection import Selection
from greenroom.gates.validation import answer, gate_value, serves
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.shown import shown

SELECTION = Selection(("smoke", "latency"), Selector(), None, None)


def test_of_one_instance_state_gates_and_reasons_are_told() -> None:
    instance = shown(gates={"smoke": "PASSED", "latency": "PENDING", "golden": "PENDING"})
    assert answer([instance], SELECTION, "") == {
        "healthy": False,
        "validation": {
            "state": "HELD",
            "gates": {"golden": "PENDING", "latency": "PENDING", "smoke": "PASSED"},
            "reasons": ["latency, golden"],
        },
        "instances": [
            {
                "instance": "6177a228983c0b2b",
                "state": "HELD",
                "models": ["tiny"],
                "gates": {"golden": "PENDING", "latency": "PENDING", "smoke": "PASSED"},
                "reasons": ["latency, golden"],
            }
        ],
    }


def test_released_is_healthy() -> None:
    said = answer([shown(state="RELEASED", gates={"smoke": "PASSED"})], SELECTION, "")
    assert said["healthy"]
    assert said["validation"] == {"state": "RELEASED", "gates": {"smoke": "PASSED"}, "reasons": []}


def test_without_an_instance_nobody_is_healthy() -> None:
    said = answer([], SELECTION, "")
    assert (said["healthy"], said["validation"]["state"]) == (False, "NONE")
    assert said["validation"]["reasons"] == ["no instance that this runner is for has one of its gates: smoke, latency"]


def test_several_are_as_healthy_as_the_one_that_is_furthest_from_it() -> None:
    released, held = shown("1", "RELEASED", {"smoke": "PASSED"}), shown("2", "HELD", {"smoke": "FAILED"})
    said = answer([released, held], SELECTION, "")
    assert not said["healthy"]
    assert (said["validation"]["state"], said["validation"]["gates"]) == ("HELD", {"smoke": "FAILED"})
    assert answer([held, released], SELECTION, "")["validation"]["gates"] == {"smoke": "FAILED"}
    assert answer([released, released], SELECTION, "")["healthy"]


def test_a_proxy_that_is_away_takes_nobody_out_of_service() -> None:
    said = answer([shown(state="RELEASED", gates={})], SELECTION, "no control API answers")
    assert said["healthy"]
    assert said["validation"]["reasons"] == ["as last known: no control API answers"]


def test_a_hold_that_is_not_as_asked_is_a_reason() -> None:
    selection = Selection(("smoke",), Selector(), None, WantedHold.HEALTH)
    said = answer([shown()], selection, "")
    assert said["validation"]["reasons"][0].startswith("this runner was told hold 'health'")


@pytest.mark.parametrize("state", ["HELD", "REJECTED", "WITHDRAWN"])
def test_in_dry_run_every_state_serves_but_a_persons(state: str) -> None:
    instance = shown(state=state)
    assert not serves(instance)
    instance.dry_run = True
    assert serves(instance)
    instance.conditions[0].reason = "WithdrawnByPerson"
    assert not serves(instance)


@pytest.mark.parametrize(
    ("word", "value"),
    [("PENDING", 0), ("INCONCLUSIVE", 0), ("ERROR", 0), ("PASSED", 1), ("OVERRIDDEN", 1), ("FAILED", -1)],
)
def test_a_gates_state_is_a_number(word: str, value: int) -> None:
    assert gate_value(pb.GateStatus(state=pb.GateState.Value(f"GATE_STATE_{word}"))) == value
