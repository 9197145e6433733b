"""What the set-up scripts share: errors of one line, pip, and environments kept in the user's cache.

The rule: standard library only, since it runs before anything is installed; and no registry is named here, so that
whatever pip is configured to use is used.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
# pip's own defaults are 5 retries of 15 s; a registry that is away should not cost minutes a package.
PIP_OPTIONS = ("--quiet", "--disable-pip-version-check", "--no-input", "--retries", "2")
# What pip prints when its last retry found nobody to talk to. A registry that answers 404 leaves no such line.
NO_ANSWER = ("Retry(total=0", "Read timed out", "IncompleteRead")
# As shells have it for SIGINT.
INTERRUPTED = 130


class SetupError(Exception):
    """One line for the user. `unreachable`: the package registry did not answer, so it is nobody's fault here."""

    def __init__(self, message: str, *, unreachable: bool = False) -> None:
        super().__init__(message)
        self.unreachable = unreachable


def main_of(run: Callable[[], None]) -> int:
    """The outermost frame of each set-up script: a failure is one line and exit code 1, Ctrl-C one line and 130."""
    try:
        run()
    except SetupError as error:
        print(f"set-up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("set-up: interrupted; the next run begins where this one ended", file=sys.stderr)
        return INTERRUPTED
    return 0


def pip_install(python: Path, arguments: list[str], log: Path) -> None:
    """Installs into `python`'s environment from ROOT; what pip says goes to `log`. SetupError with pip's last error."""
    command = [str(python), "-m", "pip", "install", *PIP_OPTIONS, *arguments]
    result = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    with log.open("a") as file:
        file.write(f"$ {' '.join(command)}\n{result.stdout}\n")
    if result.returncode != 0:
        raise pip_error(result.stdout, arguments, log)


def pip_error(output: str, arguments: list[str], log: Path) -> SetupError:
    errors = [line for line in output.splitlines() if line.upper().startswith("ERROR:")]
    unreachable = any(phrase in output for phrase in NO_ANSWER)
    reason = "the package registry does not answer" if unreachable else (errors or ["pip failed"])[-1]
    return SetupError(f"cannot install {' '.join(arguments)}: {reason} (all of it in {log})", unreachable=unreachable)


def cache_folder() -> Path:
    """Where environments live that are too large, or too different, for the project's own."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "greenroom"


def cached_environment(home: Path, installs: list[list[str]], check: str) -> Path:
    """The Python of an environment at `home`, made of one pip call for each of `installs` unless it is there already.

    `check` is a line of Python that only works in a complete environment. One that somebody made by hand is accepted
    when the check passes. Two runs at once: the second waits for the first.
    """
    python, stamp = home / "bin" / "python", home / "greenroom-complete"
    wanted = repr(installs)
    home.mkdir(parents=True, exist_ok=True)
    with locked(home.with_name(home.name + ".lock")):
        if stamp.is_file() and stamp.read_text() == wanted and python.exists():
            return python
        if not passes(python, check):
            build_environment(home, installs)
            if not passes(python, check):
                raise SetupError(f"the environment at {home} is not usable: `{check}` fails")
        stamp.write_text(wanted)
    return python


def build_environment(home: Path, installs: list[list[str]]) -> None:
    create_environment(home)
    for arguments in installs:
        pip_install(home / "bin" / "python", arguments, home / "pip.log")


def create_environment(home: Path) -> None:
    """An empty environment; whatever lies at `home` is removed."""
    shutil.rmtree(home, ignore_errors=True)
    # The interpreter behind an environment, not the environment: it must outlive the project's own.
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    python = str(base) if base.exists() else sys.executable
    result = subprocess.run([python, "-m", "venv", str(home)], capture_output=True, text=True)
    if result.returncode != 0:
        said = (result.stdout + result.stderr).strip().splitlines() or ["no reason given"]
        raise SetupError(f"cannot make an environment at {home}: {said[0]}")


def passes(python: Path, check: str) -> bool:
    if not python.exists():
        return False
    return subprocess.run([str(python), "-c", check], capture_output=True, cwd="/").returncode == 0


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds a lock that ends with this process at the latest."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
