"""The client's side of HTTP/2, frame by frame; what it writes is read by other code than wrote it."""

import struct

import grpc
import hpack
import pytest

from greenroom.http2 import settings as wire
from greenroom.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Error,
    Fault,
    pack,
    pack_goaway,
    pack_rst,
    pack_window_update,
)
from greenroom.store.call_errors import NeverBegun
from greenroom.store.unary_call import Outcome, UnaryCall
from greenroom.store.unary_dialogue import (
    ANSWER_SECONDS,
    CONNECTION_WINDOW_BYTES,
    LARGEST_BLOCK_BYTES,
    SILENCE_SECONDS,
    STREAM_WINDOW_BYTES,
    UnaryDialogue,
)
from tests.support.h2_peers import Frame, frames_in

HEAD = [(":status", "200"), ("content-type", "application/grpc")]
OK = [("grpc-status", "0")]
ANSWER = b"\0\0\0\0\x02hi"


class Talk:
    """A dialogue and its peer."""

    def __init__(self, *, settings: list[tuple[int, int]] | None = None, is_open: bool = True) -> None:
        self.dialogue = UnaryDialogue("etcd:2379", "greenroom/test")
        self.opening = self._written()
        self.encoder = hpack.Encoder()
        self.outcomes: dict[UnaryCall, list[Outcome]] = {}
        if is_open:
            self.dialogue.take(pack(SETTINGS, 0, 0, wire.build(settings or [])))
            assert self.frames() == [Frame(SETTINGS, ACK, 0, b"")]

    def begin(self, message: bytes = b"request", path: str = "/a") -> UnaryCall:
        call = UnaryCall(path, message, (), None, lambda outcome: self.outcomes[call].append(outcome))
        self.outcomes[call] = []
        self.dialogue.begin(call)
        return call

    def frames(self) -> list[Frame]:
        """What was written since this was asked last."""
        return frames_in(self._written())

    def _written(self) -> bytes:
        written = b"".join(self.dialogue.to_peer)
        self.dialogue.to_peer.clear()
        return written

    def block(self, call: UnaryCall, fields: list[tuple[str, str]], flags: int = 0) -> bytes:
        return pack(HEADERS, END_HEADERS | flags, call.stream_id, self.encoder.encode(fields))

    def answer(self, call: UnaryCall, message: bytes = ANSWER) -> None:
        whole = self.block(call, HEAD) + pack(DATA, 0, call.stream_id, message) + self.block(call, OK, END_STREAM)
        self.dialogue.take(whole)

    def error(self, call: UnaryCall) -> grpc.aio.AioRpcError:
        (outcome,) = self.outcomes[call]
        assert isinstance(outcome, grpc.aio.AioRpcError)
        return outcome

    def answers(self, call: UnaryCall) -> list[Outcome]:
        return self.outcomes[call]

    def opened(self, count: int) -> list[UnaryCall]:
        calls = [self.begin() for _ in range(count)]
        self.frames()
        return calls


def sent(frames: list[Frame], stream_id: int) -> bytes:
    return b"".join(frame.payload for frame in frames if frame.kind == DATA and frame.stream_id == stream_id)


def test_it_says_who_it_is_and_how_much_it_takes() -> None:
    talk = Talk(is_open=False)
    assert talk.opening.startswith(PREFACE)
    settings, window = frames_in(talk.opening.removeprefix(PREFACE))
    assert dict(wire.parse(settings.payload)) == {wire.ENABLE_PUSH: 0, wire.INITIAL_WINDOW_SIZE: STREAM_WINDOW_BYTES}
    assert int.from_bytes(window.payload, "big") == CONNECTION_WINDOW_BYTES - 65_535
    assert not talk.dialogue.is_ready


def test_calls_may_begin_once_the_peer_spoke_http2() -> None:
    assert Talk().dialogue.is_ready


@pytest.mark.parametrize("words", [pack(PING, 0, 0, bytes(8)), pack(SETTINGS, ACK, 0), b"HTTP/1.1 400 Bad Request\r\n"])
def test_other_first_words_are_a_fault(words: bytes) -> None:
    talk = Talk(is_open=False)
    with pytest.raises(Fault):
        talk.dialogue.take(words)


