"""One frontend as a process: what it is started with, when it can be used, and why it cannot."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from greenroom.errors import ControlError, UnknownPreview
from greenroom.gates import frontend as frontends
from greenroom.gates.frontend import Frontend, FrontendFailed, FrontendSettings
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.control_side import EventLog
from tests.support.descendants import gone, wait_pid

LISTS = """
import os, socket, sys
port, endpoints, folder = sys.argv[1:]
with open(f"{folder}/told", "w") as file:
    print(endpoints, *(os.environ[name] for name in ("ETCD_ENDPOINTS", "DYN_DISCOVERY_BACKEND", "DYN_REQUEST_PLANE",
                                                   "DYN_LOG")), end="", file=file)
with open(f"{folder}/new", "w") as file:
    file.write(f"{os.getpid()}")
os.rename(f"{folder}/new", f"{folder}/pid")
listener = socket.create_server(("127.0.0.1", int(port)))
while True:
    client = listener.accept()[0]
    client.recv(65536)
    client.sendall(b'HTTP/1.0 200 OK\\r\\n\\r\\n{"data": [{"id": "tiny"}]}')
    client.close()
"""
"""A program that lists one model to whoever asks: as little of a frontend as can be started."""


@pytest.fixture(autouse=True)
def _asked_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontends, "POLL_SECONDS", 0.02)


def lists(folder: Path) -> tuple[str, ...]:
    return (sys.executable, "-IS", "-c", LISTS, "{port}", "{etcd_endpoints}", str(folder))


class OnePreview:
    """A preview that ends when the test says so."""

    def __init__(self) -> None:
        self.is_open = False

    async def open_preview(self, instance: str, ttl_seconds: float) -> pb.Preview:
        self.is_open = True
        return pb.Preview(name="previews/1", address="127.0.0.1:7")

    async def preview(self, name: str) -> pb.Preview:
        if not self.is_open:
            raise ControlError("no preview 1 is open", UnknownPreview.reason)
        return pb.Preview(name=name)

    async def close_preview(self, name: str) -> None:
        self.is_open = False


@asynccontextmanager
async def running(preview: OnePreview, *command: str) -> AsyncIterator[Frontend]:
    settings = FrontendSettings(command, 60, 60, 60)
    async with asyncio.TaskGroup() as group:
        frontend = Frontend("5", settings, preview, EventLog())
        task = group.create_task(frontend.run())
        yield frontend
        task.cancel()


def hurried(frontend: Frontend) -> Frontend:
    """The same, with little time from here on."""
    frontend.settings = replace(frontend.settings, start_seconds=0.1)
    return frontend


async def used(frontend: Frontend, then: Callable[[], Awaitable[None]]) -> None:
    """For as long as it is there."""
    async with frontend.use("tiny"):
        await then()
        await asyncio.sleep(600)


async def test_it_is_used_once_it_lists_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in frontends.USUAL:
        monkeypatch.delenv(name, raising=False)
    preview = OnePreview()
    async with running(preview, *lists(tmp_path)) as frontend, frontend.use("tiny") as url:
        assert url == f"http://127.0.0.1:{frontend.port}/v1"
        usual = f"tcp {frontends.USUAL['DYN_LOG']}"
        assert (tmp_path / "told").read_text() == f"http://127.0.0.1:7 http://127.0.0.1:7 etcd {usual}"
        assert preview.is_open
    assert gone(wait_pid(tmp_path / "pid"))
    assert not preview.is_open


async def test_one_that_does_not_list_the_model_in_time_is_of_no_use(tmp_path: Path) -> None:
    """Whoever else waits for it is told the same."""
    async with running(OnePreview(), *lists(tmp_path)) as frontend:
        async with frontend.use("tiny"):
            waiting = asyncio.ensure_future(frontend.use("large").__aenter__())
            await asyncio.sleep(0)
        with pytest.raises(
            FrontendFailed, match=r"^the frontend did not list 'other' within 0\.1 s: it answers 200, and lists tiny$"
        ):
            await hurried(frontend).use("other").__aenter__()
        with pytest.raises(FrontendFailed, match=r"did not list 'other' within 0\.1 s"):
            await waiting


async def test_one_that_nobody_can_ask_is_told_with_why() -> None:
    async with running(OnePreview(), "sleep", "600", "{port}") as frontend:
        with pytest.raises(FrontendFailed, match=r"within 0\.1 s: 127\.0\.0\.1:\d+: Connection refused$"):
            await hurried(frontend).use("tiny").__aenter__()


async def test_its_end_ends_whoever_uses_it(tmp_path: Path) -> None:
    async with running(OnePreview(), *lists(tmp_path)) as frontend:

        async def killed() -> None:
            os.kill(wait_pid(tmp_path / "pid"), signal.SIGKILL)

        with pytest.raises(FrontendFailed, match="the frontend ended with 137"):
            await used(frontend, killed)
        assert frontend.is_over


async def test_what_was_found_at_one_that_broke_down_counts_for_nothing(tmp_path: Path) -> None:
    """A check whose connection was reset may have failed before anybody has noticed why."""
    async with running(OnePreview(), *lists(tmp_path)) as frontend:
        using = frontend.use("tiny")
        await using.__aenter__()
        process = wait_pid(tmp_path / "pid")
        os.kill(process, signal.SIGKILL)
        assert gone(process)
        with pytest.raises(FrontendFailed, match=r"the frontend (no longer lists 'tiny'|ended with 137)"):
            await using.__aexit__(None, None, None)


async def test_so_does_that_of_its_preview(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that is started again knows nothing of the previews before."""
    monkeypatch.setattr(frontends, "PREVIEW_LOOK_SECONDS", 0.01)
    preview = OnePreview()
    async with running(preview, *lists(tmp_path)) as frontend:
        with pytest.raises(FrontendFailed, match="the frontend's preview has ended: no preview 1 is open"):
            await used(frontend, lambda: preview.close_preview("previews/1"))


async def test_what_is_too_long_for_any_process_is_told() -> None:
    preview = OnePreview()
    async with running(preview, "true", "{port}", "x" * 2**22) as frontend:
        with pytest.raises(FrontendFailed, match="the frontend cannot be started: Argument list too long"):
            async with frontend.use("tiny"):
                pytest.fail("there is no frontend")
    assert not preview.is_open
