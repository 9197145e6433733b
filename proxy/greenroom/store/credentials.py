"""The proxy's own user of etcd, and the token by which etcd knows it.

The rule: a token is asked for when a call needs one, and again when etcd no longer takes it: it expired, etcd was
started anew, users or roles changed, auth was turned on. Whatever number of calls wait for it, it is asked for once.
Neither password nor token is ever logged, nor in any error.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import grpc

from greenroom.errors import GreenroomError, NotReady
from greenroom.pb.etcd import rpc_pb2
from greenroom.store.call_errors import deadline_exceeded

Metadata = Sequence[tuple[str, str | bytes]]
Authenticate = Callable[[rpc_pb2.AuthenticateRequest, float], Awaitable[rpc_pb2.AuthenticateResponse]]
"""Auth/Authenticate, within so many seconds."""
Password = Callable[[], str]
"""Asked before each log-in, for a password changes with the file that it is in. GreenroomError where there is none."""

LOG_IN_SECONDS = 5.0
"""etcd spends a tenth of a second on a password."""
REFUSED_SECONDS = 1.0
"""For so long a refusal stands: etcd's work on passwords is dear, and every call of a loop would ask for it."""

_REFUSALS: Final = frozenset(
    {
        # Expired, of an etcd that was started anew, of a user whose password changed.
        (grpc.StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token"),
        # Signed tokens name the state of users and roles that they were given in.
        (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: revision of auth store is old"),
        (grpc.StatusCode.UNKNOWN, "auth: revision in header is old"),  # the same, until 3.5.1
        # No token was sent: auth was off.
        (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: user name is empty"),
    }
)
AUTH_IS_OFF: Final = (grpc.StatusCode.FAILED_PRECONDITION, "etcdserver: authentication is not enabled")
_WRONG_PASSWORD: Final = grpc.StatusCode.INVALID_ARGUMENT


class LogInRefused(grpc.aio.AioRpcError):
    """etcd does not let the proxy's user in. UNAVAILABLE: whoever asked may come back, and has done nothing wrong.

    Like any error of a call, so that whoever calls again after those calls again after this one.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(
            grpc.StatusCode.UNAVAILABLE,
            grpc.aio.Metadata(),
            grpc.aio.Metadata(),
            f"the proxy cannot log in to etcd: {reason}",
        )
        self.reason = reason


class Credentials:
    """One user. Made inside the running event loop."""

    def __init__(self, user: str, password: Password, *, log: Any) -> None:
        self._user, self._password = user, password
        self._log = log.bind(user=user)
        self._metadata: Metadata | None = None
        self._lock = asyncio.Lock()
        self._refusal: LogInRefused | None = None
        self._told = ""
        self._refused_until = 0.0

    def __repr__(self) -> str:
        return f"Credentials({self._user!r})"

    async def metadata(self, authenticate: Authenticate, timeout_seconds: float | None) -> Metadata:
        """What a call carries: the token, or nothing where etcd's auth is off.

        LogInRefused; DEADLINE_EXCEEDED where there is none within the time; else AioRpcError as etcd gives it.
        """
        if self._metadata is not None:
            return self._metadata
        seconds = LOG_IN_SECONDS if timeout_seconds is None else min(timeout_seconds, LOG_IN_SECONDS)
        try:
            async with asyncio.timeout(seconds), self._lock:
                return self._metadata if self._metadata is not None else await self._log_in(authenticate, seconds)
        except TimeoutError:
            raise deadline_exceeded() from None

    def refused(self, metadata: Metadata, error: grpc.aio.AioRpcError) -> bool:
        """Whether etcd refused a call because of what it carried here, so that it did not happen and may be repeated.

        If so, the next call asks for another token, unless somebody has done so already.
        """
        if not is_refusal(error):
            return False
        if metadata is self._metadata:
            self._metadata = None
        return True

    async def _log_in(self, authenticate: Authenticate, seconds: float) -> Metadata:
        if self._refusal is not None and _time() < self._refused_until:
            raise LogInRefused(self._refusal.reason)
        try:
            answer = await authenticate(self._request(), seconds)
        except GreenroomError as error:
            # Clients are told of it, and should not learn where the proxy's files are.
            raise self._refuse("its password cannot be read", said=str(error)) from error
        except grpc.aio.AioRpcError as error:
            if (error.code(), error.details()) == AUTH_IS_OFF:
                return self._come_in("")
            if error.code() is _WRONG_PASSWORD:
                raise self._refuse(str(error.details()), said=str(error.details())) from error
            raise
        return self._come_in(answer.token)

    def _request(self) -> rpc_pb2.AuthenticateRequest:
        return rpc_pb2.AuthenticateRequest(name=self._user, password=self._password())

    def _come_in(self, token: str) -> Metadata:
        """Told where it changes something; tokens expire all the time."""
        event = "login.done" if token else "login.not.needed"
        if event != self._told:
            self._log.info(event)
        self._told, self._refusal = event, None
        self._metadata = (("token", token),) if token else ()
        return self._metadata

    def _refuse(self, reason: str, *, said: str) -> LogInRefused:
        """Told once, when it begins; whoever starts the proxy is told by its end."""
        if self._refusal is None and self._told:
            self._log.error("login.refused", reason=said)
            self._told = "login.refused"
        self._refusal, self._refused_until = LogInRefused(reason), _time() + REFUSED_SECONDS
        return self._refusal


def is_refusal(error: grpc.aio.AioRpcError) -> bool:
    """Whether etcd refused a call because it does not know, or no longer knows, who makes it."""
    return (error.code(), error.details()) in _REFUSALS


@contextmanager
def for_itself() -> Iterator[None]:
    """NotReady where etcd does not let the proxy do what it must.

    For calls of the proxy's own that somebody waits for, who would take etcd's word for one on his own rights.
    """
    try:
        yield
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.PERMISSION_DENIED or is_refusal(error):
            raise NotReady(
                f"etcd refuses the proxy itself: {error.details()}; its user must be allowed to read and write gated "
                "keys and whatever else the worker's lease carries: `greenroom etcd-role` prints the grants"
            ) from error
        raise


def _time() -> float:
    return asyncio.get_running_loop().time()
