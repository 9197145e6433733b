"""The access file: what is right with it, and where exactly it is wrong, without a word of what may be a secret."""

from datetime import UTC, datetime

import pytest

from greenroom.access.callers import InstanceSelector
from greenroom.access.entries import MAX_CALLERS, parse_entries
from greenroom.access.roles import Role
from greenroom.access.tokens import digest_of
from greenroom.yaml_files import YamlFileError

HASH, OTHER = digest_of("one"), digest_of("other")
GOOD = f"""\
callers:
  - name: ann
    role: operator
    token_sha256: {HASH}
    expires: 2030-12-31T00:00:00Z
  - name: fleet runner
    role: reporter
    certificate: spiffe://fleet/runner
    gates: [smoke, "latency-*"]
    selector: {{model: "tiny*"}}
  - name: ci
    role: reporter
    token_sha256:
      - {OTHER}
    gates: ["*"]
"""


def test_a_file_is_read() -> None:
    ann, runner, ci = parse_entries(GOOD)
    assert (ann.caller.role, ann.token_sha256) == (Role.OPERATOR, (HASH,))
    assert ann.expires == datetime(2030, 12, 31, tzinfo=UTC)
    assert runner.caller.gates == ("smoke", "latency-*")
    assert runner.caller.selector == InstanceSelector(model="tiny*")
    assert (runner.certificate, runner.token_sha256) == ("spiffe://fleet/runner", ())
    assert (ci.caller.name, ci.caller.selector, ci.token_sha256) == ("ci", None, (OTHER,))


def test_nobody_may_be_known() -> None:
    """Everybody is revoked."""
    assert parse_entries("callers: []\n") == ()


def caller(fields: str) -> str:
    return f"callers:\n- {{name: ci, {fields}}}\n"


TOKEN = f"token_sha256: {HASH}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("callers:\n", "line 1: callers: nothing is no list: a list, of which each caller begins with '- name: '"),
        ("users: []\n", "line 1: users: is not a field that is known here (they are: callers) (and 1 more)"),
        ("callers:\n- {role: viewer}\n", "line 2: callers[0].name: is missing: who it is"),
        (caller(TOKEN), "line 2: callers[0].role: is missing: viewer, reporter or operator"),
        (caller(f"role: boss, {TOKEN}"), "callers[0].role: 'boss' is none of: 'viewer', 'reporter', 'operator'"),
        (
            caller(f"rol: viewer, role: viewer, {TOKEN}"),
            "rol: is not a field that is known here (they are: name, role, token_sha256, certificate, expires, gates, "
            "selector); did you mean 'role'?",
        ),
        (caller("role: viewer"), "callers[0]: has neither token_sha256 nor certificate"),
        (caller("role: viewer, token_sha256: []"), "callers[0]: has neither token_sha256 nor certificate"),
        (caller("role: viewer, certificate: ''"), "callers[0].certificate: is empty"),
        (caller(f"role: reporter, {TOKEN}"), "callers[0]: gates: is missing: a reporter has gates"),
        (caller(f"role: reporter, {TOKEN}, gates: []"), "callers[0]: gates: is missing: a reporter has gates"),
        (caller(f"role: reporter, {TOKEN}, gates: smoke"), "callers[0].gates: 'smoke' is no list: a list of gates"),
        (caller(f"role: reporter, {TOKEN}, gates: [Smoke]"), "callers[0].gates[0]: 'Smoke' is not a DNS label"),
        (caller(f"role: viewer, {TOKEN}, gates: ['*']"), "callers[0]: gates: is for reporters"),
        (caller(f"role: operator, {TOKEN}, selector: {{model: a}}"), "callers[0]: selector: is for reporters"),
        (
            caller(f"role: reporter, {TOKEN}, gates: ['*'], selector: {{suffix: a}}"),
            "selector.suffix: is not a field that is known here (they are: namespace, component, endpoint, model)",
        ),
        (caller(f"role: reporter, {TOKEN}, gates: ['*'], selector: "), "callers[0]: selector is empty: fill it in"),
        (caller(f"role: reporter, {TOKEN}, gates: ['*'], selector: {{}}"), "callers[0]: selector is empty: fill it in"),
        (caller(f"role: reporter, {TOKEN}, gates: ['*'], selector: {{model: }}"), "selector.model is empty"),
        (caller(f"role: operator, {TOKEN}, expires: "), "callers[0]: expires is empty: fill it in, or leave it out"),
        (GOOD.replace("name: ci", "name: ann/prod"), "'ann/prod' is a name that runners of 'ann' may use"),
        (caller(f"role: viewer, {TOKEN}, expires: 1:{'00:' * 400}00.0"), "a value in it cannot be read"),
        (caller(f"role: viewer, {TOKEN}, expires: 2030-12-31"), "callers[0].expires: is no time with its zone"),
        (caller(f"role: viewer, {TOKEN}, expires: soon"), "callers[0].expires: is no time with its zone"),
        (f"callers:\n- {{name: ' a', role: viewer, {TOKEN}}}\n", "callers[0].name: is a name of at most 256 bytes"),
        (f"callers:\n- {{name: greenroom, role: viewer, {TOKEN}}}\n", "'greenroom' is the proxy's own name"),
        (f"callers:\n- {{name: 7, role: viewer, {TOKEN}}}\n", "callers[0].name: 7 is no text"),
        (GOOD.replace("name: ci", "name: ann"), "line 1: name 'ann' stands there twice"),
        (GOOD.replace(OTHER, HASH), "line 1: a token stands there twice (of 'ann' and 'ci')"),
        (
            GOOD.replace(f"token_sha256:\n      - {OTHER}", "certificate: spiffe://fleet/runner"),
            "certificate 'spiffe://fleet/runner' stands there twice (of 'fleet runner' and 'ci')",
        ),
        (
            "callers:\n- &one {name: a, role: viewer, certificate: a}" + "\n- *one" * MAX_CALLERS,
            f"has more than {MAX_CALLERS}",
        ),
        ("callers:\n- [1\n", "is no YAML"),
    ],
)
def test_what_is_wrong_is_told_by_line_and_field(text: str, said: str) -> None:
    with pytest.raises(YamlFileError) as raised:
        parse_entries(text)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "value", ["greenroom_secret-token", "[greenroom_secret-token]", "{a: greenroom_secret-token}", "7", "[[a]]"]
)
def test_a_token_where_its_hash_should_be_is_not_shown(value: str) -> None:
    with pytest.raises(YamlFileError) as raised:
        parse_entries(caller(f"role: viewer, token_sha256: {value}"))
    assert "is not the SHA-256 of a token" in str(raised.value)
    assert "`greenroom access new-token` prints one" in str(raised.value)
    assert "secret-token" not in str(raised.value)
    assert raised.value.__cause__ is None
