"""The server of checks as a command: it serves until it is told to stop."""

import shlex
import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from greenroom.cli.main import main
from tests.support.descendants import DAEMON, gone, wait_pid
from tests.support.greenroom import PROGRAM, environment
from tests.support.http import ask
from tests.support.ports import free_port
from tests.support.process import Process

GOOD = ("--check", "smoke=true")


class Serving(Process):
    """`greenroom check serve` on a port of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.port = free_port()
        listen = f"127.0.0.1:{self.port}"
        super().__init__("checks", [*PROGRAM, "check", "serve", "--listen", listen, *arguments], folder, environment())

    def ready(self) -> None:
        self.wait_ready(lambda: self.asked("none") == 404, "answers")

    def asked(self, name: str) -> int:
        return ask(f"http://127.0.0.1:{self.port}/validate/{name}", {}).status


def test_it_serves_the_checks_of_options_and_file_until_it_is_stopped(tmp_path: Path) -> None:
    file = tmp_path / "checks.yaml"
    file.write_text("checks: {bad: ['false']}")
    with Serving(tmp_path, *GOOD, "--checks", str(file)) as server:
        assert (server.asked("smoke"), server.asked("bad")) == (200, 500)
        assert server.stop() == 0
        assert "checks.ready" in server.log()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_check_that_runs_ends_with_the_server(tmp_path: Path, number: signal.Signals) -> None:
    command = shlex.join([sys.executable, "-c", DAEMON, str(tmp_path), "stay"])
    with Serving(tmp_path, "--check", f"smoke={command}") as server, ThreadPoolExecutor() as callers:
        caller = callers.submit(server.asked, "smoke")
        daemon = wait_pid(tmp_path / "daemon")
        server.send_signal(number)
        assert gone(daemon)
        assert gone(wait_pid(tmp_path / "command"))
        assert caller.result() != 200


def test_an_address_that_is_taken_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["check", "serve", *GOOD, "--listen", address]) == 1
    assert capfd.readouterr() == ("", f"greenroom: --listen '{address}': Address already in use\n")
