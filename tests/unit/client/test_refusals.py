"""Errors of the control API as one line that says what to do, to programs and to people at the command line."""

import grpc
import pytest

from greenroom.addresses import Address
from greenroom.cli.client import OPTIONS
from greenroom.client.naming import ARGUMENTS
from greenroom.client.refusals import in_words
from greenroom.errors import ControlError, NoSuchInstanceError
from tests.support.failed_calls import Failed

PLACE = Address("127.0.0.1", 2390)


@pytest.mark.parametrize(
    ("code", "reason", "advice"),
    [
        (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED", "--token-file, GREENROOM_TOKEN_FILE or GREENROOM_TOKEN"),
        (grpc.StatusCode.PERMISSION_DENIED, "NOT_PERMITTED", "whoever keeps the access file"),
    ],
)
def test_who_was_refused_is_told_what_to_do(code: grpc.StatusCode, reason: str, advice: str) -> None:
    error = in_words(Failed(code, "no", reason), PLACE, OPTIONS)
    assert advice in str(error)
    assert not error.may_pass, "asking again would be refused again"


def test_who_was_refused_for_a_name_is_not_sent_to_whoever_keeps_the_access_file() -> None:
    """The message says what to do about the field; nothing that is in that file is wrong."""
    refused = Failed(grpc.StatusCode.PERMISSION_DENIED, "actor: leave it out", "NOT_PERMITTED", field="actor")
    error = in_words(refused, PLACE, OPTIONS)
    assert (str(error), error.reason, error.field) == ("actor: leave it out", "NOT_PERMITTED", "actor")


def test_what_the_proxy_says_is_passed_on_with_advice() -> None:
    error = in_words(Failed(grpc.StatusCode.FAILED_PRECONDITION, "attempt 1 is stale", "STALE_ATTEMPT"), PLACE, OPTIONS)
    assert str(error).startswith("attempt 1 is stale (look at the instance for the attempt")
    assert error.reason == "STALE_ATTEMPT"


def test_a_reason_without_advice_is_passed_on_as_it_is() -> None:
    error = in_words(Failed(grpc.StatusCode.INVALID_ARGUMENT, "a: is\nmissing", "INVALID_REQUEST"), PLACE, OPTIONS)
    assert str(error) == "a: is missing"


@pytest.mark.parametrize(
    ("code", "doubt"),
    [
        (grpc.StatusCode.UNAVAILABLE, ": is `greenroom serve` running"),
        (
            grpc.StatusCode.DEADLINE_EXCEEDED,
            " in time: are `greenroom serve` and its etcd running",
        ),
    ],
)
def test_nobody_there_says_where_it_asked_and_how_to_ask_elsewhere(code: grpc.StatusCode, doubt: str) -> None:
    error = in_words(Failed(code, "failed to connect to all addresses"), PLACE, OPTIONS)
    assert error.may_pass
    said = str(error)
    assert said.startswith(
        f"no control API answers at 127.0.0.1:2390{doubt} there? If it is elsewhere, say so by --control"
    )
    assert "--control or GREENROOM_CONTROL" in said


def test_another_port_of_the_proxy_is_recognised() -> None:
    said = str(in_words(Failed(grpc.StatusCode.UNIMPLEMENTED, ""), PLACE, OPTIONS))
    assert "no control port" in said


def test_anything_else_names_its_code() -> None:
    said = str(in_words(Failed(grpc.StatusCode.INTERNAL, "boom"), PLACE, OPTIONS))
    assert said == "the control API at 127.0.0.1:2390 failed: INTERNAL: boom"


def test_a_program_is_told_of_its_arguments() -> None:
    said = str(in_words(Failed(grpc.StatusCode.UNAVAILABLE, "failed to connect; Socket closed"), PLACE, ARGUMENTS))
    assert "by the address that is given" in said
    assert "(address https://…, ca_file)" in said
    said = str(in_words(Failed(grpc.StatusCode.UNAUTHENTICATED, "no", "UNAUTHENTICATED"), PLACE, ARGUMENTS))
    assert "token or token_file say who you are" in said
    assert "--" not in said


def test_an_instance_that_is_not_there_is_an_error_of_its_own() -> None:
    gone = Failed(grpc.StatusCode.NOT_FOUND, "instances/7f has no record", "UNKNOWN_INSTANCE")
    assert type(in_words(gone, PLACE, ARGUMENTS)) is NoSuchInstanceError
    assert type(in_words(Failed(grpc.StatusCode.NOT_FOUND, "no", "UNKNOWN_GATE"), PLACE, ARGUMENTS)) is ControlError
