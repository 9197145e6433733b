"""A runner's own frontend: up before any check, on a preview of the one instance, and gone with the release."""

import os
import sys
from pathlib import Path

import pytest

from tests.integration.test_gates_run import SECONDS, becomes, reason, worker_before, written
from tests.support.descendants import gone, runs
from tests.support.endpoints import Proxy
from tests.support.http import ask
from tests.support.runners import GateRunner, shell
from tests.support.waiting import wait_for

ROOT = Path(__file__).parents[2]


def frontend(folder: Path) -> str:
    return f"{sys.executable} -m tests.support.small_frontend {{port}} {{etcd_endpoints}} {folder}/frontends"


def runner_with(proxy: Proxy, folder: Path, script: str, *arguments: str, command: str = "") -> GateRunner:
    gates = {"smoke": shell(script), "latency": shell("true")}
    chosen = ("--frontend", command or frontend(folder), *arguments)
    path = os.pathsep.join((str(ROOT / "proxy"), str(ROOT)))
    return GateRunner(proxy.greenroom.control, gates, folder, *chosen, PYTHONPATH=path)


def test_checks_ask_a_frontend_that_sees_this_worker_and_no_other(proxy: Proxy, tmp_path: Path) -> None:
    other = proxy.held_worker(model="other")
    for gate in ("smoke", "latency"):
        proxy.control.verdict(other.instance, gate, "failed")
    models = f"{sys.executable} -c \"import os, urllib.request as r; print(r.urlopen(os.environ['OPENAI_BASE_URL'] "
    models += "+ '/models').read().decode())\""
    with runner_with(proxy, tmp_path, f"{models} > {tmp_path}/models") as runner:
        worker = worker_before(proxy)
        becomes(proxy, worker, "RELEASED")
        (process,) = written(tmp_path / "frontends")
        assert gone(int(process))
        wait_for(lambda: not proxy.control.previews(), SECONDS, "the preview is closed")
        assert runner.stop() == 0
    assert (tmp_path / "models").read_text() == '{"data": [{"id": "tiny"}]}\n'


def test_after_a_failure_it_stays_for_whoever_wants_to_look(proxy: Proxy, tmp_path: Path) -> None:
    with runner_with(proxy, tmp_path, "exit 1") as runner:
        worker = worker_before(proxy)
        becomes(proxy, worker, "REJECTED")
        (kept,) = wait_for(lambda: runner.events("frontend.kept"), SECONDS, "it is kept")
        assert ask(f"{kept['url']}/models").json == {"data": [{"id": "tiny"}]}
        (process,) = written(tmp_path / "frontends")
        assert runner.stop() == 0
        assert gone(int(process))
    assert not proxy.control.previews()


def test_after_that_time_it_goes(proxy: Proxy, tmp_path: Path) -> None:
    with runner_with(proxy, tmp_path, "exit 1", "--keep-failed", "1s") as runner:
        becomes(proxy, worker_before(proxy), "REJECTED")
        wait_for(lambda: runner.events("frontend.kept"), SECONDS, "it is kept")
        (process,) = written(tmp_path / "frontends")
        assert gone(int(process))
        wait_for(lambda: not proxy.control.previews(), SECONDS, "the preview is closed")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            "sh -c 'echo loading >&2; exec sleep 600' {port}",
            ": Connection refused; last: loading",
        ),
        ("sh -c 'echo no such model >&2; exit 4' {port}", "the frontend ended with 4; last: no such model"),
        ("/no/such/frontend {port}", "cannot run '/no/such/frontend': No such file or directory"),
    ],
)
def test_of_one_that_does_not_come_up_checks_end_in_error(
    proxy: Proxy, tmp_path: Path, command: str, words: str
) -> None:
    with runner_with(proxy, tmp_path, f"touch {tmp_path}/ran", "--frontend-start", "3s", command=command) as runner:
        worker = worker_before(proxy)
        wait_for(lambda: reason(proxy, worker).endswith(words), SECONDS, "it is told")
        assert runner.stop() == 0
    assert not (tmp_path / "ran").exists()
    assert not proxy.control.previews()


def test_a_runner_that_is_stopped_says_nothing_of_what_it_ends(proxy: Proxy, tmp_path: Path) -> None:
    """Checks and their frontend end together, and it is nobody's error."""
    with runner_with(proxy, tmp_path, "sleep 600") as runner:
        worker = worker_before(proxy)
        wait_for(lambda: len(runner.events("gate.started")) == 2, SECONDS, "the checks began")
        assert runner.stop() == 0
    assert reason(proxy, worker) == ""
    assert [one["outcome"] for one in runner.events("gate.ended") if one["gate"] == "smoke"] == ["stopped"]
    assert not proxy.control.previews()


def test_a_killed_runner_leaves_no_frontend(proxy: Proxy, tmp_path: Path) -> None:
    with runner_with(proxy, tmp_path, "sleep 600") as runner:
        worker = worker_before(proxy)
        wait_for(lambda: len(runner.events("gate.started")) == 2, SECONDS, "the checks began")
        (process,) = written(tmp_path / "frontends")
        assert runs(int(process))
        runner.kill()
        assert gone(int(process))
    worker.client.revoke(worker.lease)
    wait_for(lambda: not proxy.control.previews(), SECONDS, "the preview ends with the lease")
