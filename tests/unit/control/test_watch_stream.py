"""Responses of a bearable size, and tokens that never claim more than was told."""

import pytest

from greenroom.control import tokens
from greenroom.control.tokens import ResumeToken
from greenroom.control.watch_stream import MAX_RESPONSE_BYTES, MAX_RESPONSE_EVENTS, Place, WatchStream
from greenroom.core.keyspace import InstanceId
from greenroom.core.transitions import Outcome, with_verdict
from greenroom.errors import NotReady
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.instance_stream import kind_of
from tests.support.mirroring import ONE, put_event
from tests.support.registering import held_record, now
from tests.unit.control.test_watcher import HOLD, HOLD_OF_NOBODY, Reading, rejected

FLEET = [InstanceId(f"{number:x}") for number in range(1, 2 * MAX_RESPONSE_EVENTS + 2)]


class Streaming(Reading):
    """A reading whose responses are looked at."""

    def __init__(self, *there: InstanceId) -> None:
        super().__init__(*there)
        self.place = Place(10, 10, (4,))
        self.trouble = ""
        self.stream = WatchStream(self.watcher, lambda: self.place, self.check, "")

    def check(self) -> None:
        if self.trouble:
            raise NotReady(self.trouble)


def kinds(responses: object) -> list[list[str]]:
    return [[kind_of(event) for event in response.events] for response in responses]  # type: ignore[attr-defined]


def token_of(response: pb.WatchInstancesResponse) -> ResumeToken | None:
    return tokens.decode(response.resume_token, "") if response.resume_token else None


def test_a_small_snapshot_is_one_response_with_synced_and_a_token() -> None:
    streaming = Streaming(ONE)
    [response] = streaming.stream.snapshot(cluster=5)
    assert kinds([response]) == [["EXISTING", "SYNCED"]]
    assert token_of(response) == ResumeToken(5, 10, 10, (4,))


def test_a_large_snapshot_comes_in_parts_of_which_only_the_last_has_a_token() -> None:
    streaming = Streaming(*FLEET)
    responses = list(streaming.stream.snapshot(cluster=5))
    assert [len(response.events) for response in responses] == [MAX_RESPONSE_EVENTS, MAX_RESPONSE_EVENTS, 2]
    assert [bool(response.resume_token) for response in responses] == [False, False, True]


def test_the_token_is_that_of_the_beginning_of_the_round() -> None:
    """What is written while the round is told may not have been told in it."""
    streaming = Streaming(*FLEET)
    responses = streaming.stream.snapshot(cluster=5)
    next(responses)
    streaming.place = Place(12, 12, (6,))
    last = list(responses)[-1]
    assert token_of(last) == ResumeToken(5, 10, 12, (4,), whole=False)


def test_within_a_round_the_token_stays_where_the_round_before_ended() -> None:
    streaming = Streaming(*FLEET)
    list(streaming.stream.snapshot(cluster=5))
    for instance in FLEET:
        streaming.write(instance)
    streaming.place = Place(200, 200, (9,))
    responses = list(streaming.stream.changes())
    told = [token for response in responses if (token := token_of(response))]
    assert [token.revision for token in told] == [10, 10, 200]
    assert {token.newest for token in told} == {200}


@pytest.mark.parametrize("place", [Place(200, 200, (4,)), Place(200, 10, (9,))])
def test_within_a_round_the_token_says_that_more_was_told_than_its_place_knows(place: Place) -> None:
    """What came with the first part, and is gone before its reader is back, was neither there then nor is it now."""
    streaming = Streaming(ONE)
    list(streaming.stream.snapshot(cluster=5))
    for instance in FLEET:
        streaming.write(instance)
    streaming.place = place
    told = [token for response in streaming.stream.changes() if (token := token_of(response))]
    assert [token.whole for token in told] == [False, False, True]


