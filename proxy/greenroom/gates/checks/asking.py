"""Asking over HTTP: no proxies, no redirects, nothing without a bound. Every trouble is one CheckFailed.

The rule: the answer of a broken worker, or of something else that listens there, can be anything: endless, no text, no
JSON. It costs at most the bounds below and the check's time (`ending`), and what is shown of it is short.
"""

import json
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final

from greenroom.errors import CheckFailed
from greenroom.gates.checks.place import Place

MAX_ANSWER_BYTES: Final = 8 << 20
"""Of one answer, streamed or not: a chat of 100,000 tokens fits, each in an event of its own less so."""
MAX_LINE_BYTES: Final = 1 << 20
"""Of one event of a stream."""
MAX_SHOWN_CHARACTERS: Final = 200
"""Of an answer in a message: enough for any error in words."""
PART_BYTES: Final = 65536
REDIRECTS: Final = range(300, 400)
OK: Final = 200
DONE: Final = b"[DONE]"
HEADERS: Final = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


class _Trouble(Exception):
    """What is wrong with an answer, in words that do not say where it came from."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks one place. `silence_seconds`: how long it may say nothing."""

    place: Place
    silence_seconds: float

    def get(self, path: str) -> Any:
        """The JSON of a GET; CheckFailed."""
        with self._answer("GET", path, None) as answer:
            return _json(_whole(answer))

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """The JSON that comes of a POST of JSON; CheckFailed."""
        with self._answer("POST", path, body) as answer:
            return _json(_whole(answer))

    def events(self, path: str, body: dict[str, Any]) -> Iterator[Any]:
        """The JSON of each event of a streamed answer, as it comes, to its [DONE]; CheckFailed."""
        with self._answer("POST", path, body) as answer:
            for data in events_in(_parts(answer)):
                if data == DONE:
                    return
                yield _json(data)
            raise _Trouble("the stream ended without its [DONE]")

    @contextmanager
    def _answer(self, verb: str, path: str, body: dict[str, Any] | None) -> Iterator[HTTPResponse]:
        connection = self._connection()
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(verb, f"{self.place.path}{path}", data, HEADERS)
            with connection.getresponse() as answer:
                _must_be_ok(answer)
                yield answer
        except (OSError, HTTPException, UnicodeError, _Trouble) as error:  # UnicodeError: of a host that is no name
            raise CheckFailed(f"{verb} {self.place.url(path)}: {self._in_words(error)}") from error
        finally:
            connection.close()

    def _connection(self) -> HTTPConnection:
        host, port = self.place.address.host, self.place.address.port
        if not self.place.address.is_secure:
            return HTTPConnection(host, port, timeout=self.silence_seconds)
        return HTTPSConnection(host, port, timeout=self.silence_seconds, context=ssl.create_default_context())

    def _in_words(self, error: Exception) -> str:
        match error:
            case TimeoutError():
                return f"it said nothing for {self.silence_seconds:g} s"
            case OSError(strerror=str(words)):
                return words
            case HTTPException():
                return f"it speaks no HTTP, or broke off ({type(error).__name__}: {excerpt(str(error))})"
            case _:
                return str(error)


def events_in(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The data of each server-sent event in a body that comes in parts. An event named `error` is a trouble."""
    name, said = b"", list[bytes]()
    for line in _lines(parts):
        field, _, value = line.partition(b":")
        match field:
            case b"" if not line and name == b"error":
                raise _Trouble(f"the stream says: {excerpt(b' '.join(said))}")
            case b"" if not line:
                data, name, said = said, b"", []
                if data:
                    yield b"\n".join(data)
            case b"event":
                name = value.strip()
            case b"data":
                said.append(value.removeprefix(b" "))
            case b"" if name == b"error":
                said.append(value.strip())  # Dynamo says the reason in a comment.


def _lines(parts: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        yield from (line.removesuffix(b"\r") for line in lines)
        if len(rest) > MAX_LINE_BYTES:
            raise _Trouble(f"an event of the stream is longer than {MAX_LINE_BYTES} bytes")


def _parts(answer: HTTPResponse) -> Iterator[bytes]:
    """What comes, as it comes, up to the bound, and to the end that was told."""
    read = 0
    while part := answer.read1(PART_BYTES):
        read += len(part)
        if read > MAX_ANSWER_BYTES:
            raise _Trouble(f"the answer is longer than {MAX_ANSWER_BYTES} bytes")
        yield part
    if answer.length:  # What was told and did not come: reading piece by piece does not mind.
        raise _Trouble(f"the answer broke off {answer.length} bytes before its end")


def _whole(answer: HTTPResponse) -> bytes:
    return b"".join(_parts(answer))


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _Trouble(f"the answer is no JSON: {excerpt(data)}") from error


def _must_be_ok(answer: HTTPResponse) -> None:
    if answer.status in REDIRECTS:
        where = excerpt(answer.getheader("location") or "nowhere")
        raise _Trouble(f"{answer.status}, a redirect to {where}, and redirects are not followed")
    if answer.status != OK:
        said = excerpt(answer.read1(PART_BYTES))
        raise _Trouble(f"{answer.status} {excerpt(answer.reason)}{f': {said}' if said else ''}")


def excerpt_of(value: Any) -> str:
    """The beginning of a value as JSON; of one that is nested too deep nothing."""
    try:
        return excerpt(json.dumps(value))
    except RecursionError:
        return "…"


def excerpt(said: bytes | str) -> str:
    """The beginning of what somebody said, in one printable line."""
    text = said[: 4 * MAX_SHOWN_CHARACTERS].decode("utf-8", "replace") if isinstance(said, bytes) else said
    flat = " ".join(text.split())
    shown = flat if len(flat) <= MAX_SHOWN_CHARACTERS else f"{flat[: MAX_SHOWN_CHARACTERS - 1]}…"
    return "".join(character if character.isprintable() else "\ufffd" for character in shown)
