"""A small HTTP server on loopback that answers whatever a test says, right or wrong, byte by byte.

The rule: it takes a request in whole before it answers, so that what a client sees is the answer and nothing else.
"""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

TIMEOUT_SECONDS = 20


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came; `body` is its JSON, None without one."""

    line: str
    headers: dict[str, str]
    body: Any


Parts = Iterator[bytes] | Sequence[bytes]
Answer = Callable[[Asked], Parts]


@dataclass(slots=True)
class OddServer:
    """Answers each request, on a connection of its own, with the bytes that `answer` gives for it, and closes."""

    answer: Answer
    asked: list[Asked] = field(default_factory=list)
    _listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    _threads: list[threading.Thread] = field(default_factory=list)
    url: str = field(init=False)
    """With the path /v1, as OPENAI_BASE_URL has it."""

    def __post_init__(self) -> None:
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def __enter__(self) -> Self:
        self._spawn(self._listen)
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(TIMEOUT_SECONDS)
            assert not thread.is_alive()

    @property
    def bodies(self) -> list[Any]:
        """Those of all requests so far."""
        return [asked.body for asked in self.asked]

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._spawn(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):  # Clients hang up when they have seen enough.
            connection.settimeout(TIMEOUT_SECONDS)
            asked = _taken(connection)
            self.asked.append(asked)
            for part in self.answer(asked):
                connection.sendall(part)

    def _spawn(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()


def response(body: bytes | str, status: str = "200 OK", **headers: str) -> list[bytes]:
    """A whole answer."""
    data = body.encode() if isinstance(body, str) else body
    lines = [
        f"HTTP/1.1 {status}",
        f"content-length: {len(data)}",
        *(f"{name}: {text}" for name, text in headers.items()),
    ]
    return ["\r\n".join([*lines, "", ""]).encode() + data]


def told(value: Any) -> list[bytes]:
    """A whole answer of JSON."""
    return response(json.dumps(value))


def chat(content: object = None, **message: Any) -> list[bytes]:
    """A whole answer to a chat."""
    said = {"role": "assistant", "content": content, **message}
    return told({"choices": [{"index": 0, "message": said, "finish_reason": "stop"}]})


def stream(*deltas: dict[str, Any], done: bool = True) -> list[bytes]:
    """A streamed answer to a chat, one event a delta, each in a chunk of its own."""
    events = [json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() for delta in deltas]
    return [STREAM, *map(event, events), *([event(b"[DONE]"), b"0\r\n\r\n"] if done else [b"0\r\n\r\n"])]


STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def event(data: bytes) -> bytes:
    """One server-sent event, as a chunk."""
    return chunk(b"data: " + data + b"\n\n")


def chunk(data: bytes) -> bytes:
    """As chunked answers have it."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def _taken(connection: socket.socket) -> Asked:
    received = b""
    while b"\r\n\r\n" not in received:
        received += _more(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    line, *fields = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in fields)}
    while len(body) < int(headers.get("content-length", 0)):
        body += _more(connection)
    return Asked(line, headers, json.loads(body) if body else None)


def _more(connection: socket.socket) -> bytes:
    received = connection.recv(65536)
    if not received:
        raise OSError("the client hung up amid its request")
    return received
