"""The sans-IO relay of one client connection: bytes in, bytes and effects out.

Rule: no I/O, no clock, no exception to the caller. `to_client`, `to_upstream` and `effects` are filled by each call and
emptied by the edge, which writes and carries them out. Nothing may be written to the client before `client_ready`.
"""

from greenroom.http2.frames import PREFACE, SETTINGS, Error, Fault, pack, pack_goaway

from .calls import Answer, Code, Inspector, Observer, Refuse, SilentObserver
from .client_frames import ClientFrames
from .dialogue import Close, Dialogue, Effect
from .heads import KnownHeads
from .limits import Limits, Totals
from .streams import Phase
from .upstream_frames import UpstreamFrames

LOOK_AGAIN_SECONDS = 5.0
"""So late may be noticed that nothing happens: by a client that says nothing, in a call without a message."""

_TOO_OLD = Refuse(Code.RESOURCE_EXHAUSTED, "no whole message came in time")


class RelayCore:
    """One client connection and its upstream connection. Times are seconds on any one monotonic clock."""

    __slots__ = (
        "_client",
        "_dialogue",
        "_draining",
        "_opened",
        "_over",
        "_peer",
        "_preface",
        "_upstream",
        "effects",
        "to_client",
        "to_upstream",
    )

    def __init__(
        self,
        inspector: Inspector,
        limits: Limits,
        now: float,
        *,
        observer: Observer | None = None,
        peer: str = "",
        totals: Totals | None = None,
        known: KnownHeads | None = None,
    ) -> None:
        self._dialogue = Dialogue(inspector, limits, observer or SilentObserver(), totals or Totals(limits), now)
        self._peer = peer
        self._client = ClientFrames(self._dialogue, known or KnownHeads(inspector.kind))
        self._upstream = UpstreamFrames(self._dialogue, self._client)
        self._client.upstream_reader = self._upstream
        self._preface: bytes | None = b""  # as much of it as came; None when it is whole
        self._opened = now
        self._over = False
        self._draining = False
        self.to_client: list[bytes] = self._dialogue.to_client
        self.to_upstream: list[bytes] = self._dialogue.to_upstream
        self.effects: list[Effect] = self._dialogue.effects

    def __repr__(self) -> str:
        d = self._dialogue
        return f"<RelayCore {self._peer} streams={len(d.streams)} undecided={d.undecided} answered={d.answered}>"

    @property
    def client_ready(self) -> bool:
        """Whether `to_client` begins with SETTINGS, as it must."""
        return self._dialogue.upstream_said_settings

    @property
    def open_streams(self) -> int:
        return len(self._dialogue.streams)

    @property
    def drained(self) -> bool:
        """Nothing is under way, and the client was told to open nothing more."""
        return self._draining and not self._dialogue.streams

    def feed_client(self, data: bytes, now: float) -> None:
        """Bytes came from the client."""
        if self._over:
            return
        dialogue = self._dialogue
        dialogue.now = now
        client = self._client
        if now >= client.rates.until:
            client.rates.begin(now)
        try:
            if self._preface is not None:
                data = self._after_preface(self._preface, data)
            client.feed(data)
        except Fault as fault:
            self._fail(fault)
        if dialogue.owed_client or dialogue.owed_upstream:
            dialogue.pay_credits()

    def feed_upstream(self, data: bytes, now: float) -> None:
        """Bytes came from upstream."""
        if self._over:
            return
        dialogue = self._dialogue
        dialogue.now = dialogue.pings.heard = now
        try:
            self._upstream.feed(data)
        except Fault as fault:
            self._fail(fault)
        if dialogue.owed_client or dialogue.owed_upstream:
            dialogue.pay_credits()

    def answer(self, stream_id: int, answer: Answer, now: float) -> None:
        """The handler of a handed-over call is done."""
        if not self._over:
            self._dialogue.now = now
            self._dialogue.answer(stream_id, answer)

    def upstream_unread(self, now: float) -> None:
        """The edge does not read upstream at the moment, so its silence says nothing."""
        self._dialogue.pings.heard = now

    def tick(self, now: float) -> float:
        """Time passes. Returns after how many seconds it is to be called again; sooner does no harm."""
        again = LOOK_AGAIN_SECONDS
        if self._over:
            return again
        self._dialogue.now = now
        self._dialogue.shrink()
        self._refuse_old()
        try:
            if self._preface is not None and now - self._opened >= self._dialogue.limits.preface_seconds:
                raise Fault(Error.PROTOCOL_ERROR, "no HTTP/2 preface came in time")
            again = min(again, self._ask_upstream(now))
        except Fault as fault:
            self._fail(fault)
        self._dialogue.pay_credits()
        return again

    def drain(self) -> None:
        """Tell the client to open no more streams here; those it has go on."""
        if self._over or self._draining:
            return
        self._draining = True
        if not self._dialogue.upstream_said_settings:
            self._fail(Fault(Error.NO_ERROR, "draining"))  # nothing was answered yet, and a client may simply go
        else:
            self._say_goaway(Error.NO_ERROR, b"")

    def end(self) -> None:
        """The connection is gone: cancel handlers (see `effects`), give back what it holds of the process."""
        if not self._over:
            self._over = True
            self._dialogue.end()
            self._client.upstream_reader = None  # each knows the other: nothing should be left for the collector

    def _after_preface(self, begun: bytes, data: bytes) -> bytes:
        missing = len(PREFACE) - len(begun)
        self._preface = begun + data[:missing]
        if not PREFACE.startswith(self._preface):
            raise Fault(Error.PROTOCOL_ERROR, "not an HTTP/2 client")
        if self._preface == PREFACE:
            self._preface = None
            self.to_upstream.append(PREFACE)
        return data[missing:]

    def _refuse_old(self) -> None:
        dialogue = self._dialogue
        if not dialogue.undecided:
            return
        before = dialogue.now - dialogue.limits.undecided_seconds
        old = [s for s in dialogue.streams.values() if s.phase is Phase.FIRST_MESSAGE and s.opened < before]
        for stream in old:
            dialogue.refuse(stream, _TOO_OLD)

    def _ask_upstream(self, now: float) -> float:
        """With open streams, see that upstream lives; after how many seconds to do so again."""
        dialogue = self._dialogue
        if not any(s.phase is not Phase.LOCAL and not s.upstream_ended for s in dialogue.streams.values()):
            return LOOK_AGAIN_SECONDS
        ping = dialogue.pings.tick(now)
        if ping is not None:
            self.to_upstream.append(ping)
        return dialogue.pings.due() - now

    def _say_goaway(self, code: Error, text: bytes) -> None:
        dialogue = self._dialogue
        if not dialogue.upstream_said_settings:
            self.to_client.insert(0, pack(SETTINGS, 0, 0))
            dialogue.upstream_said_settings = True
        dialogue.last_id_told = min(dialogue.last_client_id, dialogue.last_id_told)
        self.to_client.append(pack_goaway(dialogue.last_id_told, code, text))

    def _fail(self, fault: Fault) -> None:
        self._say_goaway(fault.code, fault.text.encode("ascii", "replace"))
        self.effects.append(Close(fault.text))
        self.end()
