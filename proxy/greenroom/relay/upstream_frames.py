"""What each frame of upstream does (RFC 9113, section 6).

Rule: a frame goes to the client only for a stream that is in the table and not answered here; all others are swallowed,
and upstream gets the window back that the client will never open for them.
"""

from .blocks import BlockAssembly, stray
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
    pack_block,
    pack_goaway,
    pack_rst,
    pack_window_update,
    word,
)
from .header_blocks import LARGEST_TABLE_BYTES, SIZE_UPDATE_TO_ZERO
from .heads import RequestHeads
from .settings import HEADER_TABLE_SIZE, MAX_FRAME_SIZE, build, for_client, last_value, parse
from .streams import Phase, Stream

_LOCAL = Phase.LOCAL
_PASS = Phase.PASS


class UpstreamFrames:
    """The handlers of upstream's frames. `heads` and `client_reader` learn what upstream takes."""

    def __init__(self, dialogue: Dialogue, heads: RequestHeads, client_reader: FrameReader) -> None:
        self._dialogue = dialogue
        self._streams = dialogue.streams
        self._down = dialogue.down
        self._pings = dialogue.pings
        self._answers = dialogue.answers
        self._decoder = heads.decoder
        self._client_reader = client_reader
        self.reader = FrameReader(dialogue.to_client, ())
        self._blocks = BlockAssembly(self.reader, dialogue.limits, self._whole_block)
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
        self.reader.handlers = handler_table({SETTINGS: self._settings}, stray)

    def _data(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        stream = self._streams.get(stream_id)
        length = end - begin - HEADER_BYTES
        self._pings.upstream_spoke = True
        if stream is None or stream.phase is _LOCAL:
            self.reader.cut(begin, end)
            self._dialogue.credit_upstream(length)
            return
        down = self._down
        stream.allowance -= length
        if length > down.left or down.waiting:
            self._pass_later(stream, flags, begin, end)
        else:
            down.left -= length
        if flags & END_STREAM:
            self._ended(stream)

    def _pass_later(self, stream: Stream, flags: int, begin: int, end: int) -> None:
        content_begin, content_end = content_of(self.reader.data, flags & PADDED, begin + HEADER_BYTES, end)
        content = self.reader.data[content_begin:content_end]
        self.reader.cut(begin, end)
        padding = end - begin - HEADER_BYTES - len(content)
        if padding:
            self._dialogue.credit_upstream(padding)
            self._dialogue.up.send(pack_window_update(stream.id, padding))
            stream.allowance += padding
        self._down.send_data(stream.id, content, flags & END_STREAM)

    def _headers(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        if not flags & END_HEADERS:
            self._blocks.start(flags, stream_id, begin, end)
            return
        self._pings.upstream_spoke = True
        stream = self._streams.get(stream_id)
        if stream is None or stream.phase is _LOCAL:
            self.reader.cut(begin, end)
            return
        if not self._answers.block_was_sent or self._down.waiting:
            content_begin, content_end = content_of(
                self.reader.data, flags & (PADDED | PRIORITIZED), begin + HEADER_BYTES, end
            )
            block = self.reader.data[content_begin:content_end]
            self._send_block(flags, stream_id, block, self.reader.cut(begin, end))
        stream.responded = True
        if flags & END_STREAM:
            self._ended(stream)

    def _whole_block(self, flags: int, stream_id: int, block: bytes, frames: bytes) -> None:
        self._pings.upstream_spoke = True
        stream = self._streams.get(stream_id)
        if stream is None or stream.phase is _LOCAL:
            return
        self._send_block(flags, stream_id, block, frames)
        stream.responded = True
        if flags & END_STREAM:
            self._ended(stream)

    def _send_block(self, flags: int, stream_id: int, block: bytes, frames: bytes) -> None:
        """The first block to a client has to begin with a table size update, in case it asked for a small table."""
        answers = self._answers
        if not answers.block_was_sent and block[:1] != SIZE_UPDATE_TO_ZERO:
            frames = pack_block(stream_id, SIZE_UPDATE_TO_ZERO + block, flags & END_STREAM)
        answers.block_was_sent = True
        self._down.send(frames)

    def _ended(self, stream: Stream) -> None:
        """Upstream's last frame of a stream. What the client still sends on it has no meaning any more."""
        dialogue = self._dialogue
        dialogue.answered += 1
        stream.upstream_ended = True
        if (dialogue.up.waiting or dialogue.up.stalled) and dialogue.drop_waiting(stream):
            if stream.client_ended:
                dialogue.up.send(pack(DATA, END_STREAM, stream.id))
            dialogue.up.drain()
        if stream.client_ended:
            dialogue.forget(stream)
        elif stream.phase is not _PASS:
            dialogue.set_phase(stream, Phase.ENDED_UPSTREAM)

    def _rst_stream(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        stream = self._streams.get(stream_id)
        if stream is None or stream.phase is _LOCAL:
            self.reader.cut(begin, end)
            return
        if self._down.waiting:
            self._down.send(self.reader.cut(begin, end))
        self._dialogue.drop_waiting(stream)
        self._dialogue.up.drain()
        self._dialogue.forget(stream)

    def _settings(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        dialogue = self._dialogue
        self.reader.handlers = self._handlers
        frame = self.reader.cut(begin, end)
        if flags & ACK:
            self._down.send(frame, then=self._acknowledgement_passed)
            return
        settings = parse(frame[HEADER_BYTES:])
        dialogue.upstream_settings.announce(settings)
        self._client_reader.allow_frames_of(last_value(settings, MAX_FRAME_SIZE) or 0)
        table_bytes = min(last_value(settings, HEADER_TABLE_SIZE) or 0, LARGEST_TABLE_BYTES)
        self._decoder.capacity_limit = max(self._decoder.capacity_limit, table_bytes)
        frame = pack(SETTINGS, 0, 0, build(for_client(settings)))
        if dialogue.upstream_said_settings:
            dialogue.to_client.append(frame)
        else:
            dialogue.to_client.insert(0, frame)  # it has to be the first frame to the client
            dialogue.upstream_said_settings = True

    def _acknowledgement_passed(self) -> None:
        self._dialogue.client_settings.acknowledge()
        self._dialogue.answers.advance_all()

    def _ping(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        if flags & ACK and self._pings.is_own_answer(self.reader.data[begin + HEADER_BYTES : end]):
            self.reader.cut(begin, end)

    def _goaway(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        """What ran here must not be retried, so the last id told covers it; forwarded calls in between are refused."""
        dialogue = self._dialogue
        frame = self.reader.cut(begin, end)
        if len(frame) < HEADER_BYTES + 8:
            raise Fault(Error.FRAME_SIZE_ERROR, "GOAWAY too short")
        last_id, code = word(frame, HEADER_BYTES), word(frame, HEADER_BYTES + 4)
        told = min(dialogue.last_id_told, max(last_id, dialogue.last_handed_over_id))
        dialogue.upstream_leaves = True
        dialogue.last_id_told = told
        dialogue.to_client.append(pack_goaway(told, code, frame[HEADER_BYTES + 8 :]))
        lost = [s for s in self._streams.values() if s.id > last_id and s.phase is not _LOCAL]
        for stream in lost:
            dialogue.drop_waiting(stream)
            if stream.id <= told:
                self._down.send(pack_rst(stream.id, Error.REFUSED_STREAM))
            dialogue.forget(stream)
        dialogue.up.drain()

    def _window_update(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        increment = word(self.reader.data, begin + HEADER_BYTES)
        up = self._dialogue.up
        if stream_id == 0 and not up.debit and up.left <= LARGEST_WINDOW_BYTES - increment:
            up.left += increment  # the usual case: nothing was injected
        else:
            told = up.open(increment) if stream_id == 0 else self._told(stream_id, increment)
            if told != increment:
                self.reader.cut(begin, end)
                if told:
                    self._down.out.append(pack_window_update(stream_id, told))
        if up.waiting:
            up.drain()

    def _told(self, stream_id: int, increment: int) -> int:
        """What the client is to hear of a stream's window."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.phase is _LOCAL:
            return 0
        if stream.up is None:
            return increment
        self._dialogue.up.resume(stream_id)
        return stream.up.open(increment)

    def _ignored(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        self.reader.cut(begin, end)
