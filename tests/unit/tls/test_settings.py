"""Which files each side has, and what is said where they make no whole."""

import os

import pytest

from greenroom.errors import SettingsError
from greenroom.settings import Settings, load_settings

PLAIN, SECURE = "http://127.0.0.1:2379", "https://127.0.0.1:2379"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("GREENROOM_")]:
        monkeypatch.delenv(name)


def told(**given: object) -> Settings:
    return load_settings({"upstream": [PLAIN], "gate": ["smoke=900s"], **given})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tls_cert": "c"}, "--tls-cert 'c': needs --tls-key beside it"),
        ({"tls_key": "k"}, "--tls-key 'k': needs --tls-cert beside it"),
        ({"tls_client_ca": "a"}, "--tls-client-ca 'a': is for TLS, which needs --tls-cert and --tls-key"),
        ({"control_tls_cert": "c"}, "--control-tls-cert 'c': needs --control-tls-key beside it"),
        (
            {"control_tls_client_ca": "a"},
            "--control-tls-client-ca 'a': is for TLS, which needs --control-tls-cert and --control-tls-key",
        ),
        ({"upstream": [SECURE]}, f"--upstream '{SECURE}': has https://, which needs --upstream-ca"),
        ({"upstream": [SECURE], "upstream_ca": "a", "upstream_cert": "c"}, "--upstream-cert 'c': needs --upstream-key"),
        ({"upstream_ca": "a"}, "--upstream-ca 'a': is for an --upstream of https://"),
        ({"upstream_cert": "c", "upstream_key": "k"}, "--upstream-cert 'c': is for an --upstream of https://"),
        ({"upstream": [SECURE, "http://b:1"], "upstream_ca": "a"}, f"--upstream '{SECURE},http://b:1': has members"),
        (
            {"upstream": None, "embedded_etcd": True, "upstream_ca": "a"},
            "--upstream-ca 'a': is for an --upstream of https://",
        ),
    ],
)
def test_nothing_is_half_secured(given: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError) as raised:
        told(**given)
    assert str(raised.value).startswith(said)


def test_without_files_there_is_no_tls() -> None:
    plain = told()
    assert (plain.listen_files, plain.control_files, plain.upstream_files) == (None, None, None)
    assert not plain.knows_control_clients


def test_each_side_has_its_own_files() -> None:
    settings = told(
        upstream=[SECURE],
        tls_cert="c",
        tls_key="k",
        control_tls_cert="cc",
        control_tls_key="ck",
        control_tls_client_ca="ca",
        upstream_ca="ua",
        upstream_cert="uc",
        upstream_key="uk",
    )
    assert str(settings.listen_files) == "--tls-cert 'c', --tls-key 'k'"
    assert str(settings.control_files) == (
        "--control-tls-cert 'cc', --control-tls-key 'ck', --control-tls-client-ca 'ca'"
    )
    assert str(settings.upstream_files) == "--upstream-cert 'uc', --upstream-key 'uk', --upstream-ca 'ua'"
    assert str(told(upstream=[SECURE], upstream_ca="ua").upstream_files) == "--upstream-ca 'ua'"


def test_control_goes_beyond_this_machine_where_clients_are_known() -> None:
    """TLS alone lets anybody in."""
    tls = {"control_tls_cert": "c", "control_tls_key": "k", "control_listen": "0.0.0.0:2390"}
    with pytest.raises(SettingsError, match="reaches beyond this machine"):
        told(**tls)
    known = told(**tls, control_tls_client_ca="a")
    assert known.knows_control_clients
    with pytest.raises(SettingsError, match="--embedded-etcd-listen"):
        told(**tls, control_tls_client_ca="a", upstream=None, embedded_etcd=True, embedded_etcd_listen="0.0.0.0:1")


def test_the_same_by_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GREENROOM_TLS_CERT", "c")
    monkeypatch.setenv("GREENROOM_TLS_KEY", "k")
    assert str(told().listen_files) == "--tls-cert 'c', --tls-key 'k'"
