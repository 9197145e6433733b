"""One client connection and its upstream connection: the state that both directions share, and what ends a call here.

Rule: a stream leaves upstream's sight at one place only (`reset_upstream`), and the table at one place only (`forget`).
"""

from dataclasses import dataclass

from greenroom.http2.frames import END_STREAM, LARGEST_STREAM_ID, Error, Fault, pack_rst, pack_window_update

from .answers import Answers
from .calls import Answer, Code, HandedOverCall, Inspector, Observer, Refuse
from .heads import BadTimeoutError, RequestHead
from .limits import Bounds, Limits, Totals
from .pings import Pings
from .settings import Announced
from .streams import Phase, Stream
from .windows import Lane


@dataclass(frozen=True, slots=True)
class StartHandler:
    """Run the handler on `call`, then give its answer to the core."""

    stream_id: int
    call: HandedOverCall


@dataclass(frozen=True, slots=True)
class CancelHandler:
    """The call is gone; nobody waits for its answer."""

    stream_id: int


@dataclass(frozen=True, slots=True)
class Close:
    """Write what there is, then close both connections."""

    reason: str


Effect = StartHandler | CancelHandler | Close

_PASS = Phase.PASS
_DECIDED = Phase.DECIDED
_TOO_MANY_CALLS = Refuse(Code.RESOURCE_EXHAUSTED, "too many calls at once on this connection")
_TOO_MANY_HEADS = Refuse(Code.RESOURCE_EXHAUSTED, "too many bytes of metadata at once on this connection")
# So many a connection may have without asking, and then it asks for as many more at a time.
_STREAMS_AT_ONCE = 32
# So many beyond the bound are refused one by one, until a client that does not take the refusals is told to go.
_STREAMS_TO_REFUSE = 1_000
_TOO_MANY_BYTES = Refuse(Code.RESOURCE_EXHAUSTED, "too many bytes of calls at once on this connection")


