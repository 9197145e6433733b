"""What each frame of a client does (RFC 9113, section 6).

Rule: header blocks always go up, whole and in order, so that both decoders stay equal. DATA goes up only for a stream
in the table, and never before a decision about the message it completes.
"""

from typing import Final

from .blocks import BlockAssembly, stray
from .calls import Code, Kind, Refuse
from .dialogue import Dialogue
from .frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADER_BYTES,
    HEADERS,
    LARGEST_WINDOW_BYTES,
    PADDED,
    PING,
    PRIORITIZED,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Error,
    Fault,
    FrameReader,
    content_of,
    handler_table,
    pack,
    pack_rst,
    pack_window_update,
    word,
)
from .heads import RequestHeads
from .inspection import Inspection
from .limits import Rate
from .pings import answered
from .settings import MAX_FRAME_SIZE, build, for_upstream, last_value, parse
from .streams import Phase, Stream
from .windows import StreamWindow

# Reading a member of an enum class costs several times a global name, and these are compared on every frame.
_PASS: Final = Phase.PASS
_FIRST_MESSAGE: Final = Phase.FIRST_MESSAGE
_DECIDED: Final = Phase.DECIDED
_UNARY: Final = Kind.UNARY
_FORWARD: Final = Kind.FORWARD
_STREAM: Final = Kind.STREAM

_WINDOW_UPDATE_BYTES: Final = HEADER_BYTES + 4
_WRONG_LENGTH: Final = "frame of a wrong length"
_UNKNOWN_METHOD: Final = Refuse(Code.UNIMPLEMENTED, "unknown method")
_COMPRESSED: Final = Refuse(Code.UNIMPLEMENTED, "compressed messages are not taken on this method")
_TOO_MANY_STREAMS: Final = Refuse(Code.RESOURCE_EXHAUSTED, "too many calls at once on this connection")
_TOO_MANY_UNDECIDED: Final = Refuse(Code.RESOURCE_EXHAUSTED, "too many calls without a message on this connection")


