"""Errors of the control API as one line that says what to do.

The rule: what the proxy itself says is passed on as it is, with advice; what gRPC says is told as what it means here.
"""

from typing import Any, cast

import grpc
from google.rpc import error_details_pb2  # type: ignore[import-untyped]  # the package has no types
from grpc_status import rpc_status

from greenroom.addresses import Address
from greenroom.client.naming import Naming
from greenroom.client.tls_words import maybe_tls, tls_trouble
from greenroom.errors import ControlError, NoSuchInstanceError, UnknownInstance


def in_words(error: grpc.RpcError, address: Address, naming: Naming) -> ControlError:
    """The error as one line, and what to do about it."""
    if (info := _info(error)) is not None:
        reason, field = str(info.reason), str(info.metadata.get("field", ""))
        # What is wrong with one field is for whoever wrote it to mend, and the message says how.
        advice = None if field else naming.what_to_do(reason)
        kind = NoSuchInstanceError if reason == UnknownInstance.reason else ControlError
        return kind(f"{_one_line(error.details())}{f' ({advice})' if advice else ''}", reason, field)
    details = _one_line(error.details())
    if trouble := tls_trouble(details, address, naming):
        return ControlError(f"the control API at {address} is not trusted, or TLS failed: {trouble}")
    if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
        # A proxy whose etcd is away says so, in its own time: whoever has less of it does not hear that.
        late = error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        doubt = " in time: are `greenroom serve` and its etcd running" if late else ": is `greenroom serve` running"
        return ControlError(
            f"no control API answers at {address}{doubt} there? If it is elsewhere, say so {naming.elsewhere}"
            f"{maybe_tls(details, address, naming)}",
            ControlError.UNREACHABLE,
        )
    if error.code() is grpc.StatusCode.UNIMPLEMENTED:
        said = f"{address} is no control port of Greenroom's (or of another version)"
        return ControlError(f"{said}; see {naming.control}")
    return ControlError(f"the control API at {address} failed: {error.code().name}: {details}")


def _info(error: grpc.RpcError) -> Any:
    """The ErrorInfo of an error that the proxy itself answered with, None for any other."""
    try:
        status = rpc_status.from_call(cast(grpc.Call, error))
    except ValueError:
        return None
    for detail in status.details if status else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info) and info.reason:
            return info
    return None


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())