class Dialogue:
    """Shared state of the two directions. Lists only ever grow here; the edge empties them."""

    __slots__ = (
        "_running",
        "answered",
        "answers",
        "bounds",
        "client_settings",
        "down",
        "effects",
        "inspector",
        "last_client_id",
        "last_handed_over_id",
        "last_id_told",
        "limits",
        "now",
        "observer",
        "owed_client",
        "owed_upstream",
        "pings",
        "stream_room",
        "streams",
        "to_client",
        "to_upstream",
        "undecided",
        "up",
        "upstream_leaves",
        "upstream_said_settings",
        "upstream_settings",
    )

    def __init__(self, inspector: Inspector, limits: Limits, observer: Observer, totals: Totals, now: float) -> None:
        self.inspector = inspector
        self.limits = limits
        self.observer = observer
        self.now = now
        self.to_client: list[bytes] = []
        self.to_upstream: list[bytes] = []
        self.effects: list[Effect] = []
        self.streams: dict[int, Stream] = {}
        self.up = Lane(self.to_upstream, limits.waiting_bytes)
        self.down = Lane(self.to_client, limits.waiting_bytes)
        self.client_settings = Announced(limits.unacknowledged_settings)
        self.upstream_settings = Announced(limits.unacknowledged_settings)
        self.upstream_said_settings = False
        self.pings = Pings(limits, now)
        self.bounds = Bounds(limits, totals)
        self.answers = Answers(self.down, self.client_settings, self.bounds.unsent, self._answer_left)
        self.last_client_id = 0
        self.last_handed_over_id = 0
        self.last_id_told = LARGEST_STREAM_ID  # of the GOAWAYs sent to the client
        self.upstream_leaves = False  # it sent a GOAWAY
        self.stream_room = min(_STREAMS_AT_ONCE, limits.streams)  # how many may be open
        self.undecided = 0
        self.answered = 0
        self._running: dict[int, int] = {}  # stream id -> bytes of the message that its handler works on
        self.owed_client = 0
        self.owed_upstream = 0

    def open(self, stream_id: int, head: RequestHead, flags: int) -> Stream:
        """A new stream in the table, `flags` as of its HEADERS frame. A head beyond the bound loses its fields."""
        if head.counted_bytes and not self.bounds.heads.take(head.counted_bytes):
            head = head.without_fields()
        stream = Stream(stream_id, head, head.phase, self.now)
        stream.client_ended = bool(flags & END_STREAM)
        self.streams[stream_id] = stream
        if head.phase is Phase.FIRST_MESSAGE:
            self.undecided += 1
        return stream

    def count(self, stream: Stream) -> Refuse | None:
        """Count a new stream in, or say why it is too much."""
        if not stream.head.fields:
            return _TOO_MANY_HEADS
        if len(self.streams) > self.limits.streams + _STREAMS_TO_REFUSE:
            raise Fault(Error.ENHANCE_YOUR_CALM, "too many calls at once")
        if len(self.streams) > self.stream_room:
            more = min(_STREAMS_AT_ONCE, self.limits.streams - self.stream_room)
            if more <= 0 or not self.bounds.streams.take(more):
                return _TOO_MANY_CALLS
            self.stream_room += more
        return None

    def shrink(self) -> None:
        """Give back the room for calls that are over: others may have use for it."""
        spare = min(self.bounds.streams.used, self.stream_room - len(self.streams) - _STREAMS_AT_ONCE)
        if spare > 0:
            self.bounds.streams.give_back(spare)
            self.stream_room -= spare

    def forget(self, stream: Stream) -> None:
        """The stream is over for the client."""
        del self.streams[stream.id]
        if stream.head.counted_bytes:
            self.bounds.heads.give_back(stream.head.counted_bytes)
        phase = stream.phase
        if phase is _PASS or phase is _DECIDED:
            return  # the usual case: nothing is held for it
        if phase is Phase.FIRST_MESSAGE:
            self.undecided -= 1
        if stream.assembly is not None:
            stream.assembly.drop()
        self.answers.forget(stream.id)
        if stream.id in self._running:
            self._settle_handler(stream.id)
            self.effects.append(CancelHandler(stream.id))

    def set_phase(self, stream: Stream, phase: Phase) -> None:
        if stream.phase is Phase.FIRST_MESSAGE:
            self.undecided -= 1
        stream.phase = phase

    def credit_client(self, stream: Stream | None, amount: int) -> None:
        """DATA of the client does not go up; it gets its windows back (but a stream's once it has ended that)."""
        if amount == 0:
            return
        self.owed_client += self.up.swallow(amount)
        if stream is None or stream.client_ended:
            return
        credit = stream.up.swallow(amount) if stream.up is not None else amount
        if credit:
            self.to_client.append(pack_window_update(stream.id, credit))

    def credit_upstream(self, amount: int) -> None:
        """DATA of upstream does not go down, on a stream that is over."""
        self.owed_upstream += self.down.swallow(amount)

    def pay_credits(self) -> None:
        """Write the connections' window updates of a whole batch as one frame each."""
        if self.owed_client:
            self.to_client.append(pack_window_update(0, self.owed_client))
            self.owed_client = 0
        if self.owed_upstream:
            self.to_upstream.append(pack_window_update(0, self.owed_upstream))
            self.owed_upstream = 0

    def drop_waiting(self, stream: Stream) -> bool:
        """Forget DATA that waits for upstream's windows; whether there was any."""
        if not self.up.holds:
            return False
        dropped = self.up.purge(stream.id)
        self.owed_client += self.up.swallow(dropped or 0)
        return dropped is not None

    def reset_upstream(self, stream: Stream) -> None:
        """Take the stream away from upstream: whatever of it has not left never will."""
        self.drop_waiting(stream)
        self.up.send(pack_rst(stream.id, Error.CANCEL))
        self.up.drain()
        self.set_phase(stream, Phase.LOCAL)
        if stream.assembly is not None:
            stream.assembly.drop()

    def refuse(self, stream: Stream, refusal: Refuse) -> None:
        """End the call here with a status."""
        self.reset_upstream(stream)
        self.observer.call_refused(stream.head.path, refusal.code)
        self.answers.add(stream, Answer(None, refusal.code, refusal.details))

    def hand_over(self, stream: Stream, work: object, message_bytes: int) -> None:
        """Give the call to the handler, or refuse it where that cannot be. `message_bytes` stand for `work`."""
        if self.upstream_leaves:
            # Nothing may run here any more that the client could believe not to have run.
            self._reset(stream, Error.REFUSED_STREAM)
            return
        try:
            head = stream.head
            call = HandedOverCall(head.path, work, head.metadata(), head.timeout_seconds())
        except BadTimeoutError:
            # As etcd 3.4 does, which clients take for INTERNAL; a newer one refuses the head, mostly before this.
            self.observer.call_refused(stream.head.path, Code.INTERNAL)
            self._reset(stream, Error.PROTOCOL_ERROR)
            return
        refusal = self._take_handler(stream, message_bytes)
        if refusal is not None:
            self.refuse(stream, refusal)
            return
        self.reset_upstream(stream)
        self.pings.handed_over = True
        self.last_handed_over_id = max(self.last_handed_over_id, stream.id)
        self.effects.append(StartHandler(stream.id, call))
        self.observer.call_handed_over(head.path)

    def answer(self, stream_id: int, answer: Answer) -> None:
        """A handler is done. Nothing happens if the call is gone meanwhile."""
        if stream_id in self._running:
            self._settle_handler(stream_id)
            self.answers.add(self.streams[stream_id], answer)

    def end(self) -> None:
        """The connection is over: stop its handlers and give back what it holds of the process."""
        self.effects += [CancelHandler(stream_id) for stream_id in self._running]
        self._running.clear()
        self.answers.end()
        self.bounds.end()

    def _take_handler(self, stream: Stream, message_bytes: int) -> Refuse | None:
        """Count one handler and its message in, or say why not."""
        if not self.bounds.handlers.take(1):
            return _TOO_MANY_CALLS
        if not self.bounds.copies.take(message_bytes):
            self.bounds.handlers.give_back(1)
            return _TOO_MANY_BYTES
        self._running[stream.id] = message_bytes
        return None

    def _settle_handler(self, stream_id: int) -> None:
        self.bounds.copies.give_back(self._running.pop(stream_id))
        self.bounds.handlers.give_back(1)

    def _reset(self, stream: Stream, code: Error) -> None:
        """End the call on both sides without an answer."""
        self.reset_upstream(stream)
        self.down.send(pack_rst(stream.id, code))
        self.forget(stream)

    def _answer_left(self, stream: Stream) -> None:
        self.answered += 1
        if not stream.client_ended:
            self.to_client.append(pack_rst(stream.id, Error.NO_ERROR))
        self.forget(stream)
