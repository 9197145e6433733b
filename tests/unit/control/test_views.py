"""Records as the control API shows them."""

from datetime import timedelta

import pytest

from greenroom.control import views
from greenroom.core.policy import Hold, Requirements
from greenroom.core.record import GateState, State
from greenroom.core.rollout_holds import RolloutHold
from greenroom.core.selectors import Selector
from greenroom.core.transitions import Outcome, opened_as_public, released, with_verdict
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.mirroring import ONE
from tests.support.registering import card_key, entry, held_record, now


def message(record: object, *, live: bool = True, holds: tuple[RolloutHold, ...] = ()) -> pb.Instance:
    return views.instance_message(
        ONE,
        record,  # type: ignore[arg-type]
        revision=7,
        live={card_key(ONE)} if live else set(),
        rollout_holds=holds,
        address=None,
    )


def test_every_word_of_the_record_has_one_of_the_api() -> None:
    assert set(views.STATES) == set(State)
    assert set(views.HOLDS) == set(Hold)
    assert set(views.GATE_STATES) == set(GateState)
    assert set(views.OUTCOMES.values()) == set(Outcome)
    for table in (views.STATES, views.HOLDS, views.GATE_STATES):
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


def test_the_reason_is_what_led_to_the_state() -> None:
    record = with_verdict(held_record(ONE), "smoke", 1, Outcome.FAILED, reason="no answer", reporter="ci", now=now())
    assert message(record).reason == "smoke failed: no answer"
    passed = with_verdict(held_record(ONE), "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=now())
    assert message(released(passed, now())).reason == "released"


def test_a_live_fleets_instance_says_that_it_was_public() -> None:
    record = opened_as_public((entry(ONE),), Requirements(Hold.CARD, {"smoke": 1.0}), now())
    assert message(record).reason == "AlreadyPublic"
    assert not message(record).HasField("first_held_time")


def test_without_a_live_card_it_says_that_none_is_registered() -> None:
    record = with_verdict(held_record(ONE), "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=now())
    [gates, *_] = message(record, live=False).conditions
    assert (gates.type, gates.status, gates.reason) == ("GatesPassed", False, "NoCard")
    assert [key.live for key in message(record, live=False).gated_keys] == [False]


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


def test_a_rollout_hold_with_and_without_a_selector() -> None:
    everything = views.rollout_hold_message(RolloutHold(hold_id="f", reason="r", actor="a", created=now()))
    assert (everything.name, everything.reason, everything.actor) == ("rolloutHolds/f", "r", "a")
    assert not everything.HasField("selector")
    assert everything.WhichOneof("expiration") is None
    some = RolloutHold(hold_id="f", reason="r", actor="a", selector=Selector(model="Q*"), expires=now())
    shown = views.rollout_hold_message(some)
    assert views.selector_of(shown.selector) == some.selector
    assert shown.WhichOneof("expiration") == "expire_time"
