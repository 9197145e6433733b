"""Operations on an instance as they are sent: what makes it ready is one Txn with the release."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from greenroom.core import budget as budgets
from greenroom.core import record as records
from greenroom.core.budget import Budget
from greenroom.core.configuration import Difference
from greenroom.core.conflicts import Conflict
from greenroom.core.fleet import Limits, Turn, groups_of
from greenroom.core.keyspace import InstanceId
from greenroom.core.policy import Hold, OnConflict, Phase, ReleasesPolicy
from greenroom.core.record import GateState, Record
from greenroom.core.rollout_holds import RolloutHold
from greenroom.core.selectors import Selector
from greenroom.core.snapshot import Snapshot
from greenroom.core.transitions import (
    Outcome,
    lease_revoked,
    overridden,
    rejected,
    released,
    retried,
    with_verdict,
    withdrawn,
)
from greenroom.core.verdicts import (
    Behind,
    KeptInService,
    MoreKeys,
    Plan,
    Planned,
    Queued,
    Unchanged,
    drop,
    edit,
    note,
    reconcile,
    verdict,
    withdrawal,
)
from greenroom.errors import StaleAttempt, UnknownInstance, VerdictAlreadyGiven, WrongState
from tests.support.instances import INSTANCE, LORA, NAMES, NOW, TEXT, K, held_record, snapshot
from tests.support.known_fleet import KnownFleet
from tests.support.later import released_record, with_later
from tests.support.txn_text import record_text

LATER = NOW + timedelta(seconds=30)
AFTER_THE_DEADLINE = NOW + timedelta(seconds=901)
RELEASE = "mod(R)=7 | mod(S(K))=20 | mod(S*)<101 | mod(H)<101 | mod(B)=0 || put K lease; del S*; put R keep"
ALONE = "mod(R)=7 || put R keep"
FREEZE = RolloutHold(hold_id="freeze", reason="incident", actor="alice")
HELD = held_record(K)
TWO_GATES = held_record(K, gates=("smoke", "chat"))


def after(record: Record, outcome: Outcome, gate: str = "smoke") -> Record:
    return with_verdict(record, gate, record.gates[gate].attempt, outcome, reason="", reporter="ci", now=NOW)


def report(outcome: Outcome, seen: Snapshot, gate: str = "smoke", attempt: int = 1, now: datetime = LATER) -> Plan:
    return verdict(gate, attempt, outcome, reason="why", reporter="ci")(seen, now)


def told(plan: Plan) -> tuple[str, str, str]:
    """Effect, Txn and record; the record in the Txn is the one that the plan tells."""
    assert isinstance(plan, Planned)
    assert records.decode(plan.txn.success[-1].request_put.value, "R") == plan.record
    return plan.effect.value, TEXT.txn(plan.txn), record_text(plan.record, NAMES)


def test_row_10_the_last_verdict_and_the_release_are_one_txn() -> None:
    assert told(report(Outcome.PASSED, snapshot(HELD, shadows=(K,)))) == (
        "released",
        RELEASE,
        "RELEASED card g1 [K] smoke:PASSED#1",
    )


def test_row_9_a_verdict_that_leaves_another_gate_open_is_stored_alone() -> None:
    assert told(report(Outcome.PASSED, snapshot(TWO_GATES, shadows=(K,)))) == (
        "stored",
        ALONE,
        "HELD card g1 [K] smoke:PASSED#1 chat:PENDING#1",
    )


@pytest.mark.parametrize("outcome", [Outcome.INCONCLUSIVE, Outcome.ERROR])
def test_row_9_an_undecided_attempt_is_stored(outcome: Outcome) -> None:
    effect, txn, record = told(report(outcome, snapshot(HELD, shadows=(K,))))
    assert (effect, txn, record) == ("stored", ALONE, f"HELD card g1 [K] smoke:{outcome.upper()}#1")


def test_row_9_a_failed_gate_rejects() -> None:
    assert told(report(Outcome.FAILED, snapshot(HELD, shadows=(K,)))) == (
        "rejected",
        ALONE,
        "REJECTED card g1 [K] smoke:FAILED#1",
    )


def test_row_9_a_second_failed_gate_is_no_second_rejection() -> None:
    seen = snapshot(after(TWO_GATES, Outcome.FAILED, "chat"), shadows=(K,))
    assert told(report(Outcome.FAILED, seen))[0] == "stored"


@pytest.mark.parametrize(
    "seen",
    [snapshot(HELD, shadows=(K,), rollout_holds=(FREEZE,)), snapshot(HELD)],
    ids=["rollout hold", "no card"],
)
def test_row_9_a_last_verdict_that_may_not_release_is_stored_alone(seen: Snapshot) -> None:
    assert told(report(Outcome.PASSED, seen)) == ("stored", ALONE, "HELD card g1 [K] smoke:PASSED#1")


def test_a_rollout_hold_for_others_stops_nothing() -> None:
    other = FREEZE.model_copy(update={"selector": Selector(model="big")})
    assert told(report(Outcome.PASSED, snapshot(HELD, shadows=(K,), rollout_holds=(other,))))[0] == "released"


def test_a_verdict_after_the_deadline_that_nobody_enforced_counts() -> None:
    seen = snapshot(HELD, shadows=(K,))
    assert told(report(Outcome.PASSED, seen, now=AFTER_THE_DEADLINE))[0] == "released"


def test_a_verdict_releases_what_was_withdrawn_unless_a_person_did_it() -> None:
    taken = withdrawn(released(after(HELD, Outcome.PASSED), NOW), "alice", "bad", NOW, by_person=False)
    assert told(report(Outcome.PASSED, snapshot(taken, shadows=(K,)), attempt=2)) == (
        "released",
        RELEASE,
        "RELEASED card g1 [K] smoke:PASSED#2",
    )
    by_person = taken.model_copy(update={"withdrawn_by": "alice"})
    assert told(report(Outcome.PASSED, snapshot(by_person, shadows=(K,)), attempt=2)) == (
        "stored",
        ALONE,
        "WITHDRAWN card g1 [K] smoke:PASSED#2",
    )


def test_a_failed_gate_of_a_withdrawn_instance_rejects_it() -> None:
    taken = withdrawn(released(after(HELD, Outcome.PASSED), NOW), "alice", "bad", NOW, by_person=False)
    assert told(report(Outcome.FAILED, snapshot(taken, shadows=(K,)), attempt=2))[0] == "rejected"


@pytest.mark.parametrize(
    "record",
    [after(TWO_GATES, Outcome.PASSED), released(after(HELD, Outcome.PASSED), NOW)],
    ids=lambda record: record.state,
)
def test_an_equal_repeat_writes_nothing(record: Record) -> None:
    assert report(Outcome.PASSED, snapshot(record, shadows=(K,))) == Unchanged(record)


def test_what_a_transition_refuses_is_raised() -> None:
    seen = snapshot(after(HELD, Outcome.FAILED), shadows=(K,))
    with pytest.raises(VerdictAlreadyGiven):
        report(Outcome.PASSED, seen)
    with pytest.raises(StaleAttempt):
        report(Outcome.PASSED, seen, attempt=2)


ANY: list[Callable[[Snapshot, datetime], Plan]] = [
    verdict("smoke", 1, Outcome.PASSED, reason="", reporter="ci"),
    reconcile(None),
    withdrawal("alice", "bad", by_person=True),
    edit(lambda record, now: retried(record, (), "alice", "", now)),
    drop("alice", "out"),
    note(lambda record, now: lease_revoked(record, "alice", "", now)),
]


@pytest.mark.parametrize("planner", ANY, ids=["verdict", "reconcile", "withdrawal", "edit", "drop", "note"])
def test_an_instance_that_is_not_there(planner: Callable[[Snapshot, datetime], Plan]) -> None:
    with pytest.raises(UnknownInstance, match=INSTANCE) as refused:
        planner(snapshot(), LATER)
    assert refused.value.metadata == {"instance": INSTANCE}


def test_hold_health_needs_to_see_its_public_cards_before_it_releases() -> None:
    record = held_record(K, hold=Hold.HEALTH)
    assert report(Outcome.PASSED, snapshot(record, asked=())) == MoreKeys()
    assert told(report(Outcome.PASSED, snapshot(record, public=(K,), asked=(K,)))) == (
        "released",
        "mod(R)=7 | mod(S*)<101 | mod(H)<101 | mod(B)=0 || del S*; put R keep",
        "RELEASED health g1 [K] smoke:PASSED#1",
    )
    assert told(report(Outcome.PASSED, snapshot(record, asked=(K,))))[0] == "stored"


def test_hold_health_releases_a_card_that_its_own_rules_held() -> None:
    record = held_record(K, LORA, hold=Hold.HEALTH)
    effect, txn, _ = told(report(Outcome.PASSED, snapshot(record, shadows={LORA: 22}, public=(K,))))
    assert effect == "released"
    assert txn.endswith("|| put LORA lease; del S*; put R keep")


def test_the_reconciler_releases_what_is_ready() -> None:
    seen = snapshot(after(HELD, Outcome.PASSED), shadows=(K,))
    assert told(reconcile(None)(seen, LATER)) == ("released", RELEASE, "RELEASED card g1 [K] smoke:PASSED#1")


def test_the_reconciler_rejects_at_the_deadline_and_not_within_the_grace() -> None:
    seen = snapshot(HELD, shadows=(K,))
    assert told(reconcile(None)(seen, AFTER_THE_DEADLINE)) == (
        "rejected",
        ALONE,
        "REJECTED card g1 [K] smoke:FAILED#1",
    )
    grace = AFTER_THE_DEADLINE + timedelta(seconds=1)
    assert reconcile(grace)(seen, AFTER_THE_DEADLINE) == Unchanged(HELD)


@pytest.mark.parametrize(
    "seen",
    [
        snapshot(HELD, shadows=(K,)),
        snapshot(after(HELD, Outcome.PASSED)),
        snapshot(after(HELD, Outcome.PASSED), shadows=(K,), rollout_holds=(FREEZE,)),
        snapshot(after(HELD, Outcome.FAILED), shadows=(K,)),
        snapshot(released(after(HELD, Outcome.PASSED), NOW), public=(K,)),
    ],
    ids=["gates open", "no card", "rollout hold", "rejected", "released"],
)
def test_the_reconciler_leaves_the_rest_alone(seen: Snapshot) -> None:
    assert reconcile(None)(seen, LATER) == Unchanged(seen.record)  # type: ignore[arg-type]


def test_the_reconciler_looks_at_public_cards_with_hold_health() -> None:
    record = after(held_record(K, hold=Hold.HEALTH), Outcome.PASSED)
    assert reconcile(None)(snapshot(record, asked=()), LATER) == MoreKeys()
    assert told(reconcile(None)(snapshot(record, public=(K,)), LATER))[0] == "released"


def claimed(record: Record, count: int) -> Record:
    gate = record.gates["smoke"].model_copy(update={"claims": count})
    return record.model_copy(update={"gates": {**record.gates, "smoke": gate}})


CLAIM = repr(b"\x01greenroom/claims/smoke/" + INSTANCE.encode())


@pytest.mark.parametrize("outcome", Outcome)
def test_a_verdict_ends_the_claim_of_its_gate_in_the_same_txn(outcome: Outcome) -> None:
    """Whoever wants to run the next attempt must not wait for a claim that nobody renews."""
    plan = report(outcome, snapshot(claimed(TWO_GATES, 1), shadows=(K,)))
    assert isinstance(plan, Planned)
    assert TEXT.txn(plan.txn) == f"{ALONE}; del {CLAIM}"
    assert plan.record.gates["smoke"].claims == 0


def test_row_10_a_release_ends_the_claim_of_the_last_gate_too() -> None:
    plan = report(Outcome.PASSED, snapshot(claimed(HELD, 2), shadows=(K,)))
    assert isinstance(plan, Planned)
    assert TEXT.txn(plan.txn) == f"{RELEASE}; del {CLAIM}"


def test_row_9_an_attempt_is_given_up_only_where_no_claim_came_meanwhile() -> None:
    seen = snapshot(claimed(HELD, 3), shadows=(K,))
    assert told(reconcile(None, ())(seen, LATER)) == (
        "stored",
        f"mod(R)=7 | mod({CLAIM})=0 || put R keep",
        "HELD card g1 [K] smoke:ERROR#1",
    )
    for known in (None, ("smoke",)):
        assert reconcile(None, known)(seen, LATER) == Unchanged(seen.record)  # type: ignore[arg-type]


RENEW_BY = NOW + timedelta(seconds=60)


def continuous(record: Record, **update: object) -> Record:
    """The record, whose gate is continuous and passed until RENEW_BY."""
    settings = {"phase": Phase.CONTINUOUS, "ttl_seconds": 60, "deadline": RENEW_BY, "passed": NOW, **update}
    return record.model_copy(update={"gates": {"smoke": record.gates["smoke"].model_copy(update=settings)}})


SERVING = continuous(released(after(HELD, Outcome.PASSED), NOW))
WITHDRAW = "mod(R)=7 | mod(K)=40 | mod(B)=0 || put S(K) lease; del K; put R keep"


def test_row_14_a_failed_pass_and_the_withdrawal_are_one_txn() -> None:
    assert report(Outcome.FAILED, snapshot(SERVING, asked=())) == MoreKeys()
    plan = report(Outcome.FAILED, snapshot(SERVING, public=(K,), asked=(K,)))
    assert told(plan) == ("withdrawn", WITHDRAW, "WITHDRAWN card g1 [K] smoke:PENDING#2")
    assert isinstance(plan, Planned)
    assert plan.record.withdrawn_by == "", "when its gates pass again, it comes back by itself"
    lines = [(line.actor, line.event, line.reason) for line in plan.record.transitions[-2:]]
    assert lines == [("ci", "smoke failed", "why"), ("greenroom", "withdraw", "gate smoke failed: why")]


def test_row_9_a_renewal_is_stored_and_withdraws_nothing_else() -> None:
    """Another gate's renewal may be on its way after an outage: that is the reconciler's to know."""
    two = released(after(after(TWO_GATES, Outcome.PASSED), Outcome.PASSED, "chat"), NOW)
    lapsed = {"phase": Phase.CONTINUOUS, "ttl_seconds": 60, "deadline": NOW}
    gates = {name: gate.model_copy(update=lapsed) for name, gate in two.gates.items()}
    seen = snapshot(two.model_copy(update={"gates": gates}), public=(K,))
    assert told(report(Outcome.PASSED, seen)) == (
        "stored",
        ALONE,
        "RELEASED card g1 [K] smoke:PASSED#1 chat:PASSED#1",
    )


def test_a_renewal_needs_no_look_at_the_cards() -> None:
    """There is one a minute for each worker of a fleet: it costs one read and one Txn."""
    assert told(report(Outcome.PASSED, snapshot(SERVING, asked=())))[:2] == ("stored", ALONE)


def test_row_14_the_reconciler_withdraws_what_was_not_renewed_after_the_grace() -> None:
    seen = snapshot(SERVING, public=(K,), asked=(K,))
    assert reconcile(None)(snapshot(SERVING, asked=()), RENEW_BY) == MoreKeys()
    assert told(reconcile(None)(seen, RENEW_BY)) == ("withdrawn", WITHDRAW, "WITHDRAWN card g1 [K] smoke:PENDING#2")
    assert reconcile(RENEW_BY + timedelta(seconds=1))(seen, RENEW_BY) == Unchanged(SERVING)
    failed = continuous(SERVING, state=GateState.FAILED)
    assert told(reconcile(None)(snapshot(failed, public=(K,), asked=(K,)), NOW))[0] == "withdrawn"


def test_row_9_the_reconciler_opens_the_next_attempt_of_a_pass_that_lapsed_before_the_release() -> None:
    seen = snapshot(continuous(after(HELD, Outcome.PASSED)), shadows=(K,), rollout_holds=(FREEZE,))
    assert told(reconcile(None)(seen, RENEW_BY)) == ("stored", ALONE, "HELD card g1 [K] smoke:PENDING#2")


def test_an_operation_that_finds_a_lapsed_pass_releases_nothing() -> None:
    """The hold was lifted, and the last gate passes; but the probe of an hour ago says nothing of now."""
    record = after(TWO_GATES, Outcome.PASSED)
    lapsed = {"phase": Phase.CONTINUOUS, "ttl_seconds": 60, "deadline": NOW}
    gates = {**record.gates, "smoke": record.gates["smoke"].model_copy(update=lapsed)}
    seen = snapshot(record.model_copy(update={"gates": gates}), shadows=(K,))
    assert told(report(Outcome.PASSED, seen, "chat"))[:2] == ("stored", ALONE)


def test_row_14_a_withdrawal_looks_at_every_listed_card_first() -> None:
    record = released(after(held_record(K, LORA), Outcome.PASSED), NOW)
    planner = withdrawal("alice", "bad answers", by_person=True)
    assert planner(snapshot(record, asked=(K,)), LATER) == MoreKeys()
    assert told(planner(snapshot(record, public={K: 41}), LATER)) == (
        "withdrawn",
        "mod(R)=7 | mod(K)=41 | mod(LORA)=0 | mod(B)=0 || put S(K) lease; del K; put R keep",
        "WITHDRAWN card g1 [K LORA] smoke:PENDING#2",
    )


def test_a_withdrawal_of_what_is_not_released_is_refused() -> None:
    with pytest.raises(WrongState):
        withdrawal("alice", "bad", by_person=True)(snapshot(HELD, shadows=(K,)), LATER)


OVERRIDE = edit(lambda record, now: overridden(record, "alice", "known flake", now))


@pytest.mark.parametrize("record", [HELD, after(HELD, Outcome.FAILED)], ids=lambda record: record.state)
def test_an_override_releases_in_the_same_txn(record: Record) -> None:
    assert told(OVERRIDE(snapshot(record, shadows=(K,)), LATER)) == (
        "released",
        RELEASE,
        "RELEASED card g1 [K] smoke:OVERRIDDEN#1",
    )


def test_row_9_an_override_under_a_rollout_hold_is_queued() -> None:
    seen = snapshot(after(HELD, Outcome.FAILED), shadows=(K,), rollout_holds=(FREEZE,))
    assert told(OVERRIDE(seen, LATER)) == ("stored", ALONE, "HELD card g1 [K] smoke:OVERRIDDEN#1")


def test_row_9_a_retry() -> None:
    plan = edit(lambda record, now: retried(record, (), "alice", "", now))
    seen = snapshot(after(HELD, Outcome.FAILED), shadows=(K,))
    assert told(plan(seen, LATER)) == ("stored", ALONE, "HELD card g1 [K] smoke:PENDING#2")


def test_row_9_a_rejection_by_a_person_of_what_is_ready_is_stored_alone() -> None:
    plan = edit(lambda record, now: rejected(record, "alice", "", now))
    seen = snapshot(after(HELD, Outcome.PASSED), shadows=(K,))
    assert told(plan(seen, LATER)) == ("rejected", ALONE, "REJECTED card g1 [K] smoke:PASSED#1")


def test_row_16_a_drop_forgets_what_is_held() -> None:
    assert drop("alice", "out")(snapshot(HELD, shadows=(K,), asked=()), LATER) == MoreKeys()
    assert told(drop("alice", "out")(snapshot(HELD, shadows=(K,)), LATER)) == (
        "stored",
        "mod(R)=7 || del S*; put R keep",
        "HELD card g1 [] smoke:PENDING#1",
    )


def test_row_16_a_drop_keeps_in_the_record_what_is_public() -> None:
    """A later withdrawal takes back what the record names, and must not miss any of it."""
    record = held_record(K, LORA, hold=Hold.HEALTH)
    _, txn, left = told(drop("alice", "out")(snapshot(record, shadows={LORA: 22}, public=(K,)), LATER))
    assert (txn, left) == ("mod(R)=7 || del S*; put R keep", "HELD health g1 [K] smoke:PENDING#1")


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (snapshot(held_record(K, hold=Hold.HEALTH), public=(K,)), "what it registered is public"),
        (snapshot(HELD), "it has no card at the moment"),
        (snapshot(released(after(HELD, Outcome.PASSED), NOW), public=(K,)), "the instance is RELEASED"),
    ],
    ids=["health", "no card", "released"],
)
def test_a_drop_where_nothing_is_held_is_refused(seen: Snapshot, why: str) -> None:
    with pytest.raises(WrongState, match=why):
        drop("alice", "out")(seen, LATER)


def test_a_note_releases_nothing_though_it_is_ready() -> None:
    plan = note(lambda record, now: lease_revoked(record, "alice", "", now))
    seen = snapshot(after(HELD, Outcome.PASSED), shadows=(K,))
    assert told(plan(seen, LATER)) == ("stored", ALONE, "HELD card g1 [K] smoke:PASSED#1")


# ---- limits: max_in_flight, turns, the stop at a withdrawal, min_released --------------------------------------------

ANOTHER = InstanceId("abc1")
ONE_AT_ONCE = ReleasesPolicy(max_in_flight=1, settle_seconds=30)
TWO_STAY = ReleasesPolicy(min_released=2)
BUSY = budgets.encode(Budget().with_release(ANOTHER, NOW))
OUT = released(after(HELD, Outcome.PASSED), NOW)


def passes(limits: Limits, budget: bytes = b"{}", now: datetime = LATER) -> Plan:
    seen = snapshot(HELD, shadows=(K,), budget_revision=6, budget=budget)
    return verdict("smoke", 1, Outcome.PASSED, reason="why", reporter="ci", limits=limits)(seen, now)


def planned(plan: Plan) -> tuple[str, str]:
    assert isinstance(plan, Planned)
    return plan.effect.value, TEXT.operations(plan.txn.success)


def written(plan: Plan) -> Budget | None:
    assert isinstance(plan, Planned)
    (value,) = (op.request_put.value for op in plan.txn.success if TEXT.key(op.request_put.key) == "B")
    return budgets.decode(value)


def test_a_last_verdict_releases_where_there_is_room_and_nobody_comes_first() -> None:
    done = passes(Limits(ONE_AT_ONCE, KnownFleet()), BUSY)
    assert planned(done) == ("released", "put K lease; del S*; put R keep; put B")
    assert written(done) == Budget().with_release(INSTANCE, LATER), "the other has settled by then"


def test_a_last_verdict_is_stored_alone_where_there_is_no_room() -> None:
    assert planned(passes(Limits(ONE_AT_ONCE, KnownFleet()), BUSY, now=NOW)) == ("stored", "put R keep")


def test_a_last_verdict_is_stored_alone_where_another_comes_first() -> None:
    first = KnownFleet(turns=[Turn(NOW, ANOTHER)])
    assert planned(passes(Limits(ONE_AT_ONCE, first))) == ("stored", "put R keep")
    assert planned(passes(Limits(TWO_STAY, first)))[0] == "released", "a floor makes nobody wait"


def test_an_override_waits_its_turn_too() -> None:
    seen = snapshot(HELD, shadows=(K,), budget_revision=6, budget=BUSY)
    override = edit(lambda record, now: overridden(record, "alice", "x", now), Limits(ONE_AT_ONCE, KnownFleet()))
    assert planned(override(seen, NOW)) == ("stored", "put R keep")
    assert planned(override(seen, LATER))[0] == "released"


def test_the_reconciler_releases_whose_turn_it_is_and_says_when_there_is_no_room() -> None:
    ready = after(HELD, Outcome.PASSED)
    seen = snapshot(ready, shadows=(K,), budget_revision=6, budget=BUSY)
    plan = reconcile(None, limits=Limits(ONE_AT_ONCE, KnownFleet(turns=[Turn(NOW, ANOTHER)])))
    assert plan(seen, NOW) == Queued(ready)
    assert planned(plan(seen, LATER))[0] == "released"


def test_row_14_a_withdrawal_in_flight_stops_what_comes() -> None:
    own = budgets.encode(Budget().with_release(ANOTHER, NOW).with_release(INSTANCE, NOW))
    plan = withdrawal("alice", "wrong words", by_person=True, limits=Limits(ONE_AT_ONCE, KnownFleet()))
    in_flight = plan(snapshot(OUT, public=(K,), budget_revision=6, budget=own), NOW)
    assert planned(in_flight) == ("withdrawn", f"put S(K) lease; del K; put B; put H/stopped-{INSTANCE}; put R keep")
    assert written(in_flight) == Budget().with_release(ANOTHER, NOW)
    assert isinstance(in_flight, Planned)
    assert in_flight.stop is not None
    assert "alice withdrew" in in_flight.stop.reason
    another = snapshot(OUT, public=(K,), budget_revision=6, budget=own, rollout_holds=(in_flight.stop,))
    assert f"put H/stopped-{INSTANCE}-2" in planned(plan(another, NOW))[1], "it is not overwritten"
    settled = plan(snapshot(OUT, public=(K,), budget_revision=6, budget=own), LATER)
    assert planned(settled) == ("withdrawn", "put S(K) lease; del K; put B; put R keep")


def test_automation_withdraws_nobody_below_the_floor_and_a_person_may() -> None:
    (group,) = groups_of(OUT)
    seen = snapshot(OUT, public=(K,), budget_revision=6)

    def withdraws(others: int, *, by_person: bool) -> Plan:
        limits = Limits(TWO_STAY, KnownFleet(released={group: others}))
        return withdrawal("greenroom", "smoke failed", by_person=by_person, limits=limits)(seen, NOW)

    kept = withdraws(1, by_person=False)
    assert isinstance(kept, KeptInService)
    assert (kept.record, kept.why) == (OUT, f"only 1 others of {group} are released, and min_released is 2")
    assert planned(withdraws(2, by_person=False)) == ("withdrawn", "put S(K) lease; del K; put B; put R keep")
    assert planned(withdraws(0, by_person=True)) == ("withdrawn", "put S(K) lease; del K; put B; put R keep")


def kept(others: int, revision: int = 1_000_000) -> Limits:
    """A floor of two, with so many others released as were known at `revision`."""
    (group,) = groups_of(OUT)
    return Limits(TWO_STAY, KnownFleet(revision=revision, released={group: others}))


def test_a_failed_pass_of_whom_the_floor_keeps_in_service_is_stored_alone() -> None:
    """And the reconciler withdraws it for that as soon as enough others serve."""
    failed = verdict("smoke", 1, Outcome.FAILED, reason="why", reporter="ci", limits=kept(1))
    seen = snapshot(SERVING, public=(K,), asked=(K,), budget_revision=6)
    plan = failed(seen, LATER)
    assert told(plan) == ("stored", ALONE, "RELEASED card g1 [K] smoke:FAILED#1")
    assert isinstance(plan, Planned)
    later = snapshot(plan.record, public=(K,), asked=(K,), budget_revision=6)
    assert isinstance(reconcile(None, limits=kept(1))(later, LATER), KeptInService)
    assert planned(reconcile(None, limits=kept(2))(later, LATER))[0] == "withdrawn"


def test_a_pass_that_lapsed_withdraws_nobody_below_the_floor() -> None:
    seen = snapshot(SERVING, public=(K,), asked=(K,), budget_revision=6)
    assert isinstance(reconcile(None, limits=kept(1))(seen, RENEW_BY), KeptInService)
    assert planned(reconcile(None, limits=kept(2))(seen, RENEW_BY))[0] == "withdrawn"


def test_a_failed_pass_waits_until_the_mirror_has_seen_the_last_withdrawal() -> None:
    failed = verdict("smoke", 1, Outcome.FAILED, reason="why", reporter="ci", limits=kept(9, revision=5))
    seen = snapshot(SERVING, public=(K,), asked=(K,), budget_revision=6)
    assert failed(seen, LATER) == Behind()
    assert reconcile(None, limits=kept(9, revision=5))(seen, RENEW_BY) == Behind()


def test_a_pass_that_fails_right_after_the_release_stops_what_comes() -> None:
    own = budgets.encode(Budget().with_release(INSTANCE, NOW))
    failed = verdict("smoke", 1, Outcome.FAILED, reason="why", reporter="ci", limits=Limits(ONE_AT_ONCE, KnownFleet()))
    plan = failed(snapshot(SERVING, public=(K,), asked=(K,), budget_revision=6, budget=own), NOW)
    stop = f"put H/stopped-{INSTANCE}"
    assert planned(plan) == ("withdrawn", f"put S(K) lease; del K; put B; {stop}; put R keep")
    assert isinstance(plan, Planned)
    assert plan.stop is not None
    assert plan.stop.reason.endswith("right after its release: gate smoke failed: why")


def test_automation_waits_until_it_has_seen_the_last_withdrawal() -> None:
    (group,) = groups_of(OUT)
    limits = Limits(TWO_STAY, KnownFleet(revision=5, released={group: 9}))
    seen = snapshot(OUT, public=(K,), budget_revision=6)
    assert withdrawal("greenroom", "x", by_person=False, limits=limits)(seen, NOW) == Behind()
    with pytest.raises(WrongState):
        withdrawal("greenroom", "x", by_person=False, limits=limits)(snapshot(HELD, shadows=(K,)), NOW)


DRY = {"dry_run": True, "hold": Hold.HEALTH}


def test_an_instance_in_dry_run_uses_nothing_of_the_budget_and_waits_for_nobody() -> None:
    first = Limits(ONE_AT_ONCE, KnownFleet(turns=[Turn(NOW, ANOTHER)]))
    seen = snapshot(HELD.model_copy(update=DRY), public=(K,), budget_revision=6, budget=BUSY)
    passed = verdict("smoke", 1, Outcome.PASSED, reason="", reporter="ci", limits=first)
    assert planned(passed(seen, NOW)) == ("released", "del S*; put R keep")


def test_what_automation_would_have_withdrawn_in_dry_run_stays_where_it_is() -> None:
    """Nor does a floor keep it, or its withdrawal stop others: it serves all the while."""
    own = budgets.encode(Budget().with_release(INSTANCE, NOW))
    seen = snapshot(SERVING.model_copy(update=DRY), public=(K,), asked=(K,), budget_revision=6, budget=own)
    failed = verdict("smoke", 1, Outcome.FAILED, reason="", reporter="ci", limits=kept(0))
    assert planned(failed(seen, NOW)) == ("withdrawn", "put R keep")
    taken = withdrawal("alice", "x", by_person=True)(seen, NOW)
    assert planned(taken)[1].startswith("put S(K) lease; del K"), "a person means it"


LATER_CARD = with_later(released_record())


def seen_later(record: Record = LATER_CARD, *, holds: tuple[RolloutHold, ...] = ()) -> Snapshot:
    return snapshot(record, shadows=(K,), public=(LORA,), rollout_holds=holds)


def test_row_20_the_last_verdict_publishes_a_later_card_and_touches_nothing_public() -> None:
    assert told(report(Outcome.PASSED, seen_later(), attempt=2)) == (
        "published",
        RELEASE,
        "RELEASED card g2 [LORA K] smoke:PASSED#2",
    )
    published = report(Outcome.PASSED, seen_later(), attempt=2)
    assert isinstance(published, Planned)
    assert (published.record.later, published.record.released) == ((), NOW)
    assert published.record.transitions[-1].event == "published"


@pytest.mark.parametrize(
    ("outcome", "effect", "gate"), [(Outcome.FAILED, "kept back", "FAILED"), (Outcome.ERROR, "stored", "ERROR")]
)
def test_a_verdict_that_does_not_pass_keeps_just_the_later_card_back(outcome: Outcome, effect: str, gate: str) -> None:
    assert told(report(outcome, seen_later(), attempt=2)) == (
        effect,
        ALONE,
        f"RELEASED card g2 [LORA K] smoke:{gate}#2",
    )


def test_under_a_rollout_hold_a_later_card_waits_and_one_for_others_stops_nothing() -> None:
    others = RolloutHold(hold_id="big", reason="x", actor="bob", selector=Selector(model="lora-a"))
    for hold, effect in ((FREEZE, "stored"), (others, "published")):
        assert told(report(Outcome.PASSED, seen_later(holds=(hold,)), attempt=2))[0] == effect
    passed = after(LATER_CARD, Outcome.PASSED)
    assert isinstance(reconcile(None)(seen_later(passed, holds=(FREEZE,)), LATER), Unchanged)
    assert told(reconcile(None)(seen_later(passed), LATER))[:2] == ("published", RELEASE)


def test_the_reconciler_keeps_a_later_card_back_at_its_deadline() -> None:
    assert isinstance(reconcile(None)(seen_later(), LATER), Unchanged)
    rejected = told(reconcile(None)(seen_later(), AFTER_THE_DEADLINE))
    assert rejected == ("kept back", ALONE, "RELEASED card g2 [LORA K] smoke:FAILED#2")


def test_a_later_card_that_was_deleted_is_waited_for_by_nobody() -> None:
    """Its delete wrote no record: that it is gone is seen where the record is read with what is held."""
    gone = snapshot(LATER_CARD, public=(LORA,))
    assert isinstance(reconcile(None)(gone, AFTER_THE_DEADLINE), Unchanged)
    with pytest.raises(WrongState):
        report(Outcome.PASSED, gone, attempt=2)
    both = with_verdict(with_later(LATER_CARD, "chat"), "smoke", 2, Outcome.FAILED, reason="", reporter="ci", now=NOW)
    assert told(report(Outcome.PASSED, seen_later(both), gate="chat"))[0] == "published"


def test_an_override_and_a_retry_are_about_the_later_card() -> None:
    failed = seen_later(after(LATER_CARD, Outcome.FAILED))
    override = edit(lambda record, now: overridden(record, "alice", "known", now))(failed, LATER)
    assert told(override) == ("published", RELEASE, "RELEASED card g2 [LORA K] smoke:OVERRIDDEN#2")
    retry = edit(lambda record, now: retried(record, (), "alice", "flaky", now))(failed, LATER)
    assert told(retry) == ("stored", ALONE, "RELEASED card g2 [LORA K] smoke:PENDING#3")


def test_row_14_a_withdrawal_leaves_a_later_card_where_it_is_and_it_waits_with_the_others() -> None:
    plan = withdrawal("alice", "bad", by_person=False)(seen_later(), LATER)
    assert told(plan) == (
        "withdrawn",
        "mod(R)=7 | mod(LORA)=40 | mod(K)=0 | mod(B)=0 || put S(LORA) lease; del LORA; put R keep",
        "WITHDRAWN card g2 [LORA K] smoke:PENDING#3",
    )
    assert isinstance(plan, Planned)
    assert plan.record.later == ()


CONFLICT = Conflict("tiny", INSTANCE, True, (Difference("kv_cache_block_size", "64", "32"),))


def test_a_last_verdict_in_a_conflict_queues_or_rejects_as_the_rules_say() -> None:
    for does, effect, after_it in (
        (OnConflict.QUEUE, "stored", "HELD card g1 [K] smoke:PASSED#1"),
        (OnConflict.REJECT, "rejected", "REJECTED card g1 [K] smoke:PASSED#1"),
    ):
        seen = snapshot(HELD.model_copy(update={"on_conflict": does}), shadows=(K,))
        plan = verdict("smoke", 1, Outcome.PASSED, reason="", reporter="ci", conflicts=lambda *_: (CONFLICT,))
        assert told(plan(seen, LATER)) == (effect, ALONE, after_it)


def test_the_reconciler_rejects_for_a_conflict_and_a_retry_asks_again() -> None:
    """It is asked with the record that the plan starts from, and with what is held of it."""
    asked: list[object] = []

    def conflicts(record: Record, held: object) -> tuple[Conflict, ...]:
        asked.append((record.on_conflict, set(held)))  # type: ignore[call-overload]
        return (CONFLICT,)

    seen = snapshot(after(HELD.model_copy(update={"on_conflict": OnConflict.REJECT}), Outcome.ERROR), shadows=(K,))
    rejected = reconcile(None, conflicts=conflicts)(seen, LATER)
    assert told(rejected) == ("rejected", ALONE, "REJECTED card g1 [K] smoke:ERROR#1")
    assert isinstance(rejected, Planned)
    assert rejected.record.conflict == str(CONFLICT)
    assert asked == [(OnConflict.REJECT, {K})]
    seen = snapshot(rejected.record, shadows=(K,))
    retry = edit(lambda record, now: retried(record, (), "alice", "they leave", now), conflicts=conflicts)
    assert told(retry(seen, LATER))[2] == "REJECTED card g1 [K] smoke:PENDING#2"
    alone = edit(lambda record, now: retried(record, (), "alice", "they left", now))
    assert told(alone(seen, LATER))[2] == "HELD card g1 [K] smoke:PENDING#2"


PROBE = {"phase": Phase.CONTINUOUS, "ttl_seconds": 60}


def test_a_later_card_waits_for_no_budget_and_no_turn() -> None:
    """Its instance serves: there is nothing of it that others would have to wait for."""
    full = Limits(ONE_AT_ONCE, KnownFleet(turns=[Turn(NOW, ANOTHER)]))
    seen = snapshot(LATER_CARD, shadows=(K,), public=(LORA,), budget_revision=6, budget=BUSY)
    passed = verdict("smoke", 2, Outcome.PASSED, reason="", reporter="ci", limits=full)
    assert planned(passed(seen, NOW)) == ("published", "put K lease; del S*; put R keep")
    ready = snapshot(after(LATER_CARD, Outcome.PASSED), shadows=(K,), public=(LORA,), budget_revision=6, budget=BUSY)
    assert planned(reconcile(None, limits=full)(ready, NOW))[0] == "published"


def test_a_continuous_gate_that_a_later_card_reopened_withdraws_nobody_until_it_has_passed() -> None:
    gates = {"smoke": LATER_CARD.gates["smoke"].model_copy(update=PROBE)}
    record = LATER_CARD.model_copy(update={"gates": gates})
    assert told(report(Outcome.FAILED, seen_later(record), attempt=2))[0] == "kept back"
    late = reconcile(None)(seen_later(record), AFTER_THE_DEADLINE)
    assert told(late)[0] == "kept back"
    gone = snapshot(after(record, Outcome.FAILED), public=(LORA,))
    assert isinstance(reconcile(None)(gone, AFTER_THE_DEADLINE), Unchanged), "the card is gone, and what serves stays"


def test_an_override_sets_conflicts_aside_and_keeps_to_the_budget() -> None:
    seen = snapshot(
        HELD.model_copy(update={"on_conflict": OnConflict.REJECT}), shadows=(K,), budget_revision=6, budget=BUSY
    )
    limits = Limits(ONE_AT_ONCE, KnownFleet())
    override = edit(
        lambda record, now: overridden(record, "alice", "known", now), limits, conflicts=lambda *_: (CONFLICT,)
    )
    assert planned(override(seen, NOW)) == ("stored", "put R keep")
    assert planned(override(seen, LATER))[0] == "released"
