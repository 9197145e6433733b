"""Messages out of pieces."""

import gzip

import pytest

from greenroom.relay.calls import Code, Refuse
from greenroom.relay.limits import Bound
from greenroom.relay.messages import MessageAssembly, fault_of_prefix, frame_message


def assembly(limit: int = 100, bound: Bound | None = None) -> MessageAssembly:
    return MessageAssembly(limit, bound or Bound(1_000))


def test_messages_come_out_whole_however_they_came_in() -> None:
    wire = frame_message(b"one") + frame_message(b"") + frame_message(b"three")
    for step in range(1, len(wire) + 1):
        bound = Bound(1_000)
        made = assembly(bound=bound)
        found: list[bytes] = []
        for begin in range(0, len(wire), step):
            assert made.add(wire[begin : begin + step]) is None
            found += made.take_messages()
        assert found == [frame_message(b"one"), frame_message(b""), frame_message(b"three")]
        assert bound.used == 0


def test_a_message_is_whole_with_its_last_byte_and_not_before() -> None:
    made = assembly()
    for octet in frame_message(b"abc")[:-1]:
        made.add(bytes((octet,)))
        assert not made.whole()
    made.add(b"c")
    assert made.whole()


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"\x01", Code.INTERNAL),
        (b"\x02", Code.INTERNAL),
        (b"\xff\x00\x00\x00\x00", Code.INTERNAL),
        (b"\x00\x00\x00\x00\x65", Code.RESOURCE_EXHAUSTED),
        (b"\x00\xff\xff\xff\xff", Code.RESOURCE_EXHAUSTED),
    ],
)
def test_a_bad_prefix_is_found_before_the_message_came(content: bytes, code: Code) -> None:
    refusal = assembly().add(content)
    assert refusal is not None
    assert refusal.code == code


def test_a_good_prefix_or_part_of_one_has_no_fault() -> None:
    assert fault_of_prefix(b"", 100, b"") is None
    assert fault_of_prefix(b"\x00\xff", 100, b"") is None
    assert fault_of_prefix(b"\x00\x00\x00\x00\x64", 100, b"") is None
    assert fault_of_prefix(b"\x01\x00\x00\x00\x64", 100, b"gzip") is None


def test_a_message_says_what_it_said_before_it_was_compressed() -> None:
    made = MessageAssembly(100, Bound(1_000), b"gzip")
    assert made.said(frame_message(b"plain")) == b"plain"
    assert made.said(b"\x01" + frame_message(gzip.compress(b"x" * 100))[1:]) == b"x" * 100
    assert isinstance(made.said(b"\x01" + frame_message(gzip.compress(b"x" * 101))[1:]), Refuse)


def test_messages_before_a_bad_one_come_out_and_its_fault_stays() -> None:
    made = assembly()
    made.add(frame_message(b"good") + b"\x01rest")
    assert list(made.take_messages()) == [frame_message(b"good")]
    fault = made.fault()
    assert fault is not None
    assert fault.code == Code.INTERNAL


def test_copies_are_counted_and_given_back() -> None:
    bound = Bound(10)
    made = assembly(bound=bound)
    assert made.add(b"\x00\x00\x00\x00\x09") is None
    refusal = made.add(b"abcdef")
    assert refusal is not None
    assert refusal.code == Code.RESOURCE_EXHAUSTED
    assert made.drop() == b"\x00\x00\x00\x00\x09"
    assert bound.used == 0
