"""Makes the environments of other people's etcd clients that the tests run beside ours, and prints where they are.

The rule: each client lies in the user's cache in a folder of its own, at one version, and is made once. One that cannot
be had leaves the others alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setup_common import SetupError, cache_folder, cached_environment, locked, main_of

AETCD_VERSION = "1.0.0"
ETCD_CLIENT_PY_VERSION = "0.5.1"
NPM_ETCD3_VERSION = "1.1.2"
NPM_SECONDS = 300
# npm's own defaults are retries of up to a minute each; a registry that is away should not cost minutes.
NPM_OPTIONS = ("--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1", "--fetch-timeout=60000")
# What npm prints when it found nobody to talk to. A registry that answers 404 leaves no such code.
NPM_NO_ANSWER = (
    "ECONNREFUSED",
    "ECONNRESET",
    "ETIMEDOUT",
    "ENOTFOUND",
    "EAI_AGAIN",
    "ERR_SOCKET_TIMEOUT",
    "ENETUNREACH",
)


def ensure_aetcd() -> Path:
    """The Python of aetcd's environment; SetupError when it cannot be made."""
    return cached_environment(home("aetcd", AETCD_VERSION), [[f"aetcd=={AETCD_VERSION}"]], "import aetcd; aetcd.Client")


def ensure_etcd_client_py() -> Path:
    """Likewise of etcd-client-py, which is the Rust client that Dynamo uses."""
    installs = [["--only-binary=:all:", f"etcd-client-py=={ETCD_CLIENT_PY_VERSION}"]]
    return cached_environment(
        home("etcd-client-py", ETCD_CLIENT_PY_VERSION), installs, "import etcd_client; etcd_client.Client"
    )


def ensure_npm_etcd3() -> Path:
    """The folder that has npm's etcd3 among its node_modules; SetupError when it cannot be made."""
    folder = home("npm-etcd3", NPM_ETCD3_VERSION)
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise SetupError("node and npm are not installed")
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(folder.name + ".lock")):
        if not works_in_node(folder):
            npm_install(folder, f"etcd3@{NPM_ETCD3_VERSION}")
            if not works_in_node(folder):
                raise SetupError(f"etcd3 in {folder} is not usable")
    return folder


def home(client: str, version: str) -> Path:
    """GREENROOM_AETCD and the like, else a folder of the user's cache."""
    variable = "GREENROOM_" + client.upper().replace("-", "_")
    return Path(os.environ.get(variable) or cache_folder() / f"{client}-{version}")


def works_in_node(folder: Path) -> bool:
    if not (folder / "node_modules" / "etcd3").is_dir():
        return False
    check = ["node", "-e", "new (require('etcd3').Etcd3)({hosts: '127.0.0.1:1'}).close()"]
    return subprocess.run(check, cwd=folder, capture_output=True).returncode == 0


def npm_install(folder: Path, package: str) -> None:
    """Into `folder`'s node_modules; what npm says goes to npm.log there."""
    command = ["npm", "install", *NPM_OPTIONS, "--prefix", str(folder), package]
    try:
        result = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=NPM_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise SetupError(f"cannot install {package}: the package registry does not answer", unreachable=True) from error
    (folder / "npm.log").write_text(result.stdout)
    if result.returncode != 0:
        unreachable = any(code in result.stdout for code in NPM_NO_ANSWER)
        reason = "the package registry does not answer" if unreachable else "npm failed"
        raise SetupError(
            f"cannot install {package}: {reason} (all of it in {folder / 'npm.log'})", unreachable=unreachable
        )


def run() -> None:
    for ensure in (ensure_aetcd, ensure_etcd_client_py, ensure_npm_etcd3):
        print(ensure())


if __name__ == "__main__":
    sys.exit(main_of(run))
