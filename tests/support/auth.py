"""An etcd with auth on: its users as an operator would make them, and clients that are one of them.

The rule: workers' and the proxies' rights are those that `greenroom etcd-role` gives, so that each test is of it too.
Every user's password is its name. Tokens are asked of etcd itself, except where a test is about asking.
"""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from greenroom.pb.etcd import auth_pb2, rpc_pb2
from tests.support.client import EtcdClient
from tests.support.control import Control
from tests.support.endpoints import Proxy
from tests.support.etcd import Etcd
from tests.support.greenroom import CLI_SECONDS, GATE_ARGUMENTS, PROGRAM, Greenroom, environment
from tests.support.http import ask

ROOT = "root"
WORKER = "worker"
"""May do what a worker must."""
STRANGER = "stranger"
"""A worker of another team: it may have its keys held, and has no rights on Dynamo's."""
FRONTEND = "frontend"
"""Reads what Dynamo has."""
OUTSIDER = "outsider"
"""Writes what Dynamo has, and was not given the workers' role."""
PROXY = "greenroom"

DYNAMO, TEAM = (b"v1/", b"v10"), (b"team/", b"team0")
RIGHTS = {
    WORKER: (DYNAMO, auth_pb2.Permission.READWRITE),
    STRANGER: (TEAM, auth_pb2.Permission.READWRITE),
    FRONTEND: (DYNAMO, auth_pb2.Permission.READ),
    OUTSIDER: (DYNAMO, auth_pb2.Permission.READWRITE),
}
FAST = "--bcrypt-cost=4"
"""A password takes etcd a tenth of a second otherwise."""
CALL_SECONDS = 20
_LOG_INS = r'^grpc_server_handled_total\{grpc_code="OK",grpc_method="Authenticate".*\} (\S+)$'


@dataclass(frozen=True, slots=True)
class Users:
    """The users of one etcd."""

    etcd: Etcd
    folder: Path

    def make(self) -> None:
        """Everybody but the proxies' user and the roles that Greenroom is about."""
        with self.etcd.client() as client:
            auth = client.auth
            for user in (ROOT, *RIGHTS):
                auth.UserAdd(rpc_pb2.AuthUserAddRequest(name=user, password=user))
                auth.RoleAdd(rpc_pb2.AuthRoleAddRequest(name=user))
                auth.UserGrantRole(rpc_pb2.AuthUserGrantRoleRequest(user=user, role=user))
            for user, ((key, end), kind) in RIGHTS.items():
                perm = auth_pb2.Permission(permType=kind, key=key, range_end=end)
                auth.RoleGrantPermission(rpc_pb2.AuthRoleGrantPermissionRequest(name=user, perm=perm))

    def apply(self, *arguments: str) -> str:
        """`greenroom etcd-role --apply`; what it said."""
        own = ["--proxy-password-file", str(self.password_file()), "--worker-user", WORKER, "--worker-user", STRANGER]
        done = self.etcd_role("--apply", "--upstream", self.etcd.endpoint, *own, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def etcd_role(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [*PROGRAM, "etcd-role", *arguments]
        return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=CLI_SECONDS)

    def enable(self) -> None:
        with self.etcd.client() as client:
            client.auth.AuthEnable(rpc_pb2.AuthEnableRequest(), timeout=CALL_SECONDS)

    def token(self, user: str, address: str = "") -> str:
        with EtcdClient(address or self.etcd.address) as client:
            request = rpc_pb2.AuthenticateRequest(name=user, password=user)
            return client.auth.Authenticate(request, timeout=CALL_SECONDS).token

    def client(self, user: str, address: str = "", *, header: str = "token") -> EtcdClient:
        """A client of etcd itself, or of another address; the caller closes it."""
        return EtcdClient(address or self.etcd.address, ((header, self.token(user)),))

    def password_file(self, password: str = PROXY) -> Path:
        path = self.folder / "password"
        path.write_text(f"{password}\n")
        return path

    def arguments(self) -> tuple[str, ...]:
        """What the proxy is told of its user."""
        return ("--upstream-user", PROXY, "--upstream-password-file", str(self.folder / "password"))

    def log_ins(self) -> int:
        """How often somebody was let in by etcd since its start, by its own count."""
        said = ask(f"{self.etcd.endpoint}/metrics").body.decode()
        return sum(int(float(count)) for count in re.findall(_LOG_INS, said, re.MULTILINE))


@contextmanager
def guarded(etcd: Etcd, folder: Path, *, enabled: bool = True) -> Iterator[Users]:
    """The etcd with everybody made, and auth on."""
    users = Users(etcd, folder)
    users.make()
    users.apply()
    if enabled:
        users.enable()
    yield users


@contextmanager
def proxied(users: Users, folder: Path, user: str = WORKER) -> Iterator[Proxy]:
    """A proxy before it: `client` is the user's, `public` is root's."""
    arguments = (*GATE_ARGUMENTS, *users.arguments())
    with (
        Greenroom(users.etcd.endpoint, folder, arguments=arguments) as greenroom,
        users.client(user, greenroom.address) as client,
        users.client(ROOT) as public,
        Control(greenroom.control) as control,
    ):
        yield Proxy(users.etcd, greenroom.address, client, public, greenroom, control)
