"""`greenroom etcd-role`: what it prints can be pasted into a shell, and what it does itself is the same, just once."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from greenroom.pb.etcd import auth_pb2, rpc_pb2
from tests.support.auth import FAST, ROOT, STRANGER, WORKER, Users, guarded, proxied
from tests.support.client import CALL_SECONDS
from tests.support.etcd import Etcd
from tests.support.etcdctl import find_etcdctl

SHELL_SECONDS = 60
Rights = dict[str, list[tuple[bytes, bytes]]]


@pytest.fixture
def users(launch_etcd: Callable[..., Etcd], tmp_path: Path) -> Users:
    """An etcd with users, and without what the command is about."""
    users = Users(launch_etcd(arguments=(FAST,)), tmp_path)
    users.make()
    return users


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    """An etcd where all is as it should be, and the folder with the passwords `root` and `wrong`."""
    folder = tmp_path_factory.mktemp("applied")
    with Etcd.launch(arguments=(FAST,)) as etcd, guarded(etcd, folder) as users:
        for name in ("root", "wrong"):
            (folder / name).write_text(name)
        yield users


def pasted(text: str, folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run line by line by an interactive kind of shell: it goes on after an error."""
    path = f"{Path(find_etcdctl()).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "ETCDCTL_API": "3", **variables}
    return subprocess.run(
        ["bash"], input=text, cwd=folder, env=environment, capture_output=True, text=True, timeout=SHELL_SECONDS
    )


