"""Etcd's errors at a start, as one line that names the setting which is to be changed."""

import os
from pathlib import Path

import grpc
import pytest

from greenroom import starting
from greenroom.addresses import Address
from greenroom.errors import StartError
from greenroom.settings import Settings, load_settings
from greenroom.starting import credentials_of, start_errors, through_elections
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


class Step:
    """One step of a start: it fails with these errors, and then does not."""

    def __init__(self, *errors: grpc.aio.AioRpcError) -> None:
        self.errors = list(errors)
        self.taken = 0

    async def __call__(self) -> None:
        self.taken += 1
        if self.errors:
            raise self.errors.pop(0)


NO_LEADER = failed(grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader")
ANOTHER_LEADER = failed(grpc.StatusCode.UNAVAILABLE, "etcdserver: leader changed")


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "ASK_AGAIN_SECONDS", 0.0)


@pytest.mark.usefixtures("_at_once")
async def test_a_step_of_the_start_is_taken_again_while_etcd_elects_a_leader() -> None:
    """And that is told once: etcd's log has the rest."""
    step, log = Step(NO_LEADER, NO_LEADER, ANOTHER_LEADER), EventLog()
    await through_elections(step, log=log)
    assert step.taken == 4
    (told,) = log.events
    assert (told["event"], told["reason"]) == ("upstream.without.leader", "UNAVAILABLE: etcdserver: no leader")


@pytest.mark.usefixtures("_at_once")
async def test_an_election_that_does_not_end_ends_the_start(monkeypatch: pytest.MonkeyPatch, plain: Settings) -> None:
    monkeypatch.setattr(starting, "ELECTION_SECONDS", 0.0)
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await through_elections(Step(NO_LEADER), log=EventLog())
    assert said_of(raised.value, plain) == f"--upstream '{ETCD}': etcd does not answer: etcdserver: no leader"


@pytest.mark.parametrize(
    "error",
    [
        failed(grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses"),
        failed(grpc.StatusCode.PERMISSION_DENIED, "etcdserver: permission denied"),
    ],
)
async def test_what_is_no_election_ends_the_start_at_once(error: grpc.aio.AioRpcError) -> None:
    step = Step(error)
    with pytest.raises(grpc.aio.AioRpcError):
        await through_elections(step, log=EventLog())
    assert step.taken == 1
