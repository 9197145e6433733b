"""Checks and their commands, from options and files; each mistake in words."""

import re
from pathlib import Path

import pytest

from greenroom.gates.commands import load_checks, parse_check
from greenroom.yaml_files import YamlFileError

DOCUMENTED = Path(__file__).parents[3] / "docs" / "built-in-checks.md"


def test_an_option_is_a_name_and_the_words_of_a_command() -> None:
    assert parse_check("smoke=python 'my checks/smoke.py' --x=1") == (
        "smoke",
        ["python", "my checks/smoke.py", "--x=1"],
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("smoke", "is no NAME='COMMAND …'"),
        ("smoke=", "is an empty command"),
        ("smoke=python 'x", "is no command: no closing quotation"),
        ("Smoke=true", "is not a DNS label"),
        ("publish=true", "is reserved"),
    ],
)
def test_an_option_that_is_none_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_check(text)


def loaded(tmp_path: Path, text: str) -> object:
    file = tmp_path / "checks.yaml"
    file.write_text(text)
    return load_checks(file)


def test_a_file_has_lists_and_texts(tmp_path: Path) -> None:
    said = loaded(
        tmp_path, "checks:\n  smoke: [python, 'my smoke.py']\n  latency: greenroom check latency --itl-p50 9\n"
    )
    assert said == {
        "smoke": ("python", "my smoke.py"),
        "latency": ("greenroom", "check", "latency", "--itl-p50", "9"),
    }


def test_the_documented_file_is_one(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(checks:.*?)```", DOCUMENTED.read_text(), re.DOTALL)
    assert loaded(tmp_path, block) == {
        "smoke": ("python", "/checks/smoke.py"),
        "latency": ("greenroom", "check", "latency", "--ttft-p99", "800"),
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "line 1: checks: is not given"),
        ("checks: {}", "line 1: checks: is empty"),
        ("check: {a: b}", "did you mean 'checks'?"),
        ("checks:\n  smoke: []", "line 2: checks.smoke: is an empty command"),
        ("checks:\n  smoke: ''", "line 2: checks.smoke: is an empty command"),
        ("checks:\n  smoke: 7", "line 2: checks.smoke: 7 is no command"),
        ("checks:\n  smoke: [python, 7]", "line 2: checks.smoke[1]: 7 is no command"),
        ("checks:\n  a: b\n  publish: x", "line 3: checks.publish: gate name 'publish' is reserved"),
    ],
)
def test_a_mistake_in_a_file_is_told_by_line_and_field(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(YamlFileError) as refused:
        loaded(tmp_path, text)
    assert words in str(refused.value)
