"""Runs the demonstration: `greenroom serve` with an embedded etcd as a process of its own, then the story."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

import grpc

from greenroom.addresses import Address
from greenroom.cli.client import ControlClient
from greenroom.cli.options import console
from greenroom.demo.public import PublicWatcher, Sighting
from greenroom.demo.scenario import MODEL, Stage, play
from greenroom.demo.timeline import Timeline
from greenroom.errors import ControlError, StartError
from greenroom.processes import die_with_parent, free_port

START_SECONDS = 30.0
STOP_SECONDS = 15.0
POLL_SECONDS = 0.05
GATE_OPTIONS = ("--gate", "smoke=900s", "--gate", "latency=600s")
LOG_TAIL_LINES = 5


def _local() -> Address:
    return Address("127.0.0.1", free_port())


@dataclass(frozen=True, slots=True)
class Ports:
    """Where everything listens, chosen free."""

    etcd: Address = field(default_factory=_local)
    store: Address = field(default_factory=_local)
    control: Address = field(default_factory=_local)
    http: Address = field(default_factory=_local)

    @property
    def options(self) -> tuple[str, ...]:
        """For `greenroom serve`."""
        return (
            *("--embedded-etcd", "--embedded-etcd-listen", str(self.etcd), "--listen", str(self.store)),
            *("--control-listen", str(self.control), "--http-listen", str(self.http)),
        )


def run(*, keep: bool) -> int:
    """Plays the story; 0 if everything was seen that should be, else 1. With `keep` it goes on until interrupted.

    StartError where it breaks off.
    """
    timeline = Timeline(console())
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="greenroom-demo-")))
        ports = Ports()
        log_path = folder / "greenroom.log"
        serving = stack.enter_context(_serving(ports, log_path, timeline))
        stack.enter_context(_breaking_off_in_words(serving, log_path))
        client = stack.enter_context(ControlClient(ports.control))
        public = stack.enter_context(PublicWatcher(str(ports.etcd), lambda seen: _tell(timeline, seen)))
        stage = Stage(str(ports.store), client, public, timeline)
        stack.callback(_stop_workers, stage)
        play(stage)
        if keep:
            _keep(stage, ports, log_path)
        timeline.chapter("6. Everything stops")
        _stop_workers(stage)
        _stop(serving, log_path, timeline)
    return 0 if timeline.conclude() else 1


@contextmanager
def _serving(ports: Ports, log_path: Path, timeline: Timeline) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", "greenroom", "serve", *ports.options, *GATE_OPTIONS]
    timeline.tell("you", f"greenroom serve {' '.join((*ports.options[:1], *ports.options[3:], *GATE_OPTIONS))}")
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=_environment(),
            start_new_session=True,
            preexec_fn=die_with_parent(signal.SIGTERM),
        )
    try:
        _wait_ready(process, ports, log_path)
        timeline.tell(
            "greenroom", f"is ready: workers on {ports.store}, etcd on {ports.etcd}, control on {ports.control}"
        )
        yield process
    finally:
        _ended(process)


@contextmanager
def _breaking_off_in_words(serving: "subprocess.Popen[bytes]", log_path: Path) -> Iterator[None]:
    """Whoever's call failed, the reader is told why in one line, and what became of the proxy."""
    try:
        yield
    except (grpc.RpcError, ControlError) as error:
        status = serving.poll()
        ended = "" if status is None else f"; greenroom serve ended with status {status}: {_tail(log_path)}"
        raise StartError(f"the demonstration broke off: {_why(error)}{ended}") from error


def _why(error: grpc.RpcError | ControlError) -> str:
    if isinstance(error, ControlError):
        return str(error)
    return f"{error.code().name}: {' '.join((error.details() or '').split())}"


