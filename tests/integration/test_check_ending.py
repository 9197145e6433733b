"""A check as a process: it ends, whatever holds its interpreter."""

import subprocess
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
    assert done.returncode not in (0, 75)