def test_a_call_is_two_frames_and_its_answer_ends_it() -> None:
    talk = Talk()
    call = talk.begin()
    head, data = talk.frames()
    assert (head.kind, head.flags, head.stream_id) == (HEADERS, END_HEADERS, 1)
    assert (":path", "/a") in [tuple(field) for field in hpack.Decoder().decode(head.payload)]
    assert data == Frame(DATA, END_STREAM, 1, b"\0\0\0\0\x07request")
    talk.answer(call)
    assert talk.answers(call) == [b"hi"]
    assert talk.dialogue.is_idle
    assert talk.frames() == []


def test_answers_come_in_any_order_and_in_any_pieces() -> None:
    talk = Talk()
    calls = talk.opened(3)
    data = b""
    for call in reversed(calls):
        data += talk.block(call, HEAD) + pack(DATA, PADDED, call.stream_id, b"\x03" + ANSWER + bytes(3))
        data += talk.block(call, OK, END_STREAM)
    for byte in data:
        talk.dialogue.take(bytes([byte]))
    assert [talk.answers(call) for call in calls] == [[b"hi"]] * 3


def test_a_head_in_many_frames_is_one_head() -> None:
    talk = Talk()
    (call,) = talk.opened(1)
    block = talk.encoder.encode([*HEAD, ("grpc-status", "5"), ("grpc-message", "x" * 5000)])
    pieces = [block[at : at + 1000] for at in range(0, len(block), 1000)]
    talk.dialogue.take(pack(HEADERS, END_STREAM, 1, pieces[0]))
    for number, piece in enumerate(pieces[1:], 2):
        talk.dialogue.take(pack(CONTINUATION, END_HEADERS if number == len(pieces) else 0, 1, piece))
    assert talk.error(call).details() == "x" * 5000


def test_one_that_is_given_up_is_reset_and_leaves_nothing() -> None:
    talk = Talk()
    given_up, other = talk.opened(2)
    late = talk.block(given_up, HEAD)
    talk.dialogue.give_up(given_up)
    talk.dialogue.give_up(given_up)
    assert talk.frames() == [Frame(RST_STREAM, 0, 1, struct.pack(">L", Error.CANCEL))]
    # etcd was at it already; its headers still change the table that the other answer is read by.
    talk.dialogue.take(late + pack(DATA, 0, 1, ANSWER) + talk.block(given_up, [("x", "y")], END_STREAM))
    talk.answer(other)
    assert (talk.answers(given_up), talk.answers(other)) == ([], [b"hi"])
    assert talk.dialogue.is_idle


def test_a_large_request_leaves_as_the_peers_windows_open() -> None:
    talk = Talk()
    message = bytes(range(256)) * 400
    call = talk.begin(message)
    other = talk.begin(b"small")
    frames = talk.frames()
    assert len(sent(frames, call.stream_id)) == 65_535
    assert max(len(frame.payload) for frame in frames) <= 16_384
    talk.dialogue.take(pack_window_update(0, 1 << 20))
    more = talk.frames()
    assert (len(sent(more, call.stream_id)), sent(more, other.stream_id)) == (0, b"\0\0\0\0\x05small")
    talk.dialogue.take(pack_window_update(call.stream_id, 1000))
    talk.dialogue.take(pack(SETTINGS, 0, 0, wire.build([(wire.INITIAL_WINDOW_SIZE, 1 << 20)])))
    rest = talk.frames()
    whole = sent(frames, call.stream_id) + sent(rest, call.stream_id)
    assert whole[5:] == message
    assert rest[-1].flags == END_STREAM or rest[-2].flags == END_STREAM


def test_a_window_may_become_negative_and_nothing_leaves_then() -> None:
    talk = Talk()
    talk.begin(bytes(100_000))
    talk.dialogue.take(pack(SETTINGS, 0, 0, wire.build([(wire.INITIAL_WINDOW_SIZE, 10)])) + pack_window_update(0, 9999))
    talk.frames()
    talk.dialogue.take(pack_window_update(1, 65_525))
    assert sent(talk.frames(), 1) == b""
    talk.dialogue.take(pack_window_update(1, 1))
    assert len(sent(talk.frames(), 1)) == 1


def test_an_answer_before_the_request_has_left_ends_it() -> None:
    """As etcd does with a request that is too large."""
    talk = Talk()
    call = talk.begin(bytes(100_000))
    talk.frames()
    talk.dialogue.take(talk.block(call, [*HEAD, ("grpc-status", "8"), ("grpc-message", "too large")], END_STREAM))
    assert talk.error(call).details() == "too large"
    assert [frame.kind for frame in talk.frames()] == [RST_STREAM]
    talk.dialogue.take(pack_window_update(0, 1 << 20) + pack_window_update(1, 1 << 20))
    assert talk.frames() == []


