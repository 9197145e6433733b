"""What each frame of upstream does (RFC 9113, section 6).

Rule: a frame goes to the client only for a stream that is in the table and not answered here; all others are swallowed,
and upstream gets the window back that the client will never open for them.
"""

import struct
from typing import Final

from greenroom.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    DEFAULT_FRAME_BYTES,
    END_HEADERS,
    END_STREAM,
    FRAME_HEADER,
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
    content_of,
    handler_table,
    pack,
    pack_block,
    pack_goaway,
    pack_rst,
    pack_window_update,
    word,
)
from greenroom.http2.header_blocks import LARGEST_TABLE_BYTES, SIZE_UPDATE_TO_ZERO
from greenroom.http2.settings import HEADER_TABLE_SIZE, MAX_FRAME_SIZE, build, last_value, parse

from .blocks import BlockReader, stray
from .client_frames import ClientFrames
from .dialogue import Dialogue
from .settings import for_client
from .streams import Phase, Stream

_LOCAL: Final = Phase.LOCAL
_PASS: Final = Phase.PASS
_LAST_BLOCK: Final = END_HEADERS | END_STREAM
_PING_BYTES: Final = HEADER_BYTES + 8
_PING_HEADER: Final = pack(PING, 0, 0, bytes(8))[:HEADER_BYTES]


