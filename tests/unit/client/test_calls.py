"""The calls of the control API: what goes with each, and when they end."""

import grpc
import pytest

from greenroom.addresses import Address
from greenroom.client.calls import CALL_SECONDS, CHANNEL_OPTIONS, ControlCalls
from greenroom.client.naming import ARGUMENTS
from greenroom.client.place import VARIABLES, Place
from greenroom.errors import ControlError, SettingsError
from tests.support.failed_calls import Failed

PLACE = Address("127.0.0.1", 2390)


def test_no_call_goes_on_beyond_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """`wait --timeout 1s` at a proxy that hangs took as long as one call may."""
    monkeypatch.setattr("greenroom.client.calls.monotonic", lambda: 100.0)
    with ControlCalls(PLACE) as client:
        assert client._timeout_seconds() == CALL_SECONDS
        timeouts = []
        for client.deadline in (1000.0, 100.5, 99.0):
            timeouts.append(client._timeout_seconds())
    assert timeouts == [CALL_SECONDS, 0.5, 0.0]


def test_a_token_goes_with_every_call_and_makes_the_caller_known() -> None:
    with ControlCalls(PLACE, "abc") as client:
        assert client._metadata == (("authorization", "Bearer abc"),)
        assert client.is_known
    with ControlCalls(PLACE) as client:
        assert (client._metadata, client.is_known) == ((), False)


def test_an_answer_may_be_of_any_size() -> None:
    assert ("grpc.max_receive_message_length", -1) in CHANNEL_OPTIONS


def test_calls_that_end_by_a_time_leave_the_others_as_they_were() -> None:
    """One connection is shared by threads, each of which has its own time."""
    with ControlCalls(PLACE, "abc") as calls:
        bounded = calls.until(5.0)
        assert (bounded.deadline, calls.deadline) == (5.0, None)
        assert bounded._channel is calls._channel
        assert bounded.is_known


def test_a_wrong_place_is_told_in_the_words_of_whoever_gave_it() -> None:
    for naming, said in ((ARGUMENTS, "address 'nowhere'"), (VARIABLES, "GREENROOM_CONTROL 'nowhere'")):
        with pytest.raises(SettingsError, match=f"^{said}: is no host:port"):
            ControlCalls.at(Place("nowhere"), naming)
    with ControlCalls.at(Place("127.0.0.1:1", token="abc")) as calls:
        assert calls.is_known


def test_a_call_on_a_closed_connection_is_an_error_like_any_other() -> None:
    """A thread that renews a claim would end without a word otherwise."""
    with ControlCalls(PLACE) as calls:
        bounded = calls.until(5.0)
    assert bounded.is_closed
    with pytest.raises(ControlError, match=r"^the client of 127\.0\.0\.1:2390 is closed$"):
        bounded.instance("instances/a1")


def test_so_is_one_that_was_under_way_and_what_was_answered_before_is_told_as_it_is() -> None:
    """It was told as a failure of the control API."""
    with ControlCalls(PLACE) as calls:
        pass
    with pytest.raises(ControlError, match=r"^the client of 127\.0\.0\.1:2390 is closed$"), calls._in_words():
        raise Failed(grpc.StatusCode.CANCELLED, "Channel closed!")
    with pytest.raises(ControlError, match=r"^attempt 1 is stale"), calls._in_words():
        raise Failed(grpc.StatusCode.FAILED_PRECONDITION, "attempt 1 is stale", "STALE_ATTEMPT")
