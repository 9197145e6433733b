"""HTTP calls of the runner: what is sent, and what any answer comes to."""

import asyncio

import pytest

from greenroom.addresses import Address
from greenroom.gates.http_call import Answer, CallFailed, get, post
from greenroom.gates.url_place import UrlPlace
from tests.support.odd_server import OddServer, response
from tests.support.ports import free_port


def place(server: OddServer) -> UrlPlace:
    return UrlPlace.of(f"{server.url}/validate", allow_remote=False)


async def test_json_is_posted_and_the_answer_told() -> None:
    with OddServer(lambda _: response("fine\n")) as server:
        assert await post(place(server), b'{"a": "b"}') == Answer(200, "fine")
    (asked,) = server.asked
    assert (asked.line, asked.body) == ("POST /v1/validate HTTP/1.1", {"a": "b"})
    assert asked.headers["content-type"] == "application/json"


async def test_a_get_has_no_body() -> None:
    with OddServer(lambda _: response("", "404 Not Found")) as server:
        assert await get(place(server)) == Answer(404, "")
    assert server.asked[0].line == "GET /v1/validate HTTP/1.1"


async def test_a_redirect_is_an_answer_like_others() -> None:
    with OddServer(lambda _: response("", "302 Found", location="/elsewhere")) as server:
        assert (await post(place(server), b"{}")).status == 302
    assert len(server.asked) == 1


async def test_of_a_long_answer_the_end_is_kept() -> None:
    with OddServer(lambda _: response("x" * 300_000 + "end", "500 Oh")) as server:
        answer = await post(place(server), b"{}")
    assert answer.text.endswith("xend")
    assert len(answer.text) <= 65536


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ([], "closed the connection without an answer"),
        ([b"SSH-2.0-OpenSSH_9\r\n\r\n"], "illegal status line"),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx"], "without sending complete"),
    ],
)
async def test_what_is_no_answer_is_told_in_words(sent: list[bytes], words: str) -> None:
    with OddServer(lambda _: sent) as server, pytest.raises(CallFailed, match=words):
        await post(place(server), b"{}")


async def test_that_nobody_listens_is_told_in_words() -> None:
    port = free_port()
    with pytest.raises(CallFailed, match=f"^127.0.0.1:{port}: Connection refused$"):
        await get(UrlPlace(Address("127.0.0.1", port), "/"))


async def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    with OddServer(lambda _: response("fine")) as server:
        assert (await get(place(server))).status == 200


async def test_whoever_cancels_hangs_up() -> None:
    hung_up = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        try:
            while await reader.read(4096):
                pass
        except ConnectionResetError:
            pass
        hung_up.set()
        writer.close()

    asked = asyncio.Event()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, asyncio.timeout(20):
        port = server.sockets[0].getsockname()[1]
        call = asyncio.ensure_future(post(UrlPlace(Address("127.0.0.1", port), "/"), b"{}"))
        await asked.wait()
        call.cancel()
        await hung_up.wait()