class UpstreamFrames(BlockReader):
    """Takes upstream's bytes. `client` learns what upstream takes."""

    __slots__ = ("_client", "_dialogue", "_down", "_pings", "_streams", "_up")

    def __init__(self, dialogue: Dialogue, client: ClientFrames) -> None:
        super().__init__(dialogue.to_client, _FIRST, dialogue.limits)
        self._dialogue = dialogue
        self._streams = dialogue.streams
        self._up = dialogue.up
        self._down = dialogue.down
        self._pings = dialogue.pings
        self._client = client

    def _data(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        stream = self._streams.get(stream_id)
        length = end - begin - HEADER_BYTES
        self._pings.upstream_spoke = True
        if stream is None or stream.phase is _LOCAL:
            self.cut(begin, end)
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
        content_begin, content_end = content_of(self.data, flags & PADDED, begin + HEADER_BYTES, end)
        content = self.data[content_begin:content_end]
        self.cut(begin, end)
        padding = end - begin - HEADER_BYTES - len(content)
        if padding:
            self._dialogue.credit_upstream(padding)
            self._dialogue.up.send(pack_window_update(stream.id, padding))
            stream.allowance += padding
        self._down.send_data(stream.id, content, flags & END_STREAM)

    def _headers(self, flags: int, stream_id: int, begin: int, end: int) -> int | None:
        if not flags & END_HEADERS:
            self.start_block(flags, stream_id, begin, end)
            return None
        self._pings.upstream_spoke = True
        stream = self._streams.get(stream_id)
        if stream is None or stream.phase is _LOCAL:
            self.cut(begin, end)
            return None
        if self._down.waiting or not self._dialogue.answers.block_was_sent:
            self._send_block(flags, stream_id, begin, end)
        elif stream.whole and (after := self._whole_answer(stream, end)) is not None:
            return after
        stream.responded = True
        if flags & END_STREAM:
            self._ended(stream)
        return None

    def _whole_answer(self, stream: Stream, begin: int) -> int | None:
        """Deal with the rest of an answer to a whole call where it stands at `begin`: one DATA frame and the trailers.

        Returns where it ends, or None where it is not so: then the frames come by themselves. Most answers come like
        this, and their streams need no account of what is still allowed on them.
        """
        data, stream_id = self.data, stream.id
        try:
            length_and_kind, flags, same_id = FRAME_HEADER.unpack_from(data, begin)
            trailers_begin = begin + HEADER_BYTES + (length_and_kind >> 8)
            last_length_and_kind, last_flags, last_id = FRAME_HEADER.unpack_from(data, trailers_begin)
        except struct.error:  # not all of it is there yet
            return None
        end: int = trailers_begin + HEADER_BYTES + (last_length_and_kind >> 8)
        if (
            length_and_kind & 0xFF != DATA
            or flags
            or same_id != stream_id
            or last_length_and_kind & 0xFF != HEADERS
            or last_flags != _LAST_BLOCK
            or last_id != stream_id
            or end > len(data)
            or end - begin > DEFAULT_FRAME_BYTES
            or length_and_kind >> 8 > self._down.left
        ):
            return None
        self._down.left -= length_and_kind >> 8
        self._dialogue.answered += 1
        del self._streams[stream_id]
        return end

    def whole_block(self, flags: int, stream_id: int, block: bytes, frames: bytes) -> None:
        self._pings.upstream_spoke = True
        stream = self._streams.get(stream_id)
        if stream is None or stream.phase is _LOCAL:
            return
        self._send_whole_block(flags, stream_id, block, frames)
        stream.responded = True
        if flags & END_STREAM:
            self._ended(stream)

    def _send_block(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        content_begin, content_end = content_of(self.data, flags & (PADDED | PRIORITIZED), begin + HEADER_BYTES, end)
        block = self.data[content_begin:content_end]
        self._send_whole_block(flags, stream_id, block, self.cut(begin, end))

    def _send_whole_block(self, flags: int, stream_id: int, block: bytes, frames: bytes) -> None:
        """The first block to a client has to begin with a table size update, in case it asked for a small table."""
        answers = self._dialogue.answers
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
            self.cut(begin, end)
            return
        if self._down.waiting:
            self._down.send(self.cut(begin, end))
        self._dialogue.drop_waiting(stream)
        self._dialogue.up.drain()
        self._dialogue.forget(stream)

    def _settings(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        dialogue = self._dialogue
        self.handlers = _USUAL
        frame = self.cut(begin, end)
        if flags & ACK:
            self._down.send(frame, then=self._acknowledgement_passed)
            return
        settings = parse(frame[HEADER_BYTES:])
        dialogue.upstream_settings.announce(settings)
        self._client.allow_frames_of(last_value(settings, MAX_FRAME_SIZE) or 0)
        table_bytes = min(last_value(settings, HEADER_TABLE_SIZE) or 0, LARGEST_TABLE_BYTES)
        decoder = self._client.heads.decoder
        decoder.capacity_limit = max(decoder.capacity_limit, table_bytes)
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
        if flags & ACK and self._pings.is_own_answer(self.data[begin + HEADER_BYTES : end]):
            self.cut(begin, end)

    def _goaway(self, flags: int, stream_id: int, begin: int, end: int) -> None:
        """What ran here must not be retried, so the last id told covers it; forwarded calls in between are refused."""
        dialogue = self._dialogue
        frame = self.cut(begin, end)
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

    def _window_update(self, flags: int, stream_id: int, begin: int, end: int) -> int | None:
        increment = word(self.data, begin + HEADER_BYTES)
        up = self._up
        if stream_id == 0 and not up.debit and not up.waiting and up.left <= LARGEST_WINDOW_BYTES - increment:
            up.left += increment  # the usual case: nothing was injected
            # etcd sends a PING with each update, which passes.
            after = end + _PING_BYTES
            return after if self.data.startswith(_PING_HEADER, end) and after <= len(self.data) else end
        told = up.open(increment) if stream_id == 0 else self._told(stream_id, increment)
        if told != increment:
            self.cut(begin, end)
            if told:
                self._down.out.append(pack_window_update(stream_id, told))
        up.drain()
        return None

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
        self.cut(begin, end)


_USUAL: Final = handler_table(
    {
        DATA: UpstreamFrames._data,
        HEADERS: UpstreamFrames._headers,
        RST_STREAM: UpstreamFrames._rst_stream,
        SETTINGS: UpstreamFrames._settings,
        PUSH_PROMISE: stray,
        PING: UpstreamFrames._ping,
        GOAWAY: UpstreamFrames._goaway,
        WINDOW_UPDATE: UpstreamFrames._window_update,
        CONTINUATION: stray,
    },
    UpstreamFrames._ignored,
)
_FIRST: Final = handler_table({SETTINGS: UpstreamFrames._settings}, stray)
