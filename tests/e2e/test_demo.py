"""`greenroom demo` as a newcomer runs it: what is told, how it ends, and what is left: nothing."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.greenroom import PROGRAM
from tests.support.process import Process

DEMO_SECONDS = 100
"""Much longer than it takes alone: the machine may be busy with other tests."""
ROOT = Path(__file__).parents[2]


def environment(**variables: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**kept, "PYTHONPATH": str(ROOT / "proxy"), "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", **variables}


def test_the_demonstration_tells_its_story_and_checks_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [*PROGRAM, "demo"],
        env=environment(TMPDIR=str(tmp_path), GREENROOM_LISTEN="nowhere"),
        capture_output=True,
        text=True,
        timeout=DEMO_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    for told in (
        "A worker registers: held",
        "etcd        shows 0 cards to everybody",
        "2 cards new for everybody, at revision",
        "RELEASED, its cards are public",
        "REJECTED, it stays out of routing",
        "every gate passed, and it waits: rollout hold",
        "2 cards gone for everybody",
    ):
        assert told in done.stdout
    seen, planned = map(int, re.findall(r"^(\d+) of (\d+) as it should be", done.stdout, re.MULTILINE)[0])
    assert seen == planned
    assert seen > 20
    assert list(tmp_path.iterdir()) == []


def test_a_demonstration_that_sees_something_wrong_fails() -> None:
    """A proxy whose rules hold nothing: the cards are public at once, and the exit code says that this is not right."""
    program = (
        "import sys\n"
        "from greenroom.demo import run\n"
        "run.GATE_OPTIONS = ('--allow-ungated',)\n"
        "sys.exit(run.run(keep=False))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=DEMO_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert "NOT SEEN: no card is public while the worker is held" in done.stdout


class KeptDemo(Process):
    """`greenroom demo --keep`, ready when it says what to try."""

    def ready(self) -> None:
        self.wait_ready(lambda: "tail " in self.log(), "says what to try", timeout_seconds=DEMO_SECONDS)


def test_a_kept_demonstration_can_be_played_with(tmp_path: Path) -> None:
    """What it suggests works as it is printed, and Ctrl-C ends everything."""
    with KeptDemo("demo", [*PROGRAM, "demo", "--keep"], tmp_path, environment(TMPDIR=str(tmp_path))) as demo:
        suggested = [line.strip() for line in demo.log().partition("Try:")[2].splitlines() if line.strip()]
        (exported,) = [line.partition("=")[2] for line in suggested if line.startswith("export GREENROOM_CONTROL=")]
        commands = [line for line in suggested if " -m greenroom " in line]
        shown = [_run(command, exported) for command in commands]
        assert "HELD" in shown[0]
        assert any("RELEASED, its cards are public" in output for output in shown)
        os.kill(demo.pid, signal.SIGINT)
        assert demo.child is not None
        assert demo.child.wait(60) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["demo.log"]


def _run(command: str, control: str) -> str:
    """A suggested line, as a shell would run it."""
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        env=environment(GREENROOM_CONTROL=control),
        capture_output=True,
        text=True,
        timeout=DEMO_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout
