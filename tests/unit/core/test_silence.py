"""Gates of which nobody says anything: each silence leads where the table says, with a line that tells why."""

from datetime import timedelta

import pytest

from greenroom.core.policy import Phase
from greenroom.core.record import GateState, Record, State
from greenroom.core.silence import pass_lapsed, worn_out
from greenroom.core.transitions import ITSELF, Outcome, released, with_gate, with_verdict
from greenroom.errors import WrongState
from tests.support.instances import NAMES, NOW, K, held_record
from tests.support.txn_text import record_text

TTL = timedelta(seconds=60)
HELD = held_record(K, gates=("smoke", "chat"))


def set_gate(record: Record, **update: object) -> Record:
    return with_gate(record, "smoke", record.gates["smoke"].model_copy(update=update))


PASSED = set_gate(HELD, state=GateState.PASSED, phase=Phase.CONTINUOUS, ttl_seconds=60.0, deadline=NOW + TTL)
WORN = set_gate(HELD, claims=3)


def told(record: Record) -> tuple[str, str, str]:
    line = record.transitions[-1]
    return line.actor, line.event, line.reason


def test_a_pass_that_lapsed_is_one_more_attempt_with_its_whole_time() -> None:
    record = pass_lapsed(PASSED, "smoke", NOW + TTL)
    assert record_text(record, NAMES) == "HELD card g1 [K] smoke:PENDING#2 chat:PENDING#1"
    assert record.gates["smoke"].deadline == NOW + TTL + timedelta(seconds=900)
    assert told(record) == (ITSELF, "smoke lapsed", "not renewed within 60 s")


@pytest.mark.parametrize("state", [State.RELEASED, State.REJECTED])
def test_whoever_does_not_wait_does_not_wait_for_a_pass(state: State) -> None:
    """A released instance is withdrawn instead, and a rejected one is not asked any more."""
    with pytest.raises(WrongState, match=f"pass lapsed is refused: the instance is {state}"):
        pass_lapsed(PASSED.model_copy(update={"state": state}), "smoke", NOW + TTL)


def test_an_attempt_that_wore_its_runners_out_is_an_error_until_somebody_comes_to_a_verdict() -> None:
    record = worn_out(WORN, "smoke", NOW)
    assert record_text(record, NAMES) == "HELD card g1 [K] smoke:ERROR#1 chat:PENDING#1"
    assert (record.gates["smoke"].reason, record.gates["smoke"].reporter) == (
        "3 claims ended without a verdict",
        ITSELF,
    )
    assert told(record) == (ITSELF, "smoke error", "3 claims ended without a verdict")
    after = with_verdict(record, "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=NOW)
    assert after.gates["smoke"].state is GateState.PASSED


def test_of_a_released_instance_nobody_runs_an_open_gate() -> None:
    with pytest.raises(WrongState):
        worn_out(released(WORN, NOW), "smoke", NOW)
