"""The four ways to the same etcd, each as a user runs it, in a process of its own.

The rule: settings are those that each comes with. What had to be said is here to be read: haproxy has one thread, since
it is asked what a call costs, and connections enough.
"""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from greenroom.pb.etcd import rpc_pb2
from tests.bench.http2 import CallFailed, Connection
from tests.support.etcd import Etcd, find_etcd
from tests.support.greenroom import Greenroom
from tests.support.ports import free_port
from tests.support.process import Process

DIRECT: Final = "direct"
GRPC_PROXY: Final = "grpc-proxy"
HAPROXY: Final = "haproxy"
GREENROOM: Final = "Greenroom"
WAYS: Final = (DIRECT, GRPC_PROXY, HAPROXY, GREENROOM)

PACKAGES: Final = {"haproxy": "haproxy", "h2load": "nghttp2-client"}
"""Programs that must be on PATH, and Debian's packages that bring them."""
HAPROXY_CONFIG = """
global
    nbthread 1
    maxconn 6000
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
listen relay
    bind 127.0.0.1:{port}
    server etcd 127.0.0.1:{upstream}
"""
ETCD_ARGUMENTS = (
    # A member as operators run it, not one in a hurry as the tests want it. The last of two equal flags counts.
    "--heartbeat-interval=100",
    "--election-timeout=1000",
    # Everything that is written stays in memory twice, in the log and in the store, until it is compacted.
    "--snapshot-count=10000",
    f"--quota-backend-bytes={8 << 30}",
)
ONE_GATE = ("--gate", "smoke=900s", "--log-level", "info")
STATUS = "/etcdserverpb.Maintenance/Status"


@dataclass(frozen=True, slots=True)
class Way:
    """Where to connect, and whose processor time it costs; no process of its own: straight to etcd."""

    name: str
    port: int
    pid: int | None = None
    control_port: int | None = None
    """Greenroom's control API."""
    http_url: str = ""
    """Where Greenroom's metrics are."""


class _Listener(Process):
    """A proxy that is ready once a call comes through."""

    port: int

    def ready(self) -> None:
        self.wait_ready(self._answers, "answers")

    def _answers(self) -> bool:
        try:
            with Connection(self.port, STATUS) as connection:
                return bool(connection.call(rpc_pb2.StatusRequest().SerializeToString()))
        except (OSError, CallFailed):
            return False


class GrpcProxy(_Listener):
    """etcd's own, of the same binary as etcd."""

    def __init__(self, etcd: Etcd, folder: Path) -> None:
        self.port = free_port()
        command = [find_etcd(), "grpc-proxy", "start", f"--endpoints={etcd.address}"]
        command += [f"--listen-addr=127.0.0.1:{self.port}", f"--data-dir={folder / 'grpc-proxy'}"]
        super().__init__(GRPC_PROXY, command, folder, {})


class Haproxy(_Listener):
    """In TCP mode: it copies bytes between two sockets."""

    def __init__(self, etcd: Etcd, folder: Path) -> None:
        self.port = free_port()
        config = folder / "haproxy.cfg"
        config.write_text(HAPROXY_CONFIG.format(port=self.port, upstream=etcd.port))
        super().__init__(HAPROXY, [shutil.which("haproxy") or "haproxy", "-db", "-f", str(config)], folder, {})


def check_programs() -> None:
    """Ends the run, naming what is missing and where it is to be had."""
    missing = [name for name in PACKAGES if shutil.which(name) is None]
    if missing:
        packages = " ".join(PACKAGES[name] for name in missing)
        sys.exit(f"bench: not on PATH: {', '.join(missing)}; on Debian: apt-get install {packages}")


@contextmanager
def open_way(name: str, etcd: Etcd, folder: Path) -> Iterator[Way]:
    """Starts what the way needs, gives it when calls come through, and ends it."""
    if name == DIRECT:
        yield Way(name, etcd.port)
    elif name == GREENROOM:
        with Greenroom(etcd.endpoint, folder, arguments=ONE_GATE) as greenroom:
            control = port_of(greenroom.control)
            yield Way(name, port_of(greenroom.address), greenroom.pid, control, greenroom.http_url)
    else:
        with (GrpcProxy if name == GRPC_PROXY else Haproxy)(etcd, folder) as proxy:
            yield Way(name, proxy.port, proxy.pid)


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])
