"""An etcd with auth on, straight and through the proxy: whoever calls is who it says, and may do what etcd lets it.

Workers' rights are those that `greenroom etcd-role` gives; see tests/support/auth.py for who is who.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import grpc
import pytest

from greenroom.pb.etcd import auth_pb2, election_pb2, election_pb2_grpc, rpc_pb2
from tests.support.auth import (
    FAST,
    FRONTEND,
    OUTSIDER,
    ROOT,
    STRANGER,
    WORKER,
    Users,
    guarded,
    proxied,
)
from tests.support.client import CALL_SECONDS, EtcdClient, delete, get, prefix_end, put, version_is
from tests.support.endpoints import SHADOWS, Proxy
from tests.support.etcd import Etcd
from tests.support.twin import Refused, refusal
from tests.support.workers import CARDS, Worker

DENIED = (grpc.StatusCode.PERMISSION_DENIED, "etcdserver: permission denied")
OK = (grpc.StatusCode.OK, "")
DIRECT, PROXIED = "direct", "proxied"
Call = Callable[[EtcdClient, Worker], object]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Users, Proxy]]:
    """An etcd with users and a proxy before it, for the whole file."""
    folder = tmp_path_factory.mktemp("auth")
    with (
        Etcd.launch(arguments=(FAST,)) as etcd,
        guarded(etcd, folder) as users,
        proxied(users, folder) as proxy,
    ):
        bystander = proxy.held_worker(component="bystander", ttl_seconds=600)
        yield users, proxy
        assert proxy.held(bystander) == [bystander.card_key]


@pytest.fixture
def users(stage: tuple[Users, Proxy]) -> Users:
    return stage[0]


@pytest.fixture
def proxy(stage: tuple[Users, Proxy]) -> Proxy:
    return stage[1]


@pytest.fixture(params=[DIRECT, PROXIED])
def address(request: pytest.FixtureRequest, users: Users, proxy: Proxy) -> str:
    """Where the clients of a test go: to etcd, or to the proxy."""
    return users.etcd.address if request.param == DIRECT else proxy.address


@dataclass(frozen=True, slots=True)
class Somebody:
    """A client that asks under any metadata, and the worker, another one's, that it asks about."""

    client: EtcdClient
    worker: Worker

    def gets(self, call: Call) -> Refused:
        try:
            said = call(self.client, self.worker)
        except grpc.RpcError as error:
            return refusal(error)
        return (OK[0], said) if isinstance(said, str) else OK


def watched(client: EtcdClient, prefix: bytes) -> str:
    """Why etcd would not have it, if it would not: it says so on the stream."""
    with client.watch(prefix, prefix_end(prefix)) as log:
        return log.responses[0].cancel_reason


def campaigned(client: EtcdClient, name: bytes) -> None:
    stub = election_pb2_grpc.ElectionStub(client.channel)
    lease = client.grant()
    stub.Campaign(election_pb2.CampaignRequest(name=name, lease=lease), timeout=CALL_SECONDS, metadata=client.metadata)


CALLS: dict[str, Call] = {
    "grant a lease": lambda client, _: client.grant(),
    "keep one alive": lambda client, worker: client.keep_alive_once(worker.lease),
    "ask for one": lambda client, worker: client.time_to_live(worker.lease, keys=False),
    "register": lambda client, worker: client.create(worker.card_key, worker.card(), worker.lease),
    "put the card": lambda client, worker: client.put(worker.card_key, worker.card(), worker.lease),
    "put it again": lambda client, worker: client.put(worker.card_key, worker.card(), worker.lease, prev_kv=True),
    "read the card": lambda client, worker: client.get(worker.card_key),
    "read it for a Txn": lambda client, worker: client.txn([], [get(worker.card_key)]),
    "compare it": lambda client, worker: client.txn([version_is(worker.card_key, 7)], []),
    "compare it for another key": lambda client, worker: client.txn(
        [version_is(worker.card_key, 0)], [put(b"v1/other", b"")], [put(b"v1/other", b"")]
    ),
    "write in an Else": lambda client, worker: client.txn(
        [version_is(b"v1/other", 9)], [], [put(worker.lora_key(), worker.lora_card(), worker.lease)]
    ),
    "register an adapter": lambda client, worker: client.create(worker.lora_key(), worker.lora_card(), worker.lease),
    "delete all adapters": lambda client, worker: client.delete(worker.card_key + b"/", worker.card_key + b"0"),
    "register an instance": lambda client, worker: client.create(
        worker.instance_key, worker.instance_value(), worker.lease
    ),
    "read all cards": lambda client, _: client.prefix(b"v1/mdc/"),
    "read everything": lambda client, _: client.everything(),
    "watch cards": lambda client, _: watched(client, b"v1/mdc/"),
    "put another key": lambda client, _: client.put(b"team/key"),
    "delete another key": lambda client, _: client.delete(b"team/key"),
    "clear the reserved area": lambda client, _: client.delete(b"\x01", b"\x02"),
    "win an election": lambda client, _: campaigned(client, b"team/election"),
    "list members": lambda client, _: client.cluster.MemberList(rpc_pb2.MemberListRequest(), **client._call),
    "ask for the status": lambda client, _: client.maintenance.Status(rpc_pb2.StatusRequest(), **client._call),
    "list users": lambda client, _: client.auth.UserList(rpc_pb2.AuthUserListRequest(), **client._call),
    "ask for the lease's keys": lambda client, worker: client.time_to_live(worker.lease),
    "delete the card": lambda client, worker: client.delete(worker.card_key),
    "revoke the lease": lambda client, worker: client.revoke(worker.lease),
}
"""In the order in which they are made. Those that etcd refuses change nothing."""


