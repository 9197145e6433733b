"""Errors of the control API as one line that says what to do."""

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from greenroom.addresses import Address
from greenroom.cli.client import CALL_SECONDS, CHANNEL_OPTIONS, ControlClient, in_words

PLACE = Address("127.0.0.1", 2390)


class Failed(grpc.RpcError):
    """As grpcio raises it, with a google.rpc.Status in its trailers where `reason` is given."""

    def __init__(self, code: grpc.StatusCode, details: str, reason: str = "", **metadata: str) -> None:
        super().__init__(details)
        self._code, self._details, self._reason, self._metadata = code, details, reason, metadata

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> tuple[tuple[str, bytes], ...]:
        if not self._reason:
            return ()
        info = any_pb2.Any()
        info.Pack(error_details_pb2.ErrorInfo(reason=self._reason, domain="greenroom", metadata=self._metadata))
        status = status_pb2.Status(code=self._code.value[0], message=self._details, details=[info])
        return (("grpc-status-details-bin", status.SerializeToString()),)


def test_no_call_goes_on_beyond_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """`wait --timeout 1s` at a proxy that hangs took as long as one call may."""
    monkeypatch.setattr("greenroom.cli.client.monotonic", lambda: 100.0)
    with ControlClient(PLACE) as client:
        assert client._timeout_seconds() == CALL_SECONDS
        timeouts = []
        for client.deadline in (1000.0, 100.5, 99.0):
            timeouts.append(client._timeout_seconds())
    assert timeouts == [CALL_SECONDS, 0.5, 0.0]


def test_a_token_goes_with_every_call_and_makes_the_caller_known() -> None:
    with ControlClient(PLACE, "abc") as client:
        assert client._metadata == (("authorization", "Bearer abc"),)
        assert client.is_known
    with ControlClient(PLACE) as client:
        assert (client._metadata, client.is_known) == ((), False)


@pytest.mark.parametrize(
    ("code", "reason", "advice"),
    [
        (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED", "--token-file, GREENROOM_TOKEN_FILE or GREENROOM_TOKEN"),
        (grpc.StatusCode.PERMISSION_DENIED, "NOT_PERMITTED", "whoever keeps the access file"),
    ],
)
def test_who_was_refused_is_told_what_to_do(code: grpc.StatusCode, reason: str, advice: str) -> None:
    error = in_words(Failed(code, "no", reason), PLACE)
    assert advice in str(error)
    assert not error.may_pass, "asking again would be refused again"


def test_who_was_refused_for_a_name_is_not_sent_to_whoever_keeps_the_access_file() -> None:
    """The message says what to do about the field; nothing that is in that file is wrong."""
    refused = Failed(grpc.StatusCode.PERMISSION_DENIED, "actor: leave it out", "NOT_PERMITTED", field="actor")
    error = in_words(refused, PLACE)
    assert (str(error), error.said, error.field) == ("actor: leave it out", "NOT_PERMITTED", "actor")


def test_an_answer_may_be_of_any_size() -> None:
    assert ("grpc.max_receive_message_length", -1) in CHANNEL_OPTIONS


def test_what_the_proxy_says_is_passed_on_with_advice() -> None:
    error = in_words(Failed(grpc.StatusCode.FAILED_PRECONDITION, "attempt 1 is stale", "STALE_ATTEMPT"), PLACE)
    assert str(error).startswith("attempt 1 is stale (look at the instance for the attempt")
    assert error.said == "STALE_ATTEMPT"


def test_a_reason_without_advice_is_passed_on_as_it_is() -> None:
    error = in_words(Failed(grpc.StatusCode.INVALID_ARGUMENT, "a: is\nmissing", "INVALID_REQUEST"), PLACE)
    assert str(error) == "a: is missing"


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED])
def test_nobody_there_says_where_it_asked_and_how_to_ask_elsewhere(code: grpc.StatusCode) -> None:
    error = in_words(Failed(code, "failed to connect to all addresses"), PLACE)
    assert error.may_pass
    said = str(error)
    assert said.startswith("no control API answers at 127.0.0.1:2390")
    assert "--control or GREENROOM_CONTROL" in said


def test_another_port_of_the_proxy_is_recognised() -> None:
    said = str(in_words(Failed(grpc.StatusCode.UNIMPLEMENTED, ""), PLACE))
    assert "no control port" in said


def test_anything_else_names_its_code() -> None:
    said = str(in_words(Failed(grpc.StatusCode.INTERNAL, "boom"), PLACE))
    assert said == "the control API at 127.0.0.1:2390 failed: INTERNAL: boom"
