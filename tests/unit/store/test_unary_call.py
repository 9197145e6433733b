"""What a unary call makes of an answer, piece by piece."""

import grpc
import pytest

from greenroom.store.response_blocks import ResponseHead, head_of
from greenroom.store.unary_call import Outcome, UnaryCall

HEAD = head_of([(b":status", b"200"), (b"content-type", b"application/grpc+proto")])
ALL_IN_ONE = head_of([(b":status", b"200"), (b"content-type", b"application/grpc"), (b"grpc-status", b"5")])
OK = head_of([(b"grpc-status", b"0")])
MESSAGE = b"\0\0\0\0\x02hi"


def call() -> UnaryCall:
    return UnaryCall("/path", b"request", (), None, lambda _: None)


def outcome_of(*pieces: ResponseHead | bytes) -> Outcome | None:
    """The last head is the end."""
    made, outcome = call(), None
    for number, piece in enumerate(pieces):
        assert outcome is None, "something came after the outcome"
        if isinstance(piece, bytes):
            made.take_data(piece)
        else:
            outcome = made.take_head(piece, is_last=number == len(pieces) - 1)
    return outcome


def test_a_request_has_its_prefix() -> None:
    assert call().body == b"\0\0\0\0\x07request"


def test_a_message_in_pieces_is_one_answer() -> None:
    assert outcome_of(HEAD, MESSAGE[:3], MESSAGE[3:6], MESSAGE[6:], OK) == b"hi"
    assert outcome_of(HEAD, b"\0\0\0\0\0", OK) == b""


def test_an_interim_head_is_passed_over() -> None:
    assert outcome_of(head_of([(b":status", b"103")]), HEAD, MESSAGE, OK) == b"hi"


@pytest.mark.parametrize(
    ("pieces", "code"),
    [
        ((HEAD, MESSAGE, head_of([(b"grpc-status", b"9"), (b"grpc-message", b"no")])), "FAILED_PRECONDITION"),
        ((ALL_IN_ONE,), "NOT_FOUND"),
        ((head_of([(b":status", b"503"), (b"content-type", b"text/html")]),), "UNAVAILABLE"),
        ((head_of([(b":status", b"200"), (b"content-type", b"text/html")]),), "UNKNOWN"),
        ((HEAD, MESSAGE, head_of([(b"x", b"y")])), "UNKNOWN"),
        ((HEAD, OK), "INTERNAL"),
        ((HEAD, MESSAGE[:-1], OK), "INTERNAL"),
        ((HEAD, MESSAGE + MESSAGE, OK), "INTERNAL"),
        ((HEAD, b"\x01" + MESSAGE[1:], OK), "INTERNAL"),
    ],
)
def test_anything_else_is_an_error(pieces: tuple[ResponseHead | bytes, ...], code: str) -> None:
    outcome = outcome_of(*pieces)
    assert isinstance(outcome, grpc.aio.AioRpcError)
    assert outcome.code().name == code


def test_a_second_head_in_the_middle_is_an_error_at_once() -> None:
    made = call()
    assert made.take_head(HEAD, is_last=False) is None
    assert isinstance(made.take_head(HEAD, is_last=False), grpc.aio.AioRpcError)


def test_an_answer_that_ends_without_trailers_is_none() -> None:
    outcome = call().cut_short()
    assert isinstance(outcome, grpc.aio.AioRpcError)
    assert outcome.code() is grpc.StatusCode.UNKNOWN
