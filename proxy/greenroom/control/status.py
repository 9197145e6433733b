"""Errors as the control API gives them: google.rpc.Status with exactly one ErrorInfo.

The rule: the code is for programs that only know gRPC, the ErrorInfo's reason for those that know Greenroom, and the
message for people; it says what to do where that is known.
"""

import grpc
from google.protobuf.any_pb2 import Any
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]  # the package has no types

from greenroom.errors import GreenroomError, NotReady

DOMAIN = "greenroom"
CUT = "…"
MAX_MESSAGE_BYTES = 1024
MAX_METADATA_BYTES = 256
"""A Status travels in headers, which gRPC's clients bound to 8 KiB: its message percent-encoded, up to three times as
long, and then all of it in base64."""

ETCD_REFUSED = "ETCD_REFUSED"
"""ErrorInfo reason of what etcd itself said no to, such as a write under its NOSPACE alarm."""

_AWAY = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED})


def status_of(error: GreenroomError | grpc.aio.AioRpcError) -> status_pb2.Status:
    """The Status of one of our errors, or of one that etcd answered us with."""
    if isinstance(error, grpc.aio.AioRpcError):
        return _etcd_status(error)
    return _status(error.code, error.reason, str(error), error.metadata)


def internal_error() -> status_pb2.Status:
    """The Status of a bug: what happened is in the log, not in the answer."""
    return _status(grpc.StatusCode.INTERNAL, "INTERNAL", "a bug in Greenroom; the proxy's log has the details", {})


def grpc_code(status: status_pb2.Status) -> grpc.StatusCode:
    """gRPC's own name of a Status's code."""
    return next(code for code in grpc.StatusCode if code.value[0] == status.code)


def _etcd_status(error: grpc.aio.AioRpcError) -> status_pb2.Status:
    said = error.details() or error.code().name
    if error.code() in _AWAY:
        return _status(NotReady.code, NotReady.reason, f"etcd does not answer ({said}); try again", {})
    return _status(error.code(), ETCD_REFUSED, f"etcd refused this: {said}", {"etcd_code": error.code().name})


def _status(code: grpc.StatusCode, reason: str, message: str, metadata: dict[str, str]) -> status_pb2.Status:
    known = {name: _bounded(value, MAX_METADATA_BYTES) for name, value in metadata.items()}
    info = error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=known)
    packed = Any()
    packed.Pack(info)
    return status_pb2.Status(code=code.value[0], message=_bounded(message, MAX_MESSAGE_BYTES), details=[packed])


def _bounded(text: str, limit_bytes: int) -> str:
    """The start of a text, cut between characters, with a sign of it where something is missing."""
    whole = text.encode("utf-8", "replace")
    if len(whole) <= limit_bytes:
        return whole.decode()
    return whole[: limit_bytes - len(CUT.encode())].decode("utf-8", "ignore") + CUT
