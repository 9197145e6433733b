"""`greenroom etcd-role`: what is wrong with what it was told."""

import os
from pathlib import Path

import pytest

from greenroom.cli.main import main


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("GREENROOM_")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--apply"], "--apply: needs --upstream"),
        (["--user", "root"], "--user and --password-file are for --apply"),
        (["--password-file", "f"], "--user and --password-file are for --apply"),
        (["--upstream", "https://a:1"], "--upstream: has https://, which needs --upstream-ca"),
        (["--upstream", "https://a:1,http://b:1", "--upstream-ca", "f"], "has members with http:// and with https://"),
        (["--upstream", "http://a:1,b:2"], "--upstream 'b:2': must begin with http://"),
        (["--also", ""], "--also '': is no prefix of clients' keys"),
        (["--also", "\x01x"], "is no prefix of clients' keys"),
        (["--policy", "/absent"], "--policy '/absent': cannot be read"),
        (["--apply", "--upstream", "http://127.0.0.1:1", "--user", "u"], "--user 'u': needs a password"),
        (
            ["--apply", "--upstream", "http://127.0.0.1:1", "--user", "u", "--password-file", "/absent"],
            "--password-file '/absent': cannot be read",
        ),
    ],
)
def test_what_is_wrong_is_told(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["etcd-role", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_policys_own_templates_are_what_is_granted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("templates:\n- pattern: svc/{instance}\nrules:\n- gates: {smoke: {timeout_seconds: 1}}\n")
    assert main(["etcd-role", "--policy", str(path), "--proxy-role", "p"]) == 0
    printed = capsys.readouterr().out
    assert "etcdctl role grant-permission p readwrite --prefix svc/" in printed
    assert "v1/mdc" not in printed


def test_what_is_told_to_serve_need_not_be_told_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of a cluster's members too, as they are given there."""
    path = tmp_path / "policy.yaml"
    path.write_text("templates:\n- pattern: svc/{instance}\nrules:\n- gates: {smoke: {timeout_seconds: 1}}\n")
    given = {"POLICY": str(path), "UPSTREAM": "http://a:1, http://b:2", "UPSTREAM_USER": "green"}
    for name, value in {**given, "UPSTREAM_PASSWORD_FILE": "/secret"}.items():
        monkeypatch.setenv(f"GREENROOM_{name}", value)
    assert main(["etcd-role"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert "export ETCDCTL_ENDPOINTS=http://a:1,http://b:2" in printed
    assert "etcdctl user add green --interactive=false < /secret" in printed
    assert "etcdctl role grant-permission greenroom-proxy readwrite --prefix svc/" in printed
