"""The least of an HTTP/2 client that can make gRPC calls: it costs little, so that the proxies cost what is measured.

The rule: a connection looks as a real client's does (header fields are indexed after the first call, PINGs and SETTINGS
are answered), and it understands of the answers only where a call ends and what its messages are. Windows are opened so
far that no answer of a run fills them. Standard library only: it starts in no time.
"""

import select
import socket
from typing import Self

from tests.support.frames import (
    ACK,
    DATA,
    ENABLE_PUSH,
    END_HEADERS,
    END_STREAM,
    FRAME_HEADER_BYTES,
    GOAWAY,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    MAX_FRAME_BYTES,
    MESSAGE_HEADER_BYTES,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    frame,
    framed_message,
    header_blocks,
    setting,
    window_update,
)

HOST = "127.0.0.1"
USER_AGENT = "greenroom-bench"
RECEIVE_BYTES = 256 * 1024
STREAM_WINDOW_BYTES = 1 << 26
CONNECTION_WINDOW_BYTES = 1 << 30
CONNECT_SECONDS = 20
CALL_SECONDS = 20
NO_ERROR = bytes(4)
"""The code of a stream's reset that says: it has been answered already."""


class CallFailed(Exception):
    """A call ended otherwise than with an answer, or its connection ended."""


class Answers:
    """What comes from the peer, without the socket: which streams it ends, and what their messages are.

    It reads frames by itself, for the loader must not cost more than what it measures.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.replies = bytearray()
        """What the peer is owed: acknowledgements."""
        self.answer = bytearray()
        """Bytes of the messages that came, headers of messages with them."""
        self._unfinished = b""

    def feed(self, data: bytes) -> int:
        """Takes in what came; how many streams it ends. CallFailed for a reset call or an end of the connection."""
        if not data:
            raise CallFailed(f"{self.name}: the peer closed the connection")
        buffer = self._unfinished + data if self._unfinished else data
        at, size, ended = 0, len(buffer), 0
        while size - at >= FRAME_HEADER_BYTES:
            begin = at + FRAME_HEADER_BYTES
            end = begin + (buffer[at] << 16 | buffer[at + 1] << 8 | buffer[at + 2])
            if end > size:
                break
            kind = buffer[at + 3]
            if kind > HEADERS:
                self._control(kind, buffer[at + 4], buffer[begin:end])
            else:
                if kind == DATA:
                    self.answer += buffer[begin:end]
                ended += buffer[at + 4] & END_STREAM
            at = end
        self._unfinished = buffer[at:]
        return ended

    def messages(self) -> list[bytes]:
        """Takes the complete messages out of `answer`."""
        found = []
        while len(self.answer) >= MESSAGE_HEADER_BYTES:
            end = MESSAGE_HEADER_BYTES + int.from_bytes(self.answer[1:MESSAGE_HEADER_BYTES], "big")
            if len(self.answer) < end:
                break
            found.append(bytes(self.answer[MESSAGE_HEADER_BYTES:end]))
            del self.answer[:end]
        return found

    def one_message(self) -> bytes:
        """The message of a call that has ended. CallFailed where it brought none: it ended with an error then."""
        messages = self.messages()
        if len(messages) != 1:
            raise CallFailed(f"{self.name}: a call ended with {len(messages)} messages")
        return messages[0]

    def _control(self, kind: int, flags: int, payload: bytes) -> None:
        if kind == PING and not flags & ACK:
            self.replies += frame(PING, ACK, 0, payload)
        elif kind == SETTINGS and not flags & ACK:
            self.replies += frame(SETTINGS, ACK, 0, b"")
        elif kind == RST_STREAM and payload == NO_ERROR:
            return  # Go's servers may answer before they have noticed the end of the request, and say this after it.
        elif kind in (RST_STREAM, GOAWAY):
            name = "RST_STREAM" if kind == RST_STREAM else "GOAWAY"
            raise CallFailed(f"{self.name}: {name} {payload!r}")


class Connection(Answers):
    """One connection, for calls of one method, one at a time. Replies go out with the next message or by themselves."""

    def __init__(self, port: int, path: str) -> None:
        super().__init__(path)
        self.socket = socket.create_connection((HOST, port), CONNECT_SECONDS)
        self.socket.settimeout(None)  # With one, each send and receive would ask the kernel twice.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = -1
        self._first_block, self._later_block = header_blocks(path, USER_AGENT)
        self.socket.sendall(_opening())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def next_stream(self) -> int:
        self._stream += 2
        return self._stream

    def send(self, message: bytes) -> None:
        """Begins a call of one message."""
        self._begin(message, END_STREAM)

    def open(self, message: bytes) -> None:
        """Begins a call with its first message, and leaves it open for more."""
        self._begin(message, 0)

    def send_more(self, message: bytes) -> None:
        """One more message of the call that `open` began."""
        self._send(self._data(message, 0))

    def send_replies(self) -> None:
        if self.replies:
            self._send(b"")

    def call(self, message: bytes) -> bytes:
        """One call from its request to its answer, which is returned. CallFailed where there is none."""
        self.send(message)
        return self.end()

    def end(self) -> bytes:
        """Waits for the end of the call that was sent; its answer."""
        while not self.receive():
            self.send_replies()
        return self.one_message()

    def next_message(self) -> bytes:
        """Waits for the next message of an open call."""
        while not (messages := self.messages()):
            self.receive()
        self.send_replies()
        (message,) = messages
        return message

    def receive(self) -> int:
        """Waits for bytes and takes them in; how many streams they end."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        if not poll.poll(CALL_SECONDS * 1000):
            raise CallFailed(f"{self.name}: nothing came for {CALL_SECONDS} s")
        return self.feed(self.socket.recv(RECEIVE_BYTES))

    def _begin(self, message: bytes, flags: int) -> None:
        block = self._later_block if self._stream > 0 else self._first_block
        self._send(frame(HEADERS, END_HEADERS, self.next_stream(), block) + self._data(message, flags))

    def _data(self, message: bytes, flags: int) -> bytes:
        payload = framed_message(message)
        assert len(payload) <= MAX_FRAME_BYTES, f"{len(payload)} bytes do not fit into one frame"
        return frame(DATA, flags, self._stream, payload)

    def _send(self, frames: bytes | bytearray) -> None:
        self.socket.sendall(self.replies + frames)
        self.replies.clear()


def _opening() -> bytes:
    settings = setting(ENABLE_PUSH, 0) + setting(INITIAL_WINDOW_SIZE, STREAM_WINDOW_BYTES)
    return PREFACE + frame(SETTINGS, 0, 0, settings) + window_update(0, CONNECTION_WINDOW_BYTES)
