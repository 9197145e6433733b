"""What `greenroom check serve` refuses to start with. Serving: tests/integration/test_check_serve.py."""

import pytest

from greenroom.cli.main import main

GOOD = ("--check", "smoke=true")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "no check is given: --check NAME='COMMAND …', or --checks FILE"),
        (("--check", "smoke"), "--check 'smoke': is no NAME='COMMAND …'"),
        ((*GOOD, "--check", "smoke=false"), "--check 'smoke=false': there is a check 'smoke' already"),
        (("--checks", "/no/such/file"), "--checks '/no/such/file': cannot be read"),
        ((*GOOD, "--listen", "0.0.0.0:9100"), "--listen '0.0.0.0:9100': is not this machine only; --allow-remote"),
        ((*GOOD, "--listen", "here"), "--listen 'here': is no host:port"),
        ((*GOOD, "--concurrency", "0"), "--concurrency"),
        ((*GOOD, "--timeout", "9"), "--timeout '9'"),
    ],
)
def test_a_wrong_call_is_told(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str) -> None:
    assert main(["check", "serve", *arguments]) == 2
    output, errors = capsys.readouterr()
    assert (output, errors.count("\n")) == ("", 1)
    assert words in errors
