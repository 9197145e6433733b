"""New tokens: what is printed is what the access file takes, and what is wrong is told before one is made."""

import re
from datetime import UTC, datetime

import pytest

from greenroom.access.entries import parse_entries
from greenroom.access.roles import Role
from greenroom.access.tokens import digest_of
from greenroom.cli.access import entry
from greenroom.cli.main import main

HASH = digest_of("a token")


@pytest.mark.parametrize("name", ["ci", "fleet runner", "yes", "7", "a: b", "ünïcode", "'", "null"])
def test_an_entry_is_read_as_it_was_meant(name: str) -> None:
    """Names that YAML would take for something else are quoted."""
    expires = datetime(2030, 1, 1, 12, tzinfo=UTC)
    text = entry(name, Role.REPORTER, HASH, ["smoke", "latency-*"], "model=tiny*,namespace=dynamo", expires)
    [read] = parse_entries(f"callers:\n{text}")
    assert (read.name, read.role, read.token_sha256, read.expires) == (name, Role.REPORTER, (HASH,), expires)
    assert (read.gates, str(read.selector)) == (("smoke", "latency-*"), "namespace=dynamo,model=tiny*")


def test_a_token_is_printed_once_with_the_entry_that_makes_it_somebodys(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["access", "new-token", "ann", "--role", "operator", "--for", "90d"]) == 0
    output = capsys.readouterr().out
    [token] = re.findall(r"^greenroom_\S+$", output, re.MULTILINE)
    assert output.count(token) == 1
    text = output[output.index("- name:") :]
    [read] = parse_entries(f"callers:\n{text}")
    assert read.token_sha256 == (digest_of(token),)
    assert read.expires is not None
    assert 89 <= (read.expires - datetime.now(UTC)).days <= 90


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ci", "--role", "boss"), "boss"),
        (("ci",), "Missing option '--role'"),
        (("ci", "--role", "reporter"), "new-token: --gate is not given: a reporter has gates"),
        (("ci", "--role", "reporter", "--gate", "Smoke"), "new-token: --gate: 'Smoke' is not a DNS label"),
        (("ci", "--role", "viewer", "--gate", "smoke"), "new-token: --gate: is for reporters"),
        (
            ("ci", "--role", "reporter", "--gate", "a", "--selector", "suffix=x"),
            "new-token: --selector suffix: is not a field",
        ),
        (("ci", "--role", "reporter", "--gate", "a", "--selector", "model"), "'model' is no K=GLOB"),
        (("ci", "--role", "viewer", "--selector", "model=x"), "new-token: --selector: is for reporters"),
        (("greenroom", "--role", "viewer"), "new-token: NAME: 'greenroom' is the proxy's own name"),
        (("ci", "--role", "viewer", "--for", "soon"), "--for 'soon': 'soon' is no duration"),
    ],
)
def test_what_the_proxy_would_refuse_is_not_printed(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["access", "new-token", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
