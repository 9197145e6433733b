"""`greenroom policy` on files: exit codes, and what goes where. The policy in force is shown in tests/integration."""

import json
from pathlib import Path

import pytest

from greenroom.cli.main import main
from greenroom.policy_file import PolicyFileError, parse_policy
from tests.support.policies import policy_file, rule


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(policy_file(rule("all"), rule("tiny", "smoke", "latency", model="tiny*")))
    return path


def test_a_right_file_is_told_with_its_digest(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "lint", str(file)]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        f"{file}: 2 rules, 2 gates, 0 warnings",
        f"digest {parse_policy(file.read_text()).digest}",
    ]
    assert said.err == ""


def test_what_is_odd_is_a_warning_with_its_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(policy_file(rule("all"), "", rule(model="tiny")))
    assert main(["policy", "lint", str(file)]) == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"{file}: 2 rules, 1 gate, 2 warnings\n")
    assert [line.partition("]: ")[0] for line in said.err.splitlines()] == [f"{file}: warning: line 4: rules[1"] * 2


def test_what_is_wrong_is_one_line_and_exit_code_1(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("rules:\n- gates: {}\n")
    assert main(["policy", "lint", str(file)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"{file}: line 2: rules[0].gates: is empty")
    assert main(["policy", "lint", str(file.with_name("none"))]) == 1
    assert "none: cannot be read" in capsys.readouterr().err


def test_every_mistake_has_its_line_in_the_order_of_the_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One at a time, each cost another run."""
    file.write_text(
        "rules:\n- gates: {smoke: {timeout_seconds: -1}}\n  selektor: {}\n"
        "- gates:\n    probe: {timeout_seconds: 1h, phase: continuous}\n  hold: maybe\nextra: 1\n"
    )
    assert main(["policy", "lint", str(file)]) == 1
    places = [line.removeprefix(f"{file}: ").rsplit(": ", 1)[0] for line in capsys.readouterr().err.splitlines()]
    assert [place.split(": ")[:2] for place in places] == [
        ["line 2", "rules[0].gates.smoke.timeout_seconds"],
        ["line 3", "rules[0].selektor"],
        ["line 5", "rules[1].gates.probe"],
        ["line 6", "rules[1].hold"],
        ["line 7", "extra"],
    ]
    with pytest.raises(PolicyFileError, match=r"^line 3: rules\[0\].selektor: .* \(and 4 more\)$"):
        parse_policy(file.read_text())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lint"], "Missing argument 'FILE'"),
        (["explain"], "Missing option '--namespace'"),
        (["show", "--policy", "/absent"], "--policy '/absent': cannot be read"),
        (["explain", "--namespace", "a", "--policy", "/absent"], "--policy '/absent': cannot be read"),
    ],
)
def test_called_wrongly_is_exit_code_2(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_file_is_shown_as_it_is_understood(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = parse_policy(file.read_text())
    assert main(["policy", "show", "--policy", str(file)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"# digest {policy.digest}\n")
    assert parse_policy(printed) == policy
    assert main(["policy", "show", "--policy", str(file), "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["digest"], shown["file"]) == (policy.digest, str(file))
    assert shown["policy"]["rules"][1]["selector"] == {"model": "tiny*"}


def test_a_hypothetical_instance_is_explained(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["policy", "explain", "--policy", str(file), "--namespace", "prod", "--model", "large"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "tiny  no       model 'large' is not 'tiny*'" in printed
    assert main([*command, "-o", "json"]) == 0
    explained = json.loads(capsys.readouterr().out)
    assert [rule["matches"] for rule in explained["rules"]] == [True, False]
    assert {gate: said["from"] for gate, said in explained["gates"].items()} == {"smoke": ["all"]}
