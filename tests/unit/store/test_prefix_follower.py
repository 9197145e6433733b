"""How a watch is asked for, and how its answers are put together and its ends told apart."""

from typing import Any

import pytest

from greenroom.pb.etcd import kv_pb2, rpc_pb2
from greenroom.store.prefix_follower import (
    PrefixFollower,
    _check_goes_on,
    _read,
    _watch_request,
    _WatchEndedError,
    page_keys,
)
from tests.support.control_side import EventLog
from tests.support.mirroring import put_event, unconnected


class Script:
    """A stream whose answers are known; clean end after the last."""

    def __init__(self, *answers: rpc_pb2.WatchResponse) -> None:
        self._answers = list(answers)

    async def read(self) -> rpc_pb2.WatchResponse | None:
        return self._answers.pop(0) if self._answers else None


class Told:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.applied: list[tuple[list[bytes], int]] = []

    def replace(self, kvs: Any, revision: int) -> None:
        raise AssertionError("nothing was read")

    def apply(self, events: Any, revision: int) -> None:
        self.applied.append(([event.kv.key for event in events], revision))

    def away(self, reason: str) -> None:
        raise AssertionError(reason)


def answer(revision: int, *events: kv_pb2.Event, **fields: Any) -> rpc_pb2.WatchResponse:
    return rpc_pb2.WatchResponse(header=rpc_pb2.ResponseHeader(revision=revision), events=events, **fields)


async def test_fragments_are_handed_on_as_the_one_answer_that_they_are() -> None:
    told, upstream = Told(), unconnected()
    follower = PrefixFollower(upstream, b"p/", told, log=EventLog())
    script = Script(
        answer(5, put_event(b"p/a"), fragment=True),
        answer(5, put_event(b"p/b"), fragment=True),
        answer(5, put_event(b"p/c")),
        answer(9),
    )
    with pytest.raises(_WatchEndedError):
        await follower._hand_on(script)  # type: ignore[arg-type]
    assert told.applied == [([b"p/a", b"p/b", b"p/c"], 5), ([], 9)]
    await upstream.close()


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ([], "without a reason"),
        ([answer(1, canceled=True, compact_revision=7)], "compacted at 7"),
        ([answer(1, canceled=True, cancel_reason="etcdserver: no leader")], "no leader"),
        ([answer(1, canceled=True)], "no reason given"),
    ],
)
async def test_every_end_of_a_watch_says_why(answers: list[rpc_pb2.WatchResponse], says: str) -> None:
    with pytest.raises(_WatchEndedError, match=says):
        await _read(Script(*answers))  # type: ignore[arg-type]


def test_a_watch_on_an_etcd_that_was_set_back_since_it_was_read_is_not_followed() -> None:
    """It would be silent until the store has written as much again, and what was read would stand for what is there."""
    _check_goes_on(answer(10, created=True), 10)
    _check_goes_on(answer(11, created=True), 10)
    with pytest.raises(_WatchEndedError, match="at revision 9, and was read at 10"):
        _check_goes_on(answer(9, created=True), 10)


def test_a_watch_asks_for_the_whole_prefix_in_fragments_and_with_progress() -> None:
    create = _watch_request(b"\x01greenroom/", 11).create_request
    assert (create.key, create.range_end, create.start_revision) == (b"\x01greenroom/", b"\x01greenroom0", 11)
    assert (create.fragment, create.progress_notify, create.prev_kv) == (True, True, False)


@pytest.mark.parametrize(("value_bytes", "keys"), [(0, 500), (1_700, 500), (5_000, 200), (700 * 1024, 10)])
def test_a_page_is_as_long_as_the_one_before_lets_expect(value_bytes: int, keys: int) -> None:
    """A fleet's small cards take a few round trips; of large ones not hundreds of MiB are asked for at once."""
    page = rpc_pb2.RangeResponse(kvs=[kv_pb2.KeyValue(key=b"k", value=b"x" * value_bytes)] * 10)
    assert page_keys(page) == pytest.approx(keys, rel=0.1)
