"""Which gates a runner runs: both ways to say it, and of each mistake one line that names gate and field."""

import json
from pathlib import Path
from typing import Any

import pytest

from greenroom.core.policy import Hold
from greenroom.errors import SettingsError
from greenroom.gates.gate_config import WantedHold, gates_of, hold_of

GOOD: dict[str, Any] = {
    "smoke": {"exec": ["python", "/checks/smoke.py"], "timeout_secs": 900},
    "latency": {"url": "http://127.0.0.1:9100/validate", "timeout_secs": 600},
}


def test_the_variable_is_taken_as_it_is() -> None:
    gates = gates_of(None, json.dumps(GOOD))
    assert gates["smoke"].exec == ("python", "/checks/smoke.py")
    assert (gates["latency"].url, gates["latency"].timeout_secs) == ("http://127.0.0.1:9100/validate", 600)


def test_a_file_says_the_same_in_yaml(tmp_path: Path) -> None:
    file = tmp_path / "gates.yaml"
    file.write_text(
        "gates:\n"
        "  smoke: {exec: [python, /checks/smoke.py], timeout_secs: 900}\n"
        "  latency: {url: 'http://127.0.0.1:9100/validate', timeout_secs: 600}\n"
    )
    assert gates_of(file, "") == gates_of(None, json.dumps(GOOD))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is no JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("[" * 100_000, "is nested too deep"),
        ("{}", "names no gate"),
        ("[]", "a list is no mapping of gates' names"),
        ('{"a": 1}', "gate 'a': 1 is no mapping with exec or url, and timeout_secs"),
        ('{"a": {"timeout_secs": 1}, "a": {}}', "is no JSON: 'a' stands there twice"),
    ],
)
def test_what_is_no_mapping_of_gates_is_refused(text: str, words: str) -> None:
    with pytest.raises(SettingsError) as refused:
        gates_of(None, text)
    assert str(refused.value) == f"DYN_WORKER_VALIDATION_GATES: {words}"


TIMEOUT = "a number of seconds, more than 0 and at most 30d"
URL = "http://127.0.0.1/x"


@pytest.mark.parametrize(
    ("name", "gate", "words"),
    [
        ("Smoke", {"exec": ["a"], "timeout_secs": 1}, "gate name 'Smoke' is not a DNS label"),
        ("publish", {"exec": ["a"], "timeout_secs": 1}, "gate name 'publish' is reserved"),
        ("a", {"exec": ["a"], "url": URL, "timeout_secs": 1}, "exec, url: both are given; a gate has one of them"),
        ("a", {"timeout_secs": 1}, "exec, url: neither is given; a gate has one of them"),
        ("a", {"exec": [], "timeout_secs": 1}, "exec: is an empty command"),
        ("a", {"exec": [""], "timeout_secs": 1}, "exec: is an empty command"),
        ("a", {"exec": ["a\0"], "timeout_secs": 1}, "exec: has a character that no command can have (NUL)"),
        ("a", {"exec": ["a\ud800"], "timeout_secs": 1}, "exec: has half a character (a lone surrogate)"),
        ("a", {"exec": "a b", "timeout_secs": 1}, "exec: 'a b' is not a list of words, as"),
        ("a", {"exec": ["a", 1], "timeout_secs": 1}, "exec: 1 is not a list of words, as"),
        ("a", {"exec": ["a"]}, f"timeout_secs: is missing: {TIMEOUT}"),
        ("a", {"exec": ["a"], "timeout_secs": 0}, f"timeout_secs: 0 is not {TIMEOUT}"),
        ("a", {"exec": ["a"], "timeout_secs": -1}, f"timeout_secs: -1 is not {TIMEOUT}"),
        ("a", {"exec": ["a"], "timeout_secs": "9"}, f"timeout_secs: '9' is not {TIMEOUT}"),
        ("a", {"exec": ["a"], "timeout_secs": True}, f"timeout_secs: True is not {TIMEOUT}"),
        ("a", {"exec": ["a"], "timeout_secs": 1e9}, f"timeout_secs: 1000000000.0 is not {TIMEOUT}"),
        (
            "a",
            {"exec": ["a"], "timeout": 1},
            "timeout: is not a field that is known here (they are: exec, url, timeout_s",
        ),
        ("a", {"url": "http://10.0.0.7/x", "timeout_secs": 1}, "url: 'http://10.0.0.7/x' is not this machine"),
        ("a", {"url": "https://127.0.0.1/x", "timeout_secs": 1}, "url: 'https://127.0.0.1/x' is not http://"),
        ("a", {"url": "ftp://127.0.0.1/x", "timeout_secs": 1}, "url: 'ftp://127.0.0.1/x' must begin with http://"),
    ],
)
def test_each_mistake_names_gate_and_field(tmp_path: Path, name: str, gate: dict[str, Any], words: str) -> None:
    """In the variable, and in a file with its line."""
    with pytest.raises(SettingsError) as refused:
        gates_of(None, json.dumps({name: gate}))
    assert str(refused.value).startswith(f"DYN_WORKER_VALIDATION_GATES: gate '{name}': {words}")
    file = tmp_path / "gates.yaml"
    file.write_text(json.dumps({"gates": {name: gate}}))
    with pytest.raises(SettingsError) as refused:
        gates_of(file, "")
    line = "" if "url: '" in words else "line 1: "
    assert str(refused.value).startswith(f"--config '{file}': {line}gate '{name}': {words}")


def test_a_file_must_say_gates(tmp_path: Path) -> None:
    file = tmp_path / "gates.yaml"
    for text, words in (
        ("", "is empty"),
        ("gate: {}", "line 1: gate: is not a field that is known here (they are: gates); did you mean 'gates'?"),
        ("gates: 7", "line 1: 7 is no mapping of gates' names"),
    ):
        file.write_text(text)
        with pytest.raises(SettingsError) as refused:
            gates_of(file, "")
        assert str(refused.value).startswith(f"--config '{file}': {words}")


def test_gates_are_said_in_one_place(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="says what to run too; give one of the two"):
        gates_of(tmp_path / "x", "{}")
    with pytest.raises(SettingsError, match="no gate is given: --config FILE, or DYN_WORKER_VALIDATION_GATES"):
        gates_of(None, "")


def test_a_flag_lets_urls_be_elsewhere() -> None:
    gates = json.dumps({"a": {"url": "https://checks.example/x", "timeout_secs": 1}})
    assert gates_of(None, gates, allow_remote=True)["a"].url == "https://checks.example/x"


def test_a_hold_is_refused_without_gates_and_with_an_unknown_value() -> None:
    assert hold_of("", has_gates=False) is None
    assert hold_of("health", has_gates=True) is WantedHold.HEALTH
    with pytest.raises(SettingsError, match="HOLD 'all': is neither card nor health"):
        hold_of("all", has_gates=True)
    with pytest.raises(SettingsError, match="HOLD 'card': there is no gate to wait for"):
        hold_of("card", has_gates=False)


@pytest.mark.parametrize("hold", list(Hold))
def test_a_hold_agrees_with_rules_that_keep_back_as_much(hold: Hold) -> None:
    assert WantedHold.CARD.agrees_with(hold) == (hold is not Hold.HEALTH)
    assert WantedHold.HEALTH.agrees_with(hold) == (hold is Hold.HEALTH)
