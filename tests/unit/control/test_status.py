"""Errors as a Status with one ErrorInfo."""

import base64
from urllib.parse import quote

import grpc
import pytest
from google.rpc import error_details_pb2

from greenroom.control.status import MAX_MESSAGE_BYTES, MAX_METADATA_BYTES, grpc_code, internal_error, status_of
from greenroom.errors import FenceContended, GreenroomError, StaleAttempt, UnknownGate, UnknownInstance


def info(status: object) -> error_details_pb2.ErrorInfo:
    [detail] = status.details  # type: ignore[attr-defined]
    found = error_details_pb2.ErrorInfo()
    assert detail.Unpack(found)
    return found


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (UnknownInstance("m"), grpc.StatusCode.NOT_FOUND, "UNKNOWN_INSTANCE"),
        (UnknownGate("m"), grpc.StatusCode.NOT_FOUND, "UNKNOWN_GATE"),
        (StaleAttempt("m"), grpc.StatusCode.FAILED_PRECONDITION, "STALE_ATTEMPT"),
        (FenceContended("m"), grpc.StatusCode.UNAVAILABLE, "FENCE_CONTENDED"),
    ],
)
def test_our_own_errors(error: GreenroomError, code: grpc.StatusCode, reason: str) -> None:
    status = status_of(error)
    assert (grpc_code(status), status.message, info(status).reason, info(status).domain) == (
        code,
        "m",
        reason,
        "greenroom",
    )


def test_what_the_error_knows_goes_with_it() -> None:
    assert dict(info(status_of(StaleAttempt("m", current_attempt="3"))).metadata) == {"current_attempt": "3"}


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED])
def test_an_etcd_that_is_away_is_a_reason_to_try_again(code: grpc.StatusCode) -> None:
    status = status_of(grpc.aio.AioRpcError(code, details="no route"))
    assert (grpc_code(status), info(status).reason) == (grpc.StatusCode.UNAVAILABLE, "NOT_READY")
    assert "no route" in status.message


def test_what_etcd_refuses_keeps_its_code_and_text() -> None:
    error = grpc.aio.AioRpcError(
        grpc.StatusCode.RESOURCE_EXHAUSTED, details="etcdserver: mvcc: database space exceeded"
    )
    status = status_of(error)
    assert (grpc_code(status), info(status).reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "ETCD_REFUSED")
    assert status.message.endswith("etcdserver: mvcc: database space exceeded")


def test_a_bug_tells_nothing_of_itself() -> None:
    status = internal_error()
    assert (grpc_code(status), info(status).reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")


@pytest.mark.parametrize("character", ["x", "é", "\n", "\U0001f6a7"])
def test_an_error_of_any_length_fits_into_headers(character: str) -> None:
    """gRPC sends the message percent-encoded beside the Status in base64, and clients take 8 KiB together."""
    status = status_of(UnknownGate(character * 10_000, instance=character * 10_000, gate=character * 10_000))
    assert MAX_MESSAGE_BYTES - 8 < len(status.message.encode()) <= MAX_MESSAGE_BYTES
    assert status.message.endswith("…")
    for value in info(status).metadata.values():
        assert MAX_METADATA_BYTES - 8 < len(value.encode()) <= MAX_METADATA_BYTES
    headers = len(quote(status.message)) + len(base64.b64encode(status.SerializeToString()))
    assert headers < 7 * 1024


def test_what_fits_is_left_as_it_is() -> None:
    status = status_of(UnknownGate("é" * 512, gate="g" * 256))
    assert (status.message, info(status).metadata["gate"]) == ("é" * 512, "g" * 256)
