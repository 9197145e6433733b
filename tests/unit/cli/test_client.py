"""What commands call things: as their options and variables are called."""

import pytest

from greenroom.cli.client import OPTIONS, ControlClient
from greenroom.cli.main import main


def test_the_options_that_errors_name_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["instances", "--help"]) == 0
    shown = capsys.readouterr().out
    named = (OPTIONS.control, OPTIONS.ca, OPTIONS.cert, OPTIONS.key, OPTIONS.token_file, OPTIONS.token)
    assert [name for name in named if name not in shown] == []


def test_errors_of_commands_speak_of_commands() -> None:
    assert ControlClient.naming is OPTIONS
    assert "`greenroom instances`" in (OPTIONS.what_to_do("UNKNOWN_INSTANCE") or "")
