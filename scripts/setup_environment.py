"""Makes .venv with the project and its development tools in it.

The rule: nothing is done while pyproject.toml and the interpreter are those of the last complete set-up.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys

from setup_common import ENVIRONMENT, ROOT, create_environment, locked, main_of, passes, pip_install

STAMP = ENVIRONMENT / "greenroom-complete"
LOG = ENVIRONMENT / "pip.log"
RIGHT_VERSION = "import sys; assert sys.version_info >= (3, 11)"


def main() -> None:
    with locked(ROOT / ".venv.lock"):
        if STAMP.is_file() and STAMP.read_text() == wanted():
            return
        install()
        STAMP.write_text(wanted())


def wanted() -> str:
    """What the environment is made from; a stamp that differs means that it must be made again."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        return ""
    version = subprocess.run([str(python), "--version"], capture_output=True, text=True).stdout.strip()
    return f"{version} {hashlib.sha256((ROOT / 'pyproject.toml').read_bytes()).hexdigest()}\n"


def install() -> None:
    python = ENVIRONMENT / "bin" / "python"
    print("set-up: installing the project and its tools into .venv (a minute or two, once)", flush=True)
    if not passes(python, RIGHT_VERSION):
        create_environment(ENVIRONMENT)
    # Dependency groups need pip 25.1; what an interpreter brings along is often older.
    pip_install(python, ["--upgrade", "pip>=25.1"], LOG)
    pip_install(python, ["--editable", ".", "--group", "dev"], LOG)


if __name__ == "__main__":
    sys.exit(main_of(main))