def told(users: Users, address: str, metadata: tuple[tuple[str, str], ...]) -> dict[str, Refused]:
    """What one client is told to each call, made about a worker of its own that begins with nothing."""
    with users.client(ROOT) as root, EtcdClient(address, metadata) as client:
        somebody = Somebody(client, Worker(root))
        try:
            return {name: somebody.gets(call) for name, call in CALLS.items()}
        finally:
            root.delete(b"team/", b"team0")
            if somebody.worker.lease in root.leases():
                root.revoke(somebody.worker.lease)


@pytest.mark.parametrize(
    ("who", "header"),
    [
        (None, "token"),
        ("", "token"),
        (FRONTEND, "token"),
        (STRANGER, "token"),
        (STRANGER, "authorization"),
        (WORKER, "token"),
        (WORKER, "authorization"),
    ],
)
def test_each_client_is_told_what_etcd_tells_it(users: Users, proxy: Proxy, who: str | None, header: str) -> None:
    """Nobody, somebody with a token that is none, and users of all kinds: the proxy's own rights are never lent."""
    metadata = () if who is None else ((header, users.token(who) if who else "nonsense.1"),)
    direct = told(users, users.etcd.address, metadata)
    assert told(users, proxy.address, metadata) == direct
    assert direct["register"] == (OK if who == WORKER else direct["put the card"])
    assert direct["put the card"] != OK or who == WORKER


def test_a_user_without_the_workers_role_can_do_all_but_be_held(users: Users, proxy: Proxy) -> None:
    """The operator forgot the role: etcd's refusal comes back, and the proxy's log says what is missing."""
    metadata = (("token", users.token(OUTSIDER)),)
    direct, through = told(users, users.etcd.address, metadata), told(users, proxy.address, metadata)
    differing = {name for name in CALLS if direct[name] != through[name]}
    assert differing == {
        "register",
        "put the card",
        "put it again",
        "write in an Else",
        "register an adapter",
        "delete all adapters",
        "delete the card",
    }
    assert {(direct[name], through[name]) for name in differing} == {(OK, DENIED)}
    assert "instance.denied" in proxy.greenroom.log()


def test_every_write_that_lacks_the_workers_role_is_told_of(users: Users, proxy: Proxy) -> None:
    """One log line each: of one key, of a range within one instance, of an Else."""
    writes: dict[str, Call] = {
        "put": CALLS["put the card"],
        "delete": CALLS["delete the card"],
        "delete a range": CALLS["delete all adapters"],
        "delete a range in a Txn": lambda client, worker: client.txn(
            [version_is(b"v1/other", 0)], [delete(worker.card_key + b"/", worker.card_key + b"0")]
        ),
        "write in an Else": CALLS["write in an Else"],
    }
    with users.client(ROOT) as root, users.client(OUTSIDER, proxy.address) as outsider:
        for name, write in writes.items():
            worker = Worker(root)
            assert Somebody(outsider, worker).gets(write) == DENIED, name
            told_of = [line for line in proxy.greenroom.log().splitlines() if "instance.denied" in line]
            assert any(worker.instance in line for line in told_of), name
            root.revoke(worker.lease)


