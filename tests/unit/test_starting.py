"""Etcd's errors at a start, as one line that names the setting which is to be changed."""

import os
from pathlib import Path

import grpc
import pytest

from greenroom.addresses import Address
from greenroom.errors import StartError
from greenroom.settings import Settings, load_settings
from greenroom.starting import credentials_of, start_errors
from greenroom.store.credentials import LogInRefused
from tests.support.control_side import EventLog

ETCD = "http://127.0.0.1:2379"
NOBODY = (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: user name is empty")


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("GREENROOM_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def plain() -> Settings:
    return load_settings({"upstream": [ETCD], "gate": ["smoke=1s"]})


@pytest.fixture
def with_user(tmp_path: Path) -> Settings:
    path = tmp_path / "password"
    path.write_text("secret")
    user = {"upstream_user": "greenroom", "upstream_password_file": str(path)}
    return load_settings({"upstream": [ETCD], "gate": ["smoke=1s"], **user})


def said_of(error: Exception, settings: Settings) -> str:
    with pytest.raises(StartError) as raised, start_errors(settings, [Address("127.0.0.1", 2379)]):
        raise error
    assert "\n" not in str(raised.value)
    return str(raised.value)


def failed(code: grpc.StatusCode, details: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, details=details)


def test_a_refused_log_in_names_user_and_file(with_user: Settings) -> None:
    said = said_of(LogInRefused("wrong password"), with_user)
    file = with_user.upstream_password_file
    assert said == (
        "--upstream-user 'greenroom': etcd does not take it, with the password of "
        f"--upstream-password-file '{file}': wrong password"
    )


def test_an_etcd_that_knows_users_wants_one(plain: Settings, with_user: Settings) -> None:
    assert said_of(failed(*NOBODY), plain).startswith(
        f"--upstream '{ETCD}': etcd knows users, and --upstream-user is not"
    )
    assert "does not answer" in said_of(failed(*NOBODY), with_user)


def test_too_small_a_role_is_told_with_what_helps(with_user: Settings) -> None:
    said = said_of(failed(grpc.StatusCode.PERMISSION_DENIED, "etcdserver: permission denied"), with_user)
    assert said == (
        "--upstream-user 'greenroom': etcdserver: permission denied; `greenroom etcd-role` prints what it needs"
    )


def test_an_etcd_that_is_away_is_told_in_one_line(plain: Settings) -> None:
    said = said_of(failed(grpc.StatusCode.UNAVAILABLE, "connection\n  refused"), plain)
    assert said == f"--upstream '{ETCD}': etcd does not answer: connection refused"
    assert said_of(failed(grpc.StatusCode.UNAVAILABLE, ""), plain).endswith("does not answer: UNAVAILABLE")


async def test_there_are_credentials_where_there_is_a_user(plain: Settings, with_user: Settings) -> None:
    assert credentials_of(plain, EventLog()) is None
    assert repr(credentials_of(with_user, EventLog())) == "Credentials('greenroom')"
