"""Settings: by options, by variables, and what is said of wrong ones."""

import os
from pathlib import Path

import pytest

from greenroom.addresses import Address
from greenroom.errors import SettingsError
from greenroom.settings import LogFormat, LogLevel, load_settings
from tests.support.control_side import EventLog

ETCD = "http://127.0.0.1:2379"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("GREENROOM_")]:
        monkeypatch.delenv(name)


def said_of(**given: object) -> str:
    with pytest.raises(SettingsError) as raised:
        load_settings({"upstream": [ETCD], "gate": ["smoke=900s"], **given})
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_what_is_not_said_is_loopback_and_quiet() -> None:
    settings = load_settings({"upstream": [ETCD], "gate": ["smoke=900s"], "listen": None})
    assert settings.upstream == (Address("127.0.0.1", 2379),)
    assert [str(settings.listen), str(settings.control_listen), str(settings.http_listen)] == [
        "127.0.0.1:2389",
        "127.0.0.1:2390",
        "127.0.0.1:2391",
    ]
    assert not any((settings.embedded_etcd, settings.insecure_control, settings.allow_ungated))
    assert not settings.allow_revoke_lease
    assert (settings.log_level, settings.log_format) == (LogLevel.INFO, LogFormat.CONSOLE)


def test_several_upstreams_and_gates() -> None:
    settings = load_settings({"upstream": [f"{ETCD}, http://b:1", "http://c:2"], "gate": ["a=90s,b=15m", "c=1h"]})
    assert [str(address) for address in settings.upstream] == ["127.0.0.1:2379", "b:1", "c:2"]
    assert settings.gate == {"a": 90, "b": 900, "c": 3600}


def test_variables_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"UPSTREAM": f"{ETCD},http://b:1", "GATE": "smoke=15m", "LISTEN": "127.0.0.1:0", "LOG_FORMAT": "json"}
    for name, value in {**variables, "INSECURE_CONTROL": "true", "DATA_DIR": ""}.items():
        monkeypatch.setenv(f"GREENROOM_{name}", value)
    settings = load_settings({})
    assert [str(address) for address in settings.upstream] == ["127.0.0.1:2379", "b:1"]
    assert (settings.gate, settings.listen.port, settings.log_format) == ({"smoke": 900}, 0, LogFormat.JSON)
    assert settings.insecure_control


def test_an_option_wins_over_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GREENROOM_LISTEN", "127.0.0.1:1")
    settings = load_settings({"upstream": [ETCD], "gate": ["a=1s"], "listen": "127.0.0.1:2"})
    assert settings.listen.port == 2


def test_a_wrong_variable_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GREENROOM_LISTEN", "nowhere")
    assert said_of() == "GREENROOM_LISTEN 'nowhere': is no host:port"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"listen": "127.0.0.1:x"}, "--listen '127.0.0.1:x': 'x' is no port"),
        ({"upstream": ["ftp://a:1"]}, "--upstream 'ftp://a:1': must begin with http:// or https://"),
        ({"upstream": ["http://ann:secret@a:1"]}, "--upstream 'http://…@a:1': must not carry a user"),
        ({"upstream": None}, "--upstream: is not given"),
        ({"embedded_etcd": True}, f"--upstream '{ETCD}': --embedded-etcd brings"),
        ({"data_dir": "d"}, "--data-dir 'd': is the embedded etcd's"),
        ({"gate": ["smoke"]}, "--gate 'smoke': 'smoke' is no NAME=TIMEOUT"),
        ({"gate": ["smoke=900"]}, "--gate 'smoke=900': '900' is no duration: add a unit, such as 900s"),
        ({"gate": ["smoke=1s", "smoke=2s"]}, "--gate 'smoke=1s,smoke=2s': gate 'smoke' is given twice"),
        ({"gate": ["publish=1s"]}, "--gate 'publish=1s': gate name 'publish' is reserved"),
        ({"gate": ["Smoke=1s"]}, "--gate 'Smoke=1s': gate name 'Smoke' is not a DNS label"),
        ({"gate": ["a=31d"]}, "--gate 'a=31d': gate 'a': a timeout is at most 30d"),
        ({"gate": None}, "--policy: is not given, nor is a --gate"),
        ({"policy": "p.yaml"}, "--policy 'p.yaml': has the gates"),
        ({"control_listen": "0.0.0.0:2390"}, "--control-listen '0.0.0.0:2390': reaches beyond this machine"),
        ({"http_listen": "node1:2391"}, "--http-listen 'node1:2391': reaches beyond this machine"),
        ({"listen": "127.0.0.1:2391"}, "--http-listen '127.0.0.1:2391': is the address of --listen too"),
        ({"public_listen": "127.0.0.1:2389"}, "--public-listen '127.0.0.1:2389': is the address of --listen too"),
        (
            {"public_advertise_client_url": "http://a:1"},
            "--public-advertise-client-url 'http://a:1': is for --public-listen, which is not given",
        ),
        ({"advertise_client_url": "node1:2389"}, "--advertise-client-url 'node1:2389': must begin with http://"),
        (
            {"control_listen": "0.0.0.0:2390", "access": "a.yaml"},
            "--control-listen '0.0.0.0:2390': reaches beyond this machine, with the tokens of --access in plaintext; "
            "give --control-tls-cert with --control-tls-client-ca, or with --access; --insecure-control allows it",
        ),
        (
            {"embedded_etcd_listen": "0.0.0.0:2379", "access": "a.yaml"},
            "--embedded-etcd-listen '0.0.0.0:2379': reaches beyond this machine, without authentication",
        ),
        ({"open_metrics": True}, "--open-metrics 'True': is for --access, which is not given"),
        ({"log_level": "loud"}, "--log-level 'loud': Input should be 'debug'"),
        ({"log_format": "xml"}, "--log-format 'xml': Input should be"),
    ],
)
def test_a_wrong_setting_is_one_line_with_its_name_and_value(given: dict[str, object], said: str) -> None:
    assert said_of(**given).startswith(said)


