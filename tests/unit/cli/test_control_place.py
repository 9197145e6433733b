"""The files beside --control: on every command, and complete."""

import os

import pytest
import typer

from greenroom.cli.control_place import ControlPlace, files_again, place_of, with_files
from greenroom.cli.main import main
from greenroom.cli.options import Control, control_again
from greenroom.client.place import Place

SECURE = "https://control.fleet:2390"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("GREENROOM_")]:
        monkeypatch.delenv(name)


def test_a_place_is_what_the_options_say_and_the_variables_that_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GREENROOM_TOKEN_FILE", "theirs")
    monkeypatch.setenv("GREENROOM_TOKEN", "secret")
    monkeypatch.setenv("GREENROOM_CONTROL_CA", "an option's too: what the command was given counts")
    files = {"ca": "f", "cert": "c", "key": "k"}
    place = place_of(ControlPlace(SECURE, files), "mine")
    assert place == Place(SECURE, "f", "c", "k", token="secret", token_file="mine")
    assert place_of("a:1") == Place("a:1", token="secret", token_file="theirs")


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
