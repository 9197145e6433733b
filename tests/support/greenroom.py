"""The product as an operator runs it: `greenroom serve` in a process of its own, and the command line beside it.

The rule: nothing of the product is imported; only its command line, its ports and its exit codes are used.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.http import ask
from tests.support.ports import free_port
from tests.support.process import Process

GATES = ("smoke", "latency")
GATE_ARGUMENTS = ("--gate", "smoke=900s", "--gate", "latency=600s")
CLI_SECONDS = 90
READY_SECONDS = 30
_ROOT = Path(__file__).parents[2]
PROGRAM = (sys.executable, "-m", "greenroom")


class Greenroom(Process):
    """A proxy in front of `upstream`. Killed or stopped, `start` brings it back on the same ports.

    `arguments` say what it keeps back; without them every instance needs the gates of GATES.
    """

    def __init__(
        self,
        upstream: str,
        folder: Path,
        *,
        name: str = "greenroom",
        port: int | None = None,
        arguments: Sequence[str] = GATE_ARGUMENTS,
    ) -> None:
        listen, control, http = (f"127.0.0.1:{given}" for given in (port or free_port(), free_port(), free_port()))
        self.address = listen
        self.url = f"http://{listen}"
        self.control = control
        self.http_url = f"http://{http}"
        command = [*PROGRAM, "serve", "--upstream", upstream, "--listen", listen]
        command += ["--control-listen", control, "--http-listen", http, *arguments]
        super().__init__(name, command, folder, environment())

    def ready(self) -> None:
        self.wait_ready(self.is_ready, "says it is ready", timeout_seconds=READY_SECONDS)

    def is_ready(self) -> bool:
        """What /ready answers at the moment."""
        return ask(f"{self.http_url}/ready").status == 200

    def cli(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Runs `greenroom ...` against this proxy; the exit code is the caller's to judge."""
        command = [*PROGRAM, *arguments, "--control", self.control]
        return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=CLI_SECONDS)

    def must(self, *arguments: str) -> str:
        """As `cli`, for a command that has to succeed; returns what it printed."""
        done = self.cli(*arguments)
        assert done.returncode == 0, f"greenroom {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def listed(self, state: str) -> str:
        """What `greenroom instances` prints for one state; ids are in it in full."""
        return self.must("instances", "--state", state, "-o", "json")

    def pass_gates(self, instance: str) -> None:
        """Every gate's verdict, and then the release seen."""
        for gate in GATES:
            self.must("verdict", instance, gate, "passed", "--reason", "checked by the end-to-end ring")
        self.must("wait", instance, "--for", "released", "--timeout", "30s")


def environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**kept, "PYTHONPATH": str(_ROOT / "proxy"), "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", "COLUMNS": "200"}


def program_in(folder: Path) -> Path:
    """Makes a folder for PATH in which the command line is `greenroom`."""
    folder.mkdir()
    program = folder / "greenroom"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m greenroom "$@"\n')
    program.chmod(0o755)
    return folder