def test_who_may_not_write_a_range_of_cards_is_not_told_of(users: Users, proxy: Proxy) -> None:
    """It is etcd's refusal, and no role of workers' would change it."""
    with users.client(ROOT) as root, users.client(FRONTEND, proxy.address) as frontend:
        worker = Worker(root)
        assert Somebody(frontend, worker).gets(CALLS["delete all adapters"]) == DENIED
        assert worker.instance not in proxy.greenroom.log()
        root.revoke(worker.lease)


def test_logging_in_works_as_ever(address: str, users: Users) -> None:
    with EtcdClient(address) as client:
        with pytest.raises(grpc.RpcError) as raised:
            client.auth.Authenticate(rpc_pb2.AuthenticateRequest(name=WORKER, password="wrong"), timeout=CALL_SECONDS)
        text = "etcdserver: authentication failed, invalid user ID or password"
        assert refusal(raised.value) == (grpc.StatusCode.INVALID_ARGUMENT, text)
    with EtcdClient(address, (("token", users.token(WORKER, address)),)) as client:
        assert Worker(client).register().succeeded


def test_a_worker_lives_its_life(address: str, users: Users) -> None:
    """Dynamo's calls from the first registration to the last, as a user that may do just that."""
    with users.client(WORKER, address, header="authorization") as client:
        worker = Worker(client)
        assert worker.register().succeeded
        assert not worker.register().succeeded
        assert worker.register_lora().succeeded
        assert worker.register_instance().succeeded
        assert worker.swap(worker.card(taints=["gold"]), worker.read().mod_revision).succeeded
        assert worker.read().value == worker.card(taints=["gold"])
        assert sorted(client.time_to_live(worker.lease).keys) == sorted(
            [worker.card_key, worker.lora_key(), worker.instance_key]
        )
        assert client.keep_alive_once(worker.lease).TTL > 0
        assert worker.unregister() == 1
        assert worker.register().succeeded
        client.revoke(worker.lease)
        assert client.get(worker.card_key) is None


def test_a_worker_is_released_under_its_own_lease(users: Users, proxy: Proxy) -> None:
    worker = proxy.held_worker()
    worker.register_lora()
    worker.register_instance()
    with users.client(FRONTEND) as frontend, frontend.watch(worker.card_key, worker.card_key + b"0") as seen:
        assert proxy.control.pass_gates(worker.instance) == "RELEASED"
        seen.wait_events(2)
        assert list(seen.batches()) == [[worker.card_key, worker.lora_key()]]
    assert {event.kv.lease for event in seen.events} == {worker.lease}
    assert worker.swap(worker.card(taints=["gold"]), worker.read().mod_revision).succeeded
    assert worker.unregister() == 1
    proxy.client.revoke(worker.lease)
    assert proxy.shown(worker) == []
    assert not proxy.has_record(worker)


def test_a_worker_that_dies_leaves_nothing(proxy: Proxy) -> None:
    worker = proxy.held_worker(ttl_seconds=1)
    with proxy.public.watch(b"\x01", b"\x02", start_revision=proxy.public.revision() + 1) as seen:
        seen.wait_events(2)
    assert {kind for kind, key in seen.changes if worker.instance.encode() in key} == {"DELETE"}
    assert not proxy.has_record(worker)
    assert proxy.held(worker) == []


def test_who_may_not_see_what_is_held_sees_what_is_public(users: Users, proxy: Proxy) -> None:
    """A frontend asks for a card by its name, in any way: it is not there, and then it is."""
    worker = proxy.held_worker()
    with users.client(FRONTEND, proxy.address) as frontend:

        def seen() -> list[bool]:
            answer = frontend.txn([version_is(worker.card_key, 0)], [], [get(worker.card_key)])
            keys = frontend.time_to_live(worker.lease).keys
            return [frontend.get(worker.card_key) is not None, not answer.succeeded, worker.card_key in keys]

        # Etcd did not always ask who wants to know a lease's keys.
        tells_keys = worker.card_key in frontend.time_to_live(worker.lease).keys
        assert seen() == [False, False, tells_keys]
        assert tells_keys is (users.etcd.version < (3, 5, 10))
        assert proxy.control.pass_gates(worker.instance) == "RELEASED"
        assert seen() == [True, True, True]


