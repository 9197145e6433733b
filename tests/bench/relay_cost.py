"""What one relayed call costs: the relay's CPU time a Range, beside haproxy in TCP mode, in one interleaved run.

    .venv/bin/python -m tests.bench.relay_cost [calls] [rounds]

Needs `h2load` and `haproxy` on PATH. Prints one line for each number of connections and relay: the median of the
rounds, in microseconds of user and system time a call. It measures, it judges nothing.
"""

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uvloop

from greenroom.pb.etcd import rpc_pb2
from greenroom.relay.calls import FORWARD_AS_IS, Answer, Decision, HandedOverCall, Kind, SilentObserver
from greenroom.relay.messages import frame_message
from greenroom.relay.server import RelayServer
from tests.support.etcd import Etcd
from tests.support.ports import free_port
from tests.support.waiting import wait_for

HAPROXY_CONFIG = """
global
    nbthread 1
defaults
    mode tcp
    timeout connect 5s
    timeout client 60s
    timeout server 60s
listen relay
    bind 127.0.0.1:{port}
    server etcd 127.0.0.1:{upstream}
"""
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
CONNECTIONS = (1, 16)
TOOLS = {"h2load": "nghttp2-client", "haproxy": "haproxy"}


class InspectsAll:
    """Looks at each message, and lets it pass."""

    def kind(self, path: bytes) -> Kind:
        return Kind.UNARY

    def inspect(self, path: bytes, message: bytes) -> Decision:
        return FORWARD_AS_IS


async def never(call: HandedOverCall) -> Answer:
    raise AssertionError(call)


async def serve(port: int, upstream: int) -> None:
    relay = RelayServer(
        inspector=InspectsAll(),
        handler=never,
        observer=SilentObserver(),
        upstreams=[("127.0.0.1", upstream)],
        host="127.0.0.1",
        port=port,
    )
    await relay.start()
    await asyncio.Event().wait()


@contextmanager
def running(command: list[str]) -> Iterator[int]:
    child = subprocess.Popen(command)
    try:
        yield child.pid
    finally:
        child.kill()
        child.wait()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def load(port: int, connections: int, calls: int, body: Path) -> str:
    """Run `calls` Ranges, one at a time on each connection."""
    command = ["h2load", "-n", str(calls), "-c", str(connections), "-m", "1", "-d", str(body)]
    command += ["-H", "content-type: application/grpc", "-H", "te: trailers"]
    done = subprocess.run(
        [*command, f"http://127.0.0.1:{port}/etcdserverpb.KV/Range"], capture_output=True, text=True, check=True
    )
    assert f"{calls} succeeded" in done.stdout, done.stdout
    return done.stdout


def listens(port: int, body: Path) -> bool:
    try:
        load(port, 1, 1, body)
    except (AssertionError, subprocess.CalledProcessError):
        return False
    return True


def measure(relays: dict[str, tuple[int, int]], calls: int, rounds: int, body: Path) -> None:
    for connections in CONNECTIONS:
        costs: dict[str, list[float]] = {name: [] for name in relays}
        for _ in range(rounds):
            for name, (port, pid) in relays.items():
                before = cpu_seconds(pid)
                load(port, connections, calls, body)
                costs[name].append((cpu_seconds(pid) - before) / calls * 1e6)
        for name, found in costs.items():
            print(f"{connections:3} connections  {name:8} {statistics.median(found):6.1f} us CPU a call  {found}")


def main(calls: int = 20_000, rounds: int = 3) -> None:
    for tool, package in TOOLS.items():
        if shutil.which(tool) is None:
            raise SystemExit(f"relay_cost was not run: {tool} is not on PATH (Debian's package {package})")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        etcd = stack.enter_context(Etcd.launch())
        body = folder / "body"
        body.write_bytes(frame_message(rpc_pb2.RangeRequest(key=b"v1/instances/a").SerializeToString()))
        ours, theirs = free_port(), free_port()
        config = folder / "haproxy.cfg"
        config.write_text(HAPROXY_CONFIG.format(port=theirs, upstream=etcd.port))
        relay = stack.enter_context(running([sys.executable, "-m", __spec__.name, "serve", str(ours), str(etcd.port)]))
        haproxy = stack.enter_context(running(["haproxy", "-db", "-f", str(config)]))
        for port in (ours, theirs):
            wait_for(lambda port=port: listens(port, body), 15, f"a relay on {port}")
        measure({"relay": (ours, relay), "haproxy": (theirs, haproxy)}, calls, rounds, body)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        uvloop.run(serve(int(sys.argv[2]), int(sys.argv[3])))
    else:
        main(*map(int, sys.argv[1:]))