def printed(users: Users, *arguments: str) -> str:
    own = ("--worker-user", WORKER, "--worker-user", STRANGER, "--proxy-password-file", "password")
    done = users.etcd_role("--upstream", users.etcd.endpoint, *own, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rights(users: Users, **metadata: str) -> Rights:
    """What both roles let read and write."""
    with users.etcd.client(**metadata) as client:
        asked = {
            role: client.auth.RoleGet(
                rpc_pb2.AuthRoleGetRequest(role=role), timeout=CALL_SECONDS, metadata=client.metadata
            )
            for role in ("greenroom-worker", "greenroom-proxy")
        }
    assert all(perm.permType == auth_pb2.Permission.READWRITE for answer in asked.values() for perm in answer.perm)
    return {role: sorted((perm.key, perm.range_end) for perm in answer.perm) for role, answer in asked.items()}


EXPECTED: Rights = {
    "greenroom-worker": [
        (b"\x01greenroom/held/", b"\x01greenroom/held0"),
        (b"\x01greenroom/instances/", b"\x01greenroom/instances0"),
    ],
    "greenroom-proxy": [
        (b"\x01", b"\x02"),
        (b"odd'one\\/", b"odd'one\\0"),
        (b"v1/event_channels/", b"v1/event_channels0"),
        (b"v1/event_sources/", b"v1/event_sources0"),
        (b"v1/instances/", b"v1/instances0"),
        (b"v1/mdc/", b"v1/mdc0"),
    ],
}
ALSO = ("--also", "odd'one\\/")


def test_what_is_printed_is_pasted_and_a_worker_is_held_and_released(users: Users, tmp_path: Path) -> None:
    """As a newcomer does it: paste, turn auth on, start the proxy with the file that the shell made."""
    done = pasted(printed(users, *ALSO), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert rights(users) == EXPECTED
    password = tmp_path / "password"
    assert (len(password.read_text()), password.stat().st_mode & 0o777) == (33, 0o600)
    users.enable()
    with proxied(users, tmp_path) as proxy:
        proxy.released_worker()


def test_pasting_again_changes_nothing(users: Users, tmp_path: Path) -> None:
    pasted(printed(users, *ALSO), tmp_path)
    before = (tmp_path / "password").read_text()
    again = pasted(printed(users, *ALSO), tmp_path)
    assert "already exists" in again.stderr
    assert rights(users) == EXPECTED
    assert (tmp_path / "password").read_text() == before
    users.enable()
    with proxied(users, tmp_path):
        pass


def test_what_is_applied_is_what_is_printed(users: Users) -> None:
    told = users.apply(*ALSO).splitlines()
    assert rights(users) == EXPECTED
    assert told == [
        "role greenroom-worker: added",
        "role greenroom-worker: may read and write keys that begin with b'\\x01greenroom/held/'",
        "role greenroom-worker: may read and write keys that begin with b'\\x01greenroom/instances/'",
        "role greenroom-proxy: added",
        *(
            f"role greenroom-proxy: may read and write keys that begin with {key!r}"
            for key, _ in EXPECTED["greenroom-proxy"]
        ),
        "user greenroom: added",
        "user worker: has role greenroom-worker",
        "user stranger: has role greenroom-worker",
        "user greenroom: has role greenroom-proxy",
    ]
    assert users.apply(*ALSO) == "nothing to change\n"


def test_only_what_is_missing_is_applied_with_auth_on(users: Users, tmp_path: Path) -> None:
    """A team was added later; the administrator's password is in a file."""
    users.apply(*ALSO)
    users.enable()
    root = tmp_path / "root"
    root.write_text(ROOT)
    as_root = ("--user", ROOT, "--password-file", str(root))
    assert users.apply(*ALSO, *as_root) == "nothing to change\n"
    told = users.apply(*ALSO, "--also", "v1/planner/", *as_root)
    assert told == "role greenroom-proxy: may read and write keys that begin with b'v1/planner/'\n"


def test_with_auth_on_what_is_printed_runs_as_root(users: Users, tmp_path: Path) -> None:
    users.enable()
    done = pasted(printed(users, *ALSO), tmp_path, ETCDCTL_USER=f"{ROOT}:{ROOT}")
    assert done.returncode == 0, done.stderr
    assert rights(users, token=users.token(ROOT)) == EXPECTED


def test_a_workers_role_that_reaches_too_far_is_told(users: Users, tmp_path: Path) -> None:
    """It was given everything at some time: then its users can lift a rollout hold, past the proxy."""
    with users.etcd.client() as client:
        client.auth.RoleAdd(rpc_pb2.AuthRoleAddRequest(name="greenroom-worker"))
        perm = auth_pb2.Permission(permType=auth_pb2.Permission.READWRITE, key=b"\0", range_end=b"\0")
        client.auth.RoleGrantPermission(rpc_pb2.AuthRoleGrantPermissionRequest(name="greenroom-worker", perm=perm))
    own = ("--proxy-password-file", str(users.password_file()))
    done = users.etcd_role("--apply", "--upstream", users.etcd.endpoint, *own)
    assert done.returncode == 0
    assert "held" not in done.stdout
    assert "role greenroom-worker may also write keys from b'\\x00' on" in done.stderr


def test_a_workers_role_that_may_only_write_too_far_is_told(users: Users) -> None:
    """To lift a rollout hold nobody need be able to read it. What it may read, and not write, harms nobody."""
    own = ("--proxy-password-file", str(users.password_file()), "--apply", "--upstream", users.etcd.endpoint)
    assert users.etcd_role(*own).stderr == ""
    with users.etcd.client() as client:
        for kind, key, end in (
            (auth_pb2.Permission.WRITE, b"\x01greenroom/rollout-holds/", b"\x01greenroom/rollout-holds0"),
            (auth_pb2.Permission.READ, b"\x01greenroom/budget", b""),
        ):
            perm = auth_pb2.Permission(permType=kind, key=key, range_end=end)
            client.auth.RoleGrantPermission(rpc_pb2.AuthRoleGrantPermissionRequest(name="greenroom-worker", perm=perm))
    [line] = users.etcd_role(*own).stderr.splitlines()
    assert "may also write keys that begin with b'\\x01greenroom/rollout-holds/'" in line


def test_a_member_that_is_down_is_passed_over(users: Users) -> None:
    """Roles and users are the whole cluster's, so any member will do."""
    own = ("--proxy-password-file", str(users.password_file()), "--apply")
    done = users.etcd_role(*own, "--upstream", f"http://127.0.0.1:1,{users.etcd.endpoint}")
    assert (done.returncode, done.stderr) == (0, "")
    assert "user greenroom: added" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--apply",), "user name is empty; auth is on: give --user"),
        (("--apply", "--user", "root"), "--user 'root': needs a password: give --password-file, or "),
        (
            ("--apply", "--user", "root", "--password-file", "{wrong}"),
            "authentication failed, invalid user ID or password",
        ),
        (
            ("--apply", "--worker-user", "nobody", "--user", "root", "--password-file", "{root}"),
            "etcd has no user 'nobody'",
        ),
        (
            ("--apply", "--proxy-user", "new", "--user", "root", "--password-file", "{root}"),
            "--proxy-user 'new': is to be",
        ),
    ],
)
def test_what_cannot_be_applied_is_told_in_one_line(applied: Users, arguments: tuple[str, ...], said: str) -> None:
    given = [part.format(root=applied.folder / "root", wrong=applied.folder / "wrong") for part in arguments]
    done = applied.etcd_role("--upstream", applied.etcd.endpoint, *given)
    assert done.returncode in (1, 2)
    [line] = done.stderr.splitlines()
    assert line.startswith("greenroom: ")
    assert said in line
