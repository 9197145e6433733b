"""Policy files: what is right with them, and where exactly it is wrong."""

from pathlib import Path

import pytest

from greenroom.core.policy import Hold
from greenroom.policy_file import MAX_POLICY_BYTES, PolicyFileError, load_policy, parse_policy

GOOD = """\
preset: dynamo
rules:
  - name: prefill
    selector: {component: "prefill*"}
    hold: card+instance
    gates:
      smoke: {timeout_seconds: 900}
  - gates:
      latency:
        timeout_seconds: 600
"""


def test_a_policy_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(GOOD)
    policy = load_policy(path)
    assert [rule.hold for rule in policy.rules] == [Hold.CARD_AND_INSTANCE, Hold.CARD]
    assert policy.rules[1].gates["latency"].timeout_seconds == 600


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("[1, 2", "is no YAML"),
        ("rules:\n  - gates: {a: {timeout_seconds: 1}\n", "line 3, column 1: is no YAML"),
        ("rules: []\nrulez: []\n", "line 2: rulez: Extra inputs are not permitted"),
        ("rules:\n- gates:\n    smoke: {timeout_seconds: 0}\n", "line 3: rules[0].gates.smoke.timeout_seconds:"),
        ("rules:\n- gates:\n    smoke: {}\n", "line 3: rules[0].gates.smoke.timeout_seconds: Field required"),
        ("rules:\n- gates:\n    Smoke: {timeout_seconds: 1}\n", "line 3: rules[0].gates.Smoke: gate name 'Smoke'"),
        ("rules:\n- gates: {}\n", "line 2: rules[0].gates:"),
        ("rules:\n\n- hold: everything\n  gates: {a: {timeout_seconds: 1}}\n", "line 3: rules[0].hold:"),
        (
            "rules:\n- hold: card+instance\n  gates: {a: {timeout_seconds: 1}}\n",
            "line 2: rules[0]: hold 'card+instance'",
        ),
        ("preset: other\n", "line 1: preset: Input should be 'dynamo'"),
        ("- a\n", "line 1: "),
        ("rules: !!python/object/apply:os.system ['true']\n", "is no YAML"),
    ],
)
def test_what_is_wrong_is_told_by_line_and_field(text: str, said: str) -> None:
    with pytest.raises(PolicyFileError) as raised:
        parse_policy(text)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_key_that_stands_there_twice_is_refused() -> None:
    """YAML would take the second, and the first gate would silently never be asked for."""
    text = "rules:\n- gates:\n    smoke: {timeout_seconds: 1}\n    smoke: {timeout_seconds: 2}\n"
    with pytest.raises(PolicyFileError, match=r"line 4: 'smoke' stands there twice"):
        parse_policy(text)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PolicyFileError, match="cannot be read: No such file"):
        load_policy(tmp_path / "none.yaml")


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PolicyFileError, match="UTF-8"):
        load_policy(path)


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_bytes(b"#" * (MAX_POLICY_BYTES + 1))
    with pytest.raises(PolicyFileError, match="larger"):
        load_policy(path)
