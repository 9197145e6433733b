"""`greenroom etcd-role`: what is wrong with what it was told."""

from pathlib import Path

import pytest

from greenroom.cli.main import main


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GREENROOM_ETCD_PASSWORD", "GREENROOM_UPSTREAM_PASSWORD"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--apply"], "--apply: needs --upstream"),
        (["--user", "root"], "--user and --password-file are for --apply"),
        (["--password-file", "f"], "--user and --password-file are for --apply"),
        (["--upstream", "https://a:1"], "--upstream 'https://a:1': must begin with http://"),
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
