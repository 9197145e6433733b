"""Gate runners as operators run them: `greenroom gates run` in a process of its own, with a page to ask.

The rule: nothing of the product is imported; what it runs leaves its traces in files.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.greenroom import PROGRAM, environment
from tests.support.http import Answer, ask
from tests.support.ports import free_port
from tests.support.process import Process


class GateRunner(Process):
    """A runner of `gates`, as DYN_WORKER_VALIDATION_GATES has them. `start` brings a killed one back."""

    def __init__(
        self,
        control: str,
        gates: Mapping[str, Any],
        folder: Path,
        *arguments: str,
        name: str = "runner",
        **variables: str,
    ) -> None:
        listen = f"127.0.0.1:{free_port()}"
        self.url = f"http://{listen}"
        command = [
            *PROGRAM,
            "gates",
            "run",
            "--control",
            control,
            "--listen",
            listen,
            "--log-format",
            "json",
            *arguments,
        ]
        told = {**environment(), "DYN_WORKER_VALIDATION_GATES": json.dumps(gates), **variables}
        super().__init__(name, command, folder, told)

    def ready(self) -> None:
        self.wait_ready(lambda: ask(f"{self.url}/live").status == 200, "answers")

    def health(self) -> Answer:
        return ask(f"{self.url}/health")

    def metrics(self) -> str:
        return ask(f"{self.url}/metrics").body.decode()

    def events(self, name: str) -> list[dict[str, Any]]:
        """What it has logged under a name, in order."""
        lines = (json.loads(line) for line in self.log().splitlines() if line.startswith("{"))
        return [line for line in lines if line["event"] == name]


def shell(script: str, timeout_secs: float = 60) -> dict[str, Any]:
    """A gate that a few words of shell check."""
    return {"exec": ["sh", "-c", script], "timeout_secs": timeout_secs}
