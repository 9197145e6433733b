"""The files beside --control: on every command, and complete."""

import os
from pathlib import Path

import grpc
import pytest
import typer

from greenroom.addresses import Address
from greenroom.cli.control_place import ControlPlace, address_of, credentials_for, files_again, with_files
from greenroom.cli.main import main
from greenroom.cli.options import Control, control_again
from greenroom.errors import SettingsError
from tests.support.certificates import Authority, Issued

SECURE = "https://control.fleet:2390"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("GREENROOM_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def issued(tmp_path: Path) -> Issued:
    return Authority(tmp_path).issue()


def test_an_address_may_be_a_url() -> None:
    assert address_of("a:1") == address_of("http://a:1") == Address("a", 1)
    assert address_of(SECURE) == Address("control.fleet", 2390, is_secure=True)
    with pytest.raises(SettingsError, match="--control 'ftp://a:1': must begin with"):
        address_of("ftp://a:1")


@pytest.mark.parametrize(
    ("control", "files", "said"),
    [
        ("a:1", {"ca": "f"}, "--control 'a:1': is not https://, and --control-ca 'f' is given"),
        (SECURE, {}, f"--control '{SECURE}': needs --control-ca"),
        (
            SECURE,
            {"ca": "f", "cert": "c"},
            "--control-ca 'f', --control-cert 'c': --control-cert and --control-key are",
        ),
        (SECURE, {"ca": "/absent"}, "--control-ca '/absent': cannot be read"),
    ],
)
def test_files_that_do_not_fit_are_told(control: str, files: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError) as raised:
        credentials_for(ControlPlace(control, files), address_of(control))
    assert str(raised.value).startswith(said)


def test_credentials_are_of_the_files(issued: Issued) -> None:
    assert credentials_for("a:1", address_of("a:1")) is None
    files = {"ca": str(issued.ca), "cert": str(issued.cert), "key": str(issued.key)}
    made = credentials_for(ControlPlace(SECURE, files), address_of(SECURE))
    assert isinstance(made, grpc.ChannelCredentials)


def test_a_printed_command_names_the_files_again(monkeypatch: pytest.MonkeyPatch) -> None:
    place = ControlPlace(SECURE, {"ca": "my ca", "key": "k"})
    assert control_again(place) == f" --control {SECURE} --control-ca 'my ca' --control-key k"
    monkeypatch.setenv("GREENROOM_CONTROL_CA", "my ca")
    assert files_again(place) == " --control-key k"
    assert files_again(SECURE) == ""


def test_every_command_that_asks_the_proxy_has_the_options() -> None:
    """By option and by variable, in groups too; others have not."""
    app, group, seen = typer.Typer(), typer.Typer(), []

    @app.command()
    def plain() -> None:
        seen.append("plain")

    @group.command("deep")
    def deep(name: str, control: Control = "a:1") -> None:
        """What it does."""
        assert isinstance(control, ControlPlace)
        seen.append((name, str(control), control.files))

    app.add_typer(group, name="group")
    with_files(app)
    app(["group", "deep", "x", "--control-ca", "f", "--control", "b:2"], standalone_mode=False)
    app(["plain"], standalone_mode=False)
    assert seen == [("x", "b:2", {"ca": "f"}), "plain"]


@pytest.mark.parametrize(
    "command",
    [["instances"], ["instance", "a"], ["verdict", "a", "g", "passed"], ["wait", "a"], ["rollout-hold", "list"]],
)
def test_the_programs_own_commands_have_them(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--control", "a:1", "--control-ca", "f"]) == 2
    assert "--control-ca 'f' is given" in capsys.readouterr().err
