"""Errors of calls, in gRPC's codes and words."""

import grpc
import pytest

from greenroom.store import call_errors
from greenroom.store.call_errors import NeverBegun


def test_an_error_is_what_grpcs_own_client_raises() -> None:
    error = call_errors.of_status(5, "etcdserver: requested lease not found", (("x-bin", b"\0"), ("x", "y")))
    assert isinstance(error, grpc.aio.AioRpcError)
    assert (error.code(), error.details()) == (grpc.StatusCode.NOT_FOUND, "etcdserver: requested lease not found")
    assert tuple(error.trailing_metadata()) == (("x-bin", b"\0"), ("x", "y"))
    assert tuple(error.initial_metadata()) == ()


def test_a_code_that_grpc_does_not_know_is_unknown() -> None:
    assert call_errors.of_status(99, "", ()).code() is grpc.StatusCode.UNKNOWN


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (0x7, grpc.StatusCode.UNAVAILABLE),
        (0x8, grpc.StatusCode.CANCELLED),
        (0xB, grpc.StatusCode.RESOURCE_EXHAUSTED),
        (0x2, grpc.StatusCode.INTERNAL),
    ],
)
def test_a_reset_is_an_error_of_its_code_and_only_a_refused_stream_was_never_begun(
    code: int, expected: grpc.StatusCode
) -> None:
    error = call_errors.of_reset(code)
    assert error.code() is expected
    assert isinstance(error, NeverBegun) is (code == 0x7)


@pytest.mark.parametrize(
    ("status", "expected"),
    [(b"503", grpc.StatusCode.UNAVAILABLE), (b"404", grpc.StatusCode.UNIMPLEMENTED), (b"302", grpc.StatusCode.UNKNOWN)],
)
def test_an_answer_of_http_alone_is_an_error_of_its_status(status: bytes, expected: grpc.StatusCode) -> None:
    error = call_errors.of_http(status)
    assert (error.code(), error.details()) == (expected, f"Received http2 header with status: {status.decode()}")


def test_the_callers_and_the_connections_ends() -> None:
    assert call_errors.deadline_exceeded().code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert call_errors.unavailable("why").code() is call_errors.never_begun("why").code()
    assert call_errors.broken("why").code() is grpc.StatusCode.INTERNAL