def _wait_ready(process: "subprocess.Popen[bytes]", ports: Ports, log_path: Path) -> None:
    deadline = monotonic() + START_SECONDS
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while True:
        if process.poll() is not None:
            raise StartError(f"greenroom serve ended with status {process.returncode}: {_tail(log_path)}")
        try:
            with opener.open(f"{ports.http.url}/ready", timeout=START_SECONDS):
                return
        except (urllib.error.URLError, OSError):
            if monotonic() > deadline:
                raise StartError(f"greenroom serve is not ready after {START_SECONDS:g} s: {_tail(log_path)}") from None
        sleep(POLL_SECONDS)


def _tail(log_path: Path) -> str:
    lines = log_path.read_text(errors="replace").strip().splitlines()
    return " / ".join(lines[-LOG_TAIL_LINES:])


def _environment() -> dict[str, str]:
    """What the user has set for a proxy of their own is not meant for this one."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GREENROOM_")}


def _tell(timeline: Timeline, seen: Sighting) -> None:
    for what, keys in (("new", seen.appeared), ("gone", seen.gone)):
        if keys:
            revisions = ", ".join(map(str, sorted(seen.revisions)))
            timeline.tell("etcd", f"{_counted(keys)} {what} for everybody, at revision {revisions}:")
            for key in keys:
                timeline.tell("", f"  {key.decode()}")


def _counted(keys: Sequence[bytes]) -> str:
    return "1 card" if len(keys) == 1 else f"{len(keys)} cards"


def _stop_workers(stage: Stage) -> None:
    while stage.workers:
        stage.workers.pop().stop()


def _ended(process: "subprocess.Popen[bytes]") -> int:
    """Its exit status. One that does not end in time is killed, as its status shows; its etcd ends with it."""
    if process.poll() is None:
        process.terminate()
    try:
        return process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _stop(serving: "subprocess.Popen[bytes]", log_path: Path, timeline: Timeline) -> None:
    status = _ended(serving)
    if status != 0:
        timeline.tell("greenroom", f"ended with status {status}: {_tail(log_path)}")
    timeline.check("the proxy and its etcd stop in good order", status == 0)


def _keep(stage: Stage, ports: Ports, log_path: Path) -> None:
    """Leaves everything running with a held worker to play with."""
    worker = stage.worker("worker 5")
    worker.register()
    stage.timeline.chapter(f"Still running, until Ctrl-C. Worker 5 is held ({MODEL}, instance {worker.instance}). Try:")
    for line in suggestions(ports, worker.instance, log_path):
        stage.timeline.line(f"  {line}")
    wait_for_interrupt()


def suggestions(ports: Ports, instance: str, log_path: Path) -> list[str]:
    """Commands that can be pasted as they are; those of tools that are not here are left out."""
    program, end = _program(), instance[-6:]
    lines = (
        ("export", f"export GREENROOM_CONTROL={ports.control}"),
        ("greenroom", f"{program} instances"),
        ("greenroom", f"{program} instance {end}"),
        ("greenroom", f"{program} verdict {end} smoke passed --reason 'answered 5 of 5'"),
        ("greenroom", f"{program} verdict {end} latency passed"),
        ("etcdctl", f"ETCDCTL_API=3 etcdctl --endpoints {ports.etcd.url} get --prefix --keys-only v1/mdc/"),
        ("greenroom", f"{program} rollout-hold create --reason 'incident 4711' --for 10m"),
        ("curl", f"curl -s {ports.http.url}/metrics"),
        ("tail", f"tail {shlex.quote(str(log_path))}"),
    )
    return [line for tool, line in lines if tool not in ("etcdctl", "curl") or shutil.which(tool)]


def _program() -> str:
    """`greenroom` as the user can run it, who may have started it by its path or as a module."""
    if shutil.which("greenroom"):
        return "greenroom"
    started = Path(sys.argv[0]).absolute()
    if started.name == "greenroom" and os.access(started, os.X_OK):
        return shlex.quote(str(started))
    return shlex.join((sys.executable, "-m", "greenroom"))


def wait_for_interrupt() -> None:
    """Until SIGINT or SIGTERM."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    signal.sigwait((signal.SIGINT, signal.SIGTERM))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
