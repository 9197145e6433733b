"""A core between two peers made of frames by hand, for the unit ring.

The rule: what the relay wrote is read back by other code than wrote it.
"""

from dataclasses import dataclass

import hpack

from greenroom.http2.frames import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PADDED,
    PREFACE,
    SETTINGS,
    pack,
)
from greenroom.relay.calls import (
    FORWARD_AS_IS,
    Answer,
    Decision,
    Edit,
    HandedOverCall,
    HandOver,
    Kind,
    Refuse,
    SilentObserver,
)
from greenroom.relay.core import RelayCore
from greenroom.relay.dialogue import CancelHandler, Close, StartHandler
from greenroom.relay.limits import Limits, Totals
from greenroom.relay.messages import frame_message
from tests.support.frames import FRAME_HEADER_BYTES
from tests.support.frames import frames_in as split

UNARY = b"/test/Unary"
STREAM = b"/test/Stream"
FORWARD = b"/test/Forward"
UNKNOWN_PATH = b"/test/Unknown"


@dataclass(frozen=True, slots=True)
class Frame:
    kind: int
    flags: int
    stream_id: int
    payload: bytes

    @property
    def ends(self) -> bool:
        return self.kind in (DATA, HEADERS) and bool(self.flags & END_STREAM)

    @property
    def content(self) -> bytes:
        """A DATA frame's payload without padding."""
        return self.payload[1 : len(self.payload) - self.payload[0]] if self.flags & PADDED else self.payload


def frames_in(data: bytes) -> list[Frame]:
    """Whole frames only; fails on a rest."""
    frames = [Frame(*found) for found in split(data)]
    assert sum(FRAME_HEADER_BYTES + len(frame.payload) for frame in frames) == len(data), f"a torn frame: {data!r}"
    return frames


class ByContent:
    """Decides by what stands in a message: `hold…`, `edit…` (upper case), `grow…`, `shrink…`, `bad…`, `crash…`."""

    def __init__(self) -> None:
        self.seen: list[tuple[bytes, bytes]] = []

    def kind(self, path: bytes) -> Kind:
        return {UNARY: Kind.UNARY, STREAM: Kind.STREAM, FORWARD: Kind.FORWARD}.get(path, Kind.REFUSE)

    def unknown(self, path: bytes) -> str:
        return f"nobody knows {path.decode()!r}"

    def inspect(self, path: bytes, message: bytes) -> Decision:
        self.seen.append((path, message))
        if message.startswith(b"hold"):
            return HandOver(("work of", message))
        if message.startswith(b"edit"):
            return Edit(message.upper(), None if message.startswith(b"edit-only") else ("edit of", message))
        if message.startswith(b"grow"):
            return Edit(message + b"+" * 3)
        if message.startswith(b"shrink"):
            return Edit(message[:3])
        if message.startswith(b"bad"):
            return Refuse(3, "bad message")
        if message.startswith(b"crash"):
            raise ZeroDivisionError
        return FORWARD_AS_IS


def message_of(call: HandedOverCall) -> bytes:
    """The message that ByContent handed over."""
    assert isinstance(call.work, tuple)
    message = call.work[1]
    assert isinstance(message, bytes)
    return message


class Notes(SilentObserver):
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.relayed: list[bytes] = []
        self.handed_over: list[bytes] = []
        self.refused: list[tuple[bytes, int]] = []
        self.closed: list[str] = []
        self.failures: list[tuple[bytes, str]] = []
        self.undialled: list[str] = []
        self.bugs: list[str] = []

    def connection_closed(self, reason: str) -> None:
        self.closed.append(reason)

    def call_relayed(self, path: bytes) -> None:
        self.relayed.append(path)

    def call_handed_over(self, path: bytes) -> None:
        self.handed_over.append(path)

    def call_refused(self, path: bytes, code: int) -> None:
        self.refused.append((path, code))

    def upstream_failed(self, address: str, reason: str) -> None:
        self.undialled.append(address)

    def inspector_failed(self, path: bytes, error: Exception) -> None:
        self.failures.append((path, type(error).__name__))

    def handler_failed(self, path: bytes, error: Exception) -> None:
        self.failures.append((path, type(error).__name__))

    def connection_failed(self, error: Exception) -> None:
        self.bugs.append(type(error).__name__)


