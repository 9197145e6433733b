"""One token for all calls, asked for when it is needed, and what is told of refusals."""

import asyncio

import grpc
import pytest

from greenroom.errors import NotReady, SettingsError
from greenroom.pb.etcd import rpc_pb2
from greenroom.store.credentials import (
    AUTH_IS_OFF,
    REFUSED_SECONDS,
    Credentials,
    LogInRefused,
    Metadata,
    for_itself,
    is_refusal,
)
from greenroom.store.upstream import why
from tests.support.control_side import EventLog

WRONG = (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: authentication failed, invalid user ID or password")
EXPIRED = (grpc.StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token")


def failed(told: tuple[grpc.StatusCode, str]) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(told[0], details=told[1])


class Etcd:
    """Gives a new token each time, or says what it is told to."""

    def __init__(self) -> None:
        self.asked: list[rpc_pb2.AuthenticateRequest] = []
        self.says: tuple[grpc.StatusCode, str] | None = None
        self.answers = asyncio.Event()
        self.answers.set()
        self.password = "secret"
        self.log = EventLog()
        self.credentials = Credentials("greenroom", self._password, log=self.log)

    async def __call__(self, request: rpc_pb2.AuthenticateRequest, seconds: float) -> rpc_pb2.AuthenticateResponse:
        self.asked.append(request)
        await self.answers.wait()
        if self.says is not None:
            raise failed(self.says)
        return rpc_pb2.AuthenticateResponse(token=f"token{len(self.asked)}")

    async def metadata(self, timeout_seconds: float | None = 5.0) -> Metadata:
        return await self.credentials.metadata(self, timeout_seconds)

    def forget(self) -> None:
        """Time goes by."""
        self.credentials._refused_until -= REFUSED_SECONDS

    @property
    def events(self) -> list[str]:
        return [str(event["event"]) for event in self.log.events]

    def _password(self) -> str:
        if not self.password:
            raise SettingsError("--upstream-password-file '/run/secret': is empty")
        return self.password


async def test_calls_that_come_together_share_one_log_in() -> None:
    etcd = Etcd()
    etcd.answers.clear()
    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(etcd.metadata()) for _ in range(50)]
        await asyncio.sleep(0)
        etcd.answers.set()
    assert {tuple(task.result()) for task in waiting} == {(("token", "token1"),)}
    assert etcd.asked == [rpc_pb2.AuthenticateRequest(name="greenroom", password="secret")]


async def test_whoever_waits_no_longer_takes_nobody_along() -> None:
    """The call that logs in for all is cancelled: the next one does it."""
    etcd = Etcd()
    etcd.answers.clear()
    first = asyncio.create_task(etcd.metadata())
    second = asyncio.create_task(etcd.metadata())
    await asyncio.sleep(0)
    first.cancel()
    etcd.answers.set()
    assert await second == (("token", "token2"),)
    assert first.cancelled()


async def test_a_token_that_is_refused_is_replaced_once() -> None:
    """Fifty calls were refused with one token; the first of them gets another, and the rest must not lose that."""
    etcd = Etcd()
    old = await etcd.metadata()
    for _ in range(50):
        assert etcd.credentials.refused(old, failed(EXPIRED))
        assert await etcd.metadata() == (("token", "token2"),)
    assert len(etcd.asked) == 2


async def test_other_errors_are_not_the_tokens() -> None:
    etcd = Etcd()
    token = await etcd.metadata()
    assert not etcd.credentials.refused(token, failed((grpc.StatusCode.PERMISSION_DENIED, "permission denied")))
    assert await etcd.metadata() is token


@pytest.mark.parametrize(
    "told",
    [
        EXPIRED,
        (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: revision of auth store is old"),
        (grpc.StatusCode.UNKNOWN, "auth: revision in header is old"),
        (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: user name is empty"),
    ],
)
def test_what_etcd_says_of_tokens(told: tuple[grpc.StatusCode, str]) -> None:
    assert is_refusal(failed(told))


@pytest.mark.parametrize(
    "told",
    [
        WRONG,
        (grpc.StatusCode.PERMISSION_DENIED, "etcdserver: permission denied"),
        (grpc.StatusCode.UNAVAILABLE, "etcdserver: invalid auth token"),
    ],
)
def test_what_etcd_says_of_other_things(told: tuple[grpc.StatusCode, str]) -> None:
    assert not is_refusal(failed(told))


@pytest.mark.parametrize("told", [EXPIRED, (grpc.StatusCode.PERMISSION_DENIED, "etcdserver: permission denied")])
def test_what_etcd_says_of_the_proxy_is_not_told_as_the_askers(told: tuple[grpc.StatusCode, str]) -> None:
    with pytest.raises(NotReady, match=f"refuses the proxy itself: {told[1]}; .*greenroom etcd-role"), for_itself():
        raise failed(told)


def test_what_etcd_says_of_the_call_passes() -> None:
    with pytest.raises(grpc.aio.AioRpcError), for_itself():
        raise failed((grpc.StatusCode.NOT_FOUND, "etcdserver: requested lease not found"))


async def test_where_auth_is_off_nothing_is_carried_until_it_is_on() -> None:
    etcd = Etcd()
    etcd.says = AUTH_IS_OFF
    nothing = await etcd.metadata()
    assert nothing == ()
    assert await etcd.metadata() is nothing
    etcd.says = None
    assert etcd.credentials.refused(
        nothing, failed((grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: user name is empty"))
    )
    assert await etcd.metadata() == (("token", "token2"),)
    assert etcd.events == ["login.not.needed", "login.done"]


async def test_a_wrong_password_is_told_once_and_asked_about_seldom() -> None:
    etcd = Etcd()
    old = await etcd.metadata()
    etcd.credentials.refused(old, failed(EXPIRED))
    etcd.says = WRONG
    for _ in range(20):
        with pytest.raises(LogInRefused):
            await etcd.metadata()
    assert len(etcd.asked) == 2
    etcd.forget()
    with pytest.raises(LogInRefused) as raised:
        await etcd.metadata()
    assert len(etcd.asked) == 3
    assert why(raised.value) == f"UNAVAILABLE: the proxy cannot log in to etcd: {WRONG[1]}"
    etcd.says = None
    etcd.forget()
    assert await etcd.metadata() == (("token", "token4"),)
    assert etcd.events == ["login.done", "login.refused", "login.done"]


async def test_a_start_with_a_wrong_password_is_told_by_its_end_alone() -> None:
    etcd = Etcd()
    etcd.says = WRONG
    with pytest.raises(LogInRefused):
        await etcd.metadata()
    assert etcd.events == []


async def test_a_password_is_read_at_each_log_in_and_its_place_told_to_the_log_alone() -> None:
    etcd = Etcd()
    old = await etcd.metadata()
    etcd.credentials.refused(old, failed(EXPIRED))
    etcd.password = ""
    with pytest.raises(LogInRefused) as raised:
        await etcd.metadata()
    assert "/run/secret" not in why(raised.value)
    assert "/run/secret" in etcd.log.events[-1]["reason"]
    etcd.forget()
    etcd.password = "new"
    await etcd.metadata()
    assert etcd.asked[-1].password == "new"


async def test_nobody_waits_for_longer_than_its_call_may_take() -> None:
    etcd = Etcd()
    etcd.answers.clear()
    for seconds in (0.01, 0.0):
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await etcd.metadata(seconds)
        assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_an_etcd_that_is_away_is_told_as_it_is() -> None:
    etcd = Etcd()
    etcd.says = (grpc.StatusCode.UNAVAILABLE, "connection refused")
    for _ in range(2):
        with pytest.raises(grpc.aio.AioRpcError, match="connection refused") as raised:
            await etcd.metadata()
        assert not isinstance(raised.value, LogInRefused)
    assert len(etcd.asked) == 2


async def test_neither_password_nor_token_is_shown() -> None:
    etcd = Etcd()
    await etcd.metadata()
    shown = repr(etcd.credentials) + repr(etcd.log.events)
    assert "secret" not in shown
    assert "token1" not in shown
