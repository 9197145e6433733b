"""What `check card` refuses before it asks anybody; what it finds is in integration/test_checks.py."""

import pytest

from greenroom.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--expect", "tokenizer"], "--expect 'tokenizer': is no FIELD=VALUE"),
        (["--expect", "weights=x"], "--expect 'weights=x': is none of the fields that are compared: model_info,"),
        (["--expect", "tokenizer=abc"], "--expect 'tokenizer=abc': has less than the 12 digits"),
        (["--control", "192.0.2.1:2390"], "--control '192.0.2.1:2390': is not this machine; --allow-remote"),
        (["--control", "nowhere"], "--control 'nowhere'"),
        (["--timeout", "1"], "--timeout '1'"),
    ],
)
def test_a_wrong_call_is_told(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    assert main(["check", "card", "--instance", "aa", *arguments]) == 2
    output, errors = capsys.readouterr()
    assert (output, errors.count("\n")) == ("", 1)
    assert words in errors


def test_no_proxy_there_says_nothing_of_the_instance(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "card", "--instance", "aa", "--control", "127.0.0.1:1"]) == 75
    assert capsys.readouterr().err.startswith("card inconclusive: no control API answers at 127.0.0.1:1")
