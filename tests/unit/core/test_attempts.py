"""One gate's attempts, by themselves: what is forgiven, what is counted, and what an attempt keeps."""

from datetime import timedelta

import pytest

from greenroom.core.attempts import after_verdict, first_attempt, next_attempt, still_passed, was_forgiven, with_claims
from greenroom.core.policy import GatePolicy
from greenroom.core.record import Gate, GateState
from tests.support.instances import NOW

LATER = NOW + timedelta(seconds=30)
PASSED, FAILED, INCONCLUSIVE, ERROR = GateState.PASSED, GateState.FAILED, GateState.INCONCLUSIVE, GateState.ERROR


def opened(**settings: object) -> Gate:
    return first_attempt(GatePolicy.model_validate({"timeout_seconds": 60, **settings}), NOW)


def told(gate: Gate, *said: GateState, reason: str = "why") -> Gate:
    for one in said:
        gate = after_verdict(gate, one, reason=reason, reporter="ci", now=LATER)
    return gate


def test_every_setting_of_the_policy_is_kept_with_the_gate() -> None:
    """State before policy: whoever reads the record must come to the same answer."""
    limits = {"failure_limit": 3, "inconclusive_limit": 4, "max_concurrent": 5, "claim_limit": 6}
    asked = GatePolicy.model_validate({"timeout_seconds": 60, "phase": "continuous", "ttl_seconds": 300, **limits})
    gate = first_attempt(asked, NOW)
    assert asked.model_fields_set == GatePolicy.model_fields.keys(), "a setting is not tried here"
    assert GatePolicy.model_fields.keys() <= Gate.model_fields.keys()
    assert {name: getattr(gate, name) for name in GatePolicy.model_fields} == asked.model_dump()
    assert (gate.state, gate.attempt, gate.started) == (GateState.PENDING, 1, NOW)
    assert gate.deadline == NOW + timedelta(seconds=60)
    again = next_attempt(gate, LATER)
    assert {name: getattr(again, name) for name in GatePolicy.model_fields} == asked.model_dump()


@pytest.mark.parametrize(
    ("settings", "said", "state", "attempt", "failures"),
    [
        ({}, (FAILED,), FAILED, 1, 1),
        ({"failure_limit": 1}, (FAILED,), GateState.PENDING, 2, 1),
        ({"failure_limit": 1}, (FAILED, FAILED), FAILED, 2, 2),
        ({"failure_limit": 1}, (FAILED, PASSED), PASSED, 2, 0),
        ({"failure_limit": 1}, (ERROR, FAILED, ERROR, FAILED), FAILED, 2, 2),
        ({}, (INCONCLUSIVE,) * 9, INCONCLUSIVE, 1, 0),
        ({"inconclusive_limit": 0}, (INCONCLUSIVE,), FAILED, 1, 1),
        ({"inconclusive_limit": 2}, (INCONCLUSIVE,) * 2, INCONCLUSIVE, 1, 0),
        ({"inconclusive_limit": 2}, (INCONCLUSIVE,) * 3, FAILED, 1, 1),
        ({"inconclusive_limit": 1, "failure_limit": 1}, (INCONCLUSIVE,) * 2, GateState.PENDING, 2, 1),
        ({"inconclusive_limit": 1, "failure_limit": 1}, (INCONCLUSIVE,) * 3, INCONCLUSIVE, 2, 1),
        ({"inconclusive_limit": 1}, (INCONCLUSIVE, ERROR, ERROR), ERROR, 1, 0),
    ],
)
def test_where_verdicts_lead(
    settings: dict[str, object], said: tuple[GateState, ...], state: GateState, attempt: int, failures: int
) -> None:
    gate = told(opened(**settings), *said)
    assert (gate.state, gate.attempt, gate.failures) == (state, attempt, failures)
    assert (gate.decided is None) == gate.state.is_open


def test_the_attempt_after_a_forgiven_one_begins_at_nothing() -> None:
    gate = told(opened(failure_limit=1, inconclusive_limit=5), INCONCLUSIVE, FAILED)
    assert (gate.reason, gate.reporter, gate.inconclusives) == ("", "", 0)
    assert (gate.started, gate.deadline) == (LATER, LATER + timedelta(seconds=60))


@pytest.mark.parametrize("said", [PASSED, FAILED, INCONCLUSIVE, ERROR])
def test_any_verdict_sets_the_count_of_claims_back(said: GateState) -> None:
    claimed = with_claims(opened(failure_limit=1), 2)
    assert told(claimed, said).claims == 0
    assert next_attempt(claimed, LATER).claims == 0


def test_only_the_failure_that_was_forgiven_is_a_repeat() -> None:
    gate = told(opened(failure_limit=2), FAILED, FAILED)
    assert (gate.attempt, gate.forgiven) == (3, 2)
    assert was_forgiven(gate, 2, FAILED)
    assert not was_forgiven(gate, 1, FAILED)
    assert not was_forgiven(gate, 2, PASSED)


CONTINUOUS = {"phase": "continuous", "ttl_seconds": 300}
TTL = timedelta(seconds=300)


def test_a_continuous_pass_holds_for_its_time_and_each_further_one_moves_that_on() -> None:
    gate = told(opened(**CONTINUOUS), PASSED)
    assert (gate.must_be_renewed, gate.decided, gate.deadline) == (True, LATER, LATER + TTL)
    assert not gate.has_lapsed(LATER + TTL - timedelta(milliseconds=1))
    assert gate.has_lapsed(LATER + TTL)
    again = after_verdict(gate, PASSED, reason="fine", reporter="ci-2", now=LATER + TTL)
    assert (again.attempt, again.decided, again.deadline) == (1, LATER + TTL, LATER + 2 * TTL)
    assert (again.reason, again.reporter) == ("fine", "ci-2")
    assert (gate.ready, again.ready) == (LATER, LATER), "renewing it loses no place in a queue"


def test_any_other_pass_holds_for_good() -> None:
    gate = told(opened(), PASSED)
    assert not gate.must_be_renewed
    assert not gate.has_lapsed(gate.deadline + timedelta(days=99))


def test_a_continuous_attempt_that_waits_has_the_whole_time_of_any_other() -> None:
    gate = opened(**CONTINUOUS)
    assert gate.deadline == NOW + timedelta(seconds=60)
    assert not gate.has_lapsed(gate.deadline)
    assert next_attempt(told(gate, PASSED), LATER).deadline == LATER + timedelta(seconds=60)


def test_a_pass_ends_with_the_failure_that_is_not_forgiven() -> None:
    gate = told(opened(**CONTINUOUS), PASSED, FAILED)
    assert (gate.state, gate.attempt, gate.decided) == (FAILED, 1, LATER)
    lenient = told(opened(**CONTINUOUS, failure_limit=1), PASSED)
    once = told(lenient, FAILED)
    assert (once.state, once.attempt, once.failures) == (GateState.PENDING, 2, 1)
    held_on = still_passed(lenient, once)
    assert (held_on.state, held_on.attempt, held_on.failures, held_on.deadline) == (PASSED, 2, 1, lenient.deadline)
    assert told(held_on, FAILED).state is FAILED
    assert told(held_on, PASSED).failures == 0, "what is forgiven is failures in a row"


def test_an_inconclusive_verdict_in_the_same_words_counts_where_they_are_counted() -> None:
    """A check that finds no traffic says so in the same words each time."""
    unlimited = told(opened(), INCONCLUSIVE)
    assert told(unlimited, INCONCLUSIVE) is unlimited
    assert told(opened(inconclusive_limit=2), INCONCLUSIVE, INCONCLUSIVE).inconclusives == 2
