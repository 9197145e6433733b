"""Records as the control API shows them."""

from datetime import UTC, timedelta

import pytest

from greenroom.control import views
from greenroom.core.claims import Claim
from greenroom.core.keyspace import Key
from greenroom.core.policy import Hold, Phase, Requirements, gates_of
from greenroom.core.record import GateState, State
from greenroom.core.rollout_holds import RolloutHold
from greenroom.core.selectors import Selector
from greenroom.core.snapshot import Snapshot
from greenroom.core.templates import KeyKind
from greenroom.core.transitions import (
    Outcome,
    opened_as_public,
    overridden,
    rejected,
    released,
    with_verdict,
    withdrawn,
)
from greenroom.pb.control.v1 import control_pb2 as pb
from greenroom.pb.etcd import kv_pb2
from greenroom.store.claims import HeldClaim
from greenroom.store.mirrored import MirroredInstance
from tests.support.instances import LORA, K
from tests.support.later import released_record, with_later
from tests.support.mirroring import ONE
from tests.support.registering import card_key, entry, held_record, now


def message(
    record: object, *, live: bool = True, public: set[Key] | None = None, holds: tuple[RolloutHold, ...] = ()
) -> pb.Instance:
    return views.instance_message(
        ONE,
        record,  # type: ignore[arg-type]
        revision=7,
        live={card_key(ONE)} if live else set(),
        public=public,
        rollout_holds=holds,
        address=None,
    )


def test_every_word_of_the_record_has_one_of_the_api() -> None:
    assert set(views.STATES) == set(State)
    assert set(views.HOLDS) == set(Hold)
    assert set(views.GATE_STATES) == set(GateState)
    assert set(views.OUTCOMES.values()) == set(Outcome)
    assert set(views.PHASES) == set(Phase)
    for table in (views.STATES, views.HOLDS, views.GATE_STATES, views.PHASES):
        assert len(set(table.values())) == len(table)
        assert 0 not in table.values()


def test_a_held_record() -> None:
    record = held_record(ONE)
    said = message(record)
    assert (said.name, said.id, said.record_revision, said.address) == (f"instances/{ONE}", ONE, 7, "")
    assert said.reason == f"opened: {card_key(ONE).decode()}"
    assert [(one.from_state, one.to_state) for one in said.transitions] == [(0, pb.INSTANCE_STATE_HELD)]
    [gate] = said.gates
    assert gate.deadline_time.ToDatetime() - gate.opened_time.ToDatetime() == timedelta(seconds=900)
    assert not gate.HasField("decided_time")
    assert said.HasField("first_held_time")
    assert not said.HasField("release_time")


def test_what_a_gate_counts_is_shown() -> None:
    counted = {"failures": 2, "inconclusives": 3}
    record = held_record(ONE)
    gates = {name: gate.model_copy(update=counted) for name, gate in record.gates.items()}
    [gate] = message(record.model_copy(update={"gates": gates})).gates
    assert (gate.failures, gate.inconclusives) == (2, 3)


def test_a_deadline_is_shown_where_it_counts_and_nowhere_else() -> None:
    """Of a withdrawn or rejected instance nobody waits for it, and the proxy does nothing when it is over."""
    two = held_record(ONE, {"smoke": 900.0, "latency": 60.0})
    rejected_one = with_verdict(two, "smoke", 1, Outcome.FAILED, reason="", reporter="ci", now=now())
    out = withdrawn(released(overridden(two, "alice", "", now()), now()), "probe", "", now(), by_person=False)
    shown = {
        record.state: [gate.gate for gate in message(record).gates if gate.HasField("deadline_time")]
        for record in (two, rejected_one, out)
    }
    assert shown == {State.HELD: ["latency", "smoke"], State.REJECTED: [], State.WITHDRAWN: []}


def test_what_a_gate_forgives_and_how_long_its_pass_holds_is_shown() -> None:
    record = held_record(ONE)
    lasting = {"failure_limit": 2, "phase": Phase.CONTINUOUS, "ttl_seconds": 90.5}
    [gate] = message(
        record.model_copy(update={"gates": {"smoke": record.gates["smoke"].model_copy(update=lasting)}})
    ).gates
    assert (gate.failure_limit, gate.pass_ttl.ToTimedelta()) == (2, timedelta(seconds=90.5))
    [plain] = message(record).gates
    assert (plain.failure_limit, plain.HasField("pass_ttl")) == (0, False)