def test_two_users_on_one_connection_keep_their_tokens(users: Users, proxy: Proxy) -> None:
    """Their calls go over the same connections to etcd, held and plain ones mixed: no rights rub off."""
    tokens = {user: (("token", users.token(user)),) for user in (WORKER, STRANGER)}
    with EtcdClient(proxy.address) as client, users.client(ROOT) as root:
        workers = [Worker(root) for _ in range(20)]

        def both(worker: Worker) -> list[Refused]:
            gated = rpc_pb2.PutRequest(key=worker.card_key, value=worker.card(), lease=worker.lease)
            plain = rpc_pb2.PutRequest(key=b"team/key")
            return [put_as(client, request, tokens[user]) for user in (STRANGER, WORKER) for request in (gated, plain)]

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(both, workers))
        assert answers == [[DENIED, OK, OK, DENIED]] * len(workers)
        for worker in workers:
            root.revoke(worker.lease)


def put_as(client: EtcdClient, request: rpc_pb2.PutRequest, metadata: tuple[tuple[str, str], ...]) -> Refused:
    try:
        client.kv.Put(request, timeout=CALL_SECONDS, metadata=metadata)
    except grpc.RpcError as error:
        return refusal(error)
    return OK


def test_who_may_not_write_a_card_changes_nothing_by_trying(users: Users, proxy: Proxy) -> None:
    """A worker serves that the proxy does not know. Somebody without rights edits its card: no record comes of it."""
    with users.client(WORKER) as direct, users.client(STRANGER, proxy.address) as stranger:
        worker = Worker(direct)
        worker.register()
        before = proxy.public.revision()
        with pytest.raises(grpc.RpcError) as raised:
            stranger.put(worker.card_key, worker.card(taints=["x"]), worker.lease)
        assert refusal(raised.value) == DENIED
        assert proxy.public.revision() == before
        assert not proxy.has_record(worker)
        direct.revoke(worker.lease)


def test_who_may_not_write_a_card_learns_nothing_by_trying(users: Users, proxy: Proxy) -> None:
    """The proxy would hold it, as it does the worker's own, or say that it is too large: not to him."""
    worker = proxy.released_worker()
    second = worker.card_key.replace(b"generate", b"embed")
    value = worker.card().replace(b"generate", b"embed")
    proxy.client.put(second, value, worker.lease)
    assert proxy.held(worker) == [second]
    before = proxy.public.revision()
    with users.client(STRANGER, proxy.address) as stranger:
        request = rpc_pb2.PutRequest(key=second, value=value, lease=worker.lease)
        assert put_as(stranger, request, stranger.metadata) == DENIED
    assert proxy.public.revision() == before
    proxy.client.revoke(worker.lease)


def test_a_preview_shows_its_client_what_etcd_lets_it_read(users: Users, proxy: Proxy) -> None:
    """A frontend's user reads what Dynamo has; what is held, only one who may read from there to the cards' end."""
    worker, looker = proxy.held_worker(), "looker"
    with users.client(ROOT) as root:
        root.auth.UserAdd(rpc_pb2.AuthUserAddRequest(name=looker, password=looker), metadata=root.metadata)
        root.auth.RoleAdd(rpc_pb2.AuthRoleAddRequest(name=looker), metadata=root.metadata)
        perm = auth_pb2.Permission(permType=auth_pb2.Permission.READ, key=SHADOWS, range_end=b"v10")
        root.auth.RoleGrantPermission(
            rpc_pb2.AuthRoleGrantPermissionRequest(name=looker, perm=perm), metadata=root.metadata
        )
        root.auth.UserGrantRole(rpc_pb2.AuthUserGrantRoleRequest(user=looker, role=looker), metadata=root.metadata)
    opened = proxy.control.open_preview(worker.instance, only=True)
    cards = (CARDS, prefix_end(CARDS))
    with users.client(FRONTEND, opened.address) as frontend, EtcdClient(opened.address) as nobody:
        for client, words in ((frontend, DENIED[1]), (nobody, "etcdserver: user name is empty")):
            with pytest.raises(grpc.RpcError) as refused:
                client.range(*cards)
            assert refusal(refused.value)[1] == words
        assert users.token(FRONTEND, opened.address), "a client logs in there as it does at etcd"
    with users.client(looker, opened.address, header="authorization") as client:
        assert [kv.key for kv in client.range(*cards).kvs] == [worker.card_key]
        with client.watch(*cards, start_revision=2) as log:
            log.wait_events(1)
            assert log.changes == [("PUT", worker.card_key)]
    proxy.control.close_preview(opened.name)
