"""`make test` runs pytest several times, partly side by side: nothing of it may be lost, nor go on after Ctrl-C."""

import importlib
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.process import Process
from tests.support.waiting import wait_for

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"
NO_RINGS = {"bench", "data", "support", "__pycache__"}
INTERRUPTED = 2
START_SECONDS = 60
BARE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""The runs of these tests need no plugin, and start in half the time."""
GOES_ON = """
import pathlib, time, pytest

@pytest.fixture
def something(request):
    pathlib.Path({begun!r}).touch()
    yield
    time.sleep(0.5)
    pathlib.Path({ended!r}).touch()

def test_that_goes_on(something):
    time.sleep(60)
"""
MAKE_TEST = """
import sys
sys.path.insert(0, sys.argv[1])
from pytest_runs import Run, exit_code, until_interrupted

shown, *others = [Run(path, ["--rootdir=/", "-p", "no:cacheprovider", path], {}) for path in sys.argv[2:]]
with until_interrupted() as runner:
    outcomes = runner.show_beside(shown, others, 1)
print(*outcomes, sep="\\n")
sys.exit(exit_code(outcomes))
"""


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, as the scripts import each other."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("pytest_runs")


@pytest.fixture
def run_tests(runs: Any) -> Any:
    return importlib.import_module("run_tests")


def test_each_ring_is_run_once(run_tests: Any) -> None:
    rings = {folder.name for folder in (ROOT / "tests").iterdir() if folder.is_dir()} - NO_RINGS
    assert sorted(ring for run in (*run_tests.FIRST, *run_tests.LAST) for ring in run) == sorted(rings)


def test_a_further_etcd_runs_etcds_semantics_but_for_what_is_the_same_on_each(run_tests: Any) -> None:
    run = run_tests.version_run(run_tests.EtcdVersion("3.5.1", Path("/cache")), set(), ["-x"])
    assert run.environment["GREENROOM_ETCD"] == "/cache/etcd"
    assert run.environment["GREENROOM_ETCDCTL"] == "/cache/etcdctl"
    assert run.arguments[-4:] == ["-m", "not once", "-x", run_tests.ETCD_TESTS]


def outcome(runs: Any, code: int) -> Any:
    return runs.Outcome("some", code, 1.0)


@pytest.mark.parametrize(
    ("codes", "whole"),
    [
        ([0, 0], 0),
        ([0, 1, 4], 1),
        ([5, 0], 0),
        ([5, 1], 1),
        ([5, 5], 5),
        ([1, 2], INTERRUPTED),
        ([-9, 0], -9),
    ],
)
def test_a_failure_of_any_run_is_one_of_the_whole(runs: Any, codes: list[int], whole: int) -> None:
    """A run of which the options leave nothing is none."""
    assert runs.exit_code([outcome(runs, code) for code in codes]) == whole


def test_what_ran_beside_is_shown_whole_and_with_how_it_ended(
    runs: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_right.py").write_text("def test_right(): pass")
    (tmp_path / "test_wrong.py").write_text("import os\ndef test_wrong(): assert os.environ['FLAVOUR'] == 'sweet'")
    (tmp_path / "test_none.py").write_text("")
    shown, *others = [
        runs.Run(name, [f"--rootdir={tmp_path}", str(tmp_path / f"test_{name}.py")], {**BARE, "FLAVOUR": "sour"})
        for name in ("right", "wrong", "none")
    ]
    with runs.until_interrupted() as runner:
        outcomes = runner.show_beside(shown, others, 2)
    assert [(each.name, each.code) for each in outcomes] == [("right", 0), ("wrong", 1), ("none", 5)]
    right, wrong, none = capfd.readouterr().out.split("test session starts")[1:]
    assert "1 passed" in right
    assert "'sour' == 'sweet'" in wrong
    assert "wrong: FAILED" in wrong
    assert "none: no test of it was asked for" in none


def test_ctrl_c_ends_all_in_good_order_and_nothing_begins_after_it(tmp_path: Path) -> None:
    """A test ends itself what it has started, which takes its time. The run that waits for its turn never begins."""
    names = ("shown", "beside", "later")
    for name in names:
        begun, ended = str(tmp_path / f"{name}.begun"), str(tmp_path / f"{name}.ended")
        (tmp_path / f"test_{name}.py").write_text(GOES_ON.format(begun=begun, ended=ended))
    command = [sys.executable, "-c", MAKE_TEST, str(SCRIPTS), *(str(tmp_path / f"test_{name}.py") for name in names)]
    with subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **BARE}
    ) as child:
        try:
            wait_for(lambda: marked(tmp_path, "begun") == {"shown", "beside"}, START_SECONDS, "both are at work")
            os.killpg(child.pid, signal.SIGINT)
            said = child.communicate(timeout=START_SECONDS)[0]
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    assert child.returncode == INTERRUPTED
    assert marked(tmp_path, "begun") == marked(tmp_path, "ended") == {"shown", "beside"}
    assert all("interrupted (" in line for line in said.splitlines()[-len(names) :])


def test_ctrl_c_amid_the_start_of_a_process_is_heard_once_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else nobody knows of it, and it lives on."""
    made: list[subprocess.Popen[bytes]] = []

    def interrupted(*arguments: Any, **options: Any) -> "subprocess.Popen[bytes]":
        made.append(subprocess_popen(*arguments, **options))
        signal.raise_signal(signal.SIGINT)
        return made[0]

    subprocess_popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt), Process("sleeper", ["sleep", "60"], tmp_path, dict(os.environ)):
        pytest.fail("it was not interrupted")
    assert made[0].returncode == -signal.SIGKILL


def marked(folder: Path, what: str) -> set[str]:
    return {file.stem for file in folder.glob(f"*.{what}")}
