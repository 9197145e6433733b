"""Flow control while bytes are added and taken away: the sender's belief is left + debit - waiting."""

import pytest

from greenroom.http2.frames import END_STREAM, Error, Fault
from greenroom.relay.settings import Announced
from greenroom.relay.windows import Lane, StreamWindow, Window
from tests.support.h2_peers import Frame, frames_in


def lane(left: int = 10, waiting_bytes: int = 1_000) -> Lane:
    made = Lane([], waiting_bytes)
    made.left = left
    return made


def written(made: Lane) -> list[Frame]:
    frames = frames_in(b"".join(made.out))
    made.out.clear()
    return frames


def test_injected_bytes_are_paid_off_before_the_sender_hears_of_window() -> None:
    window = Window()
    window.inject(100)
    assert window.open(60) == 0
    assert window.open(60) == 20
    assert window.open(5) == 5
    assert window.left == 65_535 + 125


def test_swallowed_bytes_pay_off_first_and_the_rest_is_credited() -> None:
    window = Window()
    window.inject(30)
    assert window.swallow(20) == 0
    assert window.swallow(20) == 10
    assert window.swallow(20) == 20


def test_a_window_above_its_largest_size_is_a_fault() -> None:
    with pytest.raises(Fault) as caught:
        Window().open(2**31 - 65_535)
    assert caught.value.code is Error.FLOW_CONTROL_ERROR


def test_data_that_does_not_fit_is_split_and_the_rest_waits() -> None:
    made = lane(left=4)
    made.send_data(1, b"abcdef", END_STREAM)
    assert written(made) == [Frame(0, 0, 1, b"abcd")]
    assert made.left == 0
    made.left = 1
    made.drain()
    assert written(made) == [Frame(0, 0, 1, b"e")]
    made.left = 5
    made.drain()
    assert written(made) == [Frame(0, END_STREAM, 1, b"f")]
    assert made.left == 4


def test_what_has_an_order_waits_behind_waiting_data() -> None:
    made = lane(left=0)
    passed: list[str] = []
    made.send_data(1, b"abc", 0)
    made.send(b"\x00\x00\x00\x01\x04\x00\x00\x00\x03", then=lambda: passed.append("headers"))
    made.send_data(3, b"x", 0)
    assert (written(made), passed) == ([], [])
    made.left = 3
    made.drain()
    assert [frame.stream_id for frame in written(made)] == [1, 3]
    assert passed == ["headers"]
    assert made.waiting
    made.left = 1
    made.drain()
    assert written(made) == [Frame(0, 0, 3, b"x")]
    assert not made.waiting


def test_an_empty_end_needs_no_window() -> None:
    made = lane(left=0)
    made.send_data(1, b"", END_STREAM, StreamWindow(shrunk(by=65_540)))
    assert written(made) == [Frame(0, END_STREAM, 1, b"")]


def shrunk(by: int) -> Announced:
    announced = Announced(limit=10)
    announced.announce([(4, max(0, 65_535 - by))])
    return announced


def test_a_stream_window_follows_the_initial_size_into_the_negative() -> None:
    announced = Announced(limit=10)
    window = StreamWindow(announced)
    window.left -= 100
    assert window.room == 65_435
    announced.announce([(4, 10)])
    assert window.room == -90


def test_the_narrower_of_both_windows_counts() -> None:
    made = lane(left=100)
    window = StreamWindow(shrunk(by=65_533))
    made.send_data(1, b"abc", 0, window)
    assert written(made) == [Frame(0, 0, 1, b"ab")]
    assert (made.left, window.room) == (98, 0)
    window.open(1)
    made.resume(1)
    made.drain()
    assert written(made) == [Frame(0, 0, 1, b"c")]


def test_a_stream_that_stalls_keeps_its_order_and_holds_up_nobody() -> None:
    """The stream's window shuts while later DATA of it waits for the connection's already."""
    made = lane(left=0)
    window = StreamWindow(shrunk(by=65_533))
    made.send_data(1, b"abc", 0, window)
    made.send_data(3, b"12345", 0)
    made.send_data(1, b"de", END_STREAM, window)
    made.send(b"\x00\x00\x00\x01\x04\x00\x00\x00\x05")
    made.left = 4
    made.drain()
    assert [(frame.stream_id, frame.payload) for frame in written(made)] == [(1, b"ab"), (3, b"12")]
    window.open(1)
    made.resume(1)
    made.left = 5
    made.drain()
    assert [(frame.stream_id, frame.payload) for frame in written(made)] == [(1, b"c"), (3, b"345"), (5, b"")]
    made.send_data(1, b"", 0, window)
    made.send(b"\x00\x00\x00\x01\x04\x00\x00\x00\x07")
    assert [frame.stream_id for frame in written(made)] == [7]
    window.open(5)
    made.resume_all()
    made.left = 5
    made.drain()
    assert [(frame.payload, frame.flags) for frame in written(made)] == [(b"de", END_STREAM), (b"", 0)]
    assert not made.holds


def test_what_a_stalled_stream_waits_with_is_forgotten_with_it() -> None:
    made = lane(left=10, waiting_bytes=5)
    window = StreamWindow(shrunk(by=65_535))
    made.send_data(1, b"abcde", 0, window)
    assert made.purge(1) == 5
    made.send_data(3, b"fghij", 0, window)
    assert made.holds


def test_too_much_that_waits_is_a_fault() -> None:
    made = lane(left=0, waiting_bytes=5)
    made.send_data(1, b"abc", 0)
    with pytest.raises(Fault) as caught:
        made.send_data(1, b"def", 0)
    assert caught.value.code is Error.ENHANCE_YOUR_CALM


def test_what_left_in_part_no_longer_counts_as_waiting() -> None:
    made = lane(left=0, waiting_bytes=5)
    made.send_data(1, b"abcde", 0)
    made.left = 3
    made.drain()
    made.send_data(1, b"fgh", 0)
    made.left = 5
    made.drain()
    assert b"".join(frame.payload for frame in written(made)) == b"abcdefgh"


def test_purged_data_is_gone_and_counted() -> None:
    made = lane(left=0, waiting_bytes=6)
    made.send_data(1, b"abc", 0)
    made.send_data(3, b"def", 0)
    assert made.purge(5) is None
    assert made.purge(1) == 3
    made.send_data(3, b"ghi", 0)
    made.left = 10
    made.drain()
    assert [frame.payload for frame in written(made)] == [b"def", b"ghi"]
