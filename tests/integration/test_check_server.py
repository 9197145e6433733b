"""The server of checks on a real port: answers, and what ends with its caller."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from greenroom.control.http import HttpServer
from greenroom.gates.check_server import CheckServer
from tests.support.control_side import EventLog
from tests.support.descendants import DAEMON, gone, wait_pid

FOREVER_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: str
    body: str


@asynccontextmanager
async def serving(
    concurrency: int = 4, timeout_seconds: float = FOREVER_SECONDS, **checks: Sequence[str]
) -> AsyncIterator[int]:
    """The port on which these checks are served."""
    server = CheckServer(checks, concurrency, timeout_seconds, EventLog())
    http = HttpServer(server.app(), host="127.0.0.1", port=0)
    port = http.start()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(http.run())
        try:
            yield port
        finally:
            http.stop()
            await running


async def begun(port: int, name: str, body: bytes, content_type: str = "application/json") -> Any:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /validate/{name} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-type: {content_type}\r\n"
    writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    return reader, writer


async def posted(port: int, name: str, said: object, **more: str) -> Reply:
    reader, writer = await begun(port, name, said if isinstance(said, bytes) else json.dumps(said).encode(), **more)
    async with asyncio.timeout(20):
        received = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    head, _, body = received.partition("\r\n\r\n")
    return Reply(int(head.split()[1]), head.lower(), body)


def shell(script: str) -> list[str]:
    return ["sh", "-c", script]


async def test_a_check_that_passes_is_200_and_one_that_does_not_500_with_its_reason() -> None:
    checks = {
        "good": shell("exit 0"),
        "bad": shell("echo first >&2; echo 'no \"content\"' >&2; exit 1"),
        "torn": shell("echo noisy >&2; exit 75"),
        "mute": shell("exit 3"),
        "lost": ["no-such-program"],
    }
    async with serving(**checks) as port:
        replies = {name: await posted(port, name, {}) for name in checks}
    assert {name: (reply.status, reply.body) for name, reply in replies.items()} == {
        "good": (200, "passed\n"),
        "bad": (500, 'first\nno "content"\n'),
        "torn": (500, "noisy\n"),
        "mute": (500, "it ended with 3, and said nothing on standard error\n"),
        "lost": (500, "cannot run 'no-such-program': there is no such program on PATH\n"),
    }
    assert "x-greenroom-exit-code: 75" in replies["torn"].headers
    assert "x-greenroom-exit-code: 0" in replies["good"].headers


async def test_the_end_of_a_long_story_is_told() -> None:
    async with serving(long=shell("i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done; exit 1")) as port:
        reply = await posted(port, "long", {})
    assert reply.body.endswith("line 1999\n")
    assert len(reply.body) <= 2049


async def test_what_is_posted_is_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GREENROOM_GATE", "ours")
    monkeypatch.setenv("OF_THE_IMAGE", "kept")
    script = 'echo "$GREENROOM_GATE $GREENROOM_ATTEMPT $OF_THE_IMAGE" >&2; exit 1'
    async with serving(smoke=shell(script)) as port:
        said = {"GREENROOM_GATE": "smoke", "GREENROOM_ATTEMPT": "2"}
        assert (await posted(port, "smoke", said)).body == "smoke 2 kept\n"


async def test_the_check_ends_with_its_caller(tmp_path: Path) -> None:
    """The runner's deadline passed, or it was killed: nobody waits for the answer any more."""
    async with serving(smoke=[sys.executable, "-c", DAEMON, str(tmp_path), "stay"]) as port:
        _, writer = await begun(port, "smoke", b"{}")
        daemon = await asyncio.to_thread(wait_pid, tmp_path / "daemon")
        writer.close()
        assert await asyncio.to_thread(gone, daemon)
        assert await asyncio.to_thread(gone, await asyncio.to_thread(wait_pid, tmp_path / "command"))


async def test_no_more_run_at_once_than_may(tmp_path: Path) -> None:
    waiting = shell(f"echo $$ > {tmp_path}/pid; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done")
    async with serving(concurrency=1, slow=waiting, quick=shell("exit 0")) as port:
        reader, writer = await begun(port, "slow", b"{}")
        await asyncio.to_thread(wait_pid, tmp_path / "pid")
        refused = await posted(port, "quick", {})
        assert (refused.status, refused.body) == (503, "as many checks as may run at once (1) run already: try again\n")
        await asyncio.to_thread((tmp_path / "go").touch)
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        assert (await posted(port, "quick", {})).status == 200
        writer.close()


async def test_a_check_that_is_never_over_is_ended() -> None:
    async with serving(timeout_seconds=0.1, slow=shell("sleep 600")) as port:
        reply = await posted(port, "slow", {})
    assert (reply.status, reply.body) == (500, "not over after 0.1 s, the longest that a check may take here\n")
