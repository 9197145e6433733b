"""One HTTP/2 connection of unary gRPC calls, seen from the client: bytes in, bytes out, no I/O and no clock (RFC 9113).

The rule: every call that was begun ends exactly once, with its answer or an error, and nothing of it is kept then. One
that is given up is reset at the peer, which may go on about it for a moment: that counts for the connection's window
and the header table, and is else passed over.
"""

from collections.abc import Callable
from typing import Any, Final

from greenroom.http2 import settings as wire
from greenroom.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    DEFAULT_FRAME_BYTES,
    DEFAULT_WINDOW_BYTES,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADER_BYTES,
    HEADERS,
    LARGEST_STREAM_ID,
    LARGEST_WINDOW_BYTES,
    PADDED,
    PING,
    PREFACE,
    PRIORITIZED,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Error,
    Fault,
    FrameReader,
    Take,
    content_of,
    handler_table,
    pack,
    pack_block,
    pack_data,
    pack_rst,
    pack_window_update,
    word,
)
from greenroom.store.call_errors import GOING_AWAY, never_begun, of_reset, unavailable
from greenroom.store.request_blocks import RequestBlocks
from greenroom.store.response_blocks import ResponseBlocks
from greenroom.store.unary_call import Outcome, UnaryCall

STREAM_WINDOW_BYTES: Final = 4 * 1024 * 1024
CONNECTION_WINDOW_BYTES: Final = 16 * 1024 * 1024
"""So far etcd may be ahead of what was read here. Once half of it came, more is allowed: answers can be of any size."""
LARGEST_BLOCK_BYTES: Final = 64 * 1024
SILENCE_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 5.0
"""Where calls wait and nothing is heard for so long the peer is asked, and must say something within the second time.
etcd ends connections that ask oftener than every 5 s."""

_OPENING: Final = (
    PREFACE
    + pack(SETTINGS, 0, 0, wire.build([(wire.ENABLE_PUSH, 0), (wire.INITIAL_WINDOW_SIZE, STREAM_WINDOW_BYTES)]))
    + pack_window_update(0, CONNECTION_WINDOW_BYTES - DEFAULT_WINDOW_BYTES)
)
_PING_BYTES: Final = 8
_PING: Final = pack(PING, 0, 0, b"greenrm?")
_SETTINGS_ACK: Final = pack(SETTINGS, ACK, 0)
_GOAWAY_BYTES: Final = 8
_WORD_BYTES: Final = 4


