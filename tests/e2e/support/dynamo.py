"""Real Dynamo processes on one machine: a mocker, a worker that takes commands, a frontend.

Rule: they run in Dynamo's own environment and differ from production in no setting but addresses, times and size.
"""

import contextlib
import json
import os
import select
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.e2e.support.store import Store
from tests.support.http import ask
from tests.support.ports import free_port
from tests.support.process import Process
from tests.support.waiting import wait_for

NAMESPACE = "dynamo"
REPLY_SECONDS = 60
# A frontend follows etcd within 2 s on an idle machine.
FOLLOW_SECONDS = 30
_SCRIPTS = Path(__file__).parents[1] / "inside_dynamo"


@dataclass(frozen=True, slots=True)
class Dynamo:
    """Where Dynamo is installed, which model folder its processes share, and where they write their logs."""

    python: Path
    model: Path
    folder: Path

    def environment(self, *endpoints: str, lease_ttl_seconds: int = 30) -> dict[str, str]:
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.folder),
            "PYTHONUNBUFFERED": "1",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "ETCD_ENDPOINTS": ",".join(endpoints),
            "ETCD_LEASE_TTL": str(lease_ttl_seconds),
            "DYN_DISCOVERY_BACKEND": "etcd",
            "DYN_REQUEST_PLANE": "tcp",
            "DYN_EVENT_PLANE": "zmq",
            "DYN_TCP_RPC_HOST": "127.0.0.1",
            "DYN_LOG": "info",
        }


def make_model(python: Path, folder: Path) -> None:
    """Writes the model folder; the tokenizer's library is only in Dynamo's environment."""
    # In a group of its own, as all that is started here: Ctrl-C is for us to hear.
    subprocess.run([python, _SCRIPTS / "make_model.py", folder], check=True, timeout=60, start_new_session=True)


class Worker(Process):
    """What a mocker and a commanded worker share: one endpoint of one component, so one instance key to wait for."""

    def __init__(
        self, dynamo: Dynamo, store: Store, environment: dict[str, str], *, component: str, model: str
    ) -> None:
        self.store = store
        self.component = component
        self.lease_id = 0
        command = [str(dynamo.python), *self.program(), "--model-path", str(dynamo.model), "--model-name", model]
        command += ["--endpoint", f"dyn://{NAMESPACE}.{component}.generate"]
        super().__init__(f"worker-{component}", command, dynamo.folder, environment)

    def program(self) -> list[str]:
        raise NotImplementedError

    @property
    def instance(self) -> str:
        """The lease id in hex, as in the worker's keys."""
        return f"{self.lease_id:x}"

    @property
    def instances_prefix(self) -> bytes:
        return f"v1/instances/{NAMESPACE}/{self.component}/generate/".encode()

    @property
    def card_key(self) -> bytes:
        return f"v1/mdc/{NAMESPACE}/{self.component}/generate/{self.instance}".encode()

    def card_key_of(self, lora: str) -> bytes:
        return self.card_key + b"/" + lora.encode()

    def wait_instance_key(self) -> None:
        """Waits until the worker can be called; from then on its id is known."""
        found = self.wait_ready(lambda: self.store.keys(self.instances_prefix), "has registered its instance")
        assert len(found) == 1, f"one worker a component, but found {found}"
        self.lease_id = int(found[0].rpartition(b"/")[2], 16)


class Mocker(Worker):
    """`dynamo.mocker`: an engine without a GPU. It writes its card, and once that is answered its instance."""

    def program(self) -> list[str]:
        return ["-m", "dynamo.mocker", "--speedup-ratio", "10", "--num-gpu-blocks-override", "512"]

    def ready(self) -> None:
        self.wait_instance_key()


@dataclass(frozen=True, slots=True)
class Reply:
    ok: bool
    result: str


class PythonWorker(Worker):
    """A worker that serves from its start and registers when told: inside_dynamo/worker.py lists its commands."""

    _commands = -1
    _replies = -1

    def program(self) -> list[str]:
        return [str(_SCRIPTS / "worker.py")]

    def start(self) -> Self:
        commands, self._commands = os.pipe()
        self._replies, replies = os.pipe()
        self.spawn("--replies", str(replies), stdin=commands, pass_fds=[replies])
        os.close(commands)
        os.close(replies)
        self.must("serve")
        self.wait_instance_key()
        assert self.must("id") == self.instance
        return self

    def kill(self) -> None:
        super().kill()
        for descriptor in (self._commands, self._replies):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._commands = self._replies = -1

    def tell(self, line: str) -> Reply:
        """Sends one command and returns what came of it: an error of Dynamo's is an answer, not an exception here."""
        os.write(self._commands, f"{line}\n".encode())
        return Reply(**json.loads(self._reply_line(line)))

    def must(self, line: str) -> str:
        """As `tell`, for a command that has to succeed; returns its result."""
        reply = self.tell(line)
        assert reply.ok, f"{self.name}: {line}: {reply.result}"
        return reply.result

    def _reply_line(self, line: str) -> bytes:
        received = b""
        while not received.endswith(b"\n"):
            readable, _, _ = select.select([self._replies], [], [], REPLY_SECONDS)
            assert readable, f"{self.name} did not answer {line!r} within {REPLY_SECONDS} s:\n{self.log_tail()}"
            part = os.read(self._replies, 65536)
            assert part, f"{self.name} ended at {line!r}:\n{self.log_tail()}"
            received += part
        return received


class Frontend(Process):
    """`dynamo.frontend`: the public HTTP side, which reads etcd itself and knows nothing of the proxy."""

    def __init__(self, dynamo: Dynamo, environment: dict[str, str], *, name: str = "frontend") -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = [str(dynamo.python), "-m", "dynamo.frontend", "--http-host", "127.0.0.1", "--http-port", str(port)]
        super().__init__(name, command, dynamo.folder, environment)

    def ready(self) -> None:
        self.wait_ready(lambda: ask(f"{self.url}/v1/models").status == 200, "lists models")

    def models(self) -> set[str]:
        """What `GET /v1/models` lists."""
        answer = ask(f"{self.url}/v1/models")
        assert answer.status == 200, f"{self.name} does not list models: {answer}"
        return {model["id"] for model in answer.json["data"]}

    def wait_listed(self, model: str) -> None:
        wait_for(lambda: model in self.models(), FOLLOW_SECONDS, f"{self.name} lists {model}")

    def wait_unlisted(self, model: str) -> None:
        wait_for(lambda: model not in self.models(), FOLLOW_SECONDS, f"{self.name} no longer lists {model}")

    def wait_chat(self, model: str) -> None:
        wait_for(lambda: self.chat(model) == 200, FOLLOW_SECONDS, f"{self.name} answers a chat with {model}")

    def chat(self, model: str) -> int:
        """The HTTP status of one short chat with `model`; a 200 has been checked to carry text."""
        message = {"role": "user", "content": "hello"}
        body = {"model": model, "messages": [message], "max_tokens": 4}
        answer = ask(f"{self.url}/v1/chat/completions", body)
        if answer.status == 200:
            assert answer.json["choices"][0]["message"]["content"], f"a chat without text: {answer}"
        return answer.status
