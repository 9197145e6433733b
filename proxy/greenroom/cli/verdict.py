"""`greenroom verdict`: what a check found out about an instance."""

from collections.abc import Iterator
from typing import Annotated

import typer

from greenroom.addresses import DEFAULT_CONTROL
from greenroom.cli.choose import Wanted, choose
from greenroom.cli.options import ByAddress, ByModel, Control, TokenFile, connect, named, readable, say
from greenroom.cli.words import (
    forgiven_words,
    has_held_keys,
    holds_to_lift,
    is_to_be_withdrawn,
    open_gates,
    shown_state,
    stays_out,
    unmet,
    waits_for_a_person,
    why_in_service,
)
from greenroom.errors import ControlError, SettingsError
from greenroom.pb.control.v1 import control_pb2
from greenroom.pb.control.v1.control_pb2 import (
    GateStatus,
    Instance,
    Outcome,
    ReportVerdictRequest,
    ReportVerdictResponse,
)

OUTCOMES = {
    "passed": control_pb2.OUTCOME_PASSED,
    "pass": control_pb2.OUTCOME_PASSED,
    "failed": control_pb2.OUTCOME_FAILED,
    "fail": control_pb2.OUTCOME_FAILED,
    "inconclusive": control_pb2.OUTCOME_INCONCLUSIVE,
    "error": control_pb2.OUTCOME_ERROR,
}
_GIVEN_BY_OTHER_MEANS = 2
"""GATE and OUTCOME: with --address or --model there is no ID before them."""

Words = Annotated[
    list[str],
    typer.Argument(metavar="[ID] GATE OUTCOME", help="OUTCOME: passed, failed, inconclusive or error (or pass, fail)."),
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="What was found; needed unless it passed.")]
Reporter = Annotated[
    str | None,
    typer.Option("--reporter", metavar="NAME", help="Who says so. (default: your token's caller, or user@host)"),
]
Attempt = Annotated[
    int | None,
    typer.Option("--attempt", metavar="N", min=1, help="The attempt that was checked. (default: the current one)"),
]


def verdict(
    words: Words,
    reason: Reason = "",
    reporter: Reporter = None,
    attempt: Attempt = None,
    address: ByAddress = None,
    model: ByModel = None,
    control: Control = DEFAULT_CONTROL,
    token_file: TokenFile = None,
) -> None:
    """Says how an attempt of a gate went. The last one that passes releases the instance.

    A card that is added or changed opens a new attempt: with --attempt, a verdict on an earlier one is refused.
    """
    text, gate, outcome = _taken_apart(words, by_other_means=not (address is None and model is None))
    wanted = Wanted(text, address, model)
    if not reason.strip() and outcome != control_pb2.OUTCOME_PASSED:
        raise SettingsError("--reason is not given: whoever asks why the instance is not released will read it")
    with connect(control, token_file) as client:
        found = client.instance(choose(client.instances(), wanted).name)
        request = report_on(found, gate, outcome, reason, named(reporter, client), attempt)
        answer = client.report_verdict(request)
    say(in_words(request, answer))


def report_on(
    instance: Instance, gate: str, outcome: "Outcome.ValueType", reason: str, reporter: str, attempt: int | None = None
) -> ReportVerdictRequest:
    """The verdict on the attempt that was checked, by default the current one; ControlError without such a gate."""
    current = _status(instance, gate).attempt
    return ReportVerdictRequest(
        name=instance.name,
        gate=gate,
        attempt=attempt or current,
        outcome=outcome,
        reason=readable(reason),
        reporter=readable(reporter),
    )


def in_words(request: ReportVerdictRequest, answer: ReportVerdictResponse) -> str:
    """What was said, on which attempt of whom, and what followed. The instance may be at a later attempt already."""
    outcome = control_pb2.Outcome.Name(request.outcome).removeprefix("OUTCOME_").lower()
    again = ", as had been said before" if answer.repeated_verdict else ""
    about = f"attempt {request.attempt} of {answer.instance.id}{again}"
    return f"{request.gate} {outcome} ({about}): {_forgiven(request, answer.instance)}{_consequence(answer)}"


def _forgiven(request: ReportVerdictRequest, instance: Instance) -> str:
    """What a failure led to by which only the next attempt opened; a new card opens one that has no failures."""
    gate = next((gate for gate in instance.gates if gate.gate == request.gate), None)
    if gate is None or request.outcome == control_pb2.OUTCOME_PASSED or not gate.failures:
        return ""
    if gate.attempt <= request.attempt:
        return ""
    left = gate.failure_limit - gate.failures
    return f"forgiven, {forgiven_words(left)}; attempt {gate.attempt} is open; "


def _consequence(answer: ReportVerdictResponse) -> str:
    match answer.decision:
        case control_pb2.DECISION_RELEASED if is_to_be_withdrawn(answer.instance):
            return f"stored, and its cards stay public: {why_in_service(answer.instance)}"
        case control_pb2.DECISION_RELEASED:
            return "RELEASED, its cards are public"
        case control_pb2.DECISION_REJECTED if waits_for_a_person(answer.instance):
            return f"stored, and it stays out: {unmet(answer.instance)}"
        case control_pb2.DECISION_REJECTED if answer.instance.state == control_pb2.INSTANCE_STATE_RELEASED:
            return "what it registered since its release stays out of routing"
        case control_pb2.DECISION_REJECTED | control_pb2.DECISION_WITHDRAWN if _serves_on(answer.instance):
            return f"{shown_state(answer.instance)}: it serves on"
        case control_pb2.DECISION_REJECTED:
            return f"REJECTED, {stays_out(answer.instance)}"
        case control_pb2.DECISION_WITHDRAWN:
            return "WITHDRAWN, its cards are public no more until every gate passes again"
        case control_pb2.DECISION_QUEUED:
            return f"every gate passed, and it waits: {unmet(answer.instance)}"
        case _:
            return "; ".join(("stored", *_still_missing(answer.instance)))


def _serves_on(instance: Instance) -> bool:
    """What a person took back of a dry run is held until its gates have passed."""
    return instance.dry_run and not has_held_keys(instance)


def _still_missing(instance: Instance) -> Iterator[str]:
    if waiting := [gate.gate for gate in open_gates(instance)]:
        yield f"still to be decided: {', '.join(waiting)}"
    if holds := holds_to_lift(instance):
        yield f"and to be lifted: {holds}"


def _taken_apart(words: list[str], *, by_other_means: bool) -> tuple[str | None, str, "Outcome.ValueType"]:
    expected = _GIVEN_BY_OTHER_MEANS if by_other_means else _GIVEN_BY_OTHER_MEANS + 1
    if len(words) != expected:
        shape = "GATE OUTCOME" if by_other_means else "ID GATE OUTCOME"
        raise SettingsError(f"verdict: expected {shape}, got {' '.join(words)!r}")
    *rest, gate, outcome = words
    if outcome.lower() not in OUTCOMES:
        raise SettingsError(f"OUTCOME '{outcome}': is none of passed, failed, inconclusive, error")
    return (rest[0] if rest else None), gate, OUTCOMES[outcome.lower()]


def _status(instance: Instance, gate: str) -> GateStatus:
    found = next((status for status in instance.gates if status.gate == gate), None)
    if found is None:
        known = ", ".join(status.gate for status in instance.gates) or "none"
        raise ControlError(f"{instance.id} has no gate {gate!r}; its gates are: {known}", "UNKNOWN_GATE")
    return found