class UnaryDialogue(FrameReader):
    """The connection; what is to be written is in `to_peer`. A Fault that comes out of `take` or `tick` ends it.

    `is_ready` once the peer has proved to speak HTTP/2: then calls may begin. `is_leaving` once it takes no more.
    """

    __slots__ = (
        "_asked",
        "_block",
        "_calls",
        "_heard",
        "_heard_at",
        "_initial_window",
        "_most_streams",
        "_next_id",
        "_requests",
        "_responses",
        "_unread",
        "_unsent",
        "_waiting",
        "_window",
        "is_leaving",
        "is_ready",
        "to_peer",
    )

    def __init__(self, authority: str, user_agent: str, *, is_secure: bool = False) -> None:
        super().__init__([], _FIRST)
        self.to_peer: list[bytes] = [_OPENING]
        self.is_ready = self.is_leaving = False
        self._requests = RequestBlocks(authority, user_agent, is_secure=is_secure)
        self._responses = ResponseBlocks()
        self._calls: dict[int, UnaryCall] = {}
        self._unsent: dict[int, UnaryCall] = {}  # those of them whose request has not left whole
        self._waiting: dict[UnaryCall, None] = {}  # for the peer to take another stream
        self._next_id = 1
        self._most_streams = LARGEST_STREAM_ID
        self._window = self._initial_window = DEFAULT_WINDOW_BYTES
        self._unread = 0
        self._block: tuple[int, int, bytearray] | None = None  # stream, flags, and what came of a header block
        self._heard = False
        self._heard_at: float | None = None
        self._asked: float | None = None

    def __repr__(self) -> str:
        return f"<UnaryDialogue {len(self._calls)} calls, {len(self._waiting)} waiting, next stream {self._next_id}>"

    @property
    def is_idle(self) -> bool:
        """Whether no call is under way."""
        return not self._calls and not self._waiting

    def begin(self, call: UnaryCall) -> None:
        """Sends a call, or as much of it as the peer takes now."""
        if self.is_leaving:
            call.ended(never_begun(GOING_AWAY))
        elif len(self._calls) < self._most_streams:
            self._start(call)
        else:
            self._waiting[call] = None

    def give_up(self, call: UnaryCall) -> None:
        """Nobody waits for the call any more; `ended` is not called."""
        if self._calls.pop(call.stream_id, None) is None:
            self._waiting.pop(call, None)
            return
        self._unsent.pop(call.stream_id, None)
        self.to_peer.append(pack_rst(call.stream_id, Error.CANCEL))
        self._start_waiting()

    def end(self, reason: str) -> None:
        """The connection is gone: calls may have happened, but for those that were never sent."""
        self.is_leaving = True
        calls, waiting = list(self._calls.values()), list(self._waiting)
        self._calls.clear()
        self._unsent.clear()
        self._waiting.clear()
        for call in calls:
            call.ended(unavailable(reason))
        for call in waiting:
            call.ended(never_begun(reason))

    def take(self, data: bytes) -> None:
        """The next bytes of the peer."""
        self._heard = True
        self.feed(data)
        self.out.clear()  # What a relay would pass on.

    def tick(self, now: float) -> None:
        """Called every second or so: asks a silent peer. Faults where it does not answer."""
        if self._heard or self._heard_at is None or not self._calls:
            self._heard, self._heard_at, self._asked = False, now, None
        elif self._asked is None:
            if now - self._heard_at >= SILENCE_SECONDS:
                self._asked = now
                self.to_peer.append(_PING)
        elif now - self._asked >= ANSWER_SECONDS:
            raise Fault(Error.NO_ERROR, "keepalive watchdog timeout")

    def _start(self, call: UnaryCall) -> None:
        block = self._requests.block(call.path, call.metadata, call.timeout_seconds)
        call.stream_id = stream_id = self._next_id
        self._next_id += 2
        self.is_leaving = self._next_id > LARGEST_STREAM_ID
        self._calls[stream_id] = call
        size = len(call.body)
        if size <= min(self._window, self._initial_window, DEFAULT_FRAME_BYTES) and not self._unsent:
            self._window -= size
            self.to_peer.append(pack_block(stream_id, block) + pack(DATA, END_STREAM, stream_id, call.body))
            call.body = b""
            return
        call.window = self._initial_window
        self._unsent[stream_id] = call
        self.to_peer.append(pack_block(stream_id, block))
        self._send()

    def _start_waiting(self) -> None:
        while self._waiting and len(self._calls) < self._most_streams and not self.is_leaving:
            call = next(iter(self._waiting))
            del self._waiting[call]
            self._start(call)

    def _send(self) -> None:
        """What the windows allow of the requests that have not left whole."""
        for call in list(self._unsent.values()):
            amount = min(self._window, call.window, len(call.body) - call.sent)
            if amount <= 0:
                continue
            end = call.sent + amount
            is_last = end == len(call.body)
            self.to_peer += pack_data(call.stream_id, call.body[call.sent : end], END_STREAM if is_last else 0)
            self._window -= amount
            call.window -= amount
            call.sent = end
            if is_last:
                call.body = b""
                del self._unsent[call.stream_id]

    def _finish(self, call: UnaryCall, outcome: Outcome, *, closed: bool) -> None:
        """`closed`: the peer has ended the stream."""
        stream_id = call.stream_id
        del self._calls[stream_id]
        if (self._unsent.pop(stream_id, None) is not None) or not closed:
            self.to_peer.append(pack_rst(stream_id, Error.CANCEL))
        call.ended(outcome)
        self._start_waiting()

    def _call(self, stream_id: int) -> UnaryCall | None:
        """The call that a frame is about; None for one that is over."""
        if not stream_id & 1 or stream_id >= self._next_id:
            raise Fault(Error.PROTOCOL_ERROR, f"frame on the stream {stream_id}, which was never begun")
        return self._calls.get(stream_id)

    def _on_data(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        size = end - begin - HEADER_BYTES
        self._unread += size
        if self._unread >= CONNECTION_WINDOW_BYTES // 2:
            self.to_peer.append(pack_window_update(0, self._unread))
            self._unread = 0
        call = self._call(stream_id)
        if call is None:
            return
        begin, end = content_of(self.data, flags & PADDED, begin + HEADER_BYTES, end)
        call.take_data(self.data[begin:end])
        if flags & END_STREAM:
            self._finish(call, call.cut_short(), closed=True)
            return
        call.unread += size
        if call.unread >= STREAM_WINDOW_BYTES // 2:
            self.to_peer.append(pack_window_update(stream_id, call.unread))
            call.unread = 0

    def _on_headers(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        begin, end = content_of(self.data, flags & (PADDED | PRIORITIZED), begin + HEADER_BYTES, end)
        if flags & END_HEADERS:
            self._take_block(stream_id, flags, self.data[begin:end])
        else:
            self._block = (stream_id, flags, bytearray(self.data[begin:end]))
            self.handlers = _IN_A_BLOCK

    def _on_continuation(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        assert self._block is not None, "only its own handlers know of it"
        expected, first_flags, block = self._block
        if stream_id != expected:
            raise Fault(Error.PROTOCOL_ERROR, "header block of two streams")
        block += self.data[begin + HEADER_BYTES : end]
        if len(block) > LARGEST_BLOCK_BYTES:
            raise Fault(Error.ENHANCE_YOUR_CALM, "header block too long")
        if flags & END_HEADERS:
            self._block, self.handlers = None, _OPEN
            self._take_block(stream_id, first_flags, bytes(block))

    def _take_block(self, stream_id: int, flags: int, block: bytes) -> None:
        head, call = self._responses.head(block), self._call(stream_id)
        is_last = bool(flags & END_STREAM)
        outcome = call.take_head(head, is_last=is_last) if call is not None else None
        if call is not None and outcome is not None:
            self._finish(call, outcome, closed=is_last)

    def _on_reset(self, _: int, stream_id: int, begin: int, end: int) -> None:
        call = self._call(stream_id)
        if call is not None:
            self._unsent.pop(stream_id, None)
            self._finish(call, of_reset(self._word(begin, end)), closed=True)

    def _on_settings(self, flags: int, _: int, begin: int, end: int) -> None:
        if flags & ACK:
            return
        settings = wire.parse(self.data[begin + HEADER_BYTES : end])
        self.to_peer.append(_SETTINGS_ACK)
        if (table_bytes := wire.last_value(settings, wire.HEADER_TABLE_SIZE)) is not None:
            self._requests.table_bytes(table_bytes)
        if (streams := wire.last_value(settings, wire.MAX_CONCURRENT_STREAMS)) is not None:
            self._most_streams = streams
            self._start_waiting()
        if (window := wire.last_value(settings, wire.INITIAL_WINDOW_SIZE)) is not None:
            self._change_windows(window)

    def _on_first_settings(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        if flags & ACK:
            self._on_foreign(flags, stream_id, begin, end)
        self._on_settings(flags, stream_id, begin, end)
        self.handlers = _OPEN
        self.is_ready = True

    def _change_windows(self, initial: int) -> None:
        for call in self._unsent.values():
            call.window += initial - self._initial_window
            if call.window > LARGEST_WINDOW_BYTES:
                raise Fault(Error.FLOW_CONTROL_ERROR, "window above its largest size")
        self._initial_window = initial
        self._send()

    def _on_window_update(self, _: int, stream_id: int, begin: int, end: int) -> None:
        increment = self._word(begin, end)
        if stream_id == 0:
            self._window += increment
            window = self._window
        elif call := self._unsent.get(stream_id):
            call.window += increment
            window = call.window
        else:
            return
        if not increment or window > LARGEST_WINDOW_BYTES:
            raise Fault(Error.FLOW_CONTROL_ERROR, "window update of nothing, or above the largest size")
        if self._unsent:
            self._send()

    def _on_ping(self, flags: int, _: int, begin: int, end: int) -> None:
        if end - begin != HEADER_BYTES + _PING_BYTES:
            raise Fault(Error.FRAME_SIZE_ERROR, "PING of a wrong size")
        if not flags & ACK:
            self.to_peer.append(pack(PING, ACK, 0, self.data[begin + HEADER_BYTES : end]))

    def _on_goaway(self, _: int, __: int, begin: int, end: int) -> None:
        if end - begin < HEADER_BYTES + _GOAWAY_BYTES:
            raise Fault(Error.FRAME_SIZE_ERROR, "GOAWAY too short")
        last = word(self.data, begin + HEADER_BYTES)
        self.is_leaving = True
        waiting = list(self._waiting)
        self._waiting.clear()
        for call in [*(call for call in self._calls.values() if call.stream_id > last), *waiting]:
            self._calls.pop(call.stream_id, None)
            self._unsent.pop(call.stream_id, None)
            call.ended(never_begun(GOING_AWAY))

    def _word(self, begin: int, end: int) -> int:
        if end - begin != HEADER_BYTES + _WORD_BYTES:
            raise Fault(Error.FRAME_SIZE_ERROR, "frame of a wrong size")
        return word(self.data, begin + HEADER_BYTES)

    def _on_foreign(self, _: int, __: int, ___: int, ____: int) -> None:
        raise Fault(Error.PROTOCOL_ERROR, "it does not speak HTTP/2")

    def _on_misplaced(self, _: int, __: int, ___: int, ____: int) -> None:
        raise Fault(Error.PROTOCOL_ERROR, "frame where it has no place")

    def _on_other(self, _: int, __: int, ___: int, ____: int) -> None:
        """Frames that say nothing to a client: PRIORITY, and those of extensions."""


_Handler = Callable[[UnaryDialogue, int, int, int, int], None]


def _table(known: dict[int, _Handler], other: _Handler) -> tuple[Take, ...]:
    taken: dict[int, Any] = dict(known)
    return handler_table(taken, other)


_FIRST: Final = _table({SETTINGS: UnaryDialogue._on_first_settings}, UnaryDialogue._on_foreign)
_IN_A_BLOCK: Final = _table({CONTINUATION: UnaryDialogue._on_continuation}, UnaryDialogue._on_misplaced)
_OPEN: Final = _table(
    {
        DATA: UnaryDialogue._on_data,
        HEADERS: UnaryDialogue._on_headers,
        CONTINUATION: UnaryDialogue._on_misplaced,
        PUSH_PROMISE: UnaryDialogue._on_misplaced,
        RST_STREAM: UnaryDialogue._on_reset,
        SETTINGS: UnaryDialogue._on_settings,
        PING: UnaryDialogue._on_ping,
        GOAWAY: UnaryDialogue._on_goaway,
        WINDOW_UPDATE: UnaryDialogue._on_window_update,
    },
    UnaryDialogue._on_other,
)
