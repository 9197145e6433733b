"""What the server of checks refuses to run, asked in process. Answers: tests/integration/test_check_server.py."""

import json
from pathlib import Path
from typing import Any

import pytest
import structlog

from greenroom.gates.check_server import MAX_BODY_BYTES, CheckServer, _all_of
from greenroom.gates.environment import Variable


async def asked(server: CheckServer, path: str, body: bytes, content_type: str = "application/json") -> tuple[int, str]:
    """The status and the body of what is answered to a POST."""
    said = list[dict[str, Any]]()
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(b"content-type", content_type.encode())],
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        said.append(dict(message))

    await server.app()(scope, receive, send)
    return said[0]["status"], b"".join(message.get("body", b"") for message in said).decode()


@pytest.mark.parametrize(
    ("name", "said", "more", "status", "words"),
    [
        ("other", {}, {}, 404, "no check 'other' here; there are: smoke\n"),
        ("smoke/more", {}, {}, 404, ""),
        ("../smoke", {}, {}, 404, ""),
        ("smoke", b"{", {}, 400, "the body is no JSON"),
        ("smoke", b"\xff", {}, 400, "the body is no JSON"),
        ("smoke", b"[" * 60_000, {}, 400, "the body is no JSON"),
        ("smoke", [], {}, 400, "the body is no JSON object"),
        ("smoke", {"PATH": "/tmp"}, {}, 400, "'PATH' is none of OPENAI_BASE_URL"),
        ("smoke", {"LD_PRELOAD": "/tmp/x.so"}, {}, 400, "'LD_PRELOAD' is none of"),
        ("smoke", {"GREENROOM_TOKEN": "x"}, {}, 400, "'GREENROOM_TOKEN' is none of"),
        ("smoke", {"GREENROOM_GATE\n": "x"}, {}, 400, "'GREENROOM_GATE\\n' is none of"),
        ("smoke", {"GREENROOM_ATTEMPT": 2}, {}, 400, "GREENROOM_ATTEMPT is no text"),
        ("smoke", {"GREENROOM_GATE": "a\0b"}, {}, 400, "GREENROOM_GATE is no text"),
        ("smoke", {"GREENROOM_GATE": "\ud800"}, {}, 400, "GREENROOM_GATE is no text"),
        ("smoke", b"x" * (MAX_BODY_BYTES + 1), {}, 413, "the body is larger than"),
        ("smoke", {}, {"content_type": "text/plain"}, 415, "post the gate's environment as application/json"),
    ],
)
async def test_what_is_no_question_is_refused_and_runs_nothing(
    tmp_path: Path, name: str, said: object, more: dict[str, str], status: int, words: str
) -> None:
    ran = tmp_path / "ran"
    server = CheckServer({"smoke": ["touch", str(ran)]}, 4, 60.0, structlog.get_logger())
    body = said if isinstance(said, bytes) else json.dumps(said).encode()
    found, told = await asked(server, f"/validate/{name}", body, **more)
    assert (found, told[: len(words)]) == (status, words)
    assert not ran.exists()


@pytest.mark.parametrize("ours", [{"GREENROOM_TOKEN": "secret"}, {"GREENROOM_TOKEN_FILE": "/token"}])
def test_a_token_of_ours_goes_where_we_say_and_nowhere_else(ours: dict[str, str]) -> None:
    """Whoever may post would else be told it by any check that asks the proxy, at an address of his own."""
    posted = {Variable.CONTROL.value: "127.0.0.1:6666", Variable.GATE.value: "smoke"}
    assert _all_of(ours, posted) == {**ours, "GREENROOM_GATE": "smoke"}
    own = {**ours, "GREENROOM_CONTROL": "127.0.0.1:2390"}
    assert _all_of(own, posted) == {**own, "GREENROOM_GATE": "smoke"}
    assert _all_of({"PATH": "/bin"}, posted) == {"PATH": "/bin", **posted}
