"""What a user sees when something goes wrong: one line, and the right exit code."""

import pytest

from greenroom import __version__
from greenroom.cli.main import CALLED_WRONGLY, FAILED, main


@pytest.fixture(autouse=True)
def _nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GREENROOM_CONTROL", "127.0.0.1:1")


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"greenroom {__version__}\n"


def test_help_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--help"]) == 0
    captured = capsys.readouterr()
    assert "(default: 127.0.0.1:2389)" in " ".join(captured.out.replace("│", " ").split())
    assert captured.err == ""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["bogus"], CALLED_WRONGLY, "No such command 'bogus'."),
        (["instances", "--bogus"], CALLED_WRONGLY, "No such option: --bogus"),
        (["instances", "-o", "xml"], CALLED_WRONGLY, "xml"),
        (["rollout-hold", "create"], CALLED_WRONGLY, "Missing option '--reason'."),
        (["verdict", "a", "smoke", "failed"], CALLED_WRONGLY, "--reason is not given"),
        (["instances", "--control", "x"], CALLED_WRONGLY, "--control 'x': is no host:port"),
        (["serve", "--listen", "x", "--gate", "a=1s"], CALLED_WRONGLY, "--listen 'x': is no host:port"),
        (["instance", ""], CALLED_WRONGLY, "ID '': is empty"),
        (["wait", "0x"], CALLED_WRONGLY, "ID '0x': is empty"),
        (["wait", "--model", ""], CALLED_WRONGLY, "--model '': is empty"),
        (["verdict", "", "smoke", "pass"], CALLED_WRONGLY, "ID '': is empty"),
        (["verdict", "smoke", "pass", "--address", ""], CALLED_WRONGLY, "--address '': is empty"),
        (["rollout-hold", "lift", ""], CALLED_WRONGLY, "ID '': is empty"),
        (["instances"], FAILED, "no control API answers at 127.0.0.1:1"),
        (
            ["wait", "x", "--timeout", "1s"],
            124,
            "id 'x' did not appear within 1s: no control API answers at 127.0.0.1:1",
        ),
    ],
)
def test_an_error_is_one_line(arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("greenroom: ")
    assert said in line


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == CALLED_WRONGLY
    captured = capsys.readouterr()
    assert "rollout-hold" in captured.out + captured.err
    assert "greenroom: " not in captured.err
