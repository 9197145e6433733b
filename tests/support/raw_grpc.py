"""A gRPC client made of frames, on the `h2` library: what an answer consists of, header by header, and PINGs.

The rule: it adds nothing and hides nothing. A deadline is sent and never kept here, so a late answer is the other
side's; a connection that the other side ends is told with its reason.
"""

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

import h2.config
import h2.connection
import h2.events
import h2.exceptions

from tests.support.frames import framed_message, messages_in

WAIT_SECONDS = 20
WINDOW_BYTES = 64 << 20
_RECEIVE_BYTES = 1 << 20
_OPENING = ((":method", "POST"), (":scheme", "http"), ("te", "trailers"), ("content-type", "application/grpc"))

Headers = Sequence[tuple[str, str]]
Block = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class RawAnswer:
    """One stream as it came: `blocks` are its header blocks in order, `reset` the code of an RST_STREAM."""

    blocks: list[Block] = field(default_factory=list)
    content: bytearray = field(default_factory=bytearray)
    ended: bool = False
    reset: int | None = None

    @property
    def messages(self) -> list[bytes]:
        return list(messages_in(bytes(self.content)))

    @property
    def trailers(self) -> dict[str, str]:
        return dict(self.blocks[-1]) if self.blocks else {}

    @property
    def status(self) -> int | None:
        """The gRPC code; None where the stream ended without one."""
        code = self.trailers.get("grpc-status")
        return None if code is None else int(code)

    @property
    def is_over(self) -> bool:
        return self.ended or self.reset is not None


class RawGrpc:
    """One connection. `greeted`: the other side has taken its settings; `closed`: its socket ended.

    `goaway` is (code, debug data) once the other side said it.
    """

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self.address = address
        self.answers: dict[int, RawAnswer] = {}
        self.greeted = False
        self.pongs = 0
        self.goaway: tuple[int, bytes] | None = None
        self.closed = False
        self._socket = socket.create_connection((host, int(port)), WAIT_SECONDS)
        # Header names are compared as they came, so the library must neither refuse nor mend them.
        config = h2.config.H2Configuration(validate_inbound_headers=False, header_encoding="utf-8")
        self._http2 = h2.connection.H2Connection(config)
        self._http2.initiate_connection()
        self._http2.increment_flow_control_window(WINDOW_BYTES)
        self._flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def call(
        self, path: str, message: bytes, *, headers: Headers = (), timeout_seconds: float = WAIT_SECONDS
    ) -> RawAnswer:
        """A unary call, answered whole."""
        return self.call_content(path, framed_message(message), headers=headers, timeout_seconds=timeout_seconds)

    def call_content(
        self, path: str, content: bytes, *, headers: Headers = (), timeout_seconds: float = WAIT_SECONDS
    ) -> RawAnswer:
        """One whose content need not be one whole message."""
        stream = self._open(path, content, headers, half_close=True)
        return self.wait(stream, lambda answer: answer.is_over, "the answer ends", timeout_seconds)

    def start(self, path: str, *messages: bytes, headers: Headers = (), half_close: bool = True) -> int:
        """Opens a stream with these messages on it; its id."""
        return self._open(path, b"".join(map(framed_message, messages)), headers, half_close=half_close)

    def _open(self, path: str, content: bytes, headers: Headers, *, half_close: bool) -> int:
        stream = self._http2.get_next_available_stream_id()
        self.answers[stream] = RawAnswer()
        opening = [*_OPENING, (":path", path), (":authority", self.address), *headers]
        # Pseudo headers come first (RFC 9113, 8.3).
        self._http2.send_headers(stream, sorted(opening, key=_is_no_pseudo_header))
        # In one packet with what comes behind it, as real clients do it.
        self.send_content(stream, content)
        if half_close and not self.answers[stream].is_over:
            self._http2.end_stream(stream)
        self._flush()
        return stream

    def send(self, stream: int, message: bytes) -> None:
        """One message more."""
        self.send_content(stream, framed_message(message))

    def send_content(self, stream: int, content: bytes) -> None:
        """Whatever it is, as the windows allow; the rest is not sent where the answer is there before."""
        rest = content
        answer = self.answers[stream]
        while rest and not answer.is_over and not self.closed:
            room = min(self._http2.local_flow_control_window(stream), self._http2.max_outbound_frame_size)
            if room <= 0:
                self.read(WAIT_SECONDS)
                continue
            self._http2.send_data(stream, rest[:room])
            rest = rest[room:]
            self._flush()

    def half_close(self, stream: int) -> None:
        self._http2.end_stream(stream)
        self._flush()

    def cancel(self, stream: int) -> None:
        """RST_STREAM, as clients end what they no longer want."""
        self._http2.reset_stream(stream, 8)
        self._flush()

    def ping(self) -> None:
        self._http2.ping(b"rawgrpc!")
        self._flush()

    def wait(
        self, stream: int, fact: Callable[[RawAnswer], bool], what: str, timeout_seconds: float = WAIT_SECONDS
    ) -> RawAnswer:
        """Reads until `fact` holds of one stream's answer; AssertionError when it does not, or no longer can."""
        answer = self.answers[stream]
        self.until(lambda: fact(answer), what, timeout_seconds, so_far=answer)
        return answer

    def until(
        self, fact: Callable[[], bool], what: str, timeout_seconds: float = WAIT_SECONDS, so_far: object = None
    ) -> None:
        """Reads until `fact` holds; AssertionError, with what came so far, when it does not, or no longer can."""
        deadline = time.monotonic() + timeout_seconds
        while not fact():
            left = deadline - time.monotonic()
            assert left > 0, f"not within {timeout_seconds:g} s: {what} ({so_far})"
            assert not self.closed, f"the connection ended before {what} ({so_far}, GOAWAY {self.goaway})"
            self.read(left)

    def wait_messages(self, stream: int, count: int, timeout_seconds: float = WAIT_SECONDS) -> list[bytes]:
        """At least `count` messages of a stream."""
        found = self.wait(stream, lambda answer: len(answer.messages) >= count, f"{count} messages", timeout_seconds)
        return found.messages

    def read(self, timeout_seconds: float) -> None:
        """Takes in what comes within the time, at least one packet where one comes."""
        self._socket.settimeout(max(timeout_seconds, 0.001))
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except TimeoutError:
            return
        except OSError:
            data = b""
        if not data:
            self.closed = True
            return
        for event in self._http2.receive_data(data):
            self._take(event)
        self._flush()

    def _take(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.ResponseReceived() | h2.events.TrailersReceived():
                self.answers[event.stream_id].blocks.append(tuple((str(n), str(v)) for n, v in event.headers))
            case h2.events.DataReceived():
                self.answers[event.stream_id].content += event.data
                self._http2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.StreamEnded():
                self.answers[event.stream_id].ended = True
            case h2.events.StreamReset():
                self.answers[event.stream_id].reset = int(event.error_code or 0)
            case h2.events.SettingsAcknowledged():
                self.greeted = True
            case h2.events.PingAckReceived():
                self.pongs += 1
            case h2.events.ConnectionTerminated():
                self.goaway = (int(event.error_code or 0), bytes(event.additional_data or b""))

    def _flush(self) -> None:
        data = self._http2.data_to_send()
        if data and not self.closed:
            self._socket.settimeout(WAIT_SECONDS)
            try:
                self._socket.sendall(data)
            except OSError:
                self.closed = True


def _is_no_pseudo_header(field: tuple[str | bytes, str | bytes]) -> bool:
    return not str(field[0]).startswith(":")
