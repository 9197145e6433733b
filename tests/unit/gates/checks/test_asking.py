"""Asking servers that answer oddly: each trouble is one line that says where and what, and has its bound."""

import json
import socket
from collections.abc import Iterator
from itertools import repeat
from typing import Any

import pytest

from greenroom.errors import CheckFailed
from greenroom.gates.checks import asking
from greenroom.gates.checks.asking import Asker, events_in, excerpt, excerpt_of
from greenroom.gates.checks.place import Place
from tests.support.odd_server import STREAM, Answer, OddServer, chunk, event, response, stream, told

BODY = {"model": "tiny"}
ENDLESS = b"HTTP/1.1 200 OK\r\n\r\n"
"""An answer that ends with its connection."""


def asker_of(server: OddServer, silence_seconds: float = 20) -> Asker:
    return Asker(Place.of_url(server.url, allow_remote=False), silence_seconds)


def words(answer: Answer, *, streamed: bool = False, silence_seconds: float = 20) -> str:
    """What is said of such an answer, after where it came from."""
    with OddServer(answer) as server:
        asker = asker_of(server, silence_seconds)
        ask = (lambda: list(asker.events("/chat", BODY))) if streamed else (lambda: asker.post("/chat", BODY))
        with pytest.raises(CheckFailed) as failed:
            ask()
    where = f"POST {server.url}/chat: "
    assert str(failed.value).startswith(where)
    return str(failed.value).removeprefix(where)


def test_json_is_posted_and_read() -> None:
    with OddServer(lambda _: told({"fine": [1]})) as server:
        assert asker_of(server).post("/chat", BODY) == {"fine": [1]}
    (asked,) = server.asked
    assert (asked.line, asked.body) == ("POST /v1/chat HTTP/1.1", BODY)
    assert asked.headers["content-type"] == "application/json"


def test_a_get_has_no_body() -> None:
    with OddServer(lambda _: told([])) as server:
        assert asker_of(server).get("/models") == []
    assert (server.asked[0].line, server.asked[0].body) == ("GET /v1/models HTTP/1.1", None)


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"])
def test_a_redirect_is_not_followed_and_its_target_is_told(status: str) -> None:
    said = words(lambda _: response("", status, location="http://127.0.0.1:1/elsewhere"))
    assert said == f"{status[:3]}, a redirect to http://127.0.0.1:1/elsewhere, and redirects are not followed"


def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with OddServer(lambda _: told("asked")) as server:
        assert asker_of(server).get("/models") == "asked"


def test_another_status_is_told_with_the_beginning_of_what_it_says() -> None:
    said = words(lambda _: response("no \x1b[31m worker " + "x" * 1000, "503 Service Unavailable"))
    assert said.startswith("503 Service Unavailable: no \ufffd[31m worker xxx")
    assert len(said) < 300


@pytest.mark.parametrize(
    ("body", "shown"), [("<html>", "<html>"), (b"\xff\xfe", "\ufffd\ufffd"), ("[" * 100_000, "[[["), ("", "")]
)
def test_what_is_no_json_is_shown(body: bytes | str, shown: str) -> None:
    assert words(lambda _: response(body)).startswith(f"the answer is no JSON: {shown}")


def test_an_endless_answer_costs_no_more_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MAX_ANSWER_BYTES", 1 << 20)
    said = words(lambda _: endless(ENDLESS, b"x" * 65536))
    assert said == f"the answer is longer than {1 << 20} bytes"


def test_an_endless_stream_costs_no_more_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MAX_ANSWER_BYTES", 1 << 17)
    said = words(lambda _: endless(STREAM, event(b"{}") * 1000), streamed=True)
    assert said == f"the answer is longer than {1 << 17} bytes"


def test_an_endless_event_costs_no_more_than_its_bound() -> None:
    said = words(lambda _: endless(STREAM, chunk(b"x" * 65536)), streamed=True)
    assert said == f"an event of the stream is longer than {asking.MAX_LINE_BYTES} bytes"


def endless(head: bytes, part: bytes) -> Iterator[bytes]:
    yield head
    yield from repeat(part)


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000])
def test_what_speaks_no_http_is_told(answer: bytes) -> None:
    assert words(lambda _: [answer]).startswith("it speaks no HTTP, or broke off (")


def test_an_answer_that_breaks_off_is_told() -> None:
    said = words(lambda _: [STREAM, event(b"{}"), b"1000\r\nhalf"], streamed=True)
    assert said.startswith("it speaks no HTTP, or broke off (IncompleteRead")


def test_an_answer_that_is_shorter_than_it_says_is_told() -> None:
    """Though what came is JSON, and would do."""
    cut = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}"
    assert words(lambda _: [cut]) == "the answer broke off 7 bytes before its end"


def test_silence_is_told() -> None:
    def silent(_: object) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n"
        ended.recv(1)

    ours, ended = socket.socketpair()
    with ours, ended, OddServer(silent) as server:
        with pytest.raises(CheckFailed, match=r"it said nothing for 0\.2 s"):
            asker_of(server, 0.2).get("/models")
        ours.close()


def test_nobody_there_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        place = Place.of_url(f"http://127.0.0.1:{taken.getsockname()[1]}", allow_remote=False)
        with pytest.raises(CheckFailed, match=r"GET http://127\.0\.0\.1:\d+/v1/models: Connection refused"):
            Asker(place, 5).get("/models")


def test_a_host_that_is_no_name_is_told() -> None:
    with pytest.raises(CheckFailed, match="label empty or too long"):
        Asker(Place.of_url("http://a..b/v1", allow_remote=True), 5).get("/models")


def test_a_stream_is_read_to_its_done() -> None:
    with OddServer(lambda _: stream({"content": "a"}, {"content": "b"})) as server:
        events = list(asker_of(server).events("/chat", BODY))
    assert [event["choices"][0]["delta"] for event in events] == [{"content": "a"}, {"content": "b"}]


def test_a_stream_that_ends_without_its_done_is_told() -> None:
    assert words(lambda _: stream({}, done=False), streamed=True) == "the stream ended without its [DONE]"


def test_an_error_amid_a_stream_is_told() -> None:
    """Dynamo's frontend says it as an event with a name, and the reason in a comment."""
    said = words(lambda _: [STREAM, event(b"{}"), chunk(b'event: error\n: "no responders"\n\n')], streamed=True)
    assert said == 'the stream says: "no responders"'


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_events_are_the_same_however_they_are_cut(size: int) -> None:
    said = b": comment\r\n\r\ndata: {}\r\n\r\ndata: a\ndata:b\n\nid: 7\nevent: ping\ndata:\n\ndata: rest"
    parts = [said[at : at + size] for at in range(0, len(said), size)]
    assert list(events_in(parts)) == [b"{}", b"a\nb", b""]


def test_an_excerpt_is_one_short_printable_line() -> None:
    assert excerpt("a\n\x1b[2J  b") == "a \ufffd[2J b"
    assert len(excerpt(b"\xff" * 10_000)) == asking.MAX_SHOWN_CHARACTERS


def test_an_excerpt_of_a_value_is_json() -> None:
    deep: list[Any] = []
    for _ in range(2_000):
        deep = [deep]
    assert (excerpt_of({"a": "ä"}), excerpt_of(deep)) == ('{"a": "\\u00e4"}', "…")


def test_it_says_what_it_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(asked: Any) -> list[bytes]:
        return told(asked.headers.get("accept-encoding"))

    with OddServer(answer) as server:
        assert json.dumps(asker_of(server).get("/models")) == '"identity"'
