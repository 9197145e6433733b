"""How long a start takes with a fleet held already: until the workers' port is open, and until /ready says so.

    .venv/bin/python -m tests.bench.start [instances] [rounds]

Prints one line a round: seconds from the start of the process, and the processor time that it had used by then. It
measures, it judges nothing.
"""

import socket
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.bench.processor import cpu_seconds, memory_kib
from tests.support.etcd import Etcd
from tests.support.fleet import hold_fleet
from tests.support.greenroom import GATES, Greenroom

INSTANCES, ROUNDS = 2000, 3
WAIT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Start:
    """One start. Seconds are counted from the making of the process."""

    instances: int
    open_seconds: float
    ready_seconds: float
    cpu_seconds: float
    memory_kib: int

    def __str__(self) -> str:
        return (
            f"{self.instances} held: port open after {self.open_seconds:.2f} s, ready after "
            f"{self.ready_seconds:.2f} s, processor time {self.cpu_seconds:.2f} s, memory {self.memory_kib >> 10} MiB"
        )


def measure(instances: int = INSTANCES, rounds: int = ROUNDS) -> list[Start]:
    """Starts a proxy before an etcd with so many held instances, again and again."""
    with Etcd.launch() as etcd, etcd.client() as client, tempfile.TemporaryDirectory() as folder:
        hold_fleet(client, instances, gates=GATES)
        return [started(etcd, Path(folder), instances) for _ in range(rounds)]


def started(etcd: Etcd, folder: Path, instances: int) -> Start:
    """One start before so many held instances, and an end."""
    proxy = Greenroom(etcd.endpoint, folder)
    start = time.monotonic()
    try:
        proxy.spawn()
        proxy.wait_ready(lambda: _is_open(proxy.address), "opens the workers' port", timeout_seconds=WAIT_SECONDS)
        opened = time.monotonic() - start
        proxy.wait_ready(proxy.is_ready, "says it is ready", timeout_seconds=WAIT_SECONDS)
        ready = time.monotonic() - start
        return Start(instances, opened, ready, cpu_seconds(proxy.pid), memory_kib(proxy.pid))
    finally:
        proxy.kill()


def _is_open(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def main() -> None:
    for start in measure(*map(int, sys.argv[1:3])):
        print(start, flush=True)


if __name__ == "__main__":
    main()
