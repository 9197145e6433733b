"""What a crowd leaves behind, or not: memory, open files, connections and watches, as the processes themselves have it.

The rule: figures of the operating system, of etcd, and of what the proxy tells monitoring; none is computed here.
"""

from dataclasses import dataclass
from pathlib import Path

from tests.support.endpoints import Proxy
from tests.support.etcd_metrics import WATCHERS, metric
from tests.support.http import ask
from tests.support.waiting import wait_for

KIB = 1024
MIB = 1024 * KIB
RETURN_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Kept:
    """What there is of things that end with their clients."""

    connections: int
    etcd_files: int
    proxy_files: int
    watches: int


def kept(proxy: Proxy) -> Kept:
    return Kept(
        connections=proxy_metric(proxy, "greenroom_connections"),
        etcd_files=open_files(proxy.etcd.pid),
        proxy_files=open_files(proxy.greenroom.pid),
        watches=metric(proxy.etcd, WATCHERS),
    )


def wait_kept(proxy: Proxy, wanted: Kept) -> None:
    """Until no more is there than `wanted`; AssertionError with what there is instead."""
    wait_for(lambda: _is_within(kept(proxy), wanted), RETURN_SECONDS, f"{wanted} is left, not {kept(proxy)}")


def resident_bytes(proxy: Proxy) -> int:
    """Memory of the proxy's process."""
    for line in Path(f"/proc/{proxy.greenroom.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * KIB
    raise AssertionError("the proxy is gone")


def proxy_metric(proxy: Proxy, name: str) -> int:
    """One figure without labels of what the proxy tells monitoring."""
    for line in ask(f"{proxy.greenroom.http_url}/metrics").body.decode().splitlines():
        if line.startswith(f"{name} "):
            return int(float(line.split()[1]))
    raise AssertionError(f"no metric {name}")


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _is_within(now: Kept, wanted: Kept) -> bool:
    return (
        now.connections <= wanted.connections
        and now.etcd_files <= wanted.etcd_files + _SPARE_FILES
        and now.proxy_files <= wanted.proxy_files + _SPARE_FILES
        and now.watches <= wanted.watches
    )


_SPARE_FILES = 3
"""Of etcd's own (its log rolls over, a segment is made in advance) and of whoever just asks for metrics."""
