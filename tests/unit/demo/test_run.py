"""The frame of the demonstration: ports, what `--keep` suggests, what the proxy must not inherit.

How the proxy ends: tests/integration/demo/test_run.py.
"""

import sys
from pathlib import Path

import pytest

from greenroom.addresses import Address
from greenroom.cli.main import app
from greenroom.demo import run
from greenroom.demo.public import Sighting
from greenroom.demo.run import Ports, suggestions

PORTS = Ports(*(Address("127.0.0.1", port) for port in (1, 2, 3, 4)))


def test_the_proxys_options_name_each_port() -> None:
    options = dict(zip(PORTS.options[1::2], PORTS.options[2::2], strict=True))
    assert options == {
        "--embedded-etcd-listen": "127.0.0.1:1",
        "--listen": "127.0.0.1:2",
        "--control-listen": "127.0.0.1:3",
        "--http-listen": "127.0.0.1:4",
    }


def executables(folder: Path, *names: str) -> str:
    """A PATH with just these programs."""
    for name in names:
        (folder / name).touch(mode=0o755)
    return str(folder)


def test_what_is_suggested_names_real_ids_ports_and_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", executables(tmp_path, "greenroom", "etcdctl", "curl"))
    lines = suggestions(PORTS, "6177a228983c0b2b", Path("/tmp/greenroom.log"))
    assert lines[0] == "export GREENROOM_CONTROL=127.0.0.1:3"
    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    known |= {group.name for group in app.registered_groups}
    used = {line.split()[1] for line in lines if line.startswith("greenroom ")}
    assert used
    assert used <= known
    assert any("3c0b2b" in line for line in lines)
    assert any("etcdctl" in line for line in lines)
    assert any(line.startswith("curl") for line in lines)


def test_what_is_not_here_is_not_suggested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", executables(tmp_path))
    lines = suggestions(PORTS, "6177a228983c0b2b", Path("/tmp/greenroom.log"))
    assert not any("etcdctl" in line or line.startswith(("curl", "greenroom")) for line in lines)


@pytest.mark.parametrize("started", ["by its path", "as a module"])
def test_commands_are_suggested_as_they_work_here(
    started: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever started .venv/bin/greenroom, as `make demo` does, has no `greenroom` on PATH."""
    monkeypatch.setenv("PATH", "/nowhere")
    (tmp_path / "bin").mkdir()
    executables(tmp_path / "bin", "greenroom")
    monkeypatch.chdir(tmp_path)
    by_path = started == "by its path"
    monkeypatch.setattr(sys, "argv", ["bin/greenroom" if by_path else "/src/greenroom/__main__.py", "demo"])
    program = f"{tmp_path}/bin/greenroom" if by_path else f"{sys.executable} -m greenroom"
    assert f"{program} instances" in suggestions(PORTS, "6177a228983c0b2b", Path("/tmp/greenroom.log"))


def test_a_users_own_settings_do_not_reach_the_demonstrations_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GREENROOM_UPSTREAM", "http://production:2379")
    monkeypatch.setenv("PATH", "/bin")
    environment = run._environment()
    assert environment["PATH"] == "/bin"
    assert not any(name.startswith("GREENROOM_") for name in environment)


class Told:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def tell(self, who: str, what: str) -> None:
        self.lines.append(f"{who}: {what}")


def test_what_the_watcher_saw_is_told() -> None:
    told = Told()
    run._tell(told, Sighting((b"v1/mdc/a",), (), frozenset({7})))  # type: ignore[arg-type]
    run._tell(told, Sighting((), (b"v1/mdc/a", b"v1/mdc/b"), frozenset({8, 9})))  # type: ignore[arg-type]
    assert told.lines == [
        "etcd: 1 card new for everybody, at revision 7:",
        ":   v1/mdc/a",
        "etcd: 2 cards gone for everybody, at revision 8, 9:",
        ":   v1/mdc/a",
        ":   v1/mdc/b",
    ]