def test_who_reads_much_is_allowed_more() -> None:
    talk = Talk()
    (call,) = talk.opened(1)
    talk.dialogue.take(talk.block(call, HEAD))
    taken = 0
    while taken < 2 * CONNECTION_WINDOW_BYTES:
        talk.dialogue.take(pack(DATA, 0, 1, bytes(16_384)))
        taken += 16_384
    updates = talk.frames()
    allowed = {0: CONNECTION_WINDOW_BYTES, 1: STREAM_WINDOW_BYTES}
    for frame in updates:
        allowed[frame.stream_id] += int.from_bytes(frame.payload, "big")
    assert allowed[0] > taken
    assert allowed[1] > taken
    assert len(updates) < 40


def test_data_of_calls_that_are_over_opens_the_connections_window_again() -> None:
    talk = Talk()
    (call,) = talk.opened(1)
    talk.dialogue.give_up(call)
    talk.frames()
    for _ in range(CONNECTION_WINDOW_BYTES // 2 // 16_384):
        talk.dialogue.take(pack(DATA, 0, 1, bytes(16_384)))
    (update,) = talk.frames()
    assert (update.kind, update.stream_id) == (WINDOW_UPDATE, 0)


def test_no_more_streams_than_the_peer_takes() -> None:
    talk = Talk(settings=[(wire.MAX_CONCURRENT_STREAMS, 2)])
    first, second, third, fourth = (talk.begin() for _ in range(4))
    assert [frame.stream_id for frame in talk.frames()] == [1, 1, 3, 3]
    talk.dialogue.give_up(third)
    talk.answer(first)
    assert [frame.stream_id for frame in talk.frames()] == [5, 5]
    talk.dialogue.take(pack(SETTINGS, 0, 0, wire.build([(wire.MAX_CONCURRENT_STREAMS, 100)])))
    talk.answer(second)
    talk.answer(fourth)
    assert (talk.answers(third), talk.answers(fourth)) == ([], [b"hi"])


def test_a_peer_that_goes_finishes_what_it_took_and_did_nothing_of_the_rest() -> None:
    talk = Talk()
    first, second = talk.opened(2)
    talk.dialogue.take(pack_goaway(1, 0, b"bye"))
    assert talk.dialogue.is_leaving
    assert isinstance(talk.error(second), NeverBegun)
    third = talk.begin()
    assert isinstance(talk.error(third), NeverBegun)
    talk.answer(first)
    assert talk.answers(first) == [b"hi"]
    assert talk.dialogue.is_idle
    assert talk.frames() == []


def test_what_waited_for_a_stream_did_not_happen_when_the_peer_goes_or_is_lost() -> None:
    for lose in (lambda talk: talk.dialogue.take(pack_goaway(2**31 - 1, 0)), lambda talk: talk.dialogue.end("gone")):
        talk = Talk(settings=[(wire.MAX_CONCURRENT_STREAMS, 1)])
        talk.begin()
        waiting = talk.begin()
        lose(talk)
        assert isinstance(talk.error(waiting), NeverBegun)


def test_a_lost_connection_leaves_open_what_happened() -> None:
    talk = Talk()
    (call,) = talk.opened(1)
    talk.dialogue.end("Socket closed")
    error = talk.error(call)
    assert (error.code(), error.details()) == (grpc.StatusCode.UNAVAILABLE, "Socket closed")
    assert not isinstance(error, NeverBegun)
    assert talk.dialogue.is_idle


def test_a_reset_is_the_end_of_one_call() -> None:
    talk = Talk()
    first, second = talk.opened(2)
    talk.dialogue.take(pack_rst(first.stream_id, Error.REFUSED_STREAM) + pack_rst(first.stream_id, Error.CANCEL))
    assert isinstance(talk.error(first), NeverBegun)
    talk.answer(second)
    assert talk.answers(second) == [b"hi"]
    assert talk.frames() == []


def test_an_answer_that_cannot_be_understood_is_reset() -> None:
    talk = Talk()
    (call,) = talk.opened(1)
    talk.dialogue.take(talk.block(call, [(":status", "502"), ("content-type", "text/html")]))
    assert talk.error(call).code() is grpc.StatusCode.UNAVAILABLE
    assert [frame.kind for frame in talk.frames()] == [RST_STREAM]
    talk.dialogue.take(pack(DATA, END_STREAM, 1, b"<html>"))
    assert len(talk.answers(call)) == 1


def test_data_that_ends_a_stream_without_a_status_is_an_error() -> None:
    talk = Talk()
    (call,) = talk.opened(1)
    talk.dialogue.take(talk.block(call, HEAD) + pack(DATA, END_STREAM, 1, ANSWER))
    assert talk.error(call).code() is grpc.StatusCode.UNKNOWN


def test_pings_are_answered() -> None:
    talk = Talk()
    talk.dialogue.take(pack(PING, 0, 0, b"12345678") + pack(PING, ACK, 0, b"greenrm?"))
    assert talk.frames() == [Frame(PING, ACK, 0, b"12345678")]


def test_frames_that_say_nothing_to_a_client_pass_by() -> None:
    talk = Talk()
    talk.dialogue.take(pack(PRIORITY, 0, 1, bytes(5)) + pack(0x77, 0, 9, b"extension") + pack(SETTINGS, ACK, 0))
    assert talk.frames() == []


@pytest.mark.parametrize(
    "frame",
    [
        pack(DATA, 0, 3, ANSWER),  # never begun
        pack(DATA, 0, 2, ANSWER),  # not a client's
        pack(DATA, 0, 0, ANSWER),
        pack(DATA, PADDED, 1, b"\xff"),
        pack(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff"),
        pack(HEADERS, 0, 1, b"") + pack(DATA, 0, 1, b""),
        pack(HEADERS, 0, 1, b"") + pack(CONTINUATION, 0, 3, b""),
        pack(HEADERS, 0, 1, b"") + pack(CONTINUATION, 0, 1, bytes(16_384)) * (LARGEST_BLOCK_BYTES // 16_384 + 1),
        pack(CONTINUATION, END_HEADERS, 1, b""),
        pack(PUSH_PROMISE, END_HEADERS, 1, bytes(4)),
        pack(PING, 0, 0, b"short"),
        pack(GOAWAY, 0, 0, b"short"),
        pack(RST_STREAM, 0, 1, b"s"),
        pack(SETTINGS, 0, 0, b"odd"),
        pack_window_update(0, 0),
        pack_window_update(0, 2**31 - 1),
        b"\xff\xff\xff" + bytes(6),
    ],
)
def test_a_peer_that_breaks_the_rules_is_a_fault(frame: bytes) -> None:
    talk = Talk()
    talk.opened(1)
    with pytest.raises(Fault):
        talk.dialogue.take(frame)


def test_a_silent_peer_is_asked_only_while_calls_wait_and_must_say_something() -> None:
    talk = Talk()
    for now in range(100):
        talk.dialogue.tick(now)
    assert talk.frames() == []
    talk.opened(1)
    asked = [now for now in range(100, 111) if talk.dialogue.tick(now) or talk.frames()]
    assert asked == [100 + SILENCE_SECONDS - 1]
    talk.dialogue.take(pack(PING, ACK, 0, b"greenrm?"))
    heard = 111.0
    talk.dialogue.tick(heard)
    talk.dialogue.tick(heard + SILENCE_SECONDS)
    assert [frame.kind for frame in talk.frames()] == [PING]
    talk.dialogue.tick(heard + SILENCE_SECONDS + ANSWER_SECONDS - 0.1)
    with pytest.raises(Fault, match="keepalive"):
        talk.dialogue.tick(heard + SILENCE_SECONDS + ANSWER_SECONDS)


def test_a_connection_whose_stream_numbers_are_used_up_takes_no_more() -> None:
    talk = Talk()
    talk.dialogue._next_id = 2**31 - 1
    last = talk.begin()
    assert talk.dialogue.is_leaving
    assert isinstance(talk.error(talk.begin()), NeverBegun)
    talk.answer(last)
    assert talk.answers(last) == [b"hi"]


def test_a_peer_with_no_header_table_is_understood() -> None:
    talk = Talk(settings=[(wire.HEADER_TABLE_SIZE, 0)])
    decoder = hpack.Decoder()
    decoder.max_allowed_table_size = 0
    for _ in range(2):
        talk.begin()
        assert (":path", "/a") in [tuple(field) for field in decoder.decode(talk.frames()[0].payload)]