class ClientFrames:
    """The handlers of one client's frames. `reader` takes its bytes after the preface."""

    def __init__(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue
        self._streams = dialogue.streams
        self._up = dialogue.up
        self._limits = limits = dialogue.limits
        self.reader = FrameReader(dialogue.to_upstream, ())
        self.heads = RequestHeads(dialogue.inspector.kind, limits.header_list_bytes)
        self.upstream_reader: FrameReader | None = None  # it takes frames as large as the client says
        self._inspection = Inspection(dialogue, self.reader)
        self._blocks = BlockAssembly(self.reader, limits, self._whole_block)
        self._control_rate = Rate(limits.control_frames_per_second)
        self._empty_rate = Rate(limits.empty_data_frames_per_second)
        self._window_rate = Rate(limits.window_updates_per_second)
        self._resets = 0
        self._handlers = handler_table(
            {
                DATA: self._data,
                HEADERS: self._headers,
                RST_STREAM: self._rst_stream,
                SETTINGS: self._settings,
                PUSH_PROMISE: stray,
                PING: self._ping,
                GOAWAY: self._goaway,
                WINDOW_UPDATE: self._window_update,
                CONTINUATION: stray,
            },
            self._ignored,
        )
        # The first frame has to be SETTINGS (RFC 9113, section 3.4).
        self.reader.handlers = handler_table({SETTINGS: self._settings}, stray)

    def _data(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        if end - begin == HEADER_BYTES and not flags & END_STREAM and self._empty_rate.exceeded(self._dialogue.now):
            raise Fault(Error.ENHANCE_YOUR_CALM, "too many empty DATA frames")
        stream = self._streams.get(stream_id)
        if stream is None:
            self._late_data(flags, stream_id, begin, end)
            return
        if stream.client_ended:
            raise Fault(Error.STREAM_CLOSED, "DATA after the end of its stream")
        if flags & END_STREAM:
            stream.client_ended = True
        phase = stream.phase
        if phase is _FIRST_MESSAGE:
            self._inspection.first_message(stream, flags, begin, end)
        elif phase is _PASS:
            self._inspection.pass_on(stream, flags, begin, end)
        else:
            self._data_in_other_phase(stream, flags, begin, end)
        if stream.client_ended and stream.upstream_ended:
            self._dialogue.forget(stream)

    def _late_data(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        """DATA of a stream that is over; its client need not know that yet."""
        self._must_not_be_idle(stream_id)
        if flags & END_STREAM:
            self._count_control()
        self._inspection.swallow(None, begin, end)

    def _data_in_other_phase(self, stream: Stream, flags: int, begin: int, end: int) -> None:
        inspection = self._inspection
        phase = stream.phase
        if phase is _DECIDED:
            inspection.after_first_message(stream, flags, begin, end)
        elif phase is Phase.EACH_MESSAGE:
            inspection.each_message(stream, flags, begin, end)
        else:
            inspection.swallow(stream, begin, end)
            if phase is Phase.ENDED_UPSTREAM and flags & END_STREAM:
                self._up.send(pack(DATA, END_STREAM, stream.id))

    def _headers(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        if not flags & END_HEADERS:
            self._blocks.start(flags, stream_id, begin, end)
            return
        data = self.reader.data
        if flags & (PADDED | PRIORITIZED):
            content_begin, content_end = content_of(data, flags, begin + HEADER_BYTES, end)
            block = data[content_begin:content_end]
        else:
            block = data[begin + HEADER_BYTES : end]
        stream = self._opened(flags, stream_id, block)
        if stream_id > self._dialogue.last_id_told:
            self._ignore(stream, self.reader.cut(begin, end))
            return
        refusal = self._refusal(stream)
        if refusal is not None or self._up.waiting:
            self._begin(stream, self.reader.cut(begin, end), refusal)

    def _whole_block(self, flags: int, stream_id: int, block: bytes, frames: bytes) -> None:
        stream = self._opened(flags, stream_id, block)
        if stream_id > self._dialogue.last_id_told:
            self._ignore(stream, frames)
        else:
            self._begin(stream, frames, self._refusal(stream))

    def _opened(self, flags: int, stream_id: int, block: bytes) -> Stream:
        """A new stream. A used id is one too: etcd ends the connection for trailers of a client."""
        dialogue = self._dialogue
        if stream_id <= dialogue.last_client_id or not stream_id & 1:
            raise Fault(Error.PROTOCOL_ERROR, f"HEADERS on stream {stream_id}")
        dialogue.last_client_id = stream_id
        head = self.heads.head(block)
        stream = Stream(stream_id, head, head.phase, dialogue.now)
        if flags & END_STREAM:
            stream.client_ended = True
        self._streams[stream_id] = stream
        if head.phase is _FIRST_MESSAGE:
            dialogue.undecided += 1
        return stream

    def _refusal(self, stream: Stream) -> Refuse | None:
        """Why the call ends before it begins; the counting of those that do not."""
        dialogue = self._dialogue
        head = stream.head
        kind = head.kind
        if kind is _UNARY:
            if dialogue.undecided > self._limits.undecided_streams:
                return _TOO_MANY_UNDECIDED
        elif kind is Kind.REFUSE:
            return _UNKNOWN_METHOD
        if head.compressed and kind is not _FORWARD:
            return _COMPRESSED
        if len(self._streams) > self._limits.streams:
            return _TOO_MANY_STREAMS
        if kind is _STREAM:
            stream.up = StreamWindow(dialogue.upstream_settings)
        if kind is not _UNARY:
            dialogue.observer.call_relayed(head.path)
        return None

    def _begin(self, stream: Stream, frames: bytes, refusal: Refuse | None) -> None:
        """Its head goes up behind whatever waits, and the call ends at once where it is refused."""
        stream.head_waits = True
        self._up.send(frames, then=stream.head_left)
        if refusal is not None:
            self._dialogue.refuse(stream, refusal)

    def _ignore(self, stream: Stream, frames: bytes) -> None:
        """The client knows from a GOAWAY that this stream does not count; only its head does, for the table."""
        self._up.send(frames)
        self._up.send(pack_rst(stream.id, Error.CANCEL))
        self._dialogue.forget(stream)

    def _rst_stream(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        _must_have_length(begin, end, 4)
        stream = self._streams.get(stream_id)
        if stream is None:
            self._must_not_be_idle(stream_id)
            self._count_control()
            self.reader.cut(begin, end)
            return
        if not stream.responded:
            self._count_reset()
        if stream.phase is Phase.LOCAL:
            self.reader.cut(begin, end)
        elif self._up.holds:
            frame = self.reader.cut(begin, end)
            self._dialogue.drop_waiting(stream)
            self._up.send(frame)
            self._up.drain()
        self._dialogue.forget(stream)

    def _count_reset(self) -> None:
        self._resets += 1
        limits = self._limits
        if self._resets > limits.spare_resets + limits.resets_per_answered_call * self._dialogue.answered:
            raise Fault(Error.ENHANCE_YOUR_CALM, "too many calls reset")

    def _settings(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        if stream_id:
            raise Fault(Error.PROTOCOL_ERROR, "SETTINGS on a stream")
        self._count_control()
        frame = self.reader.cut(begin, end)
        self.reader.handlers = self._handlers
        if flags & ACK:
            _must_have_length(begin, end, 0)
            self._up.out.append(frame)
            self._dialogue.upstream_settings.acknowledge()
            self._up.resume_all()
            self._up.drain()
        else:
            self._announce(frame[HEADER_BYTES:])

    def _announce(self, payload: bytes) -> None:
        settings = parse(payload)
        self._dialogue.client_settings.announce(settings)
        frame_bytes = last_value(settings, MAX_FRAME_SIZE)
        if frame_bytes is not None and self.upstream_reader is not None:
            self.upstream_reader.allow_frames_of(frame_bytes)
        self._up.out.append(pack(SETTINGS, 0, 0, build(for_upstream(settings))))

    def _ping(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        _must_have_length(begin, end, 8)
        if stream_id:
            raise Fault(Error.PROTOCOL_ERROR, "PING on a stream")
        self._count_control()
        if not flags & ACK and not self._dialogue.pings.may_pass(self._dialogue.now):
            frame = self.reader.cut(begin, end)
            self._dialogue.to_client.append(answered(frame[HEADER_BYTES:]))

    def _goaway(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        if stream_id:
            raise Fault(Error.PROTOCOL_ERROR, "GOAWAY on a stream")
        self._count_control()

    def _window_update(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        if end - begin != _WINDOW_UPDATE_BYTES:
            raise Fault(Error.FRAME_SIZE_ERROR, _WRONG_LENGTH)
        if self._window_rate.exceeded(self._dialogue.now):
            raise Fault(Error.ENHANCE_YOUR_CALM, "too many window updates")
        increment = word(self.reader.data, begin + HEADER_BYTES)
        if increment == 0:
            raise Fault(Error.PROTOCOL_ERROR, "WINDOW_UPDATE of 0")
        down = self._dialogue.down
        if stream_id:
            self._open_stream_window(stream_id, increment, begin, end)
        elif down.debit or not 0 < down.left <= LARGEST_WINDOW_BYTES - increment:
            self._open_window(increment, begin, end)
        else:  # the usual case: nothing was injected, nothing waits
            down.left += increment

    def _open_window(self, increment: int, begin: int, end: int) -> None:
        down = self._dialogue.down
        was_shut = down.left == 0
        told = down.open(increment)
        if told != increment:
            self.reader.cut(begin, end)
            if told:
                self._up.out.append(pack_window_update(0, told))
        if was_shut:
            down.drain()
            self._dialogue.answers.advance_all()

    def _open_stream_window(self, stream_id: int, increment: int, begin: int, end: int) -> None:
        stream = self._streams.get(stream_id)
        if stream is None:
            self._must_not_be_idle(stream_id)
            self.reader.cut(begin, end)
            return
        stream.allowance += increment
        if stream.room(self._dialogue.client_settings) > LARGEST_WINDOW_BYTES:
            raise Fault(Error.FLOW_CONTROL_ERROR, "stream window above its largest size")
        if stream.phase is Phase.LOCAL:
            self.reader.cut(begin, end)
            self._dialogue.answers.advance(stream_id)
        elif stream.head_waits:
            self._up.send(self.reader.cut(begin, end))

    def _ignored(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        """PRIORITY means nothing any more, and unknown frames are for one hop only: neither goes on."""
        self._count_control()
        self.reader.cut(begin, end)

    def _count_control(self) -> None:
        if self._control_rate.exceeded(self._dialogue.now):
            raise Fault(Error.ENHANCE_YOUR_CALM, "too many control frames")

    def _must_not_be_idle(self, stream_id: int) -> None:
        if stream_id > self._dialogue.last_client_id or not stream_id & 1:
            raise Fault(Error.PROTOCOL_ERROR, f"frame on the idle stream {stream_id}")


def _must_have_length(begin: int, end: int, length: int) -> None:
    if end - begin != HEADER_BYTES + length:
        raise Fault(Error.FRAME_SIZE_ERROR, _WRONG_LENGTH)
