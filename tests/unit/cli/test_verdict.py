"""Verdicts: what was typed, and what is said of the answer."""

import pytest

from greenroom.cli.verdict import _status, _taken_apart, in_words, report_on, verdict
from greenroom.errors import ControlError, SettingsError
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.shown import shown, to_be_withdrawn


@pytest.mark.parametrize(
    ("words", "by_other_means", "expected"),
    [
        (["0b2b", "smoke", "passed"], False, ("0b2b", "smoke", pb.OUTCOME_PASSED)),
        (["0b2b", "smoke", "Pass"], False, ("0b2b", "smoke", pb.OUTCOME_PASSED)),
        (["0b2b", "smoke", "fail"], False, ("0b2b", "smoke", pb.OUTCOME_FAILED)),
        (["smoke", "inconclusive"], True, (None, "smoke", pb.OUTCOME_INCONCLUSIVE)),
        (["smoke", "error"], True, (None, "smoke", pb.OUTCOME_ERROR)),
    ],
)
def test_what_is_typed(words: list[str], by_other_means: bool, expected: tuple[object, ...]) -> None:
    assert _taken_apart(words, by_other_means=by_other_means) == expected


@pytest.mark.parametrize(
    ("words", "by_other_means", "said"),
    [
        (["smoke", "passed"], False, "expected ID GATE OUTCOME"),
        (["0b2b", "smoke", "passed"], True, "expected GATE OUTCOME"),
        (["0b2b", "smoke", "ok"], False, "OUTCOME 'ok'"),
    ],
)
def test_what_is_typed_wrongly(words: list[str], by_other_means: bool, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        _taken_apart(words, by_other_means=by_other_means)


def test_a_gate_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(ControlError, match=r"no gate 'latency'; its gates are: a, smoke"):
        _status(shown(gates={"smoke": "PENDING", "a": "PASSED"}), "latency")


@pytest.mark.parametrize(
    ("decision", "instance", "said"),
    [
        (
            pb.DECISION_RECORDED,
            shown(gates={"smoke": "PASSED", "latency": "PENDING"}),
            "smoke passed (attempt 2 of 6177a228983c0b2b): stored; still to be decided: latency",
        ),
        (
            pb.DECISION_RECORDED,
            shown(gates={"smoke": "PASSED", "latency": "PENDING"}, rollout_hold="h1"),
            "smoke passed (attempt 2 of 6177a228983c0b2b): stored; still to be decided: latency; "
            "and to be lifted: rollout hold h1",
        ),
        (
            pb.DECISION_RELEASED,
            to_be_withdrawn(),
            "smoke passed (attempt 2 of 6177a228983c0b2b): stored, and its cards stay public: "
            "smoke failed; it stays in service",
        ),
        (
            pb.DECISION_QUEUED,
            shown(gates={"smoke": "PASSED"}, rollout_hold="h1"),
            "smoke passed (attempt 2 of 6177a228983c0b2b): every gate passed, and it waits: "
            "rollout hold h1 by ann: incident",
        ),
        (
            pb.DECISION_RELEASED,
            shown(gates={"smoke": "PASSED"}),
            "smoke passed (attempt 2 of 6177a228983c0b2b): RELEASED, its cards are public",
        ),
        (
            pb.DECISION_REJECTED,
            shown(gates={"smoke": "FAILED"}),
            "smoke failed (attempt 2 of 6177a228983c0b2b): REJECTED, it stays out of routing",
        ),
    ],
)
def test_what_followed(decision: "pb.Decision.ValueType", instance: pb.Instance, said: str) -> None:
    outcome = pb.OUTCOME_FAILED if decision == pb.DECISION_REJECTED else pb.OUTCOME_PASSED
    request = report_on(instance, "smoke", outcome, "", "ann")
    assert in_words(request, pb.ReportVerdictResponse(instance=instance, decision=decision)) == said


def test_a_verdict_on_what_a_person_rejected_says_what_it_waits_for() -> None:
    """`smoke passed: REJECTED` would look as if the verdict had done that."""
    instance = shown(state="REJECTED", gates={"smoke": "PASSED"})
    instance.conditions[0].status, instance.conditions[0].reason = False, "RejectedByPerson"
    instance.conditions[0].message = "alice rejected it; a retry or override ends that"
    request = report_on(instance, "smoke", pb.OUTCOME_PASSED, "", "ann")
    said = in_words(request, pb.ReportVerdictResponse(instance=instance, decision=pb.DECISION_REJECTED))
    assert said.endswith("): stored, and it stays out: alice rejected it; a retry or override ends that")


@pytest.mark.parametrize(
    ("state", "is_public", "said"),
    [
        ("REJECTED", True, "REJECTED in dry run: it serves on"),
        ("WITHDRAWN", True, "WITHDRAWN in dry run: it serves on"),
        ("REJECTED", False, "REJECTED, what is held of it stays out of routing"),
    ],
)
def test_a_verdict_in_a_dry_run_takes_nobody_out_of_routing(*, state: str, is_public: bool, said: str) -> None:
    """`REJECTED, it stays out of routing` was said of one that served on. What a person took back does not."""
    instance = shown(state=state, gates={"smoke": "FAILED"})
    instance.hold, instance.dry_run, instance.gated_keys[0].public = pb.HOLD_HEALTH, True, is_public
    request = report_on(instance, "smoke", pb.OUTCOME_FAILED, "", "ann")
    decision = pb.Decision.Value(f"DECISION_{state}")
    assert in_words(request, pb.ReportVerdictResponse(instance=instance, decision=decision)).endswith(f"): {said}")


def test_a_gate_that_failed_for_a_later_card_says_nothing_against_the_instance() -> None:
    instance = shown(state="RELEASED", gates={"smoke": "FAILED"})
    request = report_on(instance, "smoke", pb.OUTCOME_FAILED, "", "ann")
    said = in_words(request, pb.ReportVerdictResponse(instance=instance, decision=pb.DECISION_REJECTED))
    assert said.endswith("what it registered since its release stays out of routing")


def test_what_was_sent_is_told_and_not_what_it_became_meanwhile() -> None:
    """Between the verdict and the answer a worker can change its card: another attempt, pending again."""
    request = report_on(shown(), "smoke", pb.OUTCOME_INCONCLUSIVE, "no route", "ann")
    later = shown()
    later.gates[0].attempt = 3
    said = in_words(request, pb.ReportVerdictResponse(instance=later, decision=pb.DECISION_RECORDED))
    assert said.startswith("smoke inconclusive (attempt 2 of 6177a228983c0b2b): stored")


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        (1, "forgiven, 1 more is forgiven; attempt 3 is open; stored; still to be decided: smoke"),
        (2, "forgiven, the next one counts; attempt 3 is open; stored; still to be decided: smoke"),
        (0, "stored; still to be decided: smoke"),
    ],
    ids=["one is left", "none is left", "a new card's attempt"],
)
def test_a_forgiven_failure_says_how_many_more_are(failures: int, said: str) -> None:
    request = report_on(shown(), "smoke", pb.OUTCOME_FAILED, "slow", "ann")
    later = shown()
    later.gates[0].attempt, later.gates[0].failures, later.gates[0].failure_limit = 3, failures, 2
    answer = pb.ReportVerdictResponse(instance=later, decision=pb.DECISION_RECORDED)
    assert in_words(request, answer) == f"smoke failed (attempt 2 of 6177a228983c0b2b): {said}"


