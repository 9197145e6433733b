"""The least of an HTTP/2 client that can make gRPC calls: it costs little, so that the proxies cost what is measured.

The rule: a connection looks as a real client's does (header fields are indexed after the first call, PINGs and SETTINGS
are answered), and it understands of the answers only where a call ends and what its messages are. Windows are opened so
far that no answer of a run fills them. Standard library only: it starts in no time.
"""

import select
import socket
import struct
from typing import Self

HOST = "127.0.0.1"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_HEADER_BYTES = 9
MESSAGE_HEADER_BYTES = 5
MAX_FRAME_BYTES = 16_384
RECEIVE_BYTES = 256 * 1024
STREAM_WINDOW_BYTES = 1 << 26
CONNECTION_WINDOW_BYTES = 1 << 30
CONNECT_SECONDS = 20
CALL_SECONDS = 20

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM = ACK = 1
END_HEADERS = 4
ENABLE_PUSH, INITIAL_WINDOW_SIZE = 2, 4

# RFC 7541: the static table's own entries for these two, and the flag of a literal that the dynamic table takes up.
METHOD_POST, SCHEME_HTTP = b"\x83", b"\x86"
LITERAL_INDEXED = 0x40
INDEXED = 0x80
FIRST_DYNAMIC_INDEX = 62
STATIC_NAMES = {b":authority": 1, b":path": 4, b"content-type": 31, b"user-agent": 58}


class CallFailed(Exception):
    """A call ended otherwise than with an answer, or its connection ended."""


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """One frame, whole."""
    return struct.pack("!I", len(payload) << 8 | kind) + struct.pack("!BI", flags, stream) + payload


def framed_message(message: bytes) -> bytes:
    """A message as gRPC puts it into DATA frames: not compressed, its length, itself."""
    return struct.pack("!BI", 0, len(message)) + message


def header_blocks(path: str) -> tuple[bytes, bytes]:
    """The block of a connection's first call, and that of all others: the first teaches the peer its fields."""
    fields = {
        b":authority": b"etcd",
        b":path": path.encode(),
        b"te": b"trailers",
        b"content-type": b"application/grpc",
        b"user-agent": b"greenroom-bench",
    }
    first = b"".join(_literal(name, value) for name, value in fields.items())
    last = FIRST_DYNAMIC_INDEX + len(fields) - 1
    later = bytes(INDEXED | last - number for number in range(len(fields)))
    return METHOD_POST + SCHEME_HTTP + first, METHOD_POST + SCHEME_HTTP + later


def _literal(name: bytes, value: bytes) -> bytes:
    static = STATIC_NAMES.get(name)
    return bytes([LITERAL_INDEXED | (static or 0)]) + (b"" if static else _string(name)) + _string(value)


def _string(text: bytes) -> bytes:
    assert len(text) < 127, f"too long for a length of one byte: {text!r}"
    return bytes([len(text)]) + text


class Answers:
    """What comes from the peer, without the socket: which streams it ends, and what their messages are."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.replies = bytearray()
        """What the peer is owed: acknowledgements."""
        self.answer = bytearray()
        """Bytes of the messages that came, headers of messages with them."""
        self._unfinished = b""

    def feed(self, data: bytes) -> int:
        """Takes in what came; how many streams it ends. CallFailed for a reset or an end of the connection."""
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
        self._first_block, self._later_block = header_blocks(path)
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
            pass
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
    settings = struct.pack("!HIHI", ENABLE_PUSH, 0, INITIAL_WINDOW_SIZE, STREAM_WINDOW_BYTES)
    window = struct.pack("!I", CONNECTION_WINDOW_BYTES)
    return PREFACE + frame(SETTINGS, 0, 0, settings) + frame(WINDOW_UPDATE, 0, 0, window)
