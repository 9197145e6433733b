"""How a unary call of the proxy's own failed, in gRPC's codes and words.

The rule: whoever makes calls meets grpc.aio.AioRpcError and nothing else, as with gRPC's own client: etcd's code, text
and trailers as they came, or what a client of gRPC makes of a connection or a stream that ended otherwise.
"""

from collections.abc import Mapping
from typing import Final

from grpc import StatusCode
from grpc.aio import AioRpcError, Metadata

from greenroom.http2.frames import Error

Trailers = tuple[tuple[str, str | bytes], ...]

SOCKET_CLOSED: Final = "Socket closed"
LATE: Final = "context deadline exceeded"
"""In the words of etcd, for a client may be told of it."""
GOING_AWAY: Final = "etcd takes no more calls on this connection (GOAWAY)"

_CODES: Final = {code.value[0]: code for code in StatusCode}
_OF_HTTP: Final[Mapping[bytes, StatusCode]] = {
    b"400": StatusCode.INTERNAL,
    b"401": StatusCode.UNAUTHENTICATED,
    b"403": StatusCode.PERMISSION_DENIED,
    b"404": StatusCode.UNIMPLEMENTED,
    b"429": StatusCode.UNAVAILABLE,
    b"502": StatusCode.UNAVAILABLE,
    b"503": StatusCode.UNAVAILABLE,
    b"504": StatusCode.UNAVAILABLE,
}
"""gRPC's mapping of HTTP's codes, for whatever answers and does not speak gRPC."""
_OF_RESET: Final[Mapping[int, StatusCode]] = {
    Error.CANCEL: StatusCode.CANCELLED,
    Error.ENHANCE_YOUR_CALM: StatusCode.RESOURCE_EXHAUSTED,
}
"""gRPC's mapping of HTTP/2's codes; any other is INTERNAL."""


class NeverBegun(AioRpcError):
    """UNAVAILABLE, and the peer has said that it did nothing: the call can be made again."""


def error(code: StatusCode, details: str, trailers: Trailers = ()) -> AioRpcError:
    """A call's error, as gRPC's own client raises it."""
    return AioRpcError(code, Metadata(), Metadata(*trailers), details)


def unavailable(details: str) -> AioRpcError:
    """The call may have happened, or not."""
    return error(StatusCode.UNAVAILABLE, details)


def never_begun(details: str) -> NeverBegun:
    """The call did not happen."""
    return NeverBegun(StatusCode.UNAVAILABLE, Metadata(), Metadata(), details)


def deadline_exceeded() -> AioRpcError:
    """The caller's time is up."""
    return error(StatusCode.DEADLINE_EXCEEDED, LATE)


def of_status(code: int, details: str, trailers: Trailers) -> AioRpcError:
    """What the peer answered. A code that gRPC does not know is UNKNOWN."""
    return error(_CODES.get(code, StatusCode.UNKNOWN), details, trailers)


def of_http(status: bytes) -> AioRpcError:
    """An answer that is none of gRPC's."""
    code = _OF_HTTP.get(status, StatusCode.UNKNOWN)
    return error(code, f"Received http2 header with status: {status.decode('ascii', 'replace')}")


def of_reset(code: int) -> AioRpcError:
    """The peer ended the stream without a status."""
    details = f"Received RST_STREAM with error code {code}"
    if code == Error.REFUSED_STREAM:
        return never_begun(details)
    return error(_OF_RESET.get(code, StatusCode.INTERNAL), details)


def broken(details: str) -> AioRpcError:
    """The answer cannot be understood."""
    return error(StatusCode.INTERNAL, details)
