"""From messages to values: nothing is lost, and nothing that a newer proxy says is an error."""

from datetime import timedelta

import pytest

from greenroom.client.reading import (
    change_of,
    claim_of,
    instance_of,
    moment,
    outcome_number,
    preview_of,
    preview_request,
    state_filter,
    verdict_of,
)
from greenroom.client.values import (
    ChangeKind,
    Claim,
    Decision,
    GateClaim,
    GatedKey,
    GateState,
    Hold,
    Outcome,
    Phase,
    Preview,
    RemovalReason,
    Selector,
    State,
)
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.shown import CARD_KEY, NOW, at, shown
from tests.support.told import event

FUTURE = 99


def test_an_instance_has_all_that_its_message_has() -> None:
    message = shown("a1", reason="opened: k", rollout_hold="night")
    message.queue_position = 3
    found = instance_of(message)
    assert (found.id, found.state, found.hold, found.reason) == ("a1", State.HELD, Hold.CARD, "opened: k")
    assert (found.namespace, found.component, found.endpoints) == ("dynamo", "backend", ("generate",))
    assert (found.models, found.address, found.generation) == (("tiny",), "127.0.0.1:46537", 1)
    assert found.gated_keys == (GatedKey(CARD_KEY + b"a1", live=True, public=False),)
    assert (found.rollout_holds, found.queue_position, found.dry_run) == (("night",), 3, False)
    assert (found.first_held_time, found.release_time) == (NOW - timedelta(seconds=200), None)
    assert found.record_revision == 7
    assert [(one.type, one.status) for one in found.conditions] == [("GatesPassed", False), ("NotOnHold", False)]


def test_a_gate_has_all_that_its_message_has() -> None:
    message = pb.GateStatus(
        gate="smoke", state=pb.GATE_STATE_PASSED, attempt=2, reason="why", reporter="ci", phase=pb.GATE_PHASE_CONTINUOUS
    )
    message.renew_by_time.CopyFrom(at(60))
    message.pass_ttl.FromTimedelta(timedelta(seconds=300))
    message.failures, message.failure_limit, message.inconclusives, message.dry_run = 1, 3, 2, True
    message.claim.runner = "gpu-7"
    [gate] = instance_of(pb.Instance(gates=[message])).gates
    assert (gate.name, gate.state, gate.attempt) == ("smoke", GateState.PASSED, 2)
    assert (gate.reason, gate.reporter, gate.phase) == ("why", "ci", Phase.CONTINUOUS)
    assert (gate.renew_by_time, gate.pass_ttl_seconds) == (NOW + timedelta(seconds=60), 300)
    assert (gate.failures, gate.failure_limit, gate.inconclusives, gate.dry_run) == (1, 3, 2, True)
    assert gate.claim == GateClaim("gpu-7", None)
    assert instance_of(shown()).gates[0].claim is None


def test_every_word_of_the_api_has_its_own_here() -> None:
    """A value that is added to the API and forgotten here would be unknown to every program."""
    kinds = (pb.InstanceState, State), (pb.Hold, Hold), (pb.GateState, GateState), (pb.GatePhase, Phase)
    for names, kind in (*kinds, (pb.RemovalReason, RemovalReason), (pb.Outcome, Outcome)):
        common = names.Name(0).removesuffix("UNSPECIFIED")
        assert {name.removeprefix(common) for name in names.keys()[1:]} == set(kind.__members__) - {"UNKNOWN"}


def test_what_only_a_newer_proxy_knows_is_unknown() -> None:
    message = shown()
    message.state = message.gates[0].state = message.hold = FUTURE  # type: ignore[assignment]
    found = instance_of(message)
    assert (found.state, found.hold, found.gates[0].state) == (State.UNKNOWN, Hold.UNKNOWN, GateState.UNKNOWN)
    assert change_of(pb.InstanceEvent(type=FUTURE, instance=message)).kind is ChangeKind.UNKNOWN  # type: ignore[arg-type]
    answer = pb.ReportVerdictResponse(instance=message, decision=FUTURE)  # type: ignore[arg-type]
    assert verdict_of(answer).decision is Decision.UNKNOWN


def test_why_one_went_is_told_with_its_going_alone() -> None:
    assert change_of(event("REMOVED", shown(), "EXPIRED")).removal_reason is RemovalReason.EXPIRED
    assert change_of(event("ADDED", shown())).removal_reason is None


def test_the_answer_to_a_verdict() -> None:
    found = verdict_of(pb.ReportVerdictResponse(instance=shown(), decision=pb.DECISION_QUEUED, repeated_verdict=True))
    assert (found.instance.id, found.decision, found.repeated) == (shown().id, Decision.QUEUED, True)


def test_a_claim_says_of_what_it_is() -> None:
    message = pb.Claim(name="instances/7f/gates/smoke/claim", lease="9", attempt=2, runner="r", expire_time=at(60))
    assert claim_of(message) == Claim("7f", "smoke", 2, "r", NOW + timedelta(seconds=60))


def test_what_to_preview_is_asked_as_the_api_has_it() -> None:
    assert preview_request("", None, 0, only=False) == pb.Preview()
    one = preview_request("7f", None, 90, only=True)
    assert (one.instance, one.only, one.ttl.seconds) == ("instances/7f", True, 90)
    some = preview_request("", Selector(model="tiny*", suffix="a"), 0, only=False)
    assert some.selector == pb.Selector(model="tiny*", suffix="a")
    assert not some.HasField("ttl")


def test_a_preview_says_where_it_is_and_until_when() -> None:
    message = pb.Preview(name="previews/x1", address="127.0.0.1:9", expire_time=at(60))
    assert preview_of(message) == Preview("x1", "127.0.0.1:9", NOW + timedelta(seconds=60))


def test_times_have_their_zone() -> None:
    assert moment(at(0)) == NOW
    assert moment(pb.Instance().release_time) is None


def test_words_are_numbers_again() -> None:
    assert state_filter(None) == pb.INSTANCE_STATE_UNSPECIFIED
    assert state_filter(State.HELD) == state_filter("held") == pb.INSTANCE_STATE_HELD
    assert outcome_number(Outcome.PASSED) == outcome_number("passed") == pb.OUTCOME_PASSED
    for wrong in (lambda: state_filter(State.UNKNOWN), lambda: state_filter("helt"), lambda: outcome_number("pass")):
        with pytest.raises(ValueError, match=r"pass|UNKNOWN|helt"):
            wrong()
