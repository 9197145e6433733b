"""Writes the answers of local handlers to the client, as far as its windows allow, the rest when they open.

Rule: what upstream sent and still waits goes first, and no byte leaves that the client's windows do not have.
"""

from collections.abc import Callable

from greenroom.http2.frames import END_STREAM, pack_block, pack_data
from greenroom.http2.header_blocks import RESPONSE_HEADERS, SIZE_UPDATE_TO_ZERO, encode_trailers

from .calls import Answer, Code
from .limits import Bound
from .messages import frame_message
from .settings import Announced
from .streams import Stream
from .windows import Lane

# Header lists of a few KiB are what clients take by default; a status text is for people and logs.
_DETAILS_CHARACTERS = 2_048
_TOO_MUCH_UNSENT = Answer(None, Code.RESOURCE_EXHAUSTED, "too many answers wait for this client")


class _Unsent:
    """The rest of one answer."""

    __slots__ = ("body", "sent", "stream", "trailers")

    def __init__(self, stream: Stream, body: bytes, trailers: bytes) -> None:
        self.stream = stream
        self.body = body
        self.sent = 0
        self.trailers = trailers


class Answers:
    """The answers under way on one connection; `closed` is called with each stream whose answer has left whole."""

    __slots__ = ("_bound", "_client", "_closed", "_lane", "_unsent", "block_was_sent")

    def __init__(self, lane: Lane, client: Announced, bound: Bound, closed: Callable[[Stream], None]) -> None:
        self._lane = lane
        self._client = client
        self._bound = bound
        self._closed = closed
        self._unsent: dict[int, _Unsent] = {}
        self.block_was_sent = False  # a header block of anybody went to the client

    def add(self, stream: Stream, answer: Answer) -> None:
        """Answer `stream`. Too many bytes that wait make it RESOURCE_EXHAUSTED."""
        body = b"" if answer.message is None else frame_message(answer.message)
        if not self._bound.take(len(body)):
            body, answer = b"", _TOO_MUCH_UNSENT
        trailers = encode_trailers(answer.code, answer.details[:_DETAILS_CHARACTERS], answer.trailers)
        self._unsent[stream.id] = _Unsent(stream, body, trailers)
        self.advance(stream.id)

    def end(self) -> None:
        """The connection is over. Nothing is left that refers to whoever made this."""
        self._unsent.clear()
        self._closed = _nobody

    def forget(self, stream_id: int) -> None:
        """The client gave the stream up."""
        unsent = self._unsent.pop(stream_id, None)
        if unsent is not None:
            self._bound.give_back(len(unsent.body))

    def advance_all(self) -> None:
        for stream_id in list(self._unsent):
            self.advance(stream_id)

    def advance(self, stream_id: int) -> None:
        """Write what the windows allow of one answer, if there is one."""
        unsent = self._unsent.get(stream_id)
        if unsent is None or self._lane.waiting:
            return
        if unsent.body:
            self._open(unsent.stream)
            self._write_body(unsent)
            if unsent.sent < len(unsent.body):
                return
        self._finish(unsent)

    def _open(self, stream: Stream) -> None:
        if not stream.responded:
            stream.responded = True
            self._lane.out.append(pack_block(stream.id, self._opening() + RESPONSE_HEADERS))

    def _opening(self) -> bytes:
        """What the first block to a client begins with: it may have asked for a table smaller than the default."""
        if self.block_was_sent:
            return b""
        self.block_was_sent = True
        return SIZE_UPDATE_TO_ZERO

    def _write_body(self, unsent: _Unsent) -> None:
        lane, stream = self._lane, unsent.stream
        amount = min(len(unsent.body) - unsent.sent, lane.left, stream.room(self._client))
        if amount <= 0:
            return
        lane.out += pack_data(stream.id, unsent.body[unsent.sent : unsent.sent + amount])
        lane.inject(amount)
        lane.left -= amount
        stream.allowance -= amount
        unsent.sent += amount

    def _finish(self, unsent: _Unsent) -> None:
        stream = unsent.stream
        block = unsent.trailers if stream.responded else RESPONSE_HEADERS + unsent.trailers
        self._lane.out.append(pack_block(stream.id, self._opening() + block, END_STREAM))
        self.forget(stream.id)
        self._closed(stream)


def _nobody(_: Stream) -> None:
    """Nobody is to be told any more."""
