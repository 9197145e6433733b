"""What each frame of a client does (RFC 9113, section 6).

Rule: header blocks always go up, whole and in order, so that both decoders stay equal. DATA goes up only for a stream
in the table, and never before a decision about the message it completes.
"""

from typing import Final

from greenroom.http2.frames import (
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
from greenroom.http2.settings import MAX_FRAME_SIZE, build, last_value, parse

from .blocks import stray
from .calls import Code, Kind, Refuse
from .compressed import refused_encoding
from .dialogue import Dialogue
from .heads import KnownHeads, RequestHead, RequestHeads
from .inspection import InspectingReader
from .limits import Rates
from .pings import answered
from .settings import for_upstream
from .streams import Phase, Stream
from .windows import StreamWindow

# Reading a member of an enum class costs several times a global name, and these are compared on every frame.
_PASS: Final = Phase.PASS
_FIRST_MESSAGE: Final = Phase.FIRST_MESSAGE
_DECIDED: Final = Phase.DECIDED
_UNARY: Final = Kind.UNARY
_FORWARD: Final = Kind.FORWARD
_STREAM: Final = Kind.STREAM

_SHAPE_OF_HEAD: Final = PADDED | PRIORITIZED | END_HEADERS | END_STREAM
_WINDOW_UPDATE_BYTES: Final = HEADER_BYTES + 4
_PING_BYTES: Final = HEADER_BYTES + 8
_WRONG_LENGTH: Final = "frame of a wrong length"
_TOO_MANY_CONTROL_FRAMES: Final = "too many control frames"
_TOO_MANY_UNDECIDED: Final = Refuse(Code.RESOURCE_EXHAUSTED, "too many calls without a message on this connection")


class ClientFrames(InspectingReader):
    """Takes one client's bytes after the preface."""

    __slots__ = ("_resets", "_streams", "heads", "rates", "upstream_reader")

    def __init__(self, dialogue: Dialogue, known: KnownHeads) -> None:
        super().__init__(dialogue, _FIRST)
        self._streams = dialogue.streams
        self.heads = RequestHeads(known, dialogue.limits.header_list_bytes)
        self.upstream_reader: FrameReader | None = None  # it takes frames as large as the client says
        self.rates = Rates()
        self._resets = 0

    def _data(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        if end - begin == HEADER_BYTES and not flags & END_STREAM:
            self._count_empty()
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
            self.first_message(stream, flags, begin, end)
        elif phase is _PASS:
            self.pass_on(stream, flags, begin, end)
        else:
            self._data_in_other_phase(stream, flags, begin, end)
        if stream.upstream_ended and stream.client_ended:
            self._dialogue.forget(stream)

    def _late_data(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        """DATA of a stream that is over; its client need not know that yet."""
        self._must_not_be_idle(stream_id)
        if flags & END_STREAM:
            self._count_control()
        self.swallow(None, begin, end)

    def _data_in_other_phase(self, stream: Stream, flags: int, begin: int, end: int) -> None:
        phase = stream.phase
        if phase is _DECIDED:
            self.after_first_message(stream, flags, begin, end)
        elif phase is Phase.EACH_MESSAGE:
            self.each_message(stream, flags, begin, end)
        else:
            self.swallow(stream, begin, end)
            if phase is Phase.ENDED_UPSTREAM and flags & END_STREAM:
                self._up.send(pack(DATA, END_STREAM, stream.id))

    def _headers(self, flags: int, stream_id: int, begin: int, end: int) -> int | None:
        """A call begins, and where its only message stands right behind, that is dealt with too."""
        if flags & _SHAPE_OF_HEAD != END_HEADERS:
            self._unusual_headers(flags, stream_id, begin, end)
            return None
        head = self._head(stream_id, self.data[begin + HEADER_BYTES : end])
        if (
            head.is_usual
            and stream_id <= self._dialogue.last_id_told
            and len(self._streams) < self._dialogue.stream_room
            and (after := self.whole_call(head, stream_id, end)) is not None
        ):
            return after
        self._opened(head, flags, stream_id, begin, end)
        return None

    def _unusual_headers(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        """In several frames, padded, with a priority, or without any message."""
        if not flags & END_HEADERS:
            self.start_block(flags, stream_id, begin, end)
            return
        content_begin, content_end = content_of(self.data, flags, begin + HEADER_BYTES, end)
        self._opened(self._head(stream_id, self.data[content_begin:content_end]), flags, stream_id, begin, end)

    def whole_block(self, flags: int, stream_id: int, block: bytes, frames: bytes) -> None:
        stream = self._dialogue.open(stream_id, self._head(stream_id, block), flags)
        if stream_id > self._dialogue.last_id_told:
            self._ignore(stream, frames)
        else:
            self._begin(stream, frames, self._refusal(stream))

    def _head(self, stream_id: int, block: bytes) -> RequestHead:
        """The head of a new stream. A used id is none: etcd ends the connection for trailers of a client."""
        dialogue = self._dialogue
        if stream_id <= dialogue.last_client_id or not stream_id & 1:
            raise Fault(Error.PROTOCOL_ERROR, f"HEADERS on stream {stream_id}")
        dialogue.last_client_id = stream_id
        return self.heads.head(block)

    def _opened(self, head: RequestHead, flags: int, stream_id: int, begin: int, end: int) -> None:
        """The stream of a head that lies in one frame."""
        stream = self._dialogue.open(stream_id, head, flags)
        if stream_id > self._dialogue.last_id_told:
            self._ignore(stream, self.cut(begin, end))
            return
        refusal = self._refusal(stream)
        if refusal is not None or self._up.waiting:
            self._begin(stream, self.cut(begin, end), refusal)

    def _refusal(self, stream: Stream) -> Refuse | None:
        """Why the call ends before it begins; the counting of those that do not."""
        dialogue = self._dialogue
        too_much = dialogue.count(stream)
        if too_much is not None:
            return too_much
        head = stream.head
        kind = head.kind
        if kind is _UNARY:
            if dialogue.undecided > self._limits.undecided_streams:
                return _TOO_MANY_UNDECIDED
        elif kind is Kind.REFUSE:
            return Refuse(Code.UNIMPLEMENTED, dialogue.inspector.unknown(head.asked_path()))
        if head.encoding and kind is not _FORWARD and (unknown := refused_encoding(head.encoding)) is not None:
            return unknown
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
            self.cut(begin, end)
            return
        if not stream.responded:
            self._count_reset()
        if stream.phase is Phase.LOCAL:
            self.cut(begin, end)
        elif self._up.holds:
            frame = self.cut(begin, end)
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
        frame = self.cut(begin, end)
        self.handlers = _USUAL
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
        if end - begin != _PING_BYTES:
            raise Fault(Error.FRAME_SIZE_ERROR, _WRONG_LENGTH)
        if stream_id:
            raise Fault(Error.PROTOCOL_ERROR, "PING on a stream")
        rates = self.rates
        rates.control_frames += 1
        if rates.control_frames > self._limits.control_frames_per_second:
            raise Fault(Error.ENHANCE_YOUR_CALM, _TOO_MANY_CONTROL_FRAMES)
        if not flags & ACK and not self._dialogue.pings.may_pass(self._dialogue.now):
            frame = self.cut(begin, end)
            self._dialogue.to_client.append(answered(frame[HEADER_BYTES:]))

    def _goaway(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        if stream_id:
            raise Fault(Error.PROTOCOL_ERROR, "GOAWAY on a stream")
        self._count_control()

    def _window_update(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        if end - begin != _WINDOW_UPDATE_BYTES:
            raise Fault(Error.FRAME_SIZE_ERROR, _WRONG_LENGTH)
        rates = self.rates
        rates.window_updates += 1
        if rates.window_updates > self._limits.window_updates_per_second:
            raise Fault(Error.ENHANCE_YOUR_CALM, "too many window updates")
        increment = word(self.data, begin + HEADER_BYTES)
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
            self.cut(begin, end)
            if told:
                self._up.out.append(pack_window_update(0, told))
        if was_shut:
            down.drain()
            self._dialogue.answers.advance_all()

    def _open_stream_window(self, stream_id: int, increment: int, begin: int, end: int) -> None:
        stream = self._streams.get(stream_id)
        if stream is None:
            self._must_not_be_idle(stream_id)
            self.cut(begin, end)
            return
        stream.allowance += increment
        if stream.room(self._dialogue.client_settings) > LARGEST_WINDOW_BYTES:
            raise Fault(Error.FLOW_CONTROL_ERROR, "stream window above its largest size")
        if stream.phase is Phase.LOCAL:
            self.cut(begin, end)
            self._dialogue.answers.advance(stream_id)
        elif stream.head_waits:
            self._up.send(self.cut(begin, end))

    def _ignored(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        """PRIORITY means nothing any more, and unknown frames are for one hop only: neither goes on."""
        self._count_control()
        self.cut(begin, end)

    def _count_control(self) -> None:
        self.rates.control_frames += 1
        if self.rates.control_frames > self._limits.control_frames_per_second:
            raise Fault(Error.ENHANCE_YOUR_CALM, _TOO_MANY_CONTROL_FRAMES)

    def _count_empty(self) -> None:
        self.rates.empty_data_frames += 1
        if self.rates.empty_data_frames > self._limits.empty_data_frames_per_second:
            raise Fault(Error.ENHANCE_YOUR_CALM, "too many empty DATA frames")

    def _must_not_be_idle(self, stream_id: int) -> None:
        if stream_id > self._dialogue.last_client_id or not stream_id & 1:
            raise Fault(Error.PROTOCOL_ERROR, f"frame on the idle stream {stream_id}")


def _must_have_length(begin: int, end: int, length: int) -> None:
    if end - begin != HEADER_BYTES + length:
        raise Fault(Error.FRAME_SIZE_ERROR, _WRONG_LENGTH)


_USUAL: Final = handler_table(
    {
        DATA: ClientFrames._data,
        HEADERS: ClientFrames._headers,
        RST_STREAM: ClientFrames._rst_stream,
        SETTINGS: ClientFrames._settings,
        PUSH_PROMISE: stray,
        PING: ClientFrames._ping,
        GOAWAY: ClientFrames._goaway,
        WINDOW_UPDATE: ClientFrames._window_update,
        CONTINUATION: stray,
    },
    ClientFrames._ignored,
)
# The first frame has to be SETTINGS (RFC 9113, section 3.4).
_FIRST: Final = handler_table({SETTINGS: ClientFrames._settings}, stray)