def test_a_pass_that_must_be_renewed_has_its_own_time_and_no_deadline() -> None:
    record = held_record(ONE)
    passed = {"state": GateState.PASSED, "phase": Phase.CONTINUOUS, "ttl_seconds": 60.0}
    gate = record.gates["smoke"].model_copy(update=passed)
    [shown] = message(record.model_copy(update={"gates": {"smoke": gate}})).gates
    assert shown.phase == pb.GATE_PHASE_CONTINUOUS
    assert shown.renew_by_time.ToDatetime(UTC) == gate.deadline
    assert not shown.HasField("deadline_time")
    [open_one] = message(record).gates
    assert (open_one.phase, open_one.HasField("renew_by_time")) == (pb.GATE_PHASE_PRE_RELEASE, False)


def test_who_has_claimed_the_current_attempt_is_shown_and_no_other() -> None:
    claim = Claim(runner="r1", attempt=1, claimed=now(), expires=now() + timedelta(seconds=30))
    record = held_record(ONE)
    shown = {"revision": 7, "live": (), "rollout_holds": (), "address": None}
    [gate] = views.instance_message(ONE, record, claims={"smoke": claim}, **shown).gates  # type: ignore[arg-type]
    assert (gate.claim.runner, gate.claim.expire_time.ToDatetime(UTC)) == ("r1", claim.expires)
    old = {"smoke": claim.model_copy(update={"attempt": 7}), "other": claim}
    [gate] = views.instance_message(ONE, record, claims=old, **shown).gates  # type: ignore[arg-type]
    assert not gate.HasField("claim")


def test_a_claim_is_told_with_its_token() -> None:
    claim = Claim(runner="r1", attempt=2, claimed=now(), expires=now())
    said = views.claim_message(HeldClaim(ONE, "smoke", 0xABC, claim))
    assert (said.name, said.lease, said.attempt) == (f"instances/{ONE}/gates/smoke/claim", "abc", 2)