def test_other_machines_only_on_purpose() -> None:
    given = {"upstream": [ETCD], "gate": ["a=1s"], "control_listen": "0.0.0.0:2390", "insecure_control": True}
    assert load_settings(given).control_listen.host == "0.0.0.0"
    assert load_settings({"upstream": [ETCD], "gate": ["a=1s"], "listen": "0.0.0.0:2389"}).listen.port == 2389


def test_gates_become_one_rule_for_everything() -> None:
    policy = load_settings({"upstream": [ETCD], "gate": ["a=90s"]}).read_policy()
    assert [dict(rule.gates)["a"].timeout_seconds for rule in policy.rules] == [90]


def test_nothing_held_only_on_purpose(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("preset: dynamo\n")
    settings = load_settings({"upstream": [ETCD], "policy": str(path)})
    with pytest.raises(SettingsError, match=rf"--policy '{path}': has no rule"):
        settings.read_policy()
    assert load_settings({"upstream": [ETCD], "allow_ungated": True}).read_policy().rules == ()


def test_a_wrong_policy_is_told_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("rules:\n- gates: {}\n")
    with pytest.raises(SettingsError, match=rf"^--policy '{path}': line 2: rules\[0\]\.gates: "):
        load_settings({"upstream": [ETCD], "policy": str(path)}).read_policy()


def test_a_user_of_etcd_has_a_password_in_a_file_or_a_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("secret\n")
    plain = {"upstream": [ETCD], "gate": ["a=1s"]}
    filed = load_settings({**plain, "upstream_user": "greenroom", "upstream_password_file": str(path)})
    assert (filed.read_upstream_password(), filed.upstream_password_source) == (
        "secret",
        f"--upstream-password-file '{path}'",
    )
    path.write_text("changed\n")
    assert filed.read_upstream_password() == "changed"
    monkeypatch.setenv("GREENROOM_UPSTREAM_PASSWORD", "other")
    monkeypatch.setenv("GREENROOM_UPSTREAM_USER", "greenroom")
    said = load_settings(plain)
    assert (said.read_upstream_password(), said.upstream_password_source) == ("other", "GREENROOM_UPSTREAM_PASSWORD")
    assert "other" not in repr(said)


def test_a_user_without_a_password_and_the_other_way_round(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said_of(upstream_user="greenroom") == (
        "--upstream-user 'greenroom': has no password: give --upstream-password-file, or GREENROOM_UPSTREAM_PASSWORD"
    )
    alone = "is for --upstream-user, which is not given"
    assert said_of(upstream_password_file="/f") == f"--upstream-password-file '/f': {alone}"
    monkeypatch.setenv("GREENROOM_UPSTREAM_PASSWORD", "secret")
    assert said_of() == f"GREENROOM_UPSTREAM_PASSWORD: {alone}"
    assert said_of(upstream_user="greenroom", upstream_password_file="/f") == (
        "--upstream-password-file '/f': and GREENROOM_UPSTREAM_PASSWORD are both given; give one of the two"
    )


def test_a_password_file_without_a_password_is_told_by_its_option(tmp_path: Path) -> None:
    path = tmp_path / "absent"
    settings = load_settings(
        {"upstream": [ETCD], "gate": ["a=1s"], "upstream_user": "greenroom", "upstream_password_file": str(path)}
    )
    with pytest.raises(SettingsError, match=f"--upstream-password-file '{path}': cannot be read"):
        settings.read_upstream_password()


@pytest.mark.parametrize("password", ["hunter2", "hunter/2", "hunter@2", "h:unter//2"])
def test_an_error_about_a_url_does_not_show_its_password(password: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load_settings({"upstream": [f"http://etcd-0:2379,http://me:{password}@etcd-1:2379"], "gate": ["a=1s"]})
    assert "unter" not in str(raised.value)
    assert "http://etcd-0:2379,http://…@etcd-1:2379" in str(raised.value)


def test_a_wrong_access_file_is_told_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "access.yaml"
    settings = load_settings({"upstream": [ETCD], "gate": ["a=90s"], "access": str(path)})
    with pytest.raises(SettingsError, match=rf"^--access '{path}': cannot be read: No such file"):
        settings.open_access(EventLog())
    path.write_text("callers: []\n")
    access = settings.open_access(EventLog())
    assert access is not None
    assert access.known.number == 0
    assert load_settings({"upstream": [ETCD], "gate": ["a=90s"]}).open_access(EventLog()) is None
