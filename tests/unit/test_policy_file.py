"""Policy files: what is right with them, and where exactly it is wrong."""

from pathlib import Path

import pytest

from greenroom.core.policy import Hold, Phase, ReleasesPolicy
from greenroom.policy_file import PolicyFileError, load_policy, located, parse_policy, policy_text
from greenroom.yaml_files import MAX_FILE_BYTES

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
        (
            "rules: []\nrulez: []\n",
            "line 2: rulez: is not a field that is known here (they are: preset, templates, rules, releases); "
            "did you mean 'rules'?",
        ),
        ("rules:\n- selector: {modell: a}\n  gates: {a: {timeout_seconds: 1}}\n", "suffix); did you mean 'model'?"),
        (
            "rules:\n- gates: {a: {timeout: 1}}\n",
            "line 2: rules[0].gates.a.timeout: is not a field that is known here (they are: timeout_seconds, "
            "failure_limit, inconclusive_limit, max_concurrent, claim_limit, phase, ttl_seconds); "
            "did you mean 'timeout_seconds'? (and 1 more)",
        ),
        ("templates:\n- {pattern: 'a/{instance}', colour: red}\n", "(they are: pattern, kind)"),
        ("rules:\n- hodl: card\n  gates: {a: {timeout_seconds: 1}}\n", "did you mean 'hold'?"),
        ("rules:\n- gates:\n    smoke: {timeout_seconds: 0}\n", "smoke.timeout_seconds: must be more than 0"),
        ("rules:\n- gates:\n    smoke: {timeout_seconds: 31d}\n", "must be more than 0, and at most 30d"),
        (
            "rules: [{gates: {a: {timeout_seconds: 1, failure_limit: -1}}}]\n",
            "a.failure_limit: must be from 0 to 100: how",
        ),
        (
            "rules: [{gates: {a: {timeout_seconds: 1, failure_limit: some}}}]\n",
            "limit: 'some' is no whole number: it must",
        ),
        (
            "rules: [{gates: {a: {timeout_seconds: 1, max_concurrent: 0}}}]\n",
            "max_concurrent: must be from 1 to",
        ),
        ("rules: [{gates: {a: {timeout_seconds: 1, phase: continuous}}}]\n", "a: a gate of phase 'continuous' needs"),
        ("rules: [{gates: {a: {timeout_seconds: 1, ttl_seconds: 1m}}}]\n", "a: ttl_seconds is for gates of phase"),
        ("rules: [{gates: {a: {timeout_seconds: 1, phase: later}}}]\n", "'later' is none of: 'pre-release', 'cont"),
        (
            "rules: [{gates: {a: {timeout_seconds: 1, phase: continuous, ttl_seconds: 4s}}}]\n",
            "a.ttl_seconds: must be at least 5 s, and at most 30d",
        ),
        (
            "rules: [{gates: {a: {timeout_seconds: 1, claim_limit: 0}}}]\n",
            "claim_limit: must be from 1 to 100: how",
        ),
        ("rules: [{gates: {a: {timeout_seconds: 1, inconclusive_limit: 1.5}}}]\n", "limit: 1.5 is no whole number: it"),
        ("rules:\n- gates:\n    smoke: {}\n", "line 3: rules[0].gates.smoke.timeout_seconds: is missing: how long"),
        ("rules:\n- gates:\n    smoke:\n", "rules[0].gates.smoke: nothing is no mapping: a gate says how long"),
        ("rules:\n- gates: {a: {timeout_seconds: 15 m}}\n", "'15 m' is neither a number of seconds nor a duration"),
        ("rules:\n- hold: card\n", "line 2: rules[0].gates: is missing: a rule names at least one gate"),
        ("rules:\n", "rules: nothing is no list: a list, of which each rule begins with '- '"),
        ("rules:\n- selector: {model: 7}\n  gates: {a: {timeout_seconds: 1}}\n", "selector.model: 7 is no text"),
        ("rules:\n- gates:\n    Smoke: {timeout_seconds: 1}\n", "line 3: rules[0].gates.Smoke: gate name 'Smoke'"),
        ("rules:\n- gates: {}\n", "line 2: rules[0].gates: is empty: a rule names at least one gate"),
        (
            "rules:\n\n- hold: everything\n  gates: {a: {timeout_seconds: 1}}\n",
            "line 3: rules[0].hold: 'everything' is none",
        ),
        (
            "rules:\n- hold: card+instance\n  gates: {a: {timeout_seconds: 1}}\n",
            "line 2: rules[0]: hold 'card+instance'",
        ),
        ("preset: other\n", "line 1: preset: 'other' is none of: 'dynamo'"),
        ("- a\n", "line 1: a list is no mapping"),
        ("releases:\n", "line 1: releases: is empty: give max_in_flight, min_released or both"),
        ("releases: {}\n", "line 1: releases: limits nothing: give max_in_flight"),
        ("releases: 4\n", "line 1: releases: 4 is no mapping: the limits of releases, as `{max_in_flight: 4"),
        ("releases: {max_in_flight: 0}\n", "releases.max_in_flight: must be from 1 to 1000: how many releases may"),
        ("releases: {max_in_flight: yes}\n", "True is no whole number: it must be from 1 to 1000"),
        ("releases: {max_in_flight: 1.5}\n", "1.5 is no whole number"),
        ("releases: {min_released: -1}\n", "releases.min_released: must be from 1 to 100000: how many of a model"),
        (
            "releases:\n  max_in_flight: 1\n  settle_seconds: 0\n",
            "line 3: releases.settle_seconds: must be more than 0",
        ),
        ("releases: {max_in_flight: 1, settle_seconds: 2 d}\n", "'2 d' is neither a number of seconds nor a duration"),
        ("releases: {min_released: 1, settle_seconds: 9}\n", "it needs max_in_flight beside it"),
        ("releases: {max_inflight: 1}\n", "did you mean 'max_in_flight'?"),
        ("rules: !!python/object/apply:os.system ['true']\n", "is no YAML"),
    ],
)
def test_what_is_wrong_is_told_by_line_and_field(text: str, said: str) -> None:
    with pytest.raises(PolicyFileError) as raised:
        parse_policy(text)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("timeout", ["900", "900.0", "15m", "'15m'", "900s", "'900'"])
