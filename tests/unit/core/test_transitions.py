"""The life of an instance: the whole table, then what each event does, then that no sequence breaks the rules."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom.core import record as records
from greenroom.core.decide import is_ready
from greenroom.core.events import REFUSED, SETTLE, TABLE, Event
from greenroom.core.keyspace import Key
from greenroom.core.policy import Hold, OnConflict, Phase, Requirements, gates_of
from greenroom.core.record import (
    ALREADY_PUBLIC,
    MAX_ACTOR_BYTES,
    MAX_LINE_BYTES,
    MAX_REASON_BYTES,
    MAX_TRAIL_REASON_BYTES,
    MAX_TRANSITIONS,
    GateState,
    Record,
    State,
)
from greenroom.core.silence import pass_lapsed
from greenroom.core.transitions import (
    APART,
    ITSELF,
    Outcome,
    card_added,
    card_changed,
    card_published,
    conflicted,
    deadline_passed,
    dropped,
    gate_of,
    lease_revoked,
    opened,
    opened_as_public,
    overridden,
    rejected,
    released,
    retried,
    with_gate,
    with_verdict,
    withdrawn,
)
from greenroom.errors import StaleAttempt, UnknownGate, VerdictAlreadyGiven, WrongState
from tests.support.instances import LORA, NAMES, NOW, I, K, entry, held_record, needs
from tests.support.later import released_record, with_later
from tests.support.txn_text import record_text

LATER = NOW + timedelta(seconds=30)


def verdict(
    record: Record, gate: str, outcome: Outcome, *, attempt: int | None = None, now: datetime = LATER
) -> Record:
    chosen = gate_of(record, gate).attempt if attempt is None else attempt
    return with_verdict(record, gate, chosen, outcome, reason=f"{outcome}!", reporter="ci", now=now)


def withdraw(record: Record, *, by_person: bool = False) -> Record:
    return withdrawn(record, "alice", "bad answers", LATER, by_person=by_person)


def forgiving(record: Record, failure_limit: int) -> Record:
    """The record with gates that forgive so many failures."""
    lenient = {"failure_limit": failure_limit}
    gates = {name: gate.model_copy(update=lenient) for name, gate in record.gates.items()}
    return record.model_copy(update={"gates": gates})


TTL = timedelta(seconds=60)


def continuous(record: Record) -> Record:
    """The record with a gate `chat` that is continuous and has passed LATER, whatever it was."""
    passed = {"state": GateState.PASSED, "phase": Phase.CONTINUOUS, "ttl_seconds": 60, "deadline": LATER + TTL}
    return with_gate(record, "chat", record.gates["chat"].model_copy(update={**passed, "decided": LATER}))


HELD = held_record(K, gates=("smoke", "chat"))
PASSED = verdict(verdict(HELD, "smoke", Outcome.PASSED), "chat", Outcome.PASSED)
RELEASED = released(PASSED, LATER)
REJECTED = verdict(HELD, "smoke", Outcome.FAILED)
BOTH_FAILED = verdict(REJECTED, "chat", Outcome.FAILED)
WITHDRAWN = withdraw(RELEASED)
EXAMPLES = {State.HELD: HELD, State.RELEASED: RELEASED, State.REJECTED: REJECTED, State.WITHDRAWN: WITHDRAWN}

FIRE: dict[Event, Callable[[Record], Record]] = {
    Event.CARD_ADDED: lambda record: card_added(record, entry(LORA), needs("smoke"), LATER),
    Event.CARD_CHANGED: lambda record: card_changed(record, entry(K), needs("smoke"), LATER),
    Event.GATE_PASSED: lambda record: verdict(record, "chat", Outcome.PASSED),
    Event.GATE_FAILED: lambda record: verdict(record, "chat", Outcome.FAILED),
    Event.GATE_UNDECIDED: lambda record: verdict(record, "chat", Outcome.INCONCLUSIVE),
    Event.ATTEMPT_FAILED: lambda record: verdict(
        forgiving(continuous(record) if record.state is State.RELEASED else record, 9), "chat", Outcome.FAILED
    ),
    Event.PASS_RENEWED: lambda record: verdict(continuous(record), "chat", Outcome.PASSED),
    Event.PASS_FAILED: lambda record: verdict(continuous(record), "chat", Outcome.FAILED),
    Event.PASS_LAPSED: lambda record: pass_lapsed(continuous(record), "chat", LATER + TTL),
    Event.DEADLINE_PASSED: lambda record: deadline_passed(record, "chat", LATER),
    Event.RELEASE: lambda record: released(record, LATER),
    Event.OVERRIDE: lambda record: overridden(record, "alice", "it is known", LATER),
    Event.RETRY: lambda record: retried(record, (), "alice", "again", LATER),
    Event.REJECT: lambda record: rejected(record, "alice", "looks wrong", LATER),
    Event.WITHDRAW: withdraw,
    Event.DROP: lambda record: dropped(record, "alice", "out", LATER),
    Event.REVOKE_LEASE: lambda record: lease_revoked(record, "alice", "start anew", LATER),
    Event.CONFLICT: lambda record: conflicted(record, "other blocks", LATER),
}
PAIRS = [(state, event) for state in State for event in Event]
OPEN = {"state": GateState.PENDING}


def text(record: Record) -> str:
    return record_text(record, NAMES)


def with_an_open_gate(record: Record) -> Record:
    """A verdict for a gate that was decided never comes to the table, so that the table must be tried without it."""
    gates = {**record.gates, "chat": record.gates["chat"].model_copy(update=OPEN)}
    return record.model_copy(update={"gates": gates})


def test_every_event_can_be_tried() -> None:
    assert set(FIRE) == set(Event)


@pytest.mark.parametrize(("state", "event"), [pair for pair in PAIRS if TABLE[pair] in (REFUSED, APART)])
def test_a_refused_event_raises_and_changes_nothing(state: State, event: Event) -> None:
    record = with_an_open_gate(EXAMPLES[state])
    before = record.model_copy(deep=True)
    with pytest.raises(WrongState, match=f"{event} is refused: the instance is {state}") as refused:
        FIRE[event](record)
    assert refused.value.metadata == {"state": state}
    assert record == before


@pytest.mark.parametrize(("state", "event"), [pair for pair in PAIRS if TABLE[pair] in set(State)])
def test_a_legal_event_goes_where_the_table_says(state: State, event: Event) -> None:
    record = EXAMPLES[state]
    before = record.model_copy(deep=True)
    assert FIRE[event](record).state is TABLE[state, event]
    assert record == before, "a record is a value"


SETTLED = [
    (HELD, Event.GATE_PASSED, State.HELD),
    (HELD, Event.OVERRIDE, State.HELD),
    (HELD, Event.RETRY, State.HELD),
    (REJECTED, Event.GATE_PASSED, State.REJECTED),
    (REJECTED, Event.CARD_ADDED, State.REJECTED),
    (REJECTED, Event.CARD_CHANGED, State.REJECTED),
    (conflicted(HELD, "other blocks", LATER), Event.CARD_CHANGED, State.HELD),
    (conflicted(HELD, "other blocks", LATER), Event.GATE_PASSED, State.REJECTED),
    (conflicted(HELD, "other blocks", LATER), Event.OVERRIDE, State.HELD),
    (conflicted(HELD, "other blocks", LATER), Event.RETRY, State.HELD),
    (REJECTED, Event.OVERRIDE, State.HELD),
    (BOTH_FAILED, Event.OVERRIDE, State.HELD),
    (REJECTED, Event.RETRY, State.HELD),
    (BOTH_FAILED, Event.RETRY, State.HELD),
    (WITHDRAWN, Event.OVERRIDE, State.HELD),
]


@pytest.mark.parametrize(("before", "event", "after"), SETTLED)
def test_a_settling_event_goes_where_the_gates_say(before: Record, event: Event, after: State) -> None:
    assert TABLE[before.state, event] == SETTLE
    assert FIRE[event](before).state is after


def test_every_settling_pair_is_tried_above() -> None:
    assert {(before.state, event) for before, event, _ in SETTLED} == {
        pair for pair, goal in TABLE.items() if goal == SETTLE
    }


def test_a_retry_of_one_gate_leaves_an_instance_with_another_failed_one_rejected() -> None:
    once = retried(BOTH_FAILED, ("smoke",), "alice", "flaky", LATER)
    assert text(once) == "REJECTED card g1 [K] smoke:PENDING#2 chat:FAILED#1"
    assert text(retried(once, ("chat",), "alice", "flaky", LATER)) == "HELD card g1 [K] smoke:PENDING#2 chat:PENDING#2"


def test_a_retry_without_names_is_of_every_gate_that_is_not_through() -> None:
    assert text(retried(REJECTED, (), "alice", "", LATER)) == "HELD card g1 [K] smoke:PENDING#2 chat:PENDING#2"
    half = verdict(HELD, "smoke", Outcome.PASSED)
    assert text(retried(half, (), "alice", "", LATER)) == "HELD card g1 [K] smoke:PASSED#1 chat:PENDING#2"
    assert text(retried(half, ("smoke",), "alice", "", LATER)) == "HELD card g1 [K] smoke:PENDING#2 chat:PENDING#1"


@pytest.mark.parametrize(
    ("names", "event"), [((), "retry"), (("chat",), "retry chat"), (("smoke", "chat"), "retry smoke chat")]
)
def test_the_trail_names_what_was_retried(names: tuple[str, ...], event: str) -> None:
    assert retried(PASSED, names, "alice", "why", LATER).transitions[-1].event == event


def test_a_retry_of_very_many_gates_takes_no_more_of_the_trail_than_any_line() -> None:
    names = tuple(f"{number:02}-{'g' * 60}" for number in range(40))
    again = retried(held_record(K, gates=names), (), '"' * MAX_ACTOR_BYTES, "why" * 200, LATER)
    assert again.transitions[-1].event == "retry 40 gates"
    assert len(again.transitions[-1].model_dump_json()) <= MAX_LINE_BYTES
    assert {gate.attempt for gate in again.gates.values()} == {2}


def test_a_retry_has_the_whole_time_again() -> None:
    gate = retried(REJECTED, (), "alice", "", LATER).gates["smoke"]
    assert (gate.started, gate.deadline, gate.decided, gate.reason, gate.reporter) == (
        LATER,
        LATER + timedelta(seconds=900),
        None,
        "",
        "",
    )


def test_an_opening_has_every_gate_at_its_first_attempt() -> None:
    record = opened(entry(K), needs("smoke", "chat", timeout_seconds=90.5), NOW)
    assert text(record) == "HELD card g1 [K] smoke:PENDING#1 chat:PENDING#1"
    assert {gate.deadline for gate in record.gates.values()} == {NOW + timedelta(seconds=90.5)}
    assert record.first_held == NOW
    assert (record.transitions[0].actor, record.transitions[0].from_state) == (ITSELF, None)


def test_an_instance_that_served_already_has_nothing_left_to_pass() -> None:
    record = opened_as_public((entry(K), entry(LORA)), needs("smoke"), NOW)
    assert text(record) == "RELEASED card g1 [K LORA] smoke:OVERRIDDEN#1"
    assert (record.reason, record.released, record.first_held) == (ALREADY_PUBLIC, NOW, None)
    assert (record.gates["smoke"].reporter, record.gates["smoke"].decided) == (ITSELF, NOW)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (PASSED, "HELD card g2 [K LORA] smoke:PENDING#2 chat:PENDING#2 lora:PENDING#1"),
        (REJECTED, "REJECTED card g2 [K LORA] smoke:FAILED#1 chat:PENDING#2 lora:PENDING#1"),
        (WITHDRAWN, "WITHDRAWN card g2 [K LORA] smoke:PENDING#3 chat:PENDING#3 lora:PENDING#1"),
    ],
    ids=["held", "rejected", "withdrawn"],
)
def test_a_new_card_opens_an_attempt_of_every_gate_that_has_not_failed(before: Record, after: str) -> None:
    assert text(card_added(before, entry(LORA), needs("lora"), LATER)) == after


def test_a_card_registered_again_moves_to_the_end_and_one_that_changed_stays() -> None:
    record = held_record(K, LORA)
    assert text(card_added(record, entry(K), None, LATER)) == "HELD card g2 [LORA K] smoke:PENDING#2"
    changed = card_changed(record, entry(K, b'{"card_json": {"display_name": "new"}}'), None, LATER)
    assert text(changed) == "HELD card g2 [K LORA] smoke:PENDING#2"
    assert changed.cards[0].model == "new"


@pytest.mark.parametrize("before", [PASSED, REJECTED, WITHDRAWN], ids=lambda record: record.state)
def test_an_instance_record_opens_no_attempt(before: Record) -> None:
    after = card_added(before, entry(I), None, LATER)
    assert after == before.model_copy(update={"cards": (*before.cards, entry(I))})
    assert card_changed(after, entry(I), None, LATER) == after


@pytest.mark.parametrize("change", [card_added, card_changed])
def test_an_instance_record_brings_the_gates_that_are_missing_and_reopens_none(change: Callable[..., Record]) -> None:
    before = PASSED.model_copy(update={"cards": (*PASSED.cards, entry(I))})
    after = change(before, entry(I), needs("smoke", "route"), LATER)
    assert text(after) == "HELD card g1 [K I] smoke:PASSED#1 chat:PASSED#1 route:PENDING#1"
    assert after.gates["route"].deadline == LATER + timedelta(seconds=900)
    assert not is_ready(after, live_cards=1)


@pytest.mark.parametrize(
    ("before", "asked", "after"),
    [
        (Hold.CARD, Hold.CARD_AND_INSTANCE, Hold.CARD_AND_INSTANCE),
        (Hold.CARD, Hold.HEALTH, Hold.CARD),
        (Hold.CARD_AND_INSTANCE, Hold.CARD, Hold.CARD_AND_INSTANCE),
        (Hold.HEALTH, Hold.CARD, Hold.HEALTH),
    ],
)
@pytest.mark.parametrize("key", [LORA, I])
def test_the_hold_grows_with_what_comes_but_health_stays(before: Hold, asked: Hold, after: Hold, key: Key) -> None:
    """`health` says that keys are public already; with another hold they would count as gone."""
    assert card_added(held_record(K, hold=before), entry(key), needs("smoke", hold=asked), LATER).hold is after


@pytest.mark.parametrize("change", [card_added, card_changed])
def test_a_released_instance_keeps_its_gates_whatever_comes(change: Callable[..., Record]) -> None:
    assert change(RELEASED, entry(K), needs("smoke", "more"), LATER) == RELEASED
    assert text(card_published(RELEASED, entry(LORA))) == "RELEASED card g1 [K LORA] smoke:PASSED#1 chat:PASSED#1"
    assert card_published(RELEASED, entry(LORA)).transitions == RELEASED.transitions


def test_verdicts_are_kept_with_who_when_and_why() -> None:
    gate = REJECTED.gates["smoke"]
    assert (gate.state, gate.reason, gate.reporter, gate.decided) == (GateState.FAILED, "failed!", "ci", LATER)
    line = REJECTED.transitions[-1]
    assert (line.actor, line.event, line.from_state, line.to_state) == (
        "ci",
        "smoke failed",
        State.HELD,
        State.REJECTED,
    )


@pytest.mark.parametrize("outcome", [Outcome.INCONCLUSIVE, Outcome.ERROR])
def test_an_undecided_attempt_may_still_be_decided(outcome: Outcome) -> None:
    undecided = verdict(HELD, "smoke", outcome)
    assert undecided.gates["smoke"].decided is None
    assert undecided.gates["smoke"].deadline == HELD.gates["smoke"].deadline
    assert verdict(undecided, "smoke", Outcome.PASSED).gates["smoke"].state is GateState.PASSED


def test_undecided_verdicts_that_repeat_do_not_push_the_others_out_of_the_trail() -> None:
    """A reporter that tries again every few seconds: who opened, overrode and withdrew must stay to be seen."""
    record = once = verdict(HELD, "smoke", Outcome.INCONCLUSIVE)
    assert len(once.transitions) == len(HELD.transitions) + 1
    for number in range(MAX_TRANSITIONS):
        said = {"reason": f"try {number}", "reporter": "ci", "now": LATER}
        record = with_verdict(record, "smoke", 1, Outcome.INCONCLUSIVE, **said)
    assert record.transitions == once.transitions
    assert record.gates["smoke"].reason == f"try {MAX_TRANSITIONS - 1}"
    assert verdict(record, "smoke", Outcome.ERROR).transitions[-1].event == "smoke error"


def test_an_undecided_verdict_said_again_in_the_same_words_changes_nothing() -> None:
    once = verdict(HELD, "smoke", Outcome.ERROR)
    assert verdict(once, "smoke", Outcome.ERROR, now=LATER + timedelta(seconds=1)) is once


def test_a_forgiven_failure_opens_the_next_attempt_and_the_last_one_rejects() -> None:
    """A flaky check may fail twice; the instance waits on, and only the third time is it given up."""
    record = forgiving(HELD, 2)
    for attempt in (1, 2):
        record = verdict(record, "smoke", Outcome.FAILED)
        assert text(record) == f"HELD card g1 [K] smoke:PENDING#{attempt + 1} chat:PENDING#1"
        assert record.transitions[-1].event == f"smoke attempt {attempt} failed"
        assert record.transitions[-1].reason == "failed!"
    record = verdict(record, "smoke", Outcome.FAILED)
    assert text(record) == "REJECTED card g1 [K] smoke:FAILED#3 chat:PENDING#1"
    assert record.transitions[-1].event == "smoke failed"


def test_a_forgiven_failure_said_again_changes_nothing_and_another_word_is_stale() -> None:
    """The answer was lost: the reporter says it again, and must not use up what is forgiven."""
    record = verdict(forgiving(HELD, 2), "smoke", Outcome.FAILED)
    assert verdict(record, "smoke", Outcome.FAILED, attempt=1) is record
    with pytest.raises(StaleAttempt):
        verdict(record, "smoke", Outcome.PASSED, attempt=1)
    assert verdict(record, "smoke", Outcome.FAILED).gates["smoke"].failures == 2


def test_a_retry_or_a_new_card_forgives_as_often_as_at_first() -> None:
    record = verdict(forgiving(HELD, 1), "smoke", Outcome.FAILED)
    for again in (retried(record, (), "alice", "", LATER), card_added(record, entry(LORA), None, LATER)):
        assert again.gates["smoke"].failures == 0
        assert verdict(again, "smoke", Outcome.FAILED).gates["smoke"].state is GateState.PENDING


def test_a_deadline_is_not_forgiven() -> None:
    assert deadline_passed(forgiving(HELD, 9), "smoke", LATER).state is State.REJECTED


def test_a_renewal_moves_the_deadline_on_and_fills_no_trail() -> None:
    record = continuous(RELEASED)
    for minute in range(3):
        record = verdict(record, "chat", Outcome.PASSED, now=LATER + minute * TTL)
        assert record.gates["chat"].deadline == LATER + (minute + 1) * TTL
    assert record.transitions == RELEASED.transitions
    assert text(record) == text(RELEASED)


@pytest.mark.parametrize("outcome", [Outcome.INCONCLUSIVE, Outcome.ERROR])
def test_what_says_nothing_of_a_pass_is_refused_and_the_pass_stands(outcome: Outcome) -> None:
    with pytest.raises(
        VerdictAlreadyGiven, match=f"has passed until 2026-03-01 12:01:30 UTC, and {outcome} says nothing"
    ):
        verdict(continuous(RELEASED), "chat", outcome)


def test_a_pass_that_failed_while_it_waited_rejects_it_and_while_released_is_left_for_the_withdrawal() -> None:
    record = verdict(continuous(PASSED), "chat", Outcome.FAILED)
    assert text(record) == "REJECTED card g1 [K] smoke:PASSED#1 chat:FAILED#1"
    record = verdict(continuous(RELEASED), "chat", Outcome.FAILED)
    assert text(record) == "RELEASED card g1 [K] smoke:PASSED#1 chat:FAILED#1"
    assert (record.transitions[-1].event, record.transitions[-1].reason) == ("chat failed", "failed!")
    taken = withdraw(record)
    assert text(taken) == "WITHDRAWN card g1 [K] smoke:PENDING#2 chat:PENDING#2"
    assert verdict(taken, "chat", Outcome.FAILED, attempt=1) is taken, "who lost the answer gets the same one"
    with pytest.raises(StaleAttempt):
        verdict(taken, "smoke", Outcome.FAILED, attempt=1)


def test_a_forgiven_failure_of_a_released_instance_leaves_its_pass_until_its_own_end() -> None:
    """One probe in a hundred times out: that alone takes no worker out of service."""
    record = verdict(forgiving(continuous(RELEASED), 1), "chat", Outcome.FAILED)
    assert text(record) == "RELEASED card g1 [K] smoke:PASSED#1 chat:PASSED#2"
    assert record.gates["chat"].deadline == LATER + TTL
    assert verdict(record, "chat", Outcome.FAILED, attempt=1) is record
    assert verdict(record, "chat", Outcome.FAILED).gates["chat"].state is GateState.FAILED
    assert verdict(record, "chat", Outcome.PASSED).gates["chat"].failures == 0
    waiting = verdict(forgiving(continuous(PASSED), 1), "chat", Outcome.FAILED)
    assert text(waiting) == "HELD card g1 [K] smoke:PASSED#1 chat:PENDING#2", "nobody uses it yet: it must pass again"


def test_a_person_decides_about_a_pass_that_lapsed_as_about_one_that_never_was() -> None:
    """An override that left it would be undone by the next look at its deadline."""
    rejected = continuous(REJECTED)
    for now, told in ((LATER, "chat:PASSED#1"), (LATER + TTL, "chat:OVERRIDDEN#1")):
        assert text(overridden(rejected, "alice", "", now)) == f"HELD card g1 [K] smoke:OVERRIDDEN#1 {told}"
    for now, told in ((LATER, "chat:PASSED#1"), (LATER + TTL, "chat:PENDING#2")):
        assert text(retried(rejected, (), "alice", "", now)) == f"HELD card g1 [K] smoke:PENDING#2 {told}"


def test_one_inconclusive_verdict_too_many_rejects_and_says_so() -> None:
    limited = HELD.gates["smoke"].model_copy(update={"inconclusive_limit": 1})
    record = verdict(HELD.model_copy(update={"gates": {"smoke": limited}}), "smoke", Outcome.INCONCLUSIVE)
    assert record.state is State.HELD
    record = verdict(record, "smoke", Outcome.INCONCLUSIVE)
    assert text(record) == "REJECTED card g1 [K] smoke:FAILED#1"
    said = "inconclusive 2 times, 1 may be; last: inconclusive!"
    assert (record.transitions[-1].event, record.transitions[-1].reason) == ("smoke failed", said)


@pytest.mark.parametrize("outcome", [Outcome.PASSED, Outcome.FAILED])
def test_an_equal_repeat_changes_nothing(outcome: Outcome) -> None:
    once = verdict(HELD, "smoke", outcome)
    assert verdict(once, "smoke", outcome, now=LATER + timedelta(seconds=1)) is once


def test_a_repeat_after_the_release_changes_nothing() -> None:
    assert verdict(RELEASED, "smoke", Outcome.PASSED) is RELEASED


@pytest.mark.parametrize(
    ("record", "outcome", "said"),
    [
        (PASSED, Outcome.FAILED, "decided as passed by ci; failed comes too late"),
        (RELEASED, Outcome.FAILED, "decided as passed by ci; failed comes too late"),
        (RELEASED, Outcome.ERROR, "decided as passed by ci; error comes too late"),
        (REJECTED, Outcome.PASSED, "decided as failed by ci; passed comes too late"),
        (FIRE[Event.OVERRIDE](HELD), Outcome.PASSED, "decided as overridden by alice; passed comes too late"),
        (
            deadline_passed(HELD, "smoke", LATER),
            Outcome.PASSED,
            "decided as failed by greenroom; passed comes too late",
        ),
    ],
    ids=["passed", "released", "released, error", "rejected", "overridden", "by deadline"],
)
def test_an_attempt_has_one_outcome(record: Record, outcome: Outcome, said: str) -> None:
    with pytest.raises(VerdictAlreadyGiven, match=said) as refused:
        verdict(record, "smoke", outcome)
    assert refused.value.metadata["gate"] == "smoke"


@pytest.mark.parametrize("attempt", [0, 1, 3])
def test_a_verdict_for_another_attempt_is_stale_even_if_it_would_repeat_the_last(attempt: int) -> None:
    record = card_added(PASSED, entry(LORA), None, LATER)
    with pytest.raises(StaleAttempt, match="is at attempt 2") as refused:
        verdict(record, "smoke", Outcome.PASSED, attempt=attempt)
    assert refused.value.metadata == {"gate": "smoke", "current_attempt": "2"}


def test_a_verdict_from_before_a_withdrawal_does_not_release_again() -> None:
    with pytest.raises(StaleAttempt):
        verdict(WITHDRAWN, "smoke", Outcome.PASSED, attempt=1)


@pytest.mark.parametrize("call", [
    lambda: verdict(HELD, "nope", Outcome.PASSED, attempt=1),
    lambda: retried(HELD, ("smoke", "nope"), "alice", "", LATER),
    lambda: deadline_passed(HELD, "nope", LATER),
])  # fmt: skip
def test_an_unknown_gate_is_answered_with_those_that_there_are(call: Callable[[], Record]) -> None:
    with pytest.raises(UnknownGate, match="no gate 'nope'; its gates are: chat, smoke"):
        call()


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        (HELD, "no verdict within 900 s"),
        (verdict(HELD, "smoke", Outcome.ERROR), "no verdict within 900 s; last: error: error!"),
    ],
)
def test_a_deadline_says_what_was_last_heard(before: Record, reason: str) -> None:
    gate = deadline_passed(before, "smoke", LATER).gates["smoke"]
    assert (gate.state, gate.reason, gate.reporter, gate.decided) == (GateState.FAILED, reason, ITSELF, LATER)


@pytest.mark.parametrize("outcome", [Outcome.PASSED, Outcome.FAILED])
def test_a_deadline_does_not_undo_what_was_decided_in_time(outcome: Outcome) -> None:
    record = verdict(HELD, "smoke", outcome)
    with pytest.raises(WrongState):
        deadline_passed(record, "smoke", LATER)


def test_an_override_leaves_what_passed_and_names_who_answers_for_the_rest() -> None:
    record = overridden(verdict(HELD, "smoke", Outcome.PASSED), "alice", "known flake", LATER)
    assert text(record) == "HELD card g1 [K] smoke:PASSED#1 chat:OVERRIDDEN#1"
    assert (record.gates["chat"].reporter, record.gates["chat"].reason) == ("alice", "known flake")


def test_a_withdrawal_takes_back_everything_that_passed() -> None:
    assert text(withdraw(RELEASED)) == "WITHDRAWN card g1 [K] smoke:PENDING#2 chat:PENDING#2"
    assert withdraw(RELEASED).withdrawn_by == ""
    assert withdraw(RELEASED, by_person=True).withdrawn_by == "alice"


def test_an_instance_that_served_before_is_like_any_other_once_it_was_withdrawn() -> None:
    again = withdraw(opened_as_public((entry(K),), needs("smoke"), NOW))
    assert again.reason == ""
    assert again.gates["smoke"].reason == ""


@pytest.mark.parametrize("event", [Event.RETRY, Event.OVERRIDE])
def test_only_a_persons_retry_or_override_ends_a_persons_withdrawal(event: Event) -> None:
    record = withdraw(RELEASED, by_person=True)
    everything = verdict(verdict(record, "smoke", Outcome.PASSED), "chat", Outcome.PASSED)
    assert everything.withdrawn_by == "alice"
    assert not is_ready(everything, live_cards=1)
    assert is_ready(FIRE[event](everything), live_cards=1)
    assert FIRE[event](everything).withdrawn_by == ""


def test_a_withdrawn_instance_whose_gate_fails_is_rejected_and_still_withdrawn_by_its_person() -> None:
    record = verdict(withdraw(RELEASED, by_person=True), "smoke", Outcome.FAILED)
    assert (record.state, record.withdrawn_by) == (State.REJECTED, "alice")


@pytest.mark.parametrize("before", [HELD, PASSED, REJECTED, WITHDRAWN], ids=["held", "passed", "rejected", "withdrawn"])
def test_what_a_person_rejected_stays_so_whatever_its_gates_say(before: Record) -> None:
    record = FIRE[Event.REJECT](before)
    assert (record.state, record.rejected_by) == (State.REJECTED, "alice")
    assert (record.transitions[-1].actor, record.transitions[-1].reason) == ("alice", "looks wrong")
    for name, gate in record.gates.items():
        if gate.state.is_open:
            record = verdict(record, name, Outcome.PASSED)
    record = card_added(record, entry(LORA), None, LATER)
    assert (record.state, record.rejected_by) == (State.REJECTED, "alice")


@pytest.mark.parametrize("event", [Event.RETRY, Event.OVERRIDE])
def test_only_a_persons_retry_or_override_ends_a_persons_rejection(event: Event) -> None:
    record = FIRE[event](FIRE[Event.REJECT](PASSED))
    assert (record.state, record.rejected_by) == (State.HELD, "")
    assert is_ready(record, live_cards=1)


def test_a_rejection_of_what_was_withdrawn_keeps_it_taken_back() -> None:
    """A withdrawal by itself ends when the gates pass; a person who rejects it then means that it stays out."""
    record = FIRE[Event.REJECT](WITHDRAWN)
    assert (record.withdrawn_by, record.is_taken_back) == ("alice", True)
    by_bob = withdraw(RELEASED, by_person=True).model_copy(update={"withdrawn_by": "bob"})
    assert FIRE[Event.REJECT](by_bob).withdrawn_by == "bob"
    assert not FIRE[Event.REJECT](HELD).is_taken_back


def test_a_retry_gives_time_to_gates_whose_deadline_passed_while_nobody_asked_for_them() -> None:
    """Deadlines do not count while it is rejected. They would the moment after, and reject it again."""
    late = HELD.gates["chat"].deadline
    again = retried(REJECTED, ("smoke",), "alice", "why", late)
    assert text(again) == "HELD card g1 [K] smoke:PENDING#2 chat:PENDING#2"
    assert again.transitions[-1].event == "retry smoke chat"
    assert text(retried(HELD, ("smoke",), "alice", "why", late)) == "HELD card g1 [K] smoke:PENDING#2 chat:PENDING#1"


def test_the_end_of_a_lease_is_told_and_changes_nothing_else() -> None:
    told = FIRE[Event.REVOKE_LEASE](RELEASED)
    assert told == RELEASED.model_copy(update={"transitions": told.transitions})
    line = told.transitions[-1]
    assert (line.actor, line.event, line.reason) == ("alice", "revoke lease", "start anew")


def test_a_drop_leaves_what_is_public_in_the_record() -> None:
    record = dropped(held_record(K, LORA), "alice", "out", LATER, (entry(K),))
    assert record.cards == (entry(K),)


def test_a_drop_keeps_the_attempts_so_that_a_late_verdict_stays_stale() -> None:
    record = card_added(dropped(PASSED, "alice", "out", LATER), entry(K), None, LATER)
    assert text(record) == "HELD card g2 [K] smoke:PENDING#2 chat:PENDING#2"


def test_a_release_is_kept_with_its_time_and_ends_every_withdrawal() -> None:
    record = released(PASSED.model_copy(update={"withdrawn_by": "alice"}), LATER, "bob")
    assert (record.released, record.withdrawn_by, record.first_held) == (LATER, "", NOW)
    assert (record.transitions[-1].event, record.transitions[-1].actor) == ("released", "bob")
    assert released(PASSED, LATER).transitions[-1].actor == ITSELF


def test_long_reasons_keep_their_end_and_the_trail_less_of_it() -> None:
    reason = "a" * 5000 + "the end"
    failed = with_verdict(HELD, "smoke", 1, Outcome.FAILED, reason=reason, reporter="ci", now=LATER)
    for record in (failed, overridden(HELD, "alice", reason, LATER)):
        stored = record.gates["smoke"].reason
        assert (len(stored), stored[-7:]) == (MAX_REASON_BYTES, "the end")
    taken = withdrawn(RELEASED, "alice", reason, LATER, by_person=True)
    for record in (failed, taken, dropped(HELD, "alice", reason, LATER)):
        told = record.transitions[-1].reason
        assert (len(told), told[-7:]) == (MAX_TRAIL_REASON_BYTES, "the end")


LATER_CARD = with_later(released_record(("smoke", "chat")), now=LATER)


def test_a_later_card_opens_attempts_of_the_gates_that_it_waits_for_and_of_no_other() -> None:
    assert text(LATER_CARD) == "RELEASED card g2 [LORA K] smoke:PENDING#2 chat:PASSED#1"
    assert text(with_later(released_record(), "new")) == "RELEASED card g2 [LORA K] smoke:PASSED#1 new:PENDING#1"
    line = LATER_CARD.transitions[-1]
    assert (line.event, line.from_state, line.to_state) == ("card added", State.RELEASED, State.RELEASED)


@pytest.mark.parametrize("event", [event for event in Event if TABLE[State.RELEASED, event] == APART])
def test_what_is_about_later_cards_alone_leaves_the_instance_released(event: Event) -> None:
    ready = verdict(LATER_CARD, "smoke", Outcome.PASSED)
    fire: dict[Event, Callable[[Record], Record]] = {
        Event.GATE_PASSED: lambda record: verdict(record, "smoke", Outcome.PASSED),
        Event.GATE_FAILED: lambda record: verdict(record, "smoke", Outcome.FAILED),
        Event.GATE_UNDECIDED: lambda record: verdict(record, "smoke", Outcome.ERROR),
        Event.DEADLINE_PASSED: lambda record: deadline_passed(record, "smoke", LATER),
        Event.RELEASE: lambda _: released(ready, LATER),
    }
    after = fire.get(event, FIRE[event])(LATER_CARD)
    assert after.state is State.RELEASED
    assert after.transitions[-1].to_state is after.transitions[-1].from_state is State.RELEASED
    with pytest.raises(WrongState, match="is refused: the instance is RELEASED"):
        FIRE[event](with_an_open_gate(LATER_CARD.with_held(())))


def test_a_retry_and_an_override_concern_only_gates_that_a_later_card_waits_for() -> None:
    failed = verdict(LATER_CARD, "smoke", Outcome.FAILED)
    assert text(retried(failed, (), "alice", "", LATER)).endswith("smoke:PENDING#3 chat:PASSED#1")
    with pytest.raises(WrongState, match="no later card of the released instance waits for gate 'chat'"):
        retried(failed, ("chat",), "alice", "", LATER)
    left_open = with_an_open_gate(failed)
    assert text(overridden(left_open, "alice", "", LATER)).endswith("smoke:OVERRIDDEN#2 chat:PENDING#1")


def test_a_continuous_gate_goes_on_though_the_later_card_that_opened_it_anew_is_gone() -> None:
    """The model was unloaded before it was checked: what is public still has to be looked at, for as long as it is."""
    asked = {"phase": Phase.CONTINUOUS, "ttl_seconds": 60.0}
    gates = {name: gate.model_copy(update=asked) for name, gate in LATER_CARD.gates.items()}
    gone = LATER_CARD.model_copy(update={"gates": gates}).with_held(())
    passed = verdict(gone, "smoke", Outcome.PASSED)
    assert (passed.state, passed.gates["smoke"].must_be_renewed) == (State.RELEASED, True)
    failed = verdict(gone, "smoke", Outcome.FAILED)
    assert (failed.state, failed.gates["smoke"].state) == (State.RELEASED, GateState.FAILED)
    assert text(retried(failed, ("smoke",), "alice", "", LATER)).endswith("smoke:PENDING#3 chat:PASSED#1")
    with pytest.raises(WrongState):
        retried(failed, (), "alice", "", LATER)
    set_aside = overridden(LATER_CARD.model_copy(update={"gates": gates}), "alice", "known", LATER).with_held(())
    with pytest.raises(WrongState):
        retried(set_aside, ("smoke",), "alice", "", LATER)


def test_what_is_published_later_is_no_second_release() -> None:
    after = released(verdict(LATER_CARD, "smoke", Outcome.PASSED), LATER)
    assert (after.later, after.released, after.transitions[-1].reason) == ((), NOW, K.decode())


def test_a_conflict_is_kept_with_its_words_until_somebody_or_another_card_ends_it() -> None:
    rejected = conflicted(HELD, "other blocks", LATER)
    assert (rejected.conflict, rejected.transitions[-1].reason) == ("other blocks", "other blocks")
    assert card_added(rejected, entry(I), None, LATER).conflict == "other blocks"
    for event in (Event.RETRY, Event.OVERRIDE, Event.CARD_CHANGED, Event.CARD_ADDED):
        assert FIRE[event](rejected).conflict == "", event


def test_whoever_overrides_answers_for_conflicts_too() -> None:
    record = HELD.model_copy(update={"on_conflict": OnConflict.REJECT})
    assert FIRE[Event.OVERRIDE](record).on_conflict is OnConflict.WARN
    assert FIRE[Event.RETRY](record).on_conflict is OnConflict.REJECT


@pytest.mark.parametrize("change", [card_added, card_changed, card_published])
def test_of_what_rules_do_on_a_conflict_the_most_is_kept(change: Callable[..., Record]) -> None:
    before = RELEASED if change is card_published else HELD
    now = () if change is card_published else (LATER,)
    asked = Requirements(Hold.CARD, {}, on_conflict=OnConflict.QUEUE)
    assert change(before, entry(K), asked, *now).on_conflict is OnConflict.QUEUE
    rejects = before.model_copy(update={"on_conflict": OnConflict.REJECT})
    assert change(rejects, entry(K), asked, *now).on_conflict is OnConflict.REJECT
    assert change(rejects, entry(K), None, *now).on_conflict is OnConflict.REJECT


def test_a_drop_of_later_cards_forgets_them_and_nothing_public() -> None:
    assert dropped(LATER_CARD, "alice", "out", LATER).keys == (LORA,)


def test_after_a_withdrawal_a_later_card_waits_with_all_others() -> None:
    after = withdraw(verdict(LATER_CARD, "smoke", Outcome.FAILED))
    assert text(after) == "WITHDRAWN card g2 [LORA K] smoke:PENDING#3 chat:PENDING#2"
    assert after.later == ()


Step = Callable[[Record], Record]


def steps() -> st.SearchStrategy[Step]:
    """Any event, as anybody might cause it: verdicts for old attempts, retries of one gate, releases too soon."""
    gates = st.sampled_from(["smoke", "chat", "lora"])
    verdicts = st.builds(
        lambda gate, attempt, outcome: lambda record: verdict(record, gate, outcome, attempt=attempt),
        gates,
        st.one_of(st.none(), st.integers(1, 4)),
        st.sampled_from(Outcome),
    )
    keys, names = st.sampled_from([K, LORA, I]), st.sampled_from([(), ("smoke",), ("chat",)])
    holds = st.sampled_from(Hold)
    return st.one_of(
        verdicts,
        st.builds(
            lambda key, hold: lambda at: card_added(at, entry(key), needs("lora", hold=hold), LATER), keys, holds
        ),
        st.builds(lambda key: lambda record: card_changed(record, entry(key), None, LATER), keys),
        st.sampled_from([FIRE[Event.CONFLICT]]),
        st.sampled_from([lambda at: with_later(at, "smoke", "lora") if at.state is State.RELEASED else at]),
        st.builds(lambda gate: lambda record: deadline_passed(record, gate, LATER), gates),
        st.builds(lambda chosen: lambda record: retried(record, chosen, "alice", "why", LATER), names),
        st.builds(lambda person: lambda record: withdraw(record, by_person=person), st.booleans()),
        st.sampled_from([_release_if_ready, *(FIRE[event] for event in (Event.OVERRIDE, Event.REJECT, Event.DROP))]),
        st.sampled_from([_lapse, _withdraw_if_failed]),
    )


def _lapse(record: Record) -> Record:
    """Nobody renews: what waits must pass again, and what is released is withdrawn."""
    lapsed = [name for name, gate in record.gates.items() if gate.must_be_renewed]
    if not lapsed:
        return record
    return withdraw(record) if record.state is State.RELEASED else pass_lapsed(record, lapsed[0], LATER + TTL)


def _withdraw_if_failed(record: Record) -> Record:
    failed = any(gate.state is GateState.FAILED for gate in record.gates.values())
    return withdraw(record) if failed and record.state is State.RELEASED else record


def _release_if_ready(record: Record) -> Record:
    return released(record, LATER) if is_ready(record, live_cards=len(record.cards)) else record


@settings(max_examples=60, deadline=None)
@given(st.lists(steps(), max_size=20), st.booleans())
def test_no_sequence_of_events_breaks_the_rules(sequence: list[Step], continuously: bool) -> None:
    record = HELD if not continuously else forgiving(continuous(HELD), 1)
    for step in sequence:
        before = record
        copy = before.model_copy(deep=True)
        try:
            record = step(before)
        except (WrongState, StaleAttempt, VerdictAlreadyGiven, UnknownGate):
            record = before
        assert before == copy, "the record that an event starts from is a value"
        _check_step(before, record)
        _check(record)


def _check_step(before: Record, after: Record) -> None:
    for name, gate in before.gates.items():
        later = after.gates[name]
        assert later.attempt >= gate.attempt, "attempts never go down"
        if later.attempt == gate.attempt and not gate.state.is_open and not gate.must_be_renewed:
            assert later.state in (gate.state, GateState.OVERRIDDEN), "an attempt has one outcome"
        if gate.state is GateState.FAILED and later.state is not GateState.FAILED:
            last = after.transitions[-1].event
            assert last.startswith("retry") or last in ("override", "withdraw"), "FAILED stays until a person retries"
    if before.rejected_by and not after.rejected_by:
        last = after.transitions[-1].event
        assert last.startswith("retry") or last == "override", "only a person ends a person's rejection"
    assert after.generation >= before.generation
    if after.state is State.RELEASED and before.state is not State.RELEASED:
        assert all(gate.state.is_through for gate in before.gates.values()), "never early"
    if after.transitions[-1].event == "published" and before.later:
        assert all(gate.state.is_through for gate in before.waited_for.values()), "never early, what came later too"


def _check(record: Record) -> None:
    failed = any(gate.state is GateState.FAILED for gate in record.gates.values())
    is_rejected = failed or bool(record.rejected_by) or bool(record.conflict)
    came_later = any(line.from_state is line.to_state is State.RELEASED for line in record.transitions)
    if record.state is State.RELEASED:
        lost = [gate for gate in record.gates.values() if not gate.state.is_through]
        ended = [gate for gate in lost if gate.phase is Phase.CONTINUOUS and gate.state is GateState.FAILED]
        assert came_later or lost == ended, "what is released has passed, or is about to be withdrawn for its end"
    else:
        assert is_rejected == (record.state is State.REJECTED), "REJECTED: a gate failed, a conflict, or a person"
        assert not record.later, "only a released instance has cards that wait by themselves"
    assert not record.withdrawn_by or record.state in (State.WITHDRAWN, State.REJECTED)
    assert len({card.key for card in record.cards}) == len(record.cards), "a key is listed once"
    assert len(record.transitions) <= MAX_TRANSITIONS
    assert record.transitions[0].event == "opened"
    assert records.decode(records.encode(record), "R") == record, "what is stored is read back"


# ---- rules in dry run -----------------------------------------------------------------------------------------------

DRY_RUN = Requirements(Hold.HEALTH, gates_of({"chat": 60}), frozenset({"chat"}), dry_run=True)
MIXED = Requirements(Hold.CARD, gates_of({"smoke": 900, "chat": 60}), frozenset({"chat"}))
OBEYED = Requirements(Hold.CARD, gates_of({"chat": 60}))


def test_what_only_rules_in_dry_run_match_goes_through_its_states() -> None:
    record = opened(entry(K), DRY_RUN, NOW)
    assert (record.dry_run, record.state, [*record.binding]) == (True, State.HELD, ["chat"])
    failed = verdict(record, "chat", Outcome.FAILED)
    assert (failed.state, failed.serves, failed.is_taken_back) == (State.REJECTED, True, False)
    out = withdrawn(released(verdict(record, "chat", Outcome.PASSED), NOW), "greenroom", "x", NOW, by_person=False)
    assert (out.state, out.serves, out.is_taken_back) == (State.WITHDRAWN, True, False)
    assert not rejected(record, "alice", "x", NOW).serves, "a person means it"


def test_a_gate_in_dry_run_beside_an_obeyed_one_is_noted_in_every_state_and_moves_nothing() -> None:
    record = opened(entry(K), MIXED, NOW)
    assert (record.dry_run, [*record.binding]) == (False, ["smoke"])
    failed = verdict(record, "chat", Outcome.FAILED)
    assert (failed.state, failed.gates["chat"].state) == (State.HELD, GateState.FAILED)
    assert verdict(failed, "smoke", Outcome.PASSED).state is State.HELD
    public = released(verdict(record, "smoke", Outcome.PASSED), NOW)
    noted = verdict(public, "chat", Outcome.PASSED)
    assert (noted.state, noted.gates["chat"].state) == (State.RELEASED, GateState.PASSED)


def test_a_person_decides_about_the_gates_that_count() -> None:
    record = verdict(opened(entry(K), MIXED, NOW), "chat", Outcome.FAILED)
    past = overridden(record, "alice", "x", NOW)
    assert [gate.state for gate in past.gates.values()] == [GateState.OVERRIDDEN, GateState.FAILED]
    again = retried(record, (), "alice", "x", NOW)
    assert (again.gates["smoke"].attempt, again.gates["chat"].attempt) == (2, 1)


def test_a_continuous_gate_in_dry_run_withdraws_nobody() -> None:
    gate = {"phase": Phase.CONTINUOUS, "ttl_seconds": 60}
    record = opened(entry(K), MIXED, NOW)
    record = with_gate(record, "chat", record.gates["chat"].model_copy(update=gate))
    record = verdict(released(verdict(record, "smoke", Outcome.PASSED), NOW), "chat", Outcome.PASSED)
    assert record.gates["chat"].must_be_renewed
    failed = verdict(record, "chat", Outcome.FAILED)
    assert (failed.state, failed.gates["chat"].state) == (State.RELEASED, GateState.FAILED)


def test_an_obeyed_rule_that_asks_for_it_later_makes_the_gate_count() -> None:
    record = opened(entry(K), DRY_RUN, NOW)
    grown = card_added(record, entry(LORA), OBEYED, NOW)
    assert (grown.dry_run, grown.gates["chat"].dry_run, grown.hold) == (False, False, Hold.HEALTH)
    assert card_added(record, entry(LORA), DRY_RUN, NOW).dry_run
    assert card_added(record, entry(LORA), None, NOW).dry_run
    public = card_published(released(verdict(record, "chat", Outcome.PASSED), NOW), entry(LORA), OBEYED)
    assert (public.state, public.dry_run) == (State.RELEASED, False)


def test_what_a_dry_run_would_have_rejected_is_held_when_an_obeyed_rule_comes() -> None:
    """Its gates count for nothing any more: nobody is kept out by a rule that is only tried."""
    failed = verdict(opened(entry(K), DRY_RUN, NOW), "chat", Outcome.FAILED)
    grown = card_added(failed, entry(LORA), Requirements(Hold.CARD, gates_of({"smoke": 60})), NOW)
    assert (grown.state, grown.dry_run, [*grown.binding]) == (State.HELD, False, ["smoke"])
    out = rejected(opened(entry(K), DRY_RUN, NOW), "alice", "x", NOW)
    assert card_added(out, entry(LORA), OBEYED, NOW).state is State.REJECTED