class Talk:
    """A core between two peers made of frames by hand. Starts with settings exchanged and acknowledged."""

    def __init__(
        self,
        limits: Limits | None = None,
        client_settings: bytes = b"",
        upstream_settings: bytes = b"",
        *,
        greeted: bool = True,
        totals: Totals | None = None,
    ) -> None:
        self.now = 0.0
        self.inspector = ByContent()
        self.notes = Notes()
        self.core = RelayCore(
            self.inspector, limits or Limits(), 0.0, observer=self.notes, peer="test:1", totals=totals
        )
        self.encoder = hpack.Encoder()
        self.decoder = hpack.Decoder()
        if greeted:
            self.greet(client_settings, upstream_settings)

    def greet(self, client_settings: bytes = b"", upstream_settings: bytes = b"") -> None:
        self.client(PREFACE, pack(SETTINGS, 0, 0, client_settings))
        self.upstream(pack(SETTINGS, 0, 0, upstream_settings), pack(SETTINGS, ACK, 0))
        self.client(pack(SETTINGS, ACK, 0))
        self.raw_to_upstream()
        self.to_client()

    def client(self, *frames: bytes) -> None:
        self.core.feed_client(b"".join(frames), self.now)

    def upstream(self, *frames: bytes) -> None:
        self.core.feed_upstream(b"".join(frames), self.now)

    def raw_to_upstream(self) -> bytes:
        """Take what goes up."""
        data = b"".join(self.core.to_upstream)
        self.core.to_upstream.clear()
        return data

    def to_upstream(self) -> list[Frame]:
        return frames_in(self.raw_to_upstream())

    def to_client(self) -> list[Frame]:
        """Take what goes to the client; nothing before it may."""
        if not self.core.client_ready:
            return []
        data = b"".join(self.core.to_client)
        self.core.to_client.clear()
        return frames_in(data)

    def block(self, path: bytes, *more: tuple[bytes, bytes]) -> bytes:
        """A request's header block, by the client's own encoder."""
        fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b"te", b"trailers"), *more]
        return self.encoder.encode(fields)

    def head(self, stream_id: int, path: bytes, *more: tuple[bytes, bytes], flags: int = 0) -> bytes:
        return pack(HEADERS, END_HEADERS | flags, stream_id, self.block(path, *more))

    def call(self, stream_id: int, path: bytes, message: bytes, *, end: bool = True) -> list[Frame]:
        """A whole call; what went up for it."""
        self.client(self.head(stream_id, path), data(stream_id, message, end=end))
        return self.to_upstream()

    def calls(self) -> list[HandedOverCall]:
        """Take the calls whose handlers were to start."""
        return [effect.call for effect in self.effects() if isinstance(effect, StartHandler)]

    def effects(self) -> list[StartHandler | CancelHandler | Close]:
        effects = list(self.core.effects)
        self.core.effects.clear()
        return effects

    def closed(self) -> str | None:
        """Why the connection was closed, if it was."""
        return next((effect.reason for effect in self.effects() if isinstance(effect, Close)), None)

    @property
    def held_bytes(self) -> int:
        """Bytes of messages that the relay counts as held."""
        return self.core._dialogue.bounds.copies.used

    def answer(self, stream_id: int, answer: Answer) -> None:
        self.core.answer(stream_id, answer, self.now)

    def fields(self, frame: Frame) -> dict[bytes, bytes]:
        """The fields of a header frame to the client, by the client's own decoder."""
        return {bytes(name): bytes(value) for name, value in self.decoder.decode(frame.payload, raw=True)}

    def response(self, stream_id: int, message: bytes | None = b"answer") -> bytes:
        """A whole answer of upstream, as etcd frames it."""
        block = hpack.Encoder()
        block.header_table_size = 0
        parts = [pack(HEADERS, END_HEADERS, stream_id, block.encode([(b":status", b"200")]))]
        if message is not None:
            parts.append(data(stream_id, message, end=False))
        trailers = block.encode([(b"grpc-status", b"0")])
        return b"".join([*parts, pack(HEADERS, END_HEADERS | END_STREAM, stream_id, trailers)])


def data(stream_id: int, message: bytes, *, end: bool = True, padding: int | None = None) -> bytes:
    """One DATA frame with one whole message."""
    return raw_data(stream_id, frame_message(message), end=end, padding=padding)


def raw_data(stream_id: int, content: bytes, *, end: bool = False, padding: int | None = None) -> bytes:
    flags = END_STREAM if end else 0
    if padding is not None:
        return pack(DATA, flags | PADDED, stream_id, bytes((padding,)) + content + bytes(padding))
    return pack(DATA, flags, stream_id, content)
