"""The contract between the relay and the program around it: who decides, who answers, who counts.

The relay knows streams, windows and headers; what a message means is known only behind these protocols.
Paths are bytes as the client sent them, with the leading slash.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final, Protocol


class Code(IntEnum):
    """The gRPC status codes that the relay itself gives."""

    OK = 0
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13


class Kind(StrEnum):
    """What is done with the messages of a method."""

    FORWARD = "forward"
    UNARY = "unary"  # the one request message is looked into before it can take effect
    STREAM = "stream"  # each request message is looked into (Watch)
    REFUSE = "refuse"  # answered UNIMPLEMENTED, in the words of `unknown`


@dataclass(frozen=True, slots=True)
class Forward:
    """The message passes as it is."""


FORWARD_AS_IS: Final = Forward()


@dataclass(frozen=True, slots=True)
class Edit:
    """The message passes changed.

    UNARY: `message` has the original's length, anything else is a bug and answered INTERNAL. Bytes that already went
    up cannot be changed any more; where the edit touches such bytes the call is handed over with `work` instead, and
    answered INTERNAL if `work` is None. STREAM: any length, `work` is not used.
    """

    message: bytes
    work: object | None = None


@dataclass(frozen=True, slots=True)
class HandOver:
    """The call is answered here (UNARY only). `work`, a parsed request for instance, comes back in the call."""

    work: object


@dataclass(frozen=True, slots=True)
class Refuse:
    """The call ends with this status; nothing of it takes effect upstream."""

    code: int
    details: str


Decision = Forward | Edit | HandOver | Refuse


class Inspector(Protocol):
    """Decides about calls: pure and synchronous. An exception ends that one call with INTERNAL."""

    def kind(self, path: bytes) -> Kind:
        """What to do with calls of `path`. Asked once a distinct header block, so the answer must not change."""

    def unknown(self, path: bytes) -> str:
        """What a client is told that calls a `path` to be refused; b"" where it gave none, or several."""

    def inspect(self, path: bytes, message: bytes) -> Decision:
        """What to do with one request message, given without its five byte prefix."""


Metadata = tuple[tuple[str, str | bytes], ...]


@dataclass(frozen=True, slots=True)
class HandedOverCall:
    """One call that the relay gives to a local handler.

    `metadata` is the client's own: no pseudo header, no `te`, `content-type`, `user-agent`, no `grpc-` name, and
    nothing that gRPC does not carry; values of names that end in `-bin` are decoded bytes. `timeout_seconds` is the
    client's `grpc-timeout`, None without one; it may be in the past.
    """

    path: bytes
    work: object
    metadata: Metadata
    timeout_seconds: float | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a handler answers. `message` None gives a status only; trailers named `-bin` carry bytes."""

    message: bytes | None
    code: int = 0
    details: str = ""
    trailers: Metadata = ()


Handler = Callable[[HandedOverCall], Awaitable[Answer]]
"""Cancelled when the client resets the stream, the connection ends, or the deadline passes (the client then gets
DEADLINE_EXCEEDED). An exception is answered INTERNAL."""


class Observer(Protocol):
    """Told what happens, for metrics and logs. Must be cheap (some are called once a call) and must not raise.

    `path` is one that the inspector knows, b"" for every other one, so it is safe as a label.
    """

    def connection_opened(self) -> None: ...

    def connection_closed(self, reason: str) -> None:
        """`reason` is for logs; it may hold numbers, so it is no label."""

    def call_relayed(self, path: bytes) -> None: ...

    def call_handed_over(self, path: bytes) -> None: ...

    def call_refused(self, path: bytes, code: int) -> None: ...

    def upstream_failed(self, address: str, reason: str) -> None:
        """An upstream address could not be dialled; the next one is tried, or the client disconnected."""

    def inspector_failed(self, path: bytes, error: Exception) -> None:
        """`inspect` raised or broke its contract; the call was answered INTERNAL."""

    def handler_failed(self, path: bytes, error: Exception) -> None:
        """A handler raised; the call was answered INTERNAL."""

    def connection_failed(self, error: Exception) -> None:
        """A bug of the relay itself; the connection it met was ended."""


class SilentObserver:
    """An observer that keeps nothing."""

    def connection_opened(self) -> None:
        return

    def connection_closed(self, reason: str) -> None:
        return

    def call_relayed(self, path: bytes) -> None:
        return

    def call_handed_over(self, path: bytes) -> None:
        return

    def call_refused(self, path: bytes, code: int) -> None:
        return

    def upstream_failed(self, address: str, reason: str) -> None:
        return

    def inspector_failed(self, path: bytes, error: Exception) -> None:
        return

    def handler_failed(self, path: bytes, error: Exception) -> None:
        return

    def connection_failed(self, error: Exception) -> None:
        return
