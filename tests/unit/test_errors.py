"""Each error has a code that a client acts on and a reason that is its own."""

import re

import grpc
import pytest

from greenroom import errors
from greenroom.errors import GreenroomError, StaleAttempt

ALL = [
    error
    for error in vars(errors).values()
    if isinstance(error, type) and issubclass(error, GreenroomError) and error is not GreenroomError
]
# A proxy that cannot start answers nobody, and neither does a command that failed.
OF_THE_API = [error for error in ALL if not issubclass(error, errors.StartError | errors.ControlError)]


@pytest.mark.parametrize("error", OF_THE_API)
def test_each_has_a_reason_of_its_own_as_error_info_wants_it(error: type[GreenroomError]) -> None:
    assert re.fullmatch(r"[A-Z][A-Z0-9_]+[A-Z0-9]", error.reason)
    assert [other for other in OF_THE_API if other.reason == error.reason] == [error]
    assert "reason" in vars(error)


def test_none_has_a_code_that_means_a_bug() -> None:
    of_bugs = (grpc.StatusCode.OK, grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL)
    assert not [error for error in OF_THE_API if error.code in of_bugs]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.RefusedWrite, "INVALID_ARGUMENT"),
        (errors.EtcdRefusal, "INVALID_ARGUMENT"),
        (errors.UnsupportedCall, "UNIMPLEMENTED"),
        (errors.NewCardNeedsGates, "FAILED_PRECONDITION"),
        (errors.FenceContended, "UNAVAILABLE"),
        (errors.UnknownInstance, "NOT_FOUND"),
        (errors.UnknownGate, "NOT_FOUND"),
        (errors.UnknownRolloutHold, "NOT_FOUND"),
        (errors.RolloutHoldExists, "ALREADY_EXISTS"),
        (errors.StaleAttempt, "FAILED_PRECONDITION"),
        (errors.VerdictAlreadyGiven, "FAILED_PRECONDITION"),
        (errors.WrongState, "FAILED_PRECONDITION"),
        (errors.UnreadableRecord, "FAILED_PRECONDITION"),
        (errors.InvalidRequest, "INVALID_ARGUMENT"),
        (errors.NotReady, "UNAVAILABLE"),
        (errors.HistoryGone, "OUT_OF_RANGE"),
        (errors.TooManyWatchers, "RESOURCE_EXHAUSTED"),
        (errors.Unauthenticated, "UNAUTHENTICATED"),
        (errors.NotPermitted, "PERMISSION_DENIED"),
    ],
)
def test_codes_are_part_of_the_api(error: type[GreenroomError], code: str) -> None:
    assert error.code is grpc.StatusCode[code]


def test_an_error_says_its_message_and_keeps_what_machines_need() -> None:
    error = StaleAttempt("gate 'smoke' is at attempt 2", gate="smoke", current_attempt="2")
    assert str(error) == "gate 'smoke' is at attempt 2"
    assert error.metadata == {"gate": "smoke", "current_attempt": "2"}
    assert StaleAttempt("alone").metadata == {}


def test_why_access_was_refused_is_for_the_log_alone() -> None:
    error = errors.Unauthenticated("nobody is known by that", cause="expired", caller="ci")
    assert (error.cause, error.caller, error.metadata) == ("expired", "ci", {})


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("UNREACHABLE", True),
        ("NOT_READY", True),
        ("FENCE_CONTENDED", True),
        ("TOO_MANY_CLAIMS", True),
        ("TOO_MANY_PREVIEWS", True),
        ("GATE_CLAIMED", False),
        ("UNKNOWN_GATE", False),
        ("", False),
    ],
)
def test_what_a_caller_may_ask_again_about(said: str, expected: bool) -> None:
    assert errors.ControlError("no", said).may_pass is expected