def test_the_failure_that_counts_is_not_called_forgiven() -> None:
    rejected = shown(state="REJECTED", gates={"smoke": "FAILED"})
    rejected.gates[0].failures, rejected.gates[0].failure_limit = 3, 2
    request = report_on(shown(), "smoke", pb.OUTCOME_FAILED, "slow", "ann")
    said = in_words(request, pb.ReportVerdictResponse(instance=rejected, decision=pb.DECISION_REJECTED))
    assert said.endswith("): REJECTED, it stays out of routing")


def test_a_repeated_verdict_is_told_as_such() -> None:
    answer = pb.ReportVerdictResponse(
        instance=shown(gates={"smoke": "PASSED"}), decision=pb.DECISION_RELEASED, repeated_verdict=True
    )
    request = report_on(shown(), "smoke", pb.OUTCOME_PASSED, "", "ann")
    assert "as had been said before" in in_words(request, answer)


def test_a_reason_that_is_no_utf8_does_not_lose_the_verdict() -> None:
    r"""As `--reason "$(tail -c 2000 log)"` makes them; the command ended with a traceback, and the gate stayed open."""
    said = report_on(shown(gates={"smoke": "PENDING"}), "smoke", pb.OUTCOME_FAILED, "\udcbd tail", "ci\udcff")
    assert (said.reason, said.reporter) == ("\ufffd tail", "ci\ufffd")


def test_a_reason_of_blanks_is_none() -> None:
    with pytest.raises(SettingsError, match="--reason is not given"):
        verdict(["0b2b", "smoke", "failed"], reason=" \n")


def test_what_it_waits_for_is_told_in_one_line() -> None:
    instance = shown(gates={"smoke": "PASSED"}, rollout_hold="h1")
    for condition in instance.conditions:
        condition.message = "rollout hold h1: first\nsecond"
    answer = pb.ReportVerdictResponse(instance=instance, decision=pb.DECISION_QUEUED)
    assert "it waits: rollout hold h1: first second" in in_words(pb.ReportVerdictRequest(gate="smoke"), answer)


def test_a_verdict_on_an_attempt_that_was_checked_is_sent_as_such() -> None:
    """The proxy refuses it where the card has changed since; a current one would pass what nobody checked."""
    assert report_on(shown(), "smoke", pb.OUTCOME_PASSED, "", "ann", attempt=1).attempt == 1
    assert report_on(shown(), "smoke", pb.OUTCOME_PASSED, "", "ann").attempt == 2
