"""What `greenroom etcd-role` prints: etcdctl commands that can be pasted into bash or zsh as they are.

The rule: nothing in it asks a question, since what is pasted after it would be taken for the answer; no comment has a
character that means something to a shell, since zsh reads comments too; no password is in it.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from greenroom.core.grants import WORKER_GRANTS, Grant

PASSWORD_BYTES = 24


@dataclass(frozen=True, slots=True)
class Plan:
    """Roles and users as they are to be. `password_file` is where the proxies' user's password is, or will be."""

    worker_role: str
    worker_users: Sequence[str]
    proxy_role: str
    proxy_user: str
    proxy_grants: Sequence[Grant]
    password_file: str

    @property
    def roles(self) -> Sequence[tuple[str, Sequence[Grant]]]:
        """Each role with what it must grant."""
        return (self.worker_role, WORKER_GRANTS), (self.proxy_role, self.proxy_grants)

    @property
    def memberships(self) -> Sequence[tuple[str, str]]:
        """Each user with the role that it must have."""
        workers = ((user, self.worker_role) for user in self.worker_users)
        return *workers, (self.proxy_user, self.proxy_role)


def commands(plan: Plan, upstream: str, tls: Mapping[str, str] | None = None) -> str:
    """The whole text. `upstream` is etcd's URL, or its members' with commas between; empty where it is not known.

    `tls` are etcdctl's variables for the files that an https:// one needs.
    """
    return "\n".join(_lines(plan, upstream, tls or {}))


def shell_word(text: bytes) -> str:
    """One word of bash or zsh that stands for these bytes. An argument of a command cannot hold a zero byte."""
    assert b"\0" not in text
    if all(0x20 <= byte < 0x7F for byte in text):
        return shlex.quote(text.decode())
    return "$'" + "".join(_in_quotes(byte) for byte in text) + "'"


def _in_quotes(byte: int) -> str:
    if byte in b"'\\":
        return f"\\{chr(byte)}"
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}"


def _lines(plan: Plan, upstream: str, tls: Mapping[str, str]) -> Iterator[str]:
    yield "# For etcdctl, in bash or zsh, as a user that has the role root where auth is on:"
    yield "# export ETCDCTL_USER=root:PASSWORD"
    if upstream:
        yield f"export ETCDCTL_ENDPOINTS={shlex.quote(upstream)}"
    yield from (f"export {name}={shlex.quote(path)}" for name, path in tls.items())
    yield ""
    yield "# Workers. What they register lies here while it is held, written as their own users."
    yield "# Beside it they need what they need without a proxy: for Dynamo reading and writing v1/."
    yield from _role(plan.worker_role, WORKER_GRANTS)
    yield from (_grant_role(user, plan.worker_role) for user in plan.worker_users)
    if not plan.worker_users:
        yield f"# Then, for each user of a worker: etcdctl user grant-role USER {shlex.quote(plan.worker_role)}"
    yield ""
    yield "# The proxies. They publish cards under the leases of workers, so they must be allowed to write every key"
    yield "# that workers put on their leases: name what is not below with --also PREFIX."
    yield from _role(plan.proxy_role, plan.proxy_grants)
    yield from _user(plan)
    yield _grant_role(plan.proxy_user, plan.proxy_role)
    yield ""
    file = shlex.quote(plan.password_file)
    yield f"# Then: greenroom serve --upstream-user {shlex.quote(plan.proxy_user)} --upstream-password-file {file}"


def _role(role: str, grants: Sequence[Grant]) -> Iterator[str]:
    yield f"etcdctl role add {shlex.quote(role)}"
    for grant in grants:
        where = f"--prefix {shell_word(grant.key)}"
        if not grant.is_prefix:
            where = f"{shell_word(grant.key)} {shell_word(grant.range_end)}"
        yield f"etcdctl role grant-permission {shlex.quote(role)} readwrite {where}"


def _user(plan: Plan) -> Iterator[str]:
    """A password is made up where there is none yet; where the user is there already, etcd says so and all is well."""
    file, user = shlex.quote(plan.password_file), shlex.quote(plan.proxy_user)
    yield f"test -s {file} || (umask 077; head -c {PASSWORD_BYTES} /dev/urandom | base64 > {file})"
    yield f"etcdctl user add {user} --interactive=false < {file}"


def _grant_role(user: str, role: str) -> str:
    return f"etcdctl user grant-role {shlex.quote(user)} {shlex.quote(role)}"