def test_what_is_written_while_a_round_is_told_makes_its_token_one_that_is_not_whole_until_the_next() -> None:
    """A part that is made later shows what was written since: it was told, and the token's place is before it."""
    streaming = Streaming(*FLEET)
    responses = streaming.stream.snapshot(cluster=5)
    next(responses)
    streaming.write(FLEET[-1])
    streaming.place = Place(12, 12, (4,))
    assert [token.whole for response in responses if (token := token_of(response))] == [False]
    streaming.write(FLEET[0])
    streaming.place = Place(13, 13, (4,))
    assert [token.whole for response in streaming.stream.changes() if (token := token_of(response))] == [True]


def test_progress_alone_leaves_a_token_whole() -> None:
    streaming = Streaming(*FLEET)
    responses = streaming.stream.snapshot(cluster=5)
    next(responses)
    streaming.place = Place(90, 10, (4,))
    assert [token.whole for response in responses if (token := token_of(response))] == [True]


def test_a_round_that_concerns_nobody_is_no_response_and_moves_the_bookmark_on() -> None:
    streaming = Streaming(ONE)
    list(streaming.stream.snapshot(cluster=5))
    streaming.place = Place(30, 20, (9,))
    assert list(streaming.stream.changes()) == []
    [bookmark] = streaming.stream.bookmark()
    assert kinds([bookmark]) == [["BOOKMARK"]]
    assert token_of(bookmark) == ResumeToken(5, 30, 20, (9,))


def test_a_resumed_stream_tells_what_is_different_then_synced() -> None:
    streaming = Streaming(ONE)
    streaming.watcher.resume({ONE: None})
    [response] = streaming.stream.resumption(ResumeToken(5, 3, 4, (1,)))
    assert kinds([response]) == [["ADDED", "SYNCED"]]
    assert token_of(response) == ResumeToken(5, 10, 10, (4,))


def test_a_token_never_goes_back_behind_what_another_proxy_told() -> None:
    streaming = Streaming(ONE)
    streaming.watcher.resume({})
    [response] = streaming.stream.resumption(ResumeToken(5, 30, 25, (9,)))
    assert token_of(response) == ResumeToken(5, 30, 25, (4,))


def test_long_messages_make_small_responses() -> None:
    """Each gate's reason can have 2 KiB, and is told again in the conditions."""
    gates = {f"gate-{number}": 60.0 for number in range(20)}
    record = held_record(ONE, gates)
    for gate in gates:
        record = with_verdict(record, gate, 1, Outcome.ERROR, reason="x" * 2048, reporter="ci", now=now())
    streaming = Streaming()
    for instance in FLEET[:50]:
        streaming.write(instance, record)
    responses = list(streaming.stream.snapshot(cluster=5))
    assert max(response.ByteSize() for response in responses) < MAX_RESPONSE_BYTES + 1024
    assert sum(len(response.events) for response in responses) == 50 + 1


def test_nothing_is_told_once_etcd_is_not_followed() -> None:
    streaming = Streaming(*FLEET)
    responses = streaming.stream.snapshot(cluster=5)
    next(responses)
    streaming.trouble = "etcd is away"
    with pytest.raises(NotReady):
        next(responses)
    for begin in (streaming.stream.changes, streaming.stream.bookmark):
        with pytest.raises(NotReady):
            begin()


def test_where_others_have_their_turn_nothing_is_sent_and_nothing_lost() -> None:
    """Of many some have something new: what waited for its turn comes after those who were looked at in vain."""
    streaming = Streaming(*FLEET)
    list(streaming.stream.snapshot(cluster=5))
    streaming.apply(put_event(HOLD, HOLD_OF_NOBODY))
    for instance in FLEET[: MAX_RESPONSE_EVENTS + 1]:
        streaming.write(instance, rejected(instance))
    pause, *responses = streaming.stream.changes()
    assert pause is None
    assert kinds(responses) == [["CHANGED"] * MAX_RESPONSE_EVENTS, ["CHANGED"]]
