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
from tests.support.waiting import wait_for
from tests.support.workers import Worker

DOCS = Path(__file__).parents[2] / "docs"
RUN_SECONDS = 60


def examples(page: str) -> str:
    """The page's Python blocks, one after another, as one program."""
    found = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert found
    return "\n".join(found)


@contextmanager
def running(page: str, *arguments: str, **variables: str) -> Iterator["subprocess.Popen[str]"]:
    """The page's examples."""
    command = [sys.executable, "-W", "error", "-c", examples(page), *arguments]
    given = {**environment(), **variables}
    with subprocess.Popen(command, env=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
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


def test_the_examples_are_typed_as_strictly_as_there_is(tmp_path: Path) -> None:
    """As in somebody else's project: what the client gives them has its types."""
    pages = ("python-client.md", "checks.md")
    for page in pages:
        (tmp_path / f"{Path(page).stem.replace('-', '_')}.py").write_text(examples(page))
    command = [sys.executable, "-m", "mypy", "--config-file=", "--strict", "--follow-imports=silent", "."]
    command += ["--cache-dir", str(DOCS.parent / ".mypy_cache" / "docs")]
    given = {**environment(), "MYPYPATH": str(DOCS.parent / "proxy")}
    done = subprocess.run(command, cwd=tmp_path, env=given, capture_output=True, text=True, timeout=RUN_SECONDS)
    assert done.stdout == f"Success: no issues found in {len(pages)} source files\n"


def test_the_example_of_a_check_passes_who_takes_connections(proxy: Proxy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as takes, socket.socket() as refuses:
        refuses.bind(("127.0.0.1", 0))
        good, bad = proxy.held_worker(), proxy.held_worker()
        with running("checks.md", proxy.greenroom.control) as check:
            register_at(good, f"127.0.0.1:{takes.getsockname()[1]}")
            register_at(bad, f"127.0.0.1:{refuses.getsockname()[1]}")
            assert check.stdout is not None
            lines = {check.stdout.readline(), check.stdout.readline()}
    assert lines == {f"{worker.instance} 1 recorded\n" for worker in (good, bad)}
    assert (smoke(proxy, good), smoke(proxy, bad)) == ("GATE_STATE_PASSED", "GATE_STATE_INCONCLUSIVE")


def test_the_examples_of_the_python_client_find_check_and_release_a_worker(proxy: Proxy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as takes:
        worker = proxy.held_worker()
        register_at(worker, f"127.0.0.1:{takes.getsockname()[1]}")
        wait_for(lambda: [one.address for one in proxy.control.instances()] != [""], describe="its address is listed")
        with running("python-client.md", GREENROOM_CONTROL=proxy.greenroom.control) as program:
            output, complaints = program.communicate(timeout=RUN_SECONDS)
    assert (complaints, program.returncode) == ("", 0)
    said = output.splitlines()
    assert re.fullmatch(rf"{worker.instance} \('tiny',\) waits for smoke .*; latency .*", said[0])
    assert re.fullmatch(r".* ETCD_ENDPOINTS=http://127\.0\.0\.1:\d+ python -m dynamo\.frontend", said[1])
    assert said[2:6] == [
        "smoke: recorded",
        "latency: released",
        f"{worker.instance} is released",
        f"existing {worker.instance} released",
    ]
    assert said[6].startswith("VERDICT_ALREADY_GIVEN ")
    assert proxy.public.get(worker.card_key) is not None
