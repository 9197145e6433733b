"""What a run ran on: the machine, the versions, and what else was busy.

The rule: whatever explains why another run's figures differ is written beside the figures.
"""

import os
import platform
import re
import shutil
import subprocess
import time
from pathlib import Path

from greenroom import __version__
from tests.bench.loader import ROOT
from tests.bench.processor import TICKS_PER_SECOND
from tests.support.etcd import etcd_version, find_etcd

RAM_DISK = Path("/dev/shm")
WATCHED_SECONDS = 1.0
BUSY_PERCENT = 2.0


def facts() -> dict[str, str]:
    """By name, in the order of importance; takes a second, in which it looks who is busy."""
    return {
        "machine": f"{os.cpu_count()} x {_processor()}, {_memory_gib()} GiB, Linux {platform.release()}",
        "etcd's data": f"on the RAM disk {RAM_DISK}" if os.access(RAM_DISK, os.W_OK) else "on a disk: no RAM disk here",
        "Greenroom": f"{__version__}, commit {_commit()}",
        "etcd, grpc-proxy": ".".join(map(str, etcd_version(find_etcd()))),
        "haproxy": _first_match(["haproxy", "-v"], r"version (\S+)"),
        "h2load": _first_match(["h2load", "--version"], r"nghttp2/(\S+)"),
        "Python": f"{platform.python_version()}, uvloop {_version('uvloop')}, grpcio {_version('grpcio')}",
        "busy beside it": _busy(),
    }


def _processor() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1].strip() if found else platform.machine()


def _memory_gib() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30))


def _commit() -> str:
    """The checkout's, and whether something in it has been changed."""
    if shutil.which("git") is None:
        return "unknown"
    commit = _output(["git", "rev-parse", "--short", "HEAD"]).strip() or "unknown"
    return commit + (", with changes" if _output(["git", "status", "--porcelain", "proxy", "tests/bench"]) else "")


def _version(package: str) -> str:
    from importlib.metadata import version

    return version(package)


def _first_match(command: list[str], pattern: str) -> str:
    found = re.search(pattern, _output(command))
    return found[1] if found else "unknown"


def _output(command: list[str]) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


def _busy() -> str:
    """Processes that use processor time, in percent of one processor, and the load of the last minute."""
    before = _used_ticks()
    time.sleep(WATCHED_SECONDS)
    used = {key: ticks - before.get(key, ticks) for key, ticks in _used_ticks().items()}
    percents = {name: ticks / TICKS_PER_SECOND / WATCHED_SECONDS * 100 for (_, name), ticks in used.items()}
    busy = [f"{name} {percent:.0f} %" for name, percent in percents.items() if percent >= BUSY_PERCENT]
    return f"{', '.join(busy) or 'nothing'}; load of the last minute {os.getloadavg()[0]:.1f}"


def _used_ticks() -> dict[tuple[str, str], int]:
    """By pid and name; this process and those that end meanwhile are left out."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid_and_name, _, rest = stat.read_text().rpartition(")")
        except OSError:
            continue
        pid, _, name = pid_and_name.partition(" (")
        if int(pid) != os.getpid():
            fields = rest.split()
            found[pid, name] = int(fields[11]) + int(fields[12])
    return found
