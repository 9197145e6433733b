"""What should happen to an instance now, and what people are told about why not yet."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from greenroom.core.configuration import Difference
from greenroom.core.conflicts import Conflict
from greenroom.core.decide import (
    DEADLINE_GRACE_SECONDS,
    TO_BE_WITHDRAWN,
    Condition,
    ConditionType,
    Decision,
    GiveUp,
    Lapse,
    Reject,
    RejectForConflict,
    Release,
    Wait,
    Withdraw,
    conditions,
    decide,
    grace_end,
    is_ready,
    waits_its_turn,
    why_in_service,
)
from greenroom.core.fleet import Limits, Standing, groups_of
from greenroom.core.keyspace import InstanceId, Key
from greenroom.core.policy import Hold, OnConflict, Phase, ReleasesPolicy
from greenroom.core.record import ALREADY_PUBLIC, GateState, Record, State
from greenroom.core.rollout_holds import RolloutHold
from greenroom.core.selectors import Selector
from greenroom.core.silence import worn_out
from greenroom.core.transitions import (
    Outcome,
    opened,
    opened_as_public,
    overridden,
    rejected,
    released,
    retried,
    with_verdict,
    withdrawn,
)
from tests.support.instances import INSTANCE, LORA, NOW, K, entry, held_record, needs
from tests.support.known_fleet import KnownFleet
from tests.support.later import released_record, with_later

DEADLINE = NOW + timedelta(seconds=900)
HELD = held_record(K, gates=("smoke", "chat"))
FREEZE = RolloutHold(hold_id="freeze", reason="incident 12", actor="alice", created=NOW)
ELSEWHERE = RolloutHold(hold_id="big", reason="x", actor="bob", selector=Selector(model="big"))


def verdict(record: Record, gate: str, outcome: Outcome, reason: str = "", now: datetime = NOW) -> Record:
    return with_verdict(record, gate, record.gates[gate].attempt, outcome, reason=reason, reporter="ci", now=now)


HALF = verdict(HELD, "smoke", Outcome.PASSED)
PASSED = verdict(HALF, "chat", Outcome.PASSED, now=NOW + timedelta(seconds=5))
REJECTED = verdict(HELD, "smoke", Outcome.FAILED, "model not found")
RELEASED = released(PASSED, NOW)
WITHDRAWN = withdrawn(RELEASED, "alice", "bad", NOW, by_person=False)
BY_PERSON = withdrawn(RELEASED, "alice", "bad", NOW, by_person=True)


REJECTED_BY_PERSON = rejected(HELD, "alice", "looks wrong", NOW)


def all_passed(record: Record) -> Record:
    return verdict(verdict(record, "smoke", Outcome.PASSED), "chat", Outcome.PASSED)


@pytest.mark.parametrize(
    ("record", "live_cards", "holds", "now", "decision"),
    [
        (HELD, 1, (), NOW, Wait(DEADLINE)),
        (HALF, 1, (), NOW, Wait(DEADLINE)),
        (PASSED, 1, (), NOW, Release()),
        (PASSED, 1, (), DEADLINE + timedelta(days=9), Release()),
        (PASSED, 0, (), NOW, Wait()),
        (PASSED, 1, (FREEZE,), NOW, Wait()),
        (PASSED, 1, (FREEZE,), DEADLINE, Wait()),
        (PASSED, 1, (ELSEWHERE,), NOW, Release()),
        (HELD, 1, (), DEADLINE, Reject("smoke")),
        (HALF, 1, (), DEADLINE, Reject("chat")),
        (HELD, 0, (), DEADLINE, Reject("smoke")),
        (HELD, 1, (FREEZE,), DEADLINE, Reject("smoke")),
        (HELD, 1, (), DEADLINE - timedelta(milliseconds=1), Wait(DEADLINE)),
        (verdict(HALF, "chat", Outcome.ERROR), 1, (), DEADLINE, Reject("chat")),
        (REJECTED, 1, (), DEADLINE, Wait()),
        (RELEASED, 1, (), DEADLINE, Wait()),
        (WITHDRAWN, 1, (), DEADLINE, Wait()),
        (all_passed(WITHDRAWN), 1, (), NOW, Release()),
        (all_passed(BY_PERSON), 1, (), NOW, Wait()),
        (retried(all_passed(BY_PERSON), (), "bob", "", NOW), 1, (), NOW, Release()),
        (overridden(BY_PERSON, "bob", "known", NOW), 1, (), NOW, Release()),
        (overridden(REJECTED, "bob", "known", NOW), 1, (FREEZE,), NOW, Wait()),
        (all_passed(REJECTED_BY_PERSON), 1, (), DEADLINE, Wait()),
        (retried(all_passed(REJECTED_BY_PERSON), (), "bob", "", NOW), 1, (), NOW, Release()),
        (opened_as_public((entry(K),), needs(), NOW), 1, (), NOW, Wait()),
        (held_record(K, gates=("smoke",), hold=Hold.HEALTH), 1, (), NOW, Wait(DEADLINE)),
    ],
    ids=[
        "held", "half passed", "passed", "passed long ago", "no card", "on hold", "on hold past the deadline",
        "another's hold", "deadline", "deadline of the other", "deadline without a card", "deadline on hold",
        "just before", "error at the deadline", "rejected", "released", "withdrawn, deadline", "withdrawn, passed",
        "withdrawn by a person, passed", "and retried", "and overridden", "overridden on hold",
        "rejected by a person, passed", "and that retried", "served already",
        "health",
    ],
)  # fmt: skip
def test_what_is_due(
    record: Record, live_cards: int, holds: tuple[RolloutHold, ...], now: datetime, decision: Decision
) -> None:
    assert decide(record, live_cards=live_cards, rollout_holds=holds, now=now) == decision


def test_a_record_without_gates_is_never_ready() -> None:
    """A record is opened because some rule asked for gates: without any, something was lost."""
    for record in (HELD, WITHDRAWN):
        empty = record.model_copy(update={"gates": {}})
        assert not is_ready(empty, live_cards=1)
        assert decide(empty, live_cards=1, rollout_holds=(), now=DEADLINE) == Wait()
        passed = conditions(empty, live_cards=1, rollout_holds=())[0]
        assert (passed.status, passed.reason) == (False, "NoGates")


def test_the_gate_whose_time_is_up_first_is_rejected() -> None:
    late = retried(HELD, ("smoke",), "alice", "", NOW + timedelta(seconds=60))
    assert decide(late, live_cards=1, rollout_holds=(), now=DEADLINE) == Reject("chat")


def worn(record: Record, gate: str = "smoke", claims: int = 3) -> Record:
    gates = {**record.gates, gate: record.gates[gate].model_copy(update={"claims": claims})}
    return record.model_copy(update={"gates": gates})


GIVEN_UP = worn_out(worn(HELD), "smoke", NOW)


@pytest.mark.parametrize(
    ("record", "claimed", "decision"),
    [
        (worn(HELD), (), GiveUp("smoke")),
        (worn(HELD), ("chat",), GiveUp("smoke")),
        (worn(HELD), ("smoke",), Wait(DEADLINE)),
        (worn(HELD), None, Wait(DEADLINE)),
        (worn(HELD, claims=2), (), Wait(DEADLINE)),
        (GIVEN_UP, (), Wait(DEADLINE)),
        (worn(verdict(HELD, "smoke", Outcome.ERROR)), (), GiveUp("smoke")),
        (worn(verdict(HELD, "smoke", Outcome.PASSED)), (), Wait(DEADLINE)),
        (worn(WITHDRAWN), (), GiveUp("smoke")),
        (worn(REJECTED, "chat"), (), Wait()),
    ],
    ids=[
        "worn out", "another is claimed", "the last claim stands", "claims are not known", "one may be made still",
        "said already", "an error before", "passed", "withdrawn", "rejected",
    ],
)  # fmt: skip
def test_when_runners_are_no_longer_waited_for(
    record: Record, claimed: tuple[str, ...] | None, decision: Decision
) -> None:
    """Three went away without a word: whoever looks is told, long before the deadline."""
    assert decide(record, live_cards=1, rollout_holds=(), now=NOW, claimed=claimed) == decision


RENEW_BY = NOW + timedelta(seconds=60)


def continuous(record: Record, gate: str = "chat", **update: object) -> Record:
    """The record with a continuous gate that has passed, until RENEW_BY."""
    settings = {"phase": Phase.CONTINUOUS, "ttl_seconds": 60, "state": GateState.PASSED, "deadline": RENEW_BY}
    changed = {**settings, "passed": NOW, **update}
    gates = {**record.gates, gate: record.gates[gate].model_copy(update=changed)}
    return record.model_copy(update={"gates": gates})


NOT_RENEWED = "gate chat was not renewed within 60 s"


@pytest.mark.parametrize(
    ("record", "holds", "now", "decision"),
    [
        (continuous(RELEASED), (), NOW, Wait(RENEW_BY)),
        (continuous(RELEASED), (FREEZE,), RENEW_BY, Withdraw("chat", NOT_RENEWED)),
        (continuous(continuous(RELEASED), "smoke", deadline=NOW + timedelta(seconds=9)), (), NOW,
         Wait(NOW + timedelta(seconds=9))),
        (continuous(RELEASED, state=GateState.FAILED, reason="slow"), (), NOW,
         Withdraw("chat", "gate chat failed: slow")),
        (continuous(RELEASED, state=GateState.FAILED), (), NOW, Withdraw("chat", "gate chat failed")),
        (continuous(RELEASED, state=GateState.OVERRIDDEN), (), DEADLINE, Wait()),
        (continuous(PASSED), (), NOW, Release()),
        (continuous(PASSED), (), RENEW_BY, Lapse("chat")),
        (continuous(PASSED), (FREEZE,), NOW, Wait(RENEW_BY)),
        (continuous(PASSED), (FREEZE,), RENEW_BY, Lapse("chat")),
        (continuous(HELD), (), NOW, Wait(RENEW_BY)),
        (continuous(HELD, deadline=DEADLINE + timedelta(seconds=1)), (), DEADLINE, Reject("smoke")),
        (continuous(WITHDRAWN), (), RENEW_BY, Lapse("chat")),
        (continuous(all_passed(WITHDRAWN)), (), NOW, Release()),
        (continuous(REJECTED), (), RENEW_BY, Wait()),
    ],
    ids=[
        "released", "released, lapsed", "the first of two", "released, failed", "failed without a reason", "overridden",
        "passed", "passed, lapsed", "on hold", "on hold, lapsed", "another is open", "another's deadline", "withdrawn",
        "withdrawn, passed", "rejected",
    ],
)  # fmt: skip
def test_what_is_due_of_a_pass_that_must_be_renewed(
    record: Record, holds: tuple[RolloutHold, ...], now: datetime, decision: Decision
) -> None:
    assert decide(record, live_cards=1, rollout_holds=holds, now=now) == decision


def test_a_pass_that_lapsed_while_etcd_was_away_is_neither_released_on_nor_held_against_anyone() -> None:
    """Its renewal may be on its way: for the grace it is no reason to withdraw, and none to release."""
    grace = RENEW_BY + timedelta(seconds=30)
    for record in (continuous(RELEASED), continuous(PASSED)):
        assert decide(record, live_cards=1, rollout_holds=(), now=RENEW_BY, no_rejection_before=grace) == Wait(grace)
    failed = continuous(RELEASED, state=GateState.FAILED)
    assert decide(failed, live_cards=1, rollout_holds=(), now=NOW, no_rejection_before=grace) == Withdraw(
        "chat", "gate chat failed"
    )


@pytest.mark.parametrize(
    ("now", "decision"),
    [
        (DEADLINE, Wait(DEADLINE + timedelta(seconds=30))),
        (DEADLINE + timedelta(seconds=30), Reject("smoke")),
        (NOW, Wait(DEADLINE + timedelta(seconds=30))),
    ],
)
def test_no_rejection_while_verdicts_may_be_on_their_way(now: datetime, decision: Decision) -> None:
    grace = DEADLINE + timedelta(seconds=30)
    assert decide(HELD, live_cards=1, rollout_holds=(), now=now, no_rejection_before=grace) == decision


def test_a_grace_that_is_over_changes_no_deadline() -> None:
    assert decide(HELD, live_cards=1, rollout_holds=(), now=NOW, no_rejection_before=NOW) == Wait(DEADLINE)


def test_the_grace_holds_no_release_back() -> None:
    assert decide(PASSED, live_cards=1, rollout_holds=(), now=NOW, no_rejection_before=DEADLINE) == Release()


def test_the_grace_counts_from_the_start() -> None:
    assert grace_end(NOW) == NOW + timedelta(seconds=DEADLINE_GRACE_SECONDS)


@pytest.mark.parametrize("state", State)
def test_only_what_waits_can_be_ready(state: State) -> None:
    record = PASSED.model_copy(update={"state": state})
    assert is_ready(record, live_cards=1) == (state in (State.HELD, State.WITHDRAWN))


def condition(
    record: Record, kind: ConditionType, *, live_cards: int = 1, holds: tuple[RolloutHold, ...] = ()
) -> Condition:
    (found,) = (one for one in conditions(record, live_cards=live_cards, rollout_holds=holds) if one.type == kind)
    return found


NO_GPU = verdict(HALF, "chat", Outcome.ERROR, "no GPU")
LENIENT = HELD.model_copy(
    update={"gates": {name: gate.model_copy(update={"failure_limit": 2}) for name, gate in HALF.gates.items()}}
)
OPEN = "until 2026-03-01 12:15:00 UTC (attempt 1)"


@pytest.mark.parametrize(
    ("record", "live_cards", "status", "reason", "message"),
    [
        (HELD, 1, False, "GatesOpen", f"smoke {OPEN}; chat {OPEN}"),
        (HALF, 1, False, "GatesOpen", f"chat {OPEN}"),
        (NO_GPU, 1, False, "GatesOpen", f"chat {OPEN[:-1]}, last error: no GPU)"),
        (HALF, 0, False, "GatesOpen", f"chat {OPEN}; no card is registered at the moment"),
        (WITHDRAWN, 1, False, "GatesOpen", "smoke (attempt 2); chat (attempt 2)"),
        (REJECTED, 1, False, "GateFailed", "smoke failed: model not found; chat (attempt 1)"),
        (verdict(HELD, "smoke", Outcome.FAILED), 1, False, "GateFailed", "smoke failed; chat (attempt 1)"),
        (
            *(verdict(LENIENT, "chat", Outcome.FAILED, "slow"), 1, False, "GatesOpen"),
            "chat until 2026-03-01 12:15:00 UTC (attempt 2 after 1 that failed, 1 more is forgiven)",
        ),
        (
            *(verdict(verdict(LENIENT, "chat", Outcome.FAILED), "chat", Outcome.FAILED), 1, False),
            *("GatesOpen", "chat until 2026-03-01 12:15:00 UTC (attempt 3 after 2 that failed, the next one counts)"),
        ),
        (PASSED, 1, True, "AllPassed", "every gate passed or was overridden"),
        (PASSED, 0, False, "NoCard", "no card is registered at the moment"),
        (RELEASED, 0, True, "AllPassed", "every gate passed or was overridden"),
        (all_passed(BY_PERSON), 1, False, "WithdrawnByPerson", "alice withdrew it; a retry or override ends that"),
        (BY_PERSON, 1, False, "WithdrawnByPerson", "alice withdrew it; a retry or override ends that"),
        (REJECTED_BY_PERSON, 1, False, "RejectedByPerson", "alice rejected it; a retry or override ends that"),
        (
            rejected(REJECTED, "alice", "", NOW), 1, False, "RejectedByPerson",
            "alice rejected it; a retry or override ends that; smoke failed: model not found",
        ),
        (opened_as_public((entry(K),), needs(), NOW), 1, True, "AllPassed", ALREADY_PUBLIC),
    ],
    ids=[
        "open", "half", "last error", "half, no card", "withdrawn by itself", "failed", "failed without a reason",
        "forgiven", "forgiven twice", "passed", "no card", "released",
        "withdrawn by a person, passed", "withdrawn by a person", "rejected by a person", "and by a gate",
        "served already",
    ],
)  # fmt: skip
def test_why_gates_keep_it_back(record: Record, live_cards: int, status: bool, reason: str, message: str) -> None:
    found = condition(record, ConditionType.GATES_PASSED, live_cards=live_cards)
    assert (found.status, found.reason, found.message) == (status, reason, message)


@pytest.mark.parametrize(
    ("outside", "named"), [((K,), f"{K.decode()} is"), ((K, LORA), f"{K.decode()} and 1 more is")], ids=["one", "two"]
)
def test_what_is_missing_where_the_cards_are_public_already(outside: tuple[Key, ...], named: str) -> None:
    found = conditions(PASSED, live_cards=0, rollout_holds=(), outside=outside)[0]
    assert (found.status, found.reason) == (False, "NoCard")
    assert found.message == (
        f"no card is held that it could be published with: {named} public already, as no rule held it"
    )
    assert conditions(PASSED, live_cards=1, rollout_holds=(), outside=outside)[0].status


def test_passed_since_the_last_gate_was_decided() -> None:
    assert condition(PASSED, ConditionType.GATES_PASSED).time == NOW + timedelta(seconds=5)


def test_why_a_rollout_hold_keeps_it_back() -> None:
    found = condition(PASSED, ConditionType.NOT_ON_HOLD, holds=(ELSEWHERE, FREEZE))
    assert found == Condition(
        ConditionType.NOT_ON_HOLD, False, "RolloutHold", "rollout hold freeze by alice: incident 12", NOW
    )
    assert condition(PASSED, ConditionType.NOT_ON_HOLD, holds=(ELSEWHERE,)).status


def test_every_question_is_answered_once() -> None:
    assert [one.type for one in conditions(HELD, live_cards=1, rollout_holds=())] == list(ConditionType)


@pytest.mark.parametrize(
    ("record", "standing", "said"),
    [
        (PASSED, None, (True, "NoBudget", "releases are not limited")),
        (PASSED, Standing(8, 8, 4, 100), (False, "InQueue", "place 4 of 100 in the queue; 8 of 8 releases in flight")),
        (PASSED, Standing(8, 3), (False, "InQueue", "in the queue; 3 of 8 releases in flight")),
        (PASSED, Standing(8), (False, "InQueue", "in the queue; at most 8 releases are in flight at once")),
        (HELD, Standing(8, 8), (True, "NotQueued", "it is not in the queue; 8 of 8 releases in flight")),
        (RELEASED, Standing(8, 8), (True, "Released", "it waits for no other release")),
        (PASSED, Standing(8, readable=False), (False, "BudgetUnreadable", None)),
    ],
)
def test_the_budget_is_told_of_by_place_and_numbers(
    record: Record, standing: Standing | None, said: tuple[bool, str, str | None]
) -> None:
    told = conditions(record, live_cards=1, rollout_holds=(), standing=standing)
    (found,) = (one for one in told if one.type is ConditionType.BUDGET_AVAILABLE)
    assert (found.status, found.reason) == said[:2]
    assert said[2] in (None, found.message)


def test_one_that_a_rollout_hold_stops_is_not_in_the_queue() -> None:
    assert waits_its_turn(PASSED, live_cards=1, rollout_holds=(ELSEWHERE,))
    assert not waits_its_turn(PASSED, live_cards=1, rollout_holds=(FREEZE,))
    assert not waits_its_turn(PASSED, live_cards=0, rollout_holds=())
    told = conditions(PASSED, live_cards=1, rollout_holds=(FREEZE,), standing=Standing(8, 8))
    (found,) = (one for one in told if one.type is ConditionType.BUDGET_AVAILABLE)
    assert found.reason == "NotQueued"


DRY = frozenset({"chat"})


def test_a_gate_in_dry_run_is_neither_waited_for_nor_held_to_its_deadline() -> None:
    asked = replace(needs("smoke", "chat"), dry_gates=DRY)
    record = opened(entry(K), asked, NOW)
    passed = verdict(record, "smoke", Outcome.PASSED)
    assert decide(passed, live_cards=1, rollout_holds=(), now=NOW) == Release()
    assert condition(passed, ConditionType.GATES_PASSED).status
    late = record.gates["chat"].model_copy(update={"deadline": NOW})
    only_chat_is_late = record.model_copy(update={"gates": {**record.gates, "chat": late}})
    assert decide(only_chat_is_late, live_cards=1, rollout_holds=(), now=NOW) == Wait(DEADLINE)


def test_a_continuous_gate_in_dry_run_that_fails_or_lapses_leads_to_nothing() -> None:
    record = opened(entry(K), replace(needs("smoke", "chat"), dry_gates=DRY), NOW)
    passed = verdict(verdict(record, "smoke", Outcome.PASSED), "chat", Outcome.PASSED)
    gate = {"phase": Phase.CONTINUOUS, "ttl_seconds": 60, "deadline": NOW}
    lapsed = passed.model_copy(update={"gates": {**passed.gates, "chat": passed.gates["chat"].model_copy(update=gate)}})
    assert decide(lapsed, live_cards=1, rollout_holds=(), now=NOW) == Release()
    public = lapsed.model_copy(update={"state": State.RELEASED})
    assert decide(public, live_cards=1, rollout_holds=(), now=NOW) == Wait()
    failed = verdict(public, "chat", Outcome.FAILED)
    assert decide(failed, live_cards=1, rollout_holds=(), now=NOW) == Wait()


def test_an_instance_in_dry_run_would_be_released_as_others_are_and_takes_no_turn() -> None:
    record = opened(entry(K), replace(needs("chat", hold=Hold.HEALTH), dry_gates=DRY, dry_run=True), NOW)
    assert decide(record, live_cards=1, rollout_holds=(), now=NOW) == Wait(DEADLINE)
    passed = verdict(record, "chat", Outcome.PASSED)
    assert decide(passed, live_cards=1, rollout_holds=(), now=NOW) == Release()
    assert not waits_its_turn(passed, live_cards=1, rollout_holds=())
    found = conditions(record, live_cards=1, rollout_holds=(), standing=Standing(8, 8))
    assert (found[0].status, found[2].status, found[2].reason) == (False, True, "DryRun")


LATER_CARD = with_later(released_record(("smoke", "chat")))
LATER_PASSED = verdict(LATER_CARD, "smoke", Outcome.PASSED)
LATER_FAILED = verdict(LATER_CARD, "smoke", Outcome.FAILED, "wrong answers")


@pytest.mark.parametrize(
    ("record", "waiting", "holds", "now", "decision"),
    [
        (LATER_CARD, 1, (), NOW, Wait(DEADLINE)),
        (LATER_CARD, 1, (), DEADLINE, Reject("smoke")),
        (LATER_CARD.with_held(()), 0, (), DEADLINE, Wait()),
        (LATER_PASSED, 1, (), DEADLINE, Release()),
        (LATER_PASSED, 1, (FREEZE,), DEADLINE, Wait()),
        (LATER_PASSED, 1, (ELSEWHERE,), DEADLINE, Release()),
        (LATER_PASSED.with_held(()), 0, (), DEADLINE, Wait()),
        (LATER_FAILED, 1, (), DEADLINE, Wait()),
        (released(LATER_PASSED, NOW), 0, (), DEADLINE, Wait()),
    ],
    ids=["open", "late", "late, and gone", "passed", "on hold", "others on hold", "gone", "failed", "published"],
)
def test_of_a_released_instance_only_its_later_cards_are_decided(
    record: Record, waiting: int, holds: tuple[RolloutHold, ...], now: datetime, decision: Decision
) -> None:
    assert decide(record, live_cards=waiting, rollout_holds=holds, now=now) == decision


@pytest.mark.parametrize(
    ("record", "status", "reason", "message"),
    [
        (LATER_CARD, False, "GatesOpen", f"it is released, but {K.decode()}, which came later: smoke until"),
        (LATER_FAILED, False, "GateFailed", "which came later: smoke failed: wrong answers"),
        (LATER_PASSED, True, "AllPassed", "every gate passed or was overridden"),
        (LATER_FAILED.with_held(()), True, "AllPassed", "whatever it has registered is public"),
    ],
)
def test_why_a_later_card_is_not_public(record: Record, status: bool, reason: str, message: str) -> None:
    found = condition(record, ConditionType.GATES_PASSED)
    assert (found.status, found.reason) == (status, reason)
    assert message in found.message


BLOCKS = Difference("kv_cache_block_size", "64", "32")
RELEASED_ONE, HELD_ONE = (Conflict("tiny", InstanceId("a1"), is_public, (BLOCKS,)) for is_public in (True, False))


def on_conflict(record: Record, does: OnConflict) -> Record:
    return record.model_copy(update={"on_conflict": does})


@pytest.mark.parametrize(
    ("does", "conflict", "decision"),
    [
        (OnConflict.WARN, RELEASED_ONE, Release()),
        (OnConflict.QUEUE, RELEASED_ONE, Wait()),
        (OnConflict.REJECT, RELEASED_ONE, RejectForConflict(str(RELEASED_ONE))),
        (OnConflict.QUEUE, HELD_ONE, Release()),
        (OnConflict.REJECT, HELD_ONE, Release()),
    ],
)
def test_a_conflict_with_a_released_instance_does_what_the_rules_say(
    does: OnConflict, conflict: Conflict, decision: Decision
) -> None:
    """One that is held may never be released: waiting for it, two would wait for each other."""
    record = on_conflict(PASSED, does)
    found = decide(record, live_cards=1, rollout_holds=(), now=NOW, conflicts=(conflict, HELD_ONE))
    assert found == decision


def test_a_conflict_rejects_before_its_gates_have_passed_and_queues_only_after() -> None:
    for does, decision in (
        (OnConflict.REJECT, RejectForConflict(str(RELEASED_ONE))),
        (OnConflict.QUEUE, Wait(DEADLINE)),
    ):
        record = on_conflict(HELD, does)
        assert decide(record, live_cards=1, rollout_holds=(), now=NOW, conflicts=(RELEASED_ONE,)) == decision


@pytest.mark.parametrize("record", [LATER_PASSED, all_passed(WITHDRAWN)], ids=["later", "withdrawn"])
def test_what_was_released_once_waits_where_another_is_rejected(record: Record) -> None:
    rejects = on_conflict(record, OnConflict.REJECT)
    assert decide(rejects, live_cards=1, rollout_holds=(), now=NOW, conflicts=(RELEASED_ONE,)) == Wait()
    assert decide(rejects, live_cards=1, rollout_holds=(), now=NOW) == Release()


@pytest.mark.parametrize(
    ("record", "conflicts_of", "status", "reason", "said"),
    [
        (HELD, (), True, "NoConflict", "nobody's card of the same model is configured otherwise"),
        (RELEASED, (), True, "NoConflict", "it is released"),
        (HELD, (HELD_ONE,), False, "ConflictsWithHeld", str(HELD_ONE)),
        (HELD, (RELEASED_ONE, HELD_ONE), False, "ConflictsWithReleased", f"{RELEASED_ONE}; {HELD_ONE}"),
        (
            on_conflict(HELD, OnConflict.QUEUE),
            (RELEASED_ONE,),
            False,
            "ConflictsWithReleased",
            f"{RELEASED_ONE}; it waits as long as one that is released differs",
        ),
        (HELD.model_copy(update={"conflict": "as it was"}), (), False, "RejectedForConflict", "as it was"),
    ],
)
def test_what_people_are_told_of_conflicts(
    record: Record, conflicts_of: tuple[Conflict, ...], status: bool, reason: str, said: str
) -> None:
    found = conditions(record, live_cards=1, rollout_holds=(), conflicts=conflicts_of)[3]
    assert (found.type, found.status, found.reason, found.message) == (ConditionType.NO_CONFLICT, status, reason, said)


def test_who_serves_because_too_few_others_do_says_so() -> None:
    serving = continuous(RELEASED)
    (group,) = groups_of(serving)

    def told(record: Record, others: int, now: datetime | None) -> str:
        limits = Limits(ReleasesPolicy(min_released=2), KnownFleet(released={group: others}))
        return why_in_service(INSTANCE, record, limits, now)

    assert told(serving, 1, NOW) == ""
    failed = continuous(serving, state=GateState.FAILED, reason="NaN")
    floor = f"only 1 others of {group} are released, and min_released is 2"
    kept = f"it stays in service, since {floor}; a person may withdraw it"
    assert {told(failed, 1, now) for now in (None, NOW)} == {f"gate chat failed: NaN; {kept}"}
    assert told(serving, 1, RENEW_BY) == f"gate chat was not renewed within 60 s; {kept}"
    assert told(failed, 2, NOW) == "gate chat failed: NaN; it is about to be withdrawn"
    assert told(failed.model_copy(update={"dry_run": True}), 1, NOW) == ""
    (passed, *_) = conditions(failed, live_cards=0, rollout_holds=(), in_service=kept)
    assert passed == Condition(ConditionType.GATES_PASSED, False, TO_BE_WITHDRAWN, kept)


def test_a_later_card_of_one_that_is_to_be_withdrawn_says_what_it_waits_for() -> None:
    """Its page said why it serves, and nothing of the card, which waited for ever."""
    record = with_later(continuous(released_record(("chat",)), state=GateState.FAILED, reason="NaN"), "chat")
    (passed, *_) = conditions(record, live_cards=1, rollout_holds=(), in_service="it stays")
    waits = f"it is released, but {K.decode()}, which came later: chat failed: NaN"
    assert passed == Condition(ConditionType.GATES_PASSED, False, TO_BE_WITHDRAWN, f"it stays; {waits}")


def test_who_waits_for_another_configuration_to_go_is_not_said_to_be_in_the_queue() -> None:
    record = on_conflict(all_passed(HELD), OnConflict.QUEUE)
    for conflicts, reason in (((RELEASED_ONE,), "NotQueued"), ((), "InQueue")):
        told = conditions(record, live_cards=1, rollout_holds=(), standing=Standing(8, 8), conflicts=conflicts)
        assert told[2].reason == reason
