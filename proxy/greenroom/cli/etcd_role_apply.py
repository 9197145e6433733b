"""Carries out what `greenroom etcd-role` would print, by etcd's own Auth API.

The rule: what is there already stays as it is, and nothing is ever taken away. Each change is told once it is made, so
that whatever stops in between has said how far it came.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self

import grpc

from greenroom.addresses import Address
from greenroom.cli.etcd_role_commands import Plan
from greenroom.core.grants import Grant
from greenroom.errors import EtcdCallError
from greenroom.pb.etcd import auth_pb2, rpc_pb2, rpc_pb2_grpc
from greenroom.store.credentials import AUTH_IS_OFF

CALL_SECONDS = 10.0
CONNECT_SECONDS = 3.0
"""Until another member of the cluster is tried."""
_NO_ROLE: Final = "etcdserver: role name not found"
_NO_USER: Final = "etcdserver: user name not found"

_NOBODY: Final = "etcdserver: user name is empty"

Tell = Callable[[str], None]


class AuthApi:
    """etcd's users and roles, which any member changes for all of them: the first that can be reached is asked.

    `with` closes it; EtcdCallError, in one line, for whatever etcd refuses.
    """

    def __init__(self, addresses: Sequence[Address], credentials: grpc.ChannelCredentials | None = None) -> None:
        self._address, self._channel = _reached(addresses, credentials)
        self._stub = rpc_pb2_grpc.AuthStub(self._channel)
        self._metadata: tuple[tuple[str, str], ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def log_in(self, user: str, password: str) -> None:
        """From here on calls are this user's. Where auth is off nobody need log in."""
        with self._in_words(AUTH_IS_OFF[1]):
            answer = self._call("Authenticate", rpc_pb2.AuthenticateRequest(name=user, password=password))
            self._metadata = (("token", answer.token),)

    def grants(self, role: str) -> list[Grant] | None:
        """What a role lets both read and write; None where there is no such role."""
        return self._granted(role, auth_pb2.Permission.READWRITE)

    def writable(self, role: str) -> list[Grant]:
        """What a role lets write, whether it lets it be read or not; nothing where there is no such role."""
        return self._granted(role, auth_pb2.Permission.WRITE, auth_pb2.Permission.READWRITE) or []

    def _granted(self, role: str, *kinds: "auth_pb2.Permission.Type.ValueType") -> list[Grant] | None:
        with self._in_words(_NO_ROLE):
            found = self._call("RoleGet", rpc_pb2.AuthRoleGetRequest(role=role)).perm
            return [Grant(perm.key, perm.range_end) for perm in found if perm.permType in kinds]
        return None

    def roles(self, user: str) -> list[str] | None:
        """The roles of a user; None where there is no such user."""
        with self._in_words(_NO_USER):
            return list(self._call("UserGet", rpc_pb2.AuthUserGetRequest(name=user)).roles)
        return None

    def add_role(self, role: str) -> None:
        """A role that grants nothing yet."""
        with self._in_words():
            self._call("RoleAdd", rpc_pb2.AuthRoleAddRequest(name=role))

    def grant(self, role: str, grant: Grant) -> None:
        """Lets a role read and write some keys."""
        perm = auth_pb2.Permission(permType=auth_pb2.Permission.READWRITE, key=grant.key, range_end=grant.range_end)
        with self._in_words():
            self._call("RoleGrantPermission", rpc_pb2.AuthRoleGrantPermissionRequest(name=role, perm=perm))

    def add_user(self, user: str, password: str) -> None:
        """A user without a role."""
        with self._in_words():
            self._call("UserAdd", rpc_pb2.AuthUserAddRequest(name=user, password=password))

    def grant_role(self, user: str, role: str) -> None:
        """Gives a user a role."""
        with self._in_words():
            self._call("UserGrantRole", rpc_pb2.AuthUserGrantRoleRequest(user=user, role=role))

    def _call(self, method: str, request: object) -> Any:
        return getattr(self._stub, method)(request, timeout=CALL_SECONDS, metadata=self._metadata)

    @contextmanager
    def _in_words(self, expected: str = "") -> Iterator[None]:
        """Ends the block where etcd says what is expected; whatever else it says is raised."""
        try:
            yield
        except grpc.RpcError as error:
            details = " ".join((error.details() or "").split()) or error.code().name
            if details != expected:
                advice = "" if self._metadata or details != _NOBODY else "; auth is on: give --user"
                raise EtcdCallError(f"--upstream '{self._address.url}': {details}{advice}") from error


def _reached(addresses: Sequence[Address], credentials: grpc.ChannelCredentials | None) -> tuple[Address, grpc.Channel]:
    """A connection to the first that there is one to; to the last where there is none, so that its error is told."""
    *first, last = addresses
    for address in first:
        channel = _channel(address, credentials)
        try:
            grpc.channel_ready_future(channel).result(CONNECT_SECONDS)
        except grpc.FutureTimeoutError:
            channel.close()
        else:
            return address, channel
    return last, _channel(last, credentials)


def _channel(address: Address, credentials: grpc.ChannelCredentials | None) -> grpc.Channel:
    options = (("grpc.enable_http_proxy", 0),)
    if credentials is None:
        return grpc.insecure_channel(str(address), options=options)
    return grpc.secure_channel(str(address), credentials, options=options)


def apply(plan: Plan, api: AuthApi, password: Callable[[], str], tell: Tell) -> int:
    """Makes everything as planned; how many changes that took. `password` is asked for if the user must be made."""
    changes = _Changes(tell)
    for role, grants in plan.roles:
        _apply_role(role, grants, api, changes)
    if api.roles(plan.proxy_user) is None:
        api.add_user(plan.proxy_user, password())
        changes.made(f"user {plan.proxy_user}: added")
    for user, role in plan.memberships:
        if role not in _roles_of(user, api):
            api.grant_role(user, role)
            changes.made(f"user {user}: has role {role}")
    return changes.number


def _apply_role(role: str, grants: Sequence[Grant], api: AuthApi, changes: "_Changes") -> None:
    known = api.grants(role)
    if known is None:
        api.add_role(role)
        changes.made(f"role {role}: added")
    for grant in grants:
        if not any(had.covers(grant) for had in known or ()):
            api.grant(role, grant)
            changes.made(f"role {role}: may read and write {in_words(grant)}")


def _roles_of(user: str, api: AuthApi) -> list[str]:
    roles = api.roles(user)
    if roles is None:
        raise EtcdCallError(f"etcd has no user {user!r}: add it first, as `etcdctl user add` does")
    return roles


def in_words(grant: Grant) -> str:
    """Which keys a grant is about."""
    if grant.is_prefix:
        return f"keys that begin with {grant.key!r}"
    if grant.range_end == b"\0":
        return f"keys from {grant.key!r} on"
    return f"keys from {grant.key!r} up to {grant.range_end!r}" if grant.range_end else f"key {grant.key!r}"


class _Changes:
    def __init__(self, tell: Tell) -> None:
        self._tell, self.number = tell, 0

    def made(self, what: str) -> None:
        self.number += 1
        self._tell(what)
