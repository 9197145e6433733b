"""What the checks' options must be, and how a check ends the command."""

import io
import os
import sys

import pytest
import typer

from greenroom.cli.check_options import asker_of, concluded, must_be_given, parts_of
from greenroom.errors import CheckFailed, CheckInconclusive, SettingsError
from greenroom.gates.checks.chats import Part
from greenroom.gates.environment import Variable


def test_parts_are_taken_in_their_order_and_once() -> None:
    assert parts_of("tool-calls, content,content") == [Part.TOOL_CALLS, Part.CONTENT]


@pytest.mark.parametrize("text", ["", "content,", "tools", "content;reasoning"])
def test_what_is_no_part_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="is none of content, reasoning, tool-calls"):
        parts_of(text)


def test_what_is_given_nowhere_is_missed_by_both_names() -> None:
    with pytest.raises(SettingsError, match="--model is not given, and DYN_VALIDATION_MODEL is not set"):
        must_be_given("--model", " ", Variable.MODEL)
    with pytest.raises(SettingsError, match=r"OPENAI_BASE_URL is not set \(`greenroom gates run --frontend` sets it"):
        asker_of("", 1, allow_remote=False)


def test_a_url_of_another_machine_is_refused_by_value() -> None:
    with pytest.raises(SettingsError, match=r"--base-url 'http://10\.0\.0\.1/v1': is not this machine"):
        asker_of("http://10.0.0.1/v1", 1, allow_remote=False)
    assert asker_of("http://10.0.0.1/v1", 1, allow_remote=True).silence_seconds == 0.9


def test_a_pass_is_said_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        concluded("smoke", lambda: "fine \x1b[2J", 20)
    assert ended.value.exit_code == 0
    assert capsys.readouterr() == ("smoke passed: fine \ufffd[2J\n", "")


def test_what_passed_has_passed_though_nobody_reads_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A runner hands its own standard error on to its checks, and what collects its log may have ended."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as broken:
        monkeypatch.setattr(sys, "stdout", broken)
        with pytest.raises(typer.Exit) as ended:
            concluded("smoke", lambda: "fine", 20)
        sys.stdout.flush()
    assert ended.value.exit_code == 0


def test_what_is_inconclusive_is_no_failure_though_nobody_reads_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)

    def torn() -> str:
        raise CheckInconclusive("torn")

    with io.TextIOWrapper(os.fdopen(writing, "wb", 0), write_through=True) as broken:
        monkeypatch.setattr(sys, "stderr", broken)
        with pytest.raises(typer.Exit) as ended:
            concluded("smoke", torn, 20)
    assert ended.value.exit_code == 75


@pytest.mark.parametrize(
    ("error", "code", "outcome"), [(CheckFailed("bad"), 1, "failed"), (CheckInconclusive("torn"), 75, "inconclusive")]
)
def test_anything_else_is_one_line_on_standard_error(
    capsys: pytest.CaptureFixture[str], error: Exception, code: int, outcome: str
) -> None:
    def check() -> str:
        raise error

    with pytest.raises(typer.Exit) as ended:
        concluded("smoke", check, 20)
    assert ended.value.exit_code == code
    assert capsys.readouterr() == ("", f"smoke {outcome}: {error}\n")
