"""DATA of inspected streams: puts messages together, asks the inspector, does what it decided.

Rule: upstream may get any part of a first message but the frame that completes it, for it cannot act on a part; that
frame goes up only when the decision says so. On a STREAM, messages go up one by one, each after its decision.
"""

import struct
from typing import Final, assert_never

from greenroom.http2.frames import DEFAULT_FRAME_BYTES, END_STREAM, HEADER_BYTES, PADDED, Take, content_of

from .blocks import BlockReader
from .calls import FORWARD_AS_IS, Code, Decision, Edit, Forward, HandOver, Kind, Refuse
from .dialogue import Dialogue
from .heads import RequestHead
from .messages import PREFIX_BYTES, MessageAssembly, frame_message
from .streams import Phase, Stream

_PREFIX: Final = struct.Struct(">BL")
# A DATA frame's header and the prefix of its message: length and type in one, flags, stream id, compressed, size.
_FRAME_AND_PREFIX: Final = struct.Struct(">LBLBL")
_PASS: Final = Phase.PASS
_DECIDED: Final = Phase.DECIDED
_FORWARD: Final = Kind.FORWARD
_INSPECTOR_FAILED: Final = Refuse(Code.INTERNAL, "this request could not be looked into")
_SECOND_MESSAGE: Final = Refuse(Code.INTERNAL, "a second message on a call that takes one")


