"""What a user sees when something goes wrong: one line, and the right exit code."""

import errno
import io
from collections.abc import Callable, Iterator
from inspect import signature

import pytest
import typer

from greenroom import __version__
from greenroom.cli import main as main_module
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
        (["rollout-hold", "create", "--reason", "\udcff"], FAILED, "no control API answers"),
        (["rollout-hold", "create", "--reason", "r", "--for", "99999999999d"], CALLED_WRONGLY, "is longer than 366d"),
        (
            ["rollout-hold", "create", "--reason", "r", "--selector", "model=\udcff"],
            CALLED_WRONGLY,
            "is not UTF-8 text",
        ),
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
            ["wait", "x", "--timeout", "50ms"],
            124,
            "id 'x' did not appear within 0.05s: no control API answers at 127.0.0.1:1",
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


class Terminal(io.TextIOWrapper):
    """A standard output in ASCII, whose bytes can be looked at."""

    def __init__(self) -> None:
        self.written = io.BytesIO()
        super().__init__(self.written, encoding="ascii")


def test_letters_that_the_terminal_lacks_are_told_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model's name, or the dots of a reason that was cut, ended every command with a traceback there."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setattr(main_module, "app", lambda **_: print("模型…"))
    assert main(["instances"]) == 0
    assert terminal.written.getvalue() == b"\\u6a21\\u578b\\u2026\n"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), ""),
        (OSError(errno.ENOSPC, "No space left on device"), "greenroom: standard output: No space left on device\n"),
    ],
)
def test_an_output_that_takes_no_more_is_no_traceback_also_at_the_very_end(
    error: OSError, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What fits into the buffer is written when all is done."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)

    def full() -> None:
        raise error

    let_go: list[bool] = []
    monkeypatch.setattr(main_module, "let_go_of_stdout", lambda: let_go.append(True))
    monkeypatch.setattr(main_module, "app", lambda **_: monkeypatch.setattr(terminal, "flush", full))
    assert main(["instances"]) == FAILED
    monkeypatch.undo()
    assert let_go == [True]
    assert capsys.readouterr().err == said


def test_a_failure_of_anything_else_is_not_taken_for_that_of_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(**_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/data/etcd")

    monkeypatch.setattr(main_module, "app", fails)
    with pytest.raises(OSError, match="/data/etcd"):
        main(["serve"])


def commands_of(app: typer.Typer) -> Iterator[Callable[..., object]]:
    yield from (command.callback for command in app.registered_commands if command.callback is not None)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            yield from commands_of(group.typer_instance)


def test_every_command_that_asks_a_proxy_takes_a_token() -> None:
    asking = [command for command in commands_of(main_module.app) if "control" in signature(command).parameters]
    assert len(asking) >= 7
    without = [command.__name__ for command in asking if "token_file" not in signature(command).parameters]
    assert without == [], "give them `token_file: TokenFile = None`, for connect()"
