"""What the documentation shows for copying does what it says there."""

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from greenroom.pb.control.v1 import control_pb2
from tests.support.endpoints import Proxy
from tests.support.greenroom import environment
from tests.support.workers import Worker

CHECKS = Path(__file__).parents[2] / "docs" / "checks.md"


@contextmanager
def example(path: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """The page's Python block, running."""
    found = re.search(r"```python\n(.*?)```", path.read_text(), re.DOTALL)
    assert found is not None
    command = [sys.executable, "-c", found[1], *arguments]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def register_at(worker: Worker, address: str) -> None:
    record = json.loads(worker.instance_value())
    record["transport"]["tcp"] = f"{address}/{worker.instance}/dynamo/backend/generate"
    worker.client.create(worker.instance_key, json.dumps(record).encode(), worker.lease)


def smoke(proxy: Proxy, worker: Worker) -> str:
    state = next(gate.state for gate in proxy.control.instance(worker.instance).gates if gate.gate == "smoke")
    return control_pb2.GateState.Name(state)


def test_the_example_of_a_check_passes_who_takes_connections(proxy: Proxy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as takes, socket.socket() as refuses:
        refuses.bind(("127.0.0.1", 0))
        good, bad = proxy.held_worker(), proxy.held_worker()
        with example(CHECKS, proxy.greenroom.control) as check:
            register_at(good, f"127.0.0.1:{takes.getsockname()[1]}")
            register_at(bad, f"127.0.0.1:{refuses.getsockname()[1]}")
            assert check.stdout is not None
            lines = {check.stdout.readline(), check.stdout.readline()}
    assert lines == {f"{worker.instance} 1 DECISION_RECORDED\n" for worker in (good, bad)}
    assert (smoke(proxy, good), smoke(proxy, bad)) == ("GATE_STATE_PASSED", "GATE_STATE_INCONCLUSIVE")