class InspectingReader(BlockReader):
    """The part of a client's reader that handles DATA; `flags`, `begin`, `end` as for any frame handler."""

    __slots__ = ("_call_relayed", "_dialogue", "_inspect", "_largest_whole", "_up")

    def __init__(self, dialogue: Dialogue, handlers: tuple[Take, ...]) -> None:
        super().__init__(dialogue.to_upstream, handlers, dialogue.limits)
        self._dialogue = dialogue
        self._up = dialogue.up
        self._inspect = dialogue.inspector.inspect
        self._call_relayed = dialogue.observer.call_relayed
        self._largest_whole = min(DEFAULT_FRAME_BYTES - PREFIX_BYTES, dialogue.limits.message_bytes)

    def whole_call(self, head: RequestHead, stream_id: int, begin: int) -> int | None:
        """Deal with the DATA frame at `begin` where it is there whole, is the call's one message and its end.

        Returns where it ends, or None where it is not so or anything stands in its way: then the head is a head like
        any other, and the frame comes by itself. Most calls come like this, and need no account of their progress.
        """
        data, up = self.data, self._up
        try:
            length_and_kind, flags, same_id, compressed, size = _FRAME_AND_PREFIX.unpack_from(data, begin)
        except struct.error:  # it is not there yet
            return None
        end: int = begin + HEADER_BYTES + PREFIX_BYTES + size
        if (
            length_and_kind != (PREFIX_BYTES + size) << 8  # DATA is type 0
            or flags != END_STREAM
            or same_id != stream_id
            or compressed
            or size > self._largest_whole
            or size + PREFIX_BYTES > up.left
            or up.waiting
            or end > len(data)
        ):
            return None
        if head.kind is _FORWARD:
            decision: Decision = FORWARD_AS_IS
        else:
            decision = self._decide(head, data[begin + HEADER_BYTES + PREFIX_BYTES : end])
        dialogue = self._dialogue
        if decision is FORWARD_AS_IS:
            dialogue.streams[stream_id] = Stream(stream_id, head, _PASS, dialogue.now, whole=True)
            up.left -= PREFIX_BYTES + size
            self._call_relayed(head.path)
        else:
            stream = dialogue.open(stream_id, head, flags)
            self._carry_out(decision, stream, flags, begin, end, data[begin + HEADER_BYTES : end])
        return end

    def pass_on(self, stream: Stream, flags: int, begin: int, end: int) -> None:
        """The frame goes up as it is, now or when upstream's windows have room."""
        up = self._up
        length = end - begin - HEADER_BYTES
        window = stream.up
        if length > up.left or up.waiting:
            self._pass_later(stream, flags, begin, end)
        elif window is None:
            up.left -= length
        elif length > max(window.room, 0) or stream.id in up.stalled:
            self._pass_later(stream, flags, begin, end)
        else:
            up.left -= length
            window.left -= length

    def first_message(self, stream: Stream, flags: int, begin: int, end: int) -> None:
        """A frame of a UNARY call whose message is not whole yet."""
        content_begin = begin + HEADER_BYTES
        message_begin = content_begin + PREFIX_BYTES
        if stream.assembly is not None or flags & PADDED or message_begin > end:
            self._part_of_first(stream, flags, begin, end)
            return
        # The usual case: one frame is one message.
        data = self.data
        compressed, size = _PREFIX.unpack_from(data, content_begin)
        if compressed or size != end - message_begin or size > self._limits.message_bytes:
            self._part_of_first(stream, flags, begin, end)
            return
        decision = self._decide(stream.head, data[message_begin:end])
        if decision is FORWARD_AS_IS:
            self._forward(stream, flags, begin, end)
        else:
            self._carry_out(decision, stream, flags, begin, end, data[content_begin:end])

    def after_first_message(self, stream: Stream, flags: int, begin: int, end: int) -> None:
        """A frame of a UNARY call whose message went up: only an empty end belongs here."""
        if end - begin == HEADER_BYTES or self._is_empty(flags, begin, end):
            self.pass_on(stream, flags, begin, end)
        else:
            self.swallow(stream, begin, end)
            self._dialogue.refuse(stream, _SECOND_MESSAGE)

    def swallow(self, stream: Stream | None, begin: int, end: int) -> None:
        """The frame does not go up; the client gets its windows back."""
        self.cut(begin, end)
        self._dialogue.credit_client(stream, end - begin - HEADER_BYTES)

    def each_message(self, stream: Stream, flags: int, begin: int, end: int) -> None:
        """A frame of a STREAM: the messages it completes go up, or what was made of them."""
        content_begin, content_end = content_of(self.data, flags & PADDED, begin + HEADER_BYTES, end)
        content = self.data[content_begin:content_end]
        assembly = self._assembly(stream, self._limits.stream_message_bytes)
        outcome = self._decided_messages(stream, assembly, content)
        if isinstance(outcome, Refuse):
            self.swallow(stream, begin, end)
            self._dialogue.refuse(stream, outcome)
            return
        if flags & END_STREAM:
            outcome += assembly.drop()  # the beginning of a message only: upstream says what is wrong with it
        if outcome == content and not assembly.held:
            self.pass_on(stream, flags, begin, end)
        else:
            self._replace(stream, flags, begin, end, outcome)

    def _is_empty(self, flags: int, begin: int, end: int) -> bool:
        content_begin, content_end = content_of(self.data, flags & PADDED, begin + HEADER_BYTES, end)
        return content_begin == content_end

    def _pass_later(self, stream: Stream, flags: int, begin: int, end: int) -> None:
        content_begin, content_end = content_of(self.data, flags & PADDED, begin + HEADER_BYTES, end)
        content = self.data[content_begin:content_end]
        self.cut(begin, end)
        self._dialogue.credit_client(stream, end - begin - HEADER_BYTES - len(content))
        self._up.send_data(stream.id, content, flags & END_STREAM, stream.up)

    def _part_of_first(self, stream: Stream, flags: int, begin: int, end: int) -> None:
        data = self.data
        content_begin, content_end = content_of(data, flags & PADDED, begin + HEADER_BYTES, end)
        assembly = self._assembly(stream, self._limits.message_bytes)
        refusal = assembly.add(data[content_begin:content_end])
        if refusal is not None:
            self.swallow(stream, begin, end)
            self._dialogue.refuse(stream, refusal)
        elif assembly.whole():
            self._first_is_whole(stream, assembly, flags, begin, end)
        else:
            self.pass_on(stream, flags, begin, end)

    def _first_is_whole(self, stream: Stream, assembly: MessageAssembly, flags: int, begin: int, end: int) -> None:
        needed = assembly.needed()
        held = assembly.drop()
        message = _SECOND_MESSAGE if len(held) != needed else assembly.said(held)
        if isinstance(message, Refuse):
            self.swallow(stream, begin, end)
            self._dialogue.refuse(stream, message)
            return
        decision = self._decide(stream.head, message)
        if held[0]:
            decision = self._of_compressed(stream.head, decision)
        self._carry_out(decision, stream, flags, begin, end, frame_message(message))

    def _of_compressed(self, head: RequestHead, decision: Decision) -> Decision:
        """Its bytes cannot be changed in their place: where they have to be, the call is handed over."""
        if not isinstance(decision, Edit):
            return decision
        if decision.work is None:
            return self._failed(head, ValueError("an edit without work of a compressed message"))
        return HandOver(decision.work)

    def _assembly(self, stream: Stream, limit_bytes: int) -> MessageAssembly:
        if stream.assembly is None:
            stream.assembly = MessageAssembly(limit_bytes, self._dialogue.bounds.copies, stream.head.encoding)
        return stream.assembly

    def _decide(self, head: RequestHead, message: bytes) -> Decision:
        try:
            return self._inspect(head.path, message)
        except Exception as error:  # the outermost frame of the inspector: its bug ends one call, not all of them
            return self._failed(head, error)

    def _failed(self, head: RequestHead, error: Exception) -> Refuse:
        self._dialogue.observer.inspector_failed(head.path, error)
        return _INSPECTOR_FAILED

    def _carry_out(self, decision: Decision, stream: Stream, flags: int, begin: int, end: int, framed: bytes) -> None:
        """`framed` is the whole message with its prefix, not compressed; the frame at hand carries its end."""
        match decision:
            case Forward():
                self._forward(stream, flags, begin, end)
            case Edit(message, work):
                self._edit(stream, flags, begin, end, framed, message, work)
            case HandOver(work):
                self.swallow(stream, begin, end)
                self._dialogue.hand_over(stream, work, len(framed) - PREFIX_BYTES)
            case Refuse():
                self.swallow(stream, begin, end)
                self._dialogue.refuse(stream, decision)
            case _:
                assert_never(decision)

    def _forward(self, stream: Stream, flags: int, begin: int, end: int) -> None:
        self._dialogue.undecided -= 1
        stream.phase = _DECIDED
        self._call_relayed(stream.head.path)
        self.pass_on(stream, flags, begin, end)

    def _edit(
        self, stream: Stream, flags: int, begin: int, end: int, framed: bytes, message: bytes, work: object | None
    ) -> None:
        edited = frame_message(message)
        data = self.data
        content_begin, content_end = content_of(data, flags & PADDED, begin + HEADER_BYTES, end)
        gone = len(framed) - (content_end - content_begin)
        if len(edited) != len(framed):
            error = ValueError("an edit changed the length of a message")
            self._carry_out(self._failed(stream.head, error), stream, flags, begin, end, framed)
        elif edited[:gone] == framed[:gone]:
            self._write_edited(stream, flags, begin, end, edited[gone:])
        elif work is not None:
            self._carry_out(HandOver(work), stream, flags, begin, end, framed)
        else:
            error = ValueError("an edit without work came too late")
            self._carry_out(self._failed(stream.head, error), stream, flags, begin, end, framed)

    def _write_edited(self, stream: Stream, flags: int, begin: int, end: int, content: bytes) -> None:
        """The frame's content, of the same length, without the padding that may have been around it."""
        self.cut(begin, end)
        self._dialogue.set_phase(stream, Phase.DECIDED)
        self._call_relayed(stream.head.path)
        self._dialogue.credit_client(stream, end - begin - HEADER_BYTES - len(content))
        self._up.send_data(stream.id, content, flags & END_STREAM, stream.up)

    def _decided_messages(self, stream: Stream, assembly: MessageAssembly, content: bytes) -> bytearray | Refuse:
        """What goes up of the messages that `content` completes, or why the stream ends here."""
        refusal = assembly.add(content)
        if refusal is not None:
            return refusal
        passing = bytearray()
        for framed in assembly.take_messages():
            message = assembly.said(framed)
            if isinstance(message, Refuse):
                return message
            match self._decide(stream.head, message):
                case Forward():
                    passing += framed
                case Edit(edited, _):
                    passing += frame_message(edited)
                case HandOver():
                    return self._failed(stream.head, ValueError("a stream cannot be handed over"))
                case Refuse() as refusal:
                    return refusal
                case decision:
                    assert_never(decision)
        return assembly.fault() or passing

    def _replace(self, stream: Stream, flags: int, begin: int, end: int, content: bytearray) -> None:
        """The client's frame is swallowed and `content` injected, so both windows know of the difference."""
        self._up.inject(len(content))
        if stream.up is not None:
            stream.up.inject(len(content))
        self.swallow(stream, begin, end)
        if content or flags & END_STREAM:
            self._up.send_data(stream.id, bytes(content), flags & END_STREAM, stream.up)
