"""`make check`: every check that runs no product code, all of them even when the first fails.

The rule: a check is a command that another tool could run just as well; this only collects the answers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent

CHECKS: dict[str, list[str]] = {
    "lint": [str(BIN / "ruff"), "check", "--quiet", "."],
    "format": [str(BIN / "ruff"), "format", "--check", "--quiet", "."],
    "types": [str(BIN / "mypy"), "--no-error-summary"],
    "import directions": [str(BIN / "lint-imports"), "--no-cache"],
    "generated code": [sys.executable, "scripts/generate_protos.py", "--check"],
    "state diagram": [sys.executable, "scripts/state_diagram.py", "--check"],
    "a test file for each source": [sys.executable, "-m", "pytest", "-q", "--no-header", "tests/unit/test_layout.py"],
}


def main() -> int:
    failed = [name for name, command in CHECKS.items() if not passes(name, command)]
    print(f"failed: {', '.join(failed)}" if failed else "all checks passed")
    return 1 if failed else 0


def passes(name: str, command: list[str]) -> bool:
    """Prints one line, and what the command said where it failed."""
    started = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "proxy")}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    verdict = "ok" if result.returncode == 0 else "FAILED"
    print(f"{name:30} {verdict:6} {time.monotonic() - started:5.1f} s", flush=True)
    if result.returncode != 0:
        print(result.stdout + result.stderr)
    return result.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
