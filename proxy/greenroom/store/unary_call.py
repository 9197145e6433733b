"""One unary call on a connection: what is still to be sent of it, and what came of its answer.

The rule: an answer is believed once its trailers say OK and it is one whole message. Whatever else a peer does is an
error, in the codes of a gRPC client.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Final

from grpc import StatusCode
from grpc.aio import AioRpcError

from greenroom.store import call_errors
from greenroom.store.response_blocks import ResponseHead

_PREFIX: Final = struct.Struct(">BL")
_HTTP_OK: Final = b"200"

Pairs = Sequence[tuple[str, str | bytes]]
Outcome = bytes | AioRpcError
"""A call's answer, or how it failed."""


class UnaryCall:
    """A call; `ended` is called once with what came of it, unless it is given up.

    `stream_id` is 0 until it has begun. `body` is the request with its prefix; `sent` bytes of it have left, `window`
    more are taken by the peer now; `unread` is what came of the answer since the peer was last allowed more.
    """

    __slots__ = (
        "_is_answered",
        "_parts",
        "body",
        "ended",
        "metadata",
        "path",
        "sent",
        "stream_id",
        "timeout_seconds",
        "unread",
        "window",
    )

    def __init__(
        self,
        path: str,
        message: bytes,
        metadata: Pairs,
        timeout_seconds: float | None,
        ended: Callable[[Outcome], None],
    ) -> None:
        self.path, self.metadata, self.timeout_seconds = path, metadata, timeout_seconds
        self.ended = ended
        self.body = _PREFIX.pack(0, len(message)) + message
        self.stream_id = self.sent = self.window = self.unread = 0
        self._is_answered = False
        self._parts: list[bytes] = []

    def take_data(self, content: bytes) -> None:
        """Some of the answer's message."""
        self._parts.append(content)

    def take_head(self, head: ResponseHead, *, is_last: bool) -> Outcome | None:
        """A header block of the answer; the outcome, where there is one now."""
        if not self._is_answered:
            if head.http_status.startswith(b"1") and not is_last:  # An interim one: the answer is still to come.
                return None
            if head.status is None and head.http_status != _HTTP_OK:
                return call_errors.of_http(head.http_status)
            if not head.is_grpc:
                return call_errors.error(StatusCode.UNKNOWN, "an answer that is not gRPC's")
            self._is_answered = True
            return self._outcome(head) if is_last else None
        return self._outcome(head) if is_last else call_errors.broken("header fields amid the answer")

    def cut_short(self) -> Outcome:
        """The outcome where the peer ended the stream and gave no status."""
        return call_errors.error(StatusCode.UNKNOWN, "the answer ended without a status")

    def _outcome(self, trailers: ResponseHead) -> Outcome:
        if trailers.status is None:
            return self.cut_short()
        if trailers.status != 0:
            return call_errors.of_status(trailers.status, trailers.details, trailers.trailers)
        return _message(b"".join(self._parts))


def _message(body: bytes) -> Outcome:
    if len(body) < _PREFIX.size:
        return call_errors.broken("the answer is OK and has no message")
    flag, size = _PREFIX.unpack_from(body)
    if flag:
        return call_errors.broken("the answer is compressed, which was not asked for")
    if size != len(body) - _PREFIX.size:
        return call_errors.broken("the answer is not one whole message")
    return body[_PREFIX.size :]
