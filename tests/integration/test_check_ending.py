"""A check as a process: it ends, whatever holds its interpreter."""

import subprocess
import sys
from pathlib import Path

from tests.support.greenroom import PROGRAM, environment
from tests.support.odd_server import OddServer, chat


def test_what_holds_the_interpreter_is_ended_too(tmp_path: Path) -> None:
    """A regular expression that takes longer than the universe."""
    file = tmp_path / "golden.yaml"
    file.write_text("prompts: [{prompt: hi, regex: '^(a+)+$'}]")
    with OddServer(lambda _: chat("a" * 60 + "b")) as server:
        done = subprocess.run(
            [*PROGRAM, "check", "golden", str(file), "--base-url", server.url, "--model", "tiny", "--timeout", "100ms"],
            env=environment(),
            capture_output=True,
            timeout=60,
        )
    said = b"golden failed: it is not over after 0.1 s\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", said)


def test_what_no_signal_comes_through_to_is_ended_too() -> None:
    """As a name is that nobody resolves: here the signal is not let through at all."""
    script = (
        "import signal, time; from greenroom.cli.check_options import concluded\n"
        "def check():\n"
        "    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])\n"
        "    time.sleep(60)\n"
        "concluded('smoke', check, 0.1)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, b"smoke failed: it is not over after 0.1 s\n")
