"""A watch response in parts."""

from greenroom.pb.etcd import rpc_pb2
from greenroom.preview.fragments import fragments
from tests.support.mirroring import put_event

EVENTS = [put_event(b"k%d" % number, b"v" * 100) for number in range(5)]


def response(events: int = 5) -> rpc_pb2.WatchResponse:
    made = rpc_pb2.WatchResponse(watch_id=3, events=EVENTS[:events])
    made.header.revision = 9
    return made


def test_a_small_one_is_itself() -> None:
    whole = response()
    assert list(fragments(whole)) == [whole]


def test_a_large_one_is_cut_and_all_but_the_last_part_say_so() -> None:
    parts = list(fragments(response(), max_bytes=280))
    assert [len(part.events) for part in parts] == [2, 2, 1]
    assert [part.fragment for part in parts] == [True, True, False]
    assert {(part.watch_id, part.header.revision) for part in parts} == {(3, 9)}
    assert [event for part in parts for event in part.events] == EVENTS


def test_an_event_that_is_too_large_by_itself_is_a_part() -> None:
    assert [len(part.events) for part in fragments(response(2), max_bytes=50)] == [1, 1]
