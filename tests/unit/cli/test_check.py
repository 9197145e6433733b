"""The checks as commands: their options, their defaults from the environment, and their exit codes."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from greenroom.cli.main import main
from tests.support.odd_server import Asked, OddServer, chat, stream, told


def answer(asked: Asked) -> list[bytes]:
    """Lists `tiny`, and answers each chat with `hello`."""
    if asked.line.startswith("GET"):
        return told({"data": [{"id": "tiny"}]})
    return stream({"content": "hel"}, {"content": "lo"}) if asked.body.get("stream") else chat("hello")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OddServer]:
    with OddServer(answer) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        monkeypatch.setenv("DYN_VALIDATION_MODEL", "tiny")
        yield running


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit code, and the one line that was said."""
    code = main(["check", *arguments])
    output, errors = capsys.readouterr()
    assert (output == "") is (code != 0)
    assert (errors == "") is (code == 0)
    (line,) = (output + errors).splitlines()
    return code, line


@pytest.mark.parametrize("arguments", [[], ["--stream"], ["--counts", "reasoning,content"]])
def test_a_completion_is_asked_for(server: OddServer, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert run(capsys, "completion", *arguments) == (0, "completion passed: tiny says in its content: 'hello'")
    (body,) = server.bodies
    assert (body["model"], body["max_tokens"]) == ("tiny", 256)


def test_a_tool_is_asked_for_where_its_calls_count(server: OddServer, capsys: pytest.CaptureFixture[str]) -> None:
    code, line = run(capsys, "completion", "--counts", "tool-calls")
    assert (code, line) == (
        1,
        "completion failed: there is no tool-calls in the message of tiny, only content, which does not count here",
    )
    assert "report_ready" in server.bodies[0]["messages"][0]["content"]


def test_options_count_for_more_than_the_environment(server: OddServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "models") == (0, "models passed: tiny is listed")
    code, line = run(capsys, "models", "--model", "other")
    assert code == 1
    assert line == f"models failed: {server.url}/models does not list other; listed: tiny"


def test_golden_takes_its_file(server: OddServer, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "golden.json"
    file.write_text(json.dumps({"prompts": [{"prompt": "hi", "text": "hello"}]}))
    assert run(capsys, "golden", str(file)) == (0, "golden passed: tiny answers the one prompt as expected")
    file.write_text(json.dumps({"prompts": [{"prompt": "hi", "text": "hullo"}]}))
    code, line = run(capsys, "golden", str(file))
    assert (code, line) == (1, "golden failed: prompt '1': differs at character 2: expected 'hullo' and got 'hello'")
    assert server.bodies[0]["seed"] == 0


@pytest.mark.parametrize("option", ["--ttft-p50", "--ttft-p99", "--itl-p50", "--itl-p99"])
def test_each_limit_is_one_of_its_own(server: OddServer, capsys: pytest.CaptureFixture[str], option: str) -> None:
    def apart(asked: Asked) -> Iterator[bytes]:
        yield from answer(asked)

    server.answer = apart
    code, line = run(capsys, "latency", option, "0.0001", "--requests", "8", "--max-spread", "1e9")
    quantity = "time to first token" if "ttft" in option else "time between tokens"
    assert code in (1, 75)
    assert quantity in line.split(";")[0]
    assert code == 75 or f"{option[-3:]} is " in line


def test_latency_within_its_limits_passes(server: OddServer, capsys: pytest.CaptureFixture[str]) -> None:
    code, line = run(capsys, "latency", "--ttft-p99", "1e6", "--requests", "9", "--concurrency", "2")
    assert code == 0
    assert line.startswith("latency passed: 9 requests, 2 at once: time to first token p50 ")
    assert len(server.asked) == 10


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["latency"], "no limit is given: --ttft-p50, --ttft-p99, --itl-p50 or --itl-p99, in ms"),
        (["latency", "--ttft-p50", "0"], "--ttft-p50 '0': must be more than 0 ms"),
        (["latency", "--itl-p99", "nan"], "--itl-p99 'nan': must be more than 0 ms"),
        (["latency", "--ttft-p50", "1", "--requests", "7"], "--requests"),
        (["completion", "--counts", "words"], "--counts 'words': 'words' is none of content"),
        (["completion", "--model", ""], "--model is not given, and DYN_VALIDATION_MODEL is not set"),
        (["completion", "--timeout", "5"], "--timeout '5'"),
        (["models", "--base-url", "http://192.0.2.1/v1"], "--base-url 'http://192.0.2.1/v1': is not this machine"),
        (["golden", "/no/such/file"], "FILE '/no/such/file': cannot be read"),
        (["card"], "--instance is not given, and GREENROOM_INSTANCE is not set"),
    ],
)
@pytest.mark.usefixtures("server")
def test_a_wrong_call_is_told_apart(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    code, line = run(capsys, *arguments)
    assert code == 2
    assert words in line


def test_a_check_that_hangs_is_over_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    """The answer trickles: there is always something more to come, and never for long nothing."""
    is_over = threading.Event()

    def trickle(_: Asked) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n\r\n"
        while not is_over.wait(0.01):
            yield b"x"

    with OddServer(trickle) as server:
        code, line = run(capsys, "models", "--base-url", server.url, "--model", "tiny", "--timeout", "50ms")
        is_over.set()
    assert (code, line) == (1, "models failed: it is not over after 0.05 s")
