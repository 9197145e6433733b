"""Where other people's clients are, as scripts/setup_clients.py lays them, and how to run them.

The rule: they run in environments of their own, and nothing of this project or of a proxy of the machine's gets in.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support.parts import missing

CLIENTS = Path(__file__).parents[1] / "clients"
VERSIONS = {"aetcd": "1.0.0", "etcd-client-py": "0.5.1", "npm-etcd3": "1.1.2"}

Command = Callable[[str, Path], Sequence[str]]
"""The command line for an address and the file of a plan."""


def python_client(part: str, script: str) -> Command:
    """A script on a Python client's environment; ends the test when that is not there."""
    python = _home(part) / "bin" / "python"
    if not python.exists():
        missing(part, f"no environment at {_home(part)}; `make test` makes it")
    path = str(CLIENTS / script)
    return lambda address, plan: [str(python), path, address, str(plan)]


def node_client(part: str, script: str, *arguments: str) -> Command:
    """A script for node, with the part's folder for its requirements; ends the test when either is not there."""
    node = shutil.which("node")
    if node is None or not (_home(part) / "node_modules").is_dir():
        missing(part, f"no node, or nothing at {_home(part)}; `make test` makes it")
    path, folder = str(CLIENTS / script), str(_home(part))
    return lambda address, plan: [node, path, address, str(plan), folder, *arguments]


def clean_environment() -> dict[str, str]:
    dropped = {"http_proxy", "https_proxy", "all_proxy", "grpc_proxy", "pythonpath"}
    return {name: value for name, value in os.environ.items() if name.lower() not in dropped}


def _home(part: str) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "greenroom"
    variable = "GREENROOM_" + part.upper().replace("-", "_")
    return Path(os.environ.get(variable) or cache / f"{part}-{VERSIONS[part]}")
