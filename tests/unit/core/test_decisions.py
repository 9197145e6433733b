"""People's decisions as plans: each event of a person's, and what is advised where its state refuses it."""

import pytest

from greenroom.core.decisions import INSTEAD, DecisionKind, PersonsDecision, planned
from greenroom.core.keyspace import InstanceId
from greenroom.core.policy import Hold
from greenroom.core.record import State
from greenroom.core.snapshot import Snapshot
from greenroom.core.transitions import APART, REFUSED, TABLE, Outcome, rejected, released, with_verdict, withdrawn
from greenroom.core.verdicts import Effect, Planned
from greenroom.errors import UnknownGate, UnknownInstance, WrongState
from tests.support.instances import INSTANCE, NOW, I, K, held_record, snapshot

HELD = held_record(K)
PASSED = with_verdict(HELD, "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=NOW)
RELEASED = released(PASSED, NOW)
EXAMPLES = {
    State.HELD: snapshot(HELD, shadows=(K,)),
    State.RELEASED: snapshot(RELEASED, public=(K,)),
    State.REJECTED: snapshot(rejected(HELD, "bob", "", NOW), shadows=(K,)),
    State.WITHDRAWN: snapshot(withdrawn(RELEASED, "bob", "", NOW, by_person=True), shadows=(K,)),
}
PAIRS = [(state, kind) for state in State for kind in DecisionKind]
NOT_OF_IT = (REFUSED, APART)
"""None of the examples has a later card."""


def decided(kind: DecisionKind, seen: Snapshot, gates: tuple[str, ...] = ()) -> Planned:
    plan = planned(PersonsDecision(kind, InstanceId(INSTANCE), "alice", "because", gates))(seen, NOW)
    assert isinstance(plan, Planned)
    return plan


@pytest.mark.parametrize(("state", "kind"), [pair for pair in PAIRS if TABLE[pair[0], pair[1].event] not in NOT_OF_IT])
def test_who_decided_and_why_is_the_trails_last_line_or_the_one_before_a_release(
    state: State, kind: DecisionKind
) -> None:
    plan = decided(kind, EXAMPLES[state])
    lines = [line for line in plan.record.transitions if line.event != "released"]
    assert (lines[-1].actor, lines[-1].reason) == ("alice", "because")
    assert lines[-1].event.split()[0] == kind.event.split()[0]


@pytest.mark.parametrize(("state", "kind"), [pair for pair in PAIRS if TABLE[pair[0], pair[1].event] in NOT_OF_IT])
def test_what_a_state_refuses_is_refused_with_what_to_do_instead(state: State, kind: DecisionKind) -> None:
    with pytest.raises(WrongState, match=f"{kind.event} is refused: the instance is {state}; ") as refused:
        decided(kind, EXAMPLES[state])
    assert str(refused.value).endswith(INSTEAD[state, kind])
    assert refused.value.metadata == {"state": state}


def test_there_is_advice_for_what_is_refused_and_for_nothing_else() -> None:
    assert set(INSTEAD) == {pair for pair in PAIRS if TABLE[pair[0], pair[1].event] in NOT_OF_IT}


def test_another_refusal_keeps_its_own_words() -> None:
    with pytest.raises(WrongState, match=r"nothing of the instance is held, it has no card at the moment$"):
        decided(DecisionKind.DROP, snapshot(HELD))


@pytest.mark.parametrize("state", [State.HELD, State.REJECTED, State.WITHDRAWN])
def test_an_override_of_what_has_no_card_is_refused(state: State) -> None:
    """It was taken, and undone without a word by the first card that came."""
    record = EXAMPLES[state].record
    with pytest.raises(WrongState, match=r"no card of the instance waits to be released, .*; override it then$"):
        decided(DecisionKind.OVERRIDE, snapshot(record))


def test_an_override_of_what_has_an_instance_record_alone_is_refused() -> None:
    record = held_record(I, hold=Hold.CARD_AND_INSTANCE)
    with pytest.raises(WrongState, match="no card of the instance waits"):
        decided(DecisionKind.OVERRIDE, snapshot(record, shadows=(I,)))


def test_an_override_of_what_holds_nothing_back_counts_its_public_cards() -> None:
    record = held_record(K, hold=Hold.HEALTH)
    assert decided(DecisionKind.OVERRIDE, snapshot(record, public=(K,))).effect is Effect.RELEASED


def test_a_persons_withdrawal_is_a_persons() -> None:
    plan = decided(DecisionKind.WITHDRAW, EXAMPLES[State.RELEASED])
    assert (plan.effect, plan.record.withdrawn_by) == (Effect.WITHDRAWN, "alice")


def test_a_retry_is_of_the_gates_that_are_named() -> None:
    two = snapshot(held_record(K, gates=("smoke", "chat")), shadows=(K,))
    attempts = {name: gate.attempt for name, gate in decided(DecisionKind.RETRY, two, ("chat",)).record.gates.items()}
    assert attempts == {"smoke": 1, "chat": 2}
    with pytest.raises(UnknownGate, match="its gates are: chat, smoke"):
        decided(DecisionKind.RETRY, two, ("chat", "nope"))


@pytest.mark.parametrize("kind", DecisionKind)
def test_nothing_is_decided_about_one_that_is_not_there(kind: DecisionKind) -> None:
    with pytest.raises(UnknownInstance):
        decided(kind, snapshot())


@pytest.mark.parametrize(
    ("kind", "effect"), [(DecisionKind.REVOKE_LEASE, Effect.STORED), (DecisionKind.OVERRIDE, Effect.RELEASED)]
)
def test_only_what_means_it_releases_what_is_ready(kind: DecisionKind, effect: Effect) -> None:
    assert decided(kind, snapshot(PASSED, shadows=(K,))).effect is effect