def test_a_timeout_is_a_number_of_seconds_or_a_duration(timeout: str) -> None:
    """And replicas that were told it in other words have the same policy."""
    policy = parse_policy(f"rules:\n- gates: {{smoke: {{timeout_seconds: {timeout}}}}}\n")
    assert policy.rules[0].gates["smoke"].timeout_seconds == 900
    assert policy.digest == parse_policy("rules: [{gates: {smoke: {timeout_seconds: 900}}}]").digest


def test_a_ttl_may_be_a_duration_too() -> None:
    text = "rules: [{gates: {probe: {timeout_seconds: 1m, phase: continuous, ttl_seconds: 5m}}}]"
    gate = parse_policy(text).rules[0].gates["probe"]
    assert (gate.phase, gate.ttl_seconds, gate.timeout_seconds) == (Phase.CONTINUOUS, 300, 60)


def test_limits_of_releases_are_read() -> None:
    policy = parse_policy("releases: {max_in_flight: 4, settle_seconds: 1m30s, min_released: 2}\n")
    assert policy.releases == ReleasesPolicy(max_in_flight=4, settle_seconds=90, min_released=2)
    assert policy.digest != parse_policy("releases: {max_in_flight: 5, settle_seconds: 90, min_released: 2}").digest


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
    path.write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    with pytest.raises(PolicyFileError, match="larger"):
        load_policy(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("? [a]\n: b\n", "line 1: a field's name is a list or a mapping, and no text"),
        ("rules:\n- name: 2026-02-30\n", "a value in it cannot be read (day is out of range for month); quote it"),
        ("rules: !!int many\n", "a value in it cannot be read"),
        ("rules: !!bool maybe\n", "a value in it cannot be read"),
        ("rules: !!timestamp now\n", "a value in it cannot be read"),
        ("[" * 1_000, "is nested too deep"),
        ("rules: &all [*all]\n", "line 1: rules[0]: a list is no mapping"),
    ],
)
def test_what_the_yaml_library_stumbles_over_is_told_in_words_too(text: str, said: str) -> None:
    """Each of these was a traceback at the start of the proxy."""
    with pytest.raises(PolicyFileError) as raised:
        parse_policy(text)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_what_is_referred_to_often_is_looked_at_once() -> None:
    """Thirty doublings of one list are a thousand million lists to whoever follows every reference."""
    doubled = "\n".join(f"a{number}: &a{number} [*a{number - 1}, *a{number - 1}]" for number in range(1, 31))
    with pytest.raises(PolicyFileError, match="a0: is not a field that is known here"):
        parse_policy(f"a0: &a0 []\n{doubled}\n")


def test_a_file_without_end_is_not_read_to_its_end() -> None:
    with pytest.raises(PolicyFileError, match="is larger than"):
        load_policy(Path("/dev/zero"))


@pytest.mark.parametrize("text", [GOOD, "rules: []", "templates: [{pattern: 'svc/{instance}', kind: card}]"])
def test_a_policy_as_text_says_the_same(text: str) -> None:
    policy = parse_policy(text)
    assert parse_policy(policy_text(policy)) == policy


def test_a_policy_as_text_is_as_one_would_write_it() -> None:
    said = policy_text(
        parse_policy("rules: [{name: ä, gates: {b: {timeout_seconds: 900}, a: {timeout_seconds: 0.5}}}]")
    )
    assert said == (
        "rules:\n- name: ä\n  gates:\n    b:\n      timeout_seconds: 900\n    a:\n      timeout_seconds: 0.5\n"
    )


def test_a_place_in_a_policy_is_told_by_its_line_and_field() -> None:
    assert located(GOOD, ("rules", 1, "gates", "latency")) == "line 9: rules[1].gates.latency: "
    assert located(GOOD, ("rules", 0, "selector", "model")) == "line 4: rules[0].selector.model: "
    assert located(GOOD, ()) == ""