def test_the_reason_is_what_led_to_the_state() -> None:
    record = with_verdict(held_record(ONE), "smoke", 1, Outcome.FAILED, reason="no answer", reporter="ci", now=now())
    assert message(record).reason == "smoke failed: no answer"
    passed = with_verdict(held_record(ONE), "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=now())
    assert message(released(passed, now())).reason == "released"


def test_a_live_fleets_instance_says_that_it_was_public() -> None:
    record = opened_as_public((entry(ONE),), Requirements(Hold.CARD, gates_of({"smoke": 1.0})), now())
    assert message(record).reason == "AlreadyPublic"
    assert not message(record).HasField("first_held_time")


def test_a_card_is_told_with_its_model_and_configuration_and_an_instance_record_without() -> None:
    record = held_record(ONE)
    card = record.cards[0].model_copy(update={"configuration": "kv_cache_block_size=64"})
    instance = card.model_copy(update={"key": "v1/instances/x", "kind": KeyKind.INSTANCE, "configuration": ""})
    said = message(record.model_copy(update={"cards": (card, instance)})).gated_keys
    assert [(key.model, key.configuration) for key in said] == [(card.model, "kv_cache_block_size=64"), ("", "")]


def test_without_a_live_card_it_says_that_none_is_registered() -> None:
    record = with_verdict(held_record(ONE), "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=now())
    [gates, *_] = message(record, live=False).conditions
    assert (gates.type, gates.status, gates.reason) == ("GatesPassed", False, "NoCard")
    assert [key.live for key in message(record, live=False).gated_keys] == [False]


@pytest.mark.parametrize(("public", "reason"), [(set(), "AllPassed"), ({card_key(ONE)}, "NoCard")])
def test_a_card_that_is_public_already_is_none_that_waits(public: set[Key], reason: str) -> None:
    record = with_verdict(held_record(ONE), "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=now())
    said = message(record, public=public)
    assert said.conditions[0].reason == reason
    assert [(key.live, key.public) for key in said.gated_keys] == [(True, bool(public))]


@pytest.mark.parametrize(("is_released_since", "reason"), [(False, "NoCard"), (True, "AllPassed")])
def test_what_was_published_since_is_not_taken_for_free_of_rules(is_released_since: bool, reason: str) -> None:
    """A verdict's answer tells of its own record, and of the keys as they are a moment later."""
    passed = with_verdict(held_record(ONE), "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=now())
    card = kv_pb2.KeyValue(key=card_key(ONE))
    seen = released(passed, now()) if is_released_since else passed
    snapshot = Snapshot(ONE, 9, seen, 8, {}, {card_key(ONE): card}, frozenset({card_key(ONE)}), (), 0)
    said = views.read_instance(snapshot, passed, None, revision=7)
    assert said.conditions[0].reason == reason
    assert said.gated_keys[0].live


def test_what_the_mirror_does_not_look_at_is_public_as_the_record_says() -> None:
    passed = with_verdict(held_record(ONE), "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=now())
    assert [key.public for key in message(passed).gated_keys] == [False]
    assert [key.public for key in message(released(passed, now())).gated_keys] == [True]
    assert message(released(passed, now()), public={card_key(ONE)}).conditions[0].status


def test_the_rollout_holds_that_apply_are_named_by_their_ids() -> None:
    holds = (
        RolloutHold(hold_id="night", reason="rollout hold x by bob", actor="ann"),
        RolloutHold(hold_id="others", reason="r", actor="a", selector=Selector(model="other")),
    )
    assert list(message(held_record(ONE), holds=holds).rollout_holds) == ["night"]
    assert list(message(held_record(ONE)).rollout_holds) == []


@pytest.mark.parametrize(
    ("outcome", "decision"),
    [
        (Outcome.PASSED, pb.DECISION_QUEUED),
        (Outcome.FAILED, pb.DECISION_REJECTED),
        (Outcome.ERROR, pb.DECISION_RECORDED),
    ],
)
def test_what_a_verdict_led_to(outcome: Outcome, decision: int) -> None:
    record = with_verdict(held_record(ONE), "smoke", 1, outcome, reason="", reporter="ci", now=now())
    assert views.decision_of(record) == decision


def test_what_a_verdict_that_released_led_to() -> None:
    passed = with_verdict(held_record(ONE), "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=now())
    assert views.decision_of(released(passed, now())) == pb.DECISION_RELEASED


def test_what_a_persons_decision_led_to() -> None:
    before = held_record(ONE, {"smoke": 900.0, "latency": 60.0})
    passed = with_verdict(before, "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=now())
    set_aside = overridden(passed, "alice", "known", now())
    out = released(set_aside, now())
    led_to = [
        (passed, pb.DECISION_HELD),
        (set_aside, pb.DECISION_QUEUED),
        (out, pb.DECISION_RELEASED),
        (rejected(passed, "alice", "", now()), pb.DECISION_REJECTED),
        (withdrawn(out, "alice", "", now(), by_person=True), pb.DECISION_WITHDRAWN),
    ]
    assert [views.decision_afterwards(record) for record, _ in led_to] == [decision for _, decision in led_to]


def test_a_rollout_hold_with_and_without_a_selector() -> None:
    everything = views.rollout_hold_message(RolloutHold(hold_id="f", reason="r", actor="a", created=now()))
    assert (everything.name, everything.reason, everything.actor) == ("rolloutHolds/f", "r", "a")
    assert not everything.HasField("selector")
    assert everything.WhichOneof("expiration") is None
    some = RolloutHold(hold_id="f", reason="r", actor="a", selector=Selector(model="Q*"), expires=now())
    shown = views.rollout_hold_message(some)
    assert views.selector_of(shown.selector) == some.selector
    assert shown.WhichOneof("expiration") == "expire_time"


@pytest.mark.parametrize(
    ("outcome", "decision", "reason"),
    [
        (None, pb.DECISION_RECORDED, "GatesOpen"),
        (Outcome.ERROR, pb.DECISION_RECORDED, "GatesOpen"),
        (Outcome.PASSED, pb.DECISION_QUEUED, "AllPassed"),
        (Outcome.FAILED, pb.DECISION_REJECTED, "GateFailed"),
    ],
)
def test_a_later_card_is_shown_as_held_in_a_released_instance(
    outcome: Outcome | None, decision: int, reason: str
) -> None:
    record = with_later(released_record())
    if outcome:
        record = with_verdict(record, "smoke", 2, outcome, reason="", reporter="ci", now=now())
    assert views.decision_of(record) == decision
    said = views.mirrored_instance(MirroredInstance(ONE, record, 7, frozenset({K}), None), ())
    assert said.state == pb.INSTANCE_STATE_RELEASED
    assert {key.key: (key.live, key.public) for key in said.gated_keys} == {K: (True, False), LORA: (True, True)}
    assert said.conditions[0].reason == reason
    assert views.decision_of(released(record, now()) if outcome is Outcome.PASSED else record.with_held(())) == (
        pb.DECISION_RELEASED
    )


def test_a_rollout_hold_applies_to_a_released_instance_by_what_waits_of_it() -> None:
    record = with_later(released_record())
    holds = tuple(
        RolloutHold(hold_id=name, reason="r", actor="a", selector=Selector(model=entry.model))
        for name, entry in zip(("public", "later"), record.cards, strict=True)
    )
    waiting = MirroredInstance(ONE, record, 7, frozenset({K}), None)
    assert list(views.mirrored_instance(waiting, holds).rollout_holds) == ["later"]
