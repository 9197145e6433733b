"""The frame of the demonstration: ports, what `--keep` suggests, what the proxy must not inherit."""

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


def test_what_is_suggested_names_real_ids_ports_and_commands() -> None:
    lines = suggestions(PORTS, "6177a228983c0b2b", Path("/tmp/greenroom.log"))
    assert lines[0] == "export GREENROOM_CONTROL=127.0.0.1:3"
    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    known |= {group.name for group in app.registered_groups}
    used = {line.split()[1] for line in lines if line.startswith("greenroom ")}
    assert used
    assert used <= known
    assert any("3c0b2b" in line for line in lines)


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
