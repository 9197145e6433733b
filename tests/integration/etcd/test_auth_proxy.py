"""The proxy's own user of an etcd with auth on: tokens that end, auth that is turned on, a password that changes.

The rule: how long something takes is told by etcd, whose leases end by the same clock as its tokens.
"""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from greenroom.pb.etcd import auth_pb2, rpc_pb2
from tests.support.auth import FAST, PROXY, ROOT, WORKER, Users, guarded, proxied
from tests.support.client import CALL_SECONDS, EtcdClient
from tests.support.control import Control
from tests.support.endpoints import Proxy
from tests.support.etcd import Etcd
from tests.support.greenroom import GATE_ARGUMENTS, PROGRAM, Greenroom, environment
from tests.support.http import ask
from tests.support.twin import refusal
from tests.support.waiting import wait_for
from tests.support.workers import Worker

RUN_SECONDS = 60
UNKNOWN_TOKEN = (grpc.StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token")
WRONG = "etcdserver: authentication failed, invalid user ID or password"
TOKEN_SECONDS = 3
"""Less than the time between two keepalives of the proxy's own, which prolong its token where etcd asks for one."""
EXPIRING = (FAST, f"--auth-token-ttl={TOKEN_SECONDS}")
SIGNED = "sign-method=HS256"
"""Tokens that name the state of users and roles that they were given in, and are not taken in another."""


@contextmanager
def behind(etcd: Etcd, folder: Path) -> Iterator[tuple[Users, Proxy]]:
    with guarded(etcd, folder) as users, proxied(users, folder) as proxy:
        yield users, proxy


def wait_tokens_expire(users: Users, proxy: Proxy) -> None:
    """Returns when no token lives that was last used at the call of this, by a lease of etcd's that lives longer."""
    with users.client(ROOT) as client, client.watch(b"hourglass") as log:
        client.put(b"hourglass", b"", client.grant(TOKEN_SECONDS + 3))
        log.wait_events(2, timeout_seconds=30)
    assert log.changes == [("PUT", b"hourglass"), ("DELETE", b"hourglass")]
    with pytest.raises(grpc.RpcError) as raised:
        proxy.client.get(b"v1/any")
    assert (raised.value.code(), raised.value.details()) == UNKNOWN_TOKEN


def change_a_role(users: Users) -> None:
    """Somebody changes a role: signed tokens of before are worth nothing any more."""
    with users.client(ROOT) as root:
        request = rpc_pb2.AuthRoleAddRequest(name=f"role{root.revision()}")
        root.auth.RoleAdd(request, timeout=CALL_SECONDS, metadata=root.metadata)


def change_password(users: Users, password: str) -> None:
    with users.client(ROOT) as root:
        request = rpc_pb2.AuthUserChangePasswordRequest(name=PROXY, password=password)
        root.auth.UserChangePassword(request, timeout=CALL_SECONDS, metadata=root.metadata)


def wait_listed(proxy: Proxy, worker: Worker) -> None:
    """The follower has it."""
    wait_for(lambda: worker.instance in proxy.greenroom.listed("held"), describe=f"{worker} is listed as held")


def released(proxy: Proxy, users: Users, worker: Worker) -> bool:
    """Whether its gates' passing publishes it, as etcd shows it."""
    decided = proxy.control.pass_gates(worker.instance)
    with users.client(ROOT) as root:
        return decided == "RELEASED" and root.get(worker.card_key) is not None


def test_tokens_expire_while_workers_are_held(launch_etcd: Callable[..., Etcd], tmp_path: Path) -> None:
    """A quiet hour: then a registration, verdicts and releases, and the proxy's own view of it all."""
    with behind(launch_etcd(arguments=EXPIRING), tmp_path) as (users, proxy):
        with users.client(WORKER, proxy.address) as client:
            first = Worker(client)
            assert first.register().succeeded
        before = users.log_ins()
        wait_tokens_expire(users, proxy)
        with users.client(WORKER, proxy.address) as client:
            second = Worker(client, component="second")
            assert second.register().succeeded
        for worker in (first, second):
            wait_listed(proxy, worker)
            assert released(proxy, users, worker)
        assert users.log_ins() > before + 4, "the test itself logs in four times"
        assert proxy.greenroom.is_ready()
        assert "away" not in proxy.greenroom.log()


def test_roles_change_while_a_worker_is_held(launch_etcd: Callable[..., Etcd], tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("a secret of etcd's")
    etcd = launch_etcd(arguments=(FAST, f"--auth-token=jwt,{SIGNED},priv-key={key},ttl=10m"))
    with behind(etcd, tmp_path) as (users, proxy):
        worker = proxy.held_worker()
        change_a_role(users)
        with pytest.raises(grpc.RpcError, match=r"revision .* is old"):
            proxy.client.get(worker.card_key)
        assert released(proxy, users, worker)
        change_a_role(users)
        with users.client(WORKER, proxy.address) as client:
            worker.client = client
            assert worker.swap(worker.card(taints=["gold"]), worker.read().mod_revision).succeeded


def test_etcd_starts_anew_and_knows_no_token(launch_etcd: Callable[..., Etcd], tmp_path: Path) -> None:
    with behind(launch_etcd(arguments=(FAST,)), tmp_path) as (users, proxy):
        worker = proxy.held_worker()
        users.etcd.restart()
        wait_for(proxy.greenroom.is_ready, 30, "the proxy is ready again")
        assert released(proxy, users, worker)


def test_auth_is_turned_on_while_the_proxy_runs(launch_etcd: Callable[..., Etcd], tmp_path: Path) -> None:
    """The way an operator goes: proxies with a user first, then workers', then auth. Nothing stops for it."""
    etcd = launch_etcd(arguments=(FAST,))
    arguments = (*GATE_ARGUMENTS, "--upstream-user", PROXY, "--upstream-password-file", str(tmp_path / "password"))
    with (
        guarded(etcd, tmp_path, enabled=False) as users,
        Greenroom(etcd.endpoint, tmp_path, arguments=arguments) as greenroom,
        EtcdClient(greenroom.address) as client,
    ):
        assert "login.not.needed" in greenroom.log()
        before = Worker(client)
        assert before.register().succeeded
        users.enable()
        with pytest.raises(grpc.RpcError, match="user name is empty"):
            before.read()
        with (
            users.client(WORKER, greenroom.address) as user,
            users.client(ROOT) as public,
            Control(greenroom.control) as control,
        ):
            proxy = Proxy(etcd, greenroom.address, user, public, greenroom, control)
            assert released(proxy, users, before)
            after = proxy.held_worker(component="other")
            wait_listed(proxy, after)
            assert released(proxy, users, after)
        assert "login.done" in greenroom.log()
        assert "away" not in greenroom.log()


def test_a_password_changes_and_the_file_later(launch_etcd: Callable[..., Etcd], tmp_path: Path) -> None:
    """Until the file has the new one nothing is held nor released, clients are told so, and the log says it once."""
    with behind(launch_etcd(arguments=(FAST,)), tmp_path) as (users, proxy):
        worker = proxy.held_worker()
        change_password(users, "new")
        wait_for(lambda: not proxy.greenroom.is_ready(), describe="the proxy notices")
        with pytest.raises(grpc.RpcError) as raised:
            Worker(proxy.client, component="other").register()
        said = f"the proxy cannot log in to etcd: {WRONG}"
        assert (raised.value.code(), raised.value.details()) == (grpc.StatusCode.UNAVAILABLE, said)
        ready = f"{proxy.greenroom.http_url}/ready"
        wait_for(lambda: said in ask(ready).body.decode(), describe="the page says so too")
        assert proxy.client.put(b"v1/other"), "what is not gated is not the proxy's business"
        users.password_file("new")
        wait_for(proxy.greenroom.is_ready, describe="the proxy is ready again")
        assert released(proxy, users, worker)
        log = proxy.greenroom.log()
        assert log.count("login.refused") == 1
        assert not {"new", PROXY + "\n"} & set(log.split())


def test_a_user_is_taken_away_and_given_back(launch_etcd: Callable[..., Etcd], tmp_path: Path) -> None:
    with behind(launch_etcd(arguments=(FAST,)), tmp_path) as (users, proxy):
        worker = proxy.held_worker()
        with users.client(ROOT) as root:
            delete = rpc_pb2.AuthUserDeleteRequest(name=PROXY)
            root.auth.UserDelete(delete, timeout=CALL_SECONDS, metadata=root.metadata)
        wait_for(lambda: not proxy.greenroom.is_ready(), describe="the proxy notices")
        assert proxy.held(worker) == [worker.card_key]
        with users.client(ROOT) as root:
            add = rpc_pb2.AuthUserAddRequest(name=PROXY, password=PROXY)
            root.auth.UserAdd(add, timeout=CALL_SECONDS, metadata=root.metadata)
            grant = rpc_pb2.AuthUserGrantRoleRequest(user=PROXY, role="greenroom-proxy")
            root.auth.UserGrantRole(grant, timeout=CALL_SECONDS, metadata=root.metadata)
        wait_for(proxy.greenroom.is_ready, describe="the proxy is ready again")
        assert released(proxy, users, worker)


def test_a_role_that_lost_a_grant_is_not_taken_for_the_askers(launch_etcd: Callable[..., Etcd], tmp_path: Path) -> None:
    """The worker may write its card and the reporter may decide; it is the proxy that may no longer publish it."""
    with behind(launch_etcd(arguments=(FAST,)), tmp_path) as (users, proxy):
        worker = proxy.held_worker()
        with users.client(ROOT) as root:
            role, key, end = "greenroom-proxy", b"v1/mdc/", b"v1/mdc0"
            cards = rpc_pb2.AuthRoleRevokePermissionRequest(role=role, key=key, range_end=end)
            root.auth.RoleRevokePermission(cards, timeout=CALL_SECONDS, metadata=root.metadata)
        with pytest.raises(grpc.RpcError) as raised:
            proxy.control.pass_gates(worker.instance)
        assert refused_itself(raised.value)
        assert proxy.shown(worker) == []
        (tmp_path / ROOT).write_text(ROOT)
        users.apply("--user", ROOT, "--password-file", str(tmp_path / ROOT))
        assert released(proxy, users, worker)


def refused_itself(error: grpc.RpcError) -> bool:
    code, details = refusal(error)
    said = "etcd refuses the proxy itself: etcdserver: permission denied"
    return code is grpc.StatusCode.UNAVAILABLE and details.startswith(said)


def test_a_lease_that_carries_what_the_proxy_may_not_write(launch_etcd: Callable[..., Etcd], tmp_path: Path) -> None:
    """Newer etcd let nobody add to such a lease: the reporter is told what is missing, and how it is granted."""
    with behind(launch_etcd(arguments=(FAST,)), tmp_path) as (users, proxy):
        worker = proxy.held_worker()
        proxy.client.put(b"v1/planner/one", b"", worker.lease)
        assert proxy.control.verdict(worker.instance, "smoke", "passed") == "RECORDED"
        if users.etcd.version >= (3, 5, 30):
            with pytest.raises(grpc.RpcError) as raised:
                proxy.control.verdict(worker.instance, "latency", "passed")
            assert refused_itself(raised.value)
            assert proxy.shown(worker) == []
        (tmp_path / ROOT).write_text(ROOT)
        users.apply("--also", "v1/planner/", "--user", ROOT, "--password-file", str(tmp_path / ROOT))
        assert proxy.control.verdict(worker.instance, "latency", "passed") == "RELEASED"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    """An etcd whose user `small` has the proxies' role without Dynamo's cards."""
    folder = tmp_path_factory.mktemp("small")
    with Etcd.launch(arguments=(FAST,)) as etcd, guarded(etcd, folder, enabled=False) as users:
        with etcd.client() as client:
            client.auth.UserAdd(rpc_pb2.AuthUserAddRequest(name="small", password=PROXY))
            client.auth.RoleAdd(rpc_pb2.AuthRoleAddRequest(name="small"))
            perm = auth_pb2.Permission(permType=auth_pb2.Permission.READWRITE, key=b"\x01", range_end=b"\x02")
            client.auth.RoleGrantPermission(rpc_pb2.AuthRoleGrantPermissionRequest(name="small", perm=perm))
            client.auth.UserGrantRole(rpc_pb2.AuthUserGrantRoleRequest(user="small", role="small"))
        users.enable()
        yield users


@pytest.mark.parametrize(
    ("user", "password", "said"),
    [
        (
            PROXY,
            "wrong",
            "--upstream-user 'greenroom': etcd does not take it, with the password of --upstream-password-file "
            f"'{{file}}': {WRONG}",
        ),
        (
            "nobody",
            PROXY,
            "--upstream-user 'nobody': etcd does not take it, with the password of --upstream-password-file "
            f"'{{file}}': {WRONG}",
        ),
        (
            "small",
            PROXY,
            "--upstream-user: etcd does not let it read and write all keys that begin with b'v1/mdc/'; "
            "`greenroom etcd-role` prints what it needs",
        ),
        (
            "frontend",
            "frontend",
            "--upstream-user: etcd does not let it read and write all keys that begin with b'\\x01'; "
            "`greenroom etcd-role` prints what it needs",
        ),
        (
            None,
            "",
            "--upstream '{etcd}': etcd knows users, and --upstream-user is not given: etcdserver: user name is empty",
        ),
    ],
)
def test_a_start_that_etcd_does_not_allow_is_one_line(
    small: Users, tmp_path: Path, user: str | None, password: str, said: str
) -> None:
    file = tmp_path / "password"
    file.write_text(password)
    arguments = ["--upstream-user", user, "--upstream-password-file", str(file)] if user else []
    ports = [part for name in ("listen", "control-listen", "http-listen") for part in (f"--{name}", "127.0.0.1:0")]
    command = [*PROGRAM, "serve", "--upstream", small.etcd.endpoint, *GATE_ARGUMENTS, *ports, *arguments]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    told = done.stderr.splitlines()
    assert (told[-1], done.returncode) == (f"greenroom: {said.format(file=file, etcd=small.etcd.endpoint)}", 1)
    assert not any("error" in line.lower() for line in told[:-1])


def test_a_proxy_that_is_root_finds_foreign_keys_below_its_own(small: Users, tmp_path: Path) -> None:
    """Root may look where no role can be given rights by hand."""
    file = tmp_path / "password"
    file.write_text(ROOT)
    with small.client(ROOT) as root:
        root.put(b"\0foreign")
        arguments = ["--upstream-user", ROOT, "--upstream-password-file", str(file)]
        command = [*PROGRAM, "serve", "--upstream", small.etcd.endpoint, *GATE_ARGUMENTS, *arguments]
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=RUN_SECONDS, check=False
        )
        root.delete(b"\0foreign")
    assert done.returncode == 1
    assert r"etcd holds the key b'\x00foreign'" in done.stderr


@pytest.mark.parametrize("is_released", [True, False])
def test_an_edit_needs_no_look_at_a_lease_with_keys_of_others(
    launch_etcd: Callable[..., Etcd], tmp_path: Path, *, is_released: bool
) -> None:
    """From 3.5.30 the proxy may not ask what lies on such a lease; a worker with a record has no need of that."""
    with behind(launch_etcd(arguments=(FAST,)), tmp_path) as (users, proxy):
        worker = proxy.held_worker()
        if is_released:
            assert released(proxy, users, worker)
        proxy.client.put(b"v1/planner/x", b"1", worker.lease)
        (tmp_path / "two").mkdir()
        with proxied(users, tmp_path / "two") as second:
            worker.client = second.client
            assert worker.swap(worker.card(taints=["gold"]), worker.read().mod_revision).succeeded
