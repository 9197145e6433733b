"""Members of a cluster that are of no use to clients, and how their clients get to others, or learn what is wrong.

The rule: whoever can be served by another member is sent there before his lease ends. With nowhere to go he is left
where he is, and told what etcd tells.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import hpack
import pytest

from greenroom.http2.frames import ACK, DATA, END_HEADERS, GOAWAY, HEADERS, PING, PREFACE, SETTINGS, pack
from greenroom.pb.etcd import rpc_pb2
from greenroom.relay.messages import frame_message
from greenroom.store.channels import Channels
from greenroom.store.members import Standing
from greenroom.store.prober import Prober
from tests.support.client import EtcdClient
from tests.support.cluster import Cluster, launched_cluster, members_told, watchers_until_at
from tests.support.control_side import EventLog
from tests.support.endpoints import Proxy
from tests.support.etcd import Etcd
from tests.support.greenroom import Greenroom
from tests.support.h2_peers import Frame
from tests.support.http import ask
from tests.support.steady import Lease, Steady, Watched, steady_clients
from tests.support.waiting import wait_for, wait_for_async

TTL_SECONDS = 15
BEAT_SECONDS = TTL_SECONDS / 3
"""Half of Dynamo's. With a third of it gone since the last beat 10 s are left; a silent member is left after 6."""
BACK_SECONDS = 20
CLIENTS = 6


@pytest.fixture(scope="module")
def module_cluster() -> Iterator[Cluster]:
    with launched_cluster() as made:
        yield made


@pytest.fixture
def cluster(module_cluster: Cluster) -> Iterator[Cluster]:
    """The second member leads. Whatever a test does to it is made good again."""
    module_cluster.move_leader(1)
    module_cluster.settle()
    yield module_cluster
    module_cluster.recover()


@pytest.fixture(scope="module")
def greenroom(module_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Greenroom]:
    """A proxy before all three."""
    with Greenroom(module_cluster.urls, tmp_path_factory.mktemp("proxy")) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def lonely(module_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Greenroom]:
    """Another one, that knows of the first member only."""
    with Greenroom(module_cluster.members[0].endpoint, tmp_path_factory.mktemp("lonely"), name="lonely") as proxy:
        yield proxy


class Crowd:
    """Leases and watches, each on a connection of its own."""

    def __init__(self, clients: Steady, leases: list[Lease]) -> None:
        self._clients, self.leases = clients, leases
        self.watchers: list[Watched] = []

    def watch(self) -> Watched:
        """One more watcher."""
        self.watchers.append(self._clients.watcher(b"crowd/", 1))
        return self.watchers[-1]

    @property
    def moved(self) -> int:
        """How many had to begin again."""
        return sum(bool(one.errors) for one in (*self.leases, *self.watchers))

    async def until_answered(self) -> None:
        """Every lease is kept alive once more."""
        before = [len(lease.answers) for lease in self.leases]

        async def answered() -> bool:
            return all(len(lease.answers) > seen for lease, seen in zip(self.leases, before, strict=True))

        await wait_for_async(answered, BACK_SECONDS, "every lease is kept alive")

    async def until_one_moved(self, watchers: list[Watched]) -> None:
        """One of these had to begin again."""

        async def moved() -> bool:
            return any(watched.errors for watched in watchers)

        await wait_for_async(moved, BACK_SECONDS, "a client comes again")


@asynccontextmanager
async def crowd_at(greenroom: Greenroom, *, beat_seconds: float = 0.5) -> AsyncIterator[Crowd]:
    async with steady_clients(greenroom.address) as clients:
        yield await _crowd(clients, beat_seconds)


async def _crowd(clients: Steady, beat_seconds: float) -> Crowd:
    leases = [await clients.lease(TTL_SECONDS, beat_seconds=beat_seconds) for _ in range(CLIENTS)]
    crowd = Crowd(clients, leases)
    for _ in range(CLIENTS):
        crowd.watch()
    await crowd.until_answered()
    return crowd


async def members_are(greenroom: Greenroom, cluster: Cluster, *good: int) -> None:
    addresses = {cluster.members[place].address for place in good}

    def known() -> bool:
        return {address for address, said in members_told(greenroom).items() if said == "answers"} == addresses

    await asyncio.to_thread(wait_for, known, BACK_SECONDS, f"{good} are known as good")


async def test_clients_of_a_member_that_stopped_go_on_at_another_one_or_stay_where_there_is_none(
    cluster: Cluster, greenroom: Greenroom, lonely: Greenroom
) -> None:
    """A stalled machine keeps its connections. A moment later it is back, and who stayed finds all as it was."""
    await members_are(greenroom, cluster, 0, 1, 2)
    before = greenroom.log()
    async with crowd_at(lonely) as staying, crowd_at(greenroom, beat_seconds=BEAT_SECONDS) as crowd:
        at_first = await watchers_until_at(cluster, 0, crowd.watch)
        cluster.members[0].pause()
        await members_are(greenroom, cluster, 1, 2)
        await crowd.until_answered()
        await crowd.until_one_moved(at_first)
        await members_are(lonely, cluster)
        cluster.members[0].resume()
        await members_are(greenroom, cluster, 0, 1, 2)
        await staying.until_answered()
        assert not any(lease.is_lost for lease in (*crowd.leases, *staying.leases))
    logged = greenroom.log().removeprefix(before)
    for event in ("upstream.member.bad", "clients.sent.away", "upstream.member.good"):
        assert f"{event} member={cluster.members[0].address}" in logged.replace("\x1b[0m", "")
    assert "clients.sent.away" not in lonely.log()


async def test_clients_of_a_member_that_is_stopped_in_good_order_go_on_at_another_one(
    cluster: Cluster, greenroom: Greenroom
) -> None:
    """An operator upgrades etcd, member by member."""
    await members_are(greenroom, cluster, 0, 1, 2)
    async with crowd_at(greenroom) as crowd:
        await asyncio.to_thread(cluster.members[2].stop)
        await members_are(greenroom, cluster, 0, 1)
        await crowd.until_answered()
        assert not any(lease.is_lost for lease in crowd.leases)
        page = ask(f"{greenroom.http_url}/metrics").body.decode()
        for place, up in enumerate((1, 1, 0)):
            assert f'greenroom_upstream_member_up{{member="{cluster.members[place].address}"}} {up}.0' in page
        await asyncio.to_thread(cluster.members[2].start)
        await members_are(greenroom, cluster, 0, 1, 2)


async def test_beside_a_member_that_is_cut_off_a_proxy_starts_and_serves(
    cluster: Cluster, lonely: Greenroom, tmp_path: Path
) -> None:
    """The first address of the list is of no use. Who has no other one is told so in etcd's own words."""
    cluster.cut(0)
    await members_are(lonely, cluster)
    with EtcdClient(lonely.address, (("hasleader", "true"),)) as client:
        for ask_for_it in (lambda: client.watch().wait_end(), lambda: client.range(b"any")):
            error = await asyncio.to_thread(_error_of, ask_for_it)
            assert (error.code(), error.details()) == (grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader")
    with Greenroom(cluster.urls, tmp_path) as proxy:
        async with crowd_at(proxy) as crowd:
            assert crowd.moved == 0
            # The other proxies try theirs there now and then; a client's would stay.
            await asyncio.to_thread(wait_for, lambda: not cluster.watchers(0), BACK_SECONDS, "no watch is there")
            assert members_told(proxy)[cluster.members[0].address] == "UNAVAILABLE: etcdserver: no leader"
            cluster.heal(0)
            await members_are(proxy, cluster, 0, 1, 2)


async def test_a_proxy_that_starts_while_there_is_no_leader_waits_for_one(cluster: Cluster, tmp_path: Path) -> None:
    """A whole rack starts at once, and the proxy is faster than etcd's members are with their election."""
    for place in (1, 2):
        cluster.members[place].pause()
    proxy = Greenroom(cluster.members[0].endpoint, tmp_path)
    try:
        proxy.spawn()
        await asyncio.to_thread(
            proxy.wait_ready, lambda: "upstream.without.leader" in proxy.log(), "says that it waits"
        )
        for place in (1, 2):
            cluster.members[place].resume()
        await asyncio.to_thread(proxy.ready)
        assert proxy.log().count("upstream.without.leader") == 1
    finally:
        proxy.kill()


def _error_of(work: Callable[[], object]) -> grpc.Call:
    """What a call ended with: raised, or given."""
    try:
        found = work()
    except grpc.RpcError as error:
        found = error
    assert isinstance(found, grpc.Call), f"not an error of a call: {found!r}"
    return found


async def test_with_users_a_member_proves_itself_to_a_prober_that_is_nobody(own_etcd: Etcd) -> None:
    """etcd asks who is there only after its members agreed on what there is to be read."""
    with own_etcd.client() as client:
        client.auth.UserAdd(rpc_pb2.AuthUserAddRequest(name="root", password="root"))
        client.auth.RoleAdd(rpc_pb2.AuthRoleAddRequest(name="root"))
        client.auth.UserGrantRole(rpc_pb2.AuthUserGrantRoleRequest(user="root", role="root"))
        client.auth.AuthEnable(rpc_pb2.AuthEnableRequest())
    channels = Channels([("127.0.0.1", own_etcd.port)])
    prober = Prober(channels, log=EventLog())
    async with asyncio.TaskGroup() as tasks:
        probing = tasks.create_task(prober.run())
        await asyncio.wait_for(prober.first_round(), 10)
        probing.cancel()
    assert channels.members.standing(("127.0.0.1", own_etcd.port)) is Standing.GOOD
    await channels.close()


class RawWatch:
    """A client made of frames, with one watch. It keeps all that it is told and answers PINGs."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.frames: list[Frame] = []
        self.watches = asyncio.Event()

    async def until_watching(self, running: asyncio.Task[None]) -> None:
        """Returns once the watch is there; AssertionError with all that was told where it does not come."""
        watching = asyncio.create_task(self.watches.wait())
        await asyncio.wait((running, watching), timeout=BACK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        watching.cancel()
        assert self.watches.is_set(), f"no watch, but {self.frames}"

    async def until_closed(self) -> None:
        host, _, port = self._address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        create = rpc_pb2.WatchCreateRequest(key=b"any")
        message = frame_message(rpc_pb2.WatchRequest(create_request=create).SerializeToString())
        writer.write(
            PREFACE + pack(SETTINGS, 0, 0) + pack(HEADERS, END_HEADERS, 1, _head()) + pack(DATA, 0, 1, message)
        )
        try:
            while not reader.at_eof():
                frame = await _read_frame(reader)
                self.frames.append(frame)
                if frame.kind == PING and not frame.flags & ACK:
                    writer.write(pack(PING, ACK, 0, frame.payload))
                elif frame.kind == DATA:
                    self.watches.set()
        except (asyncio.IncompleteReadError, ConnectionResetError):
            pass
        writer.close()


async def test_what_etcd_says_when_it_leaves_reaches_clients(
    launch_etcd: Callable[..., Etcd], launch_proxy: Callable[..., Proxy]
) -> None:
    """Newer ones say GOAWAY, ask by a PING whether that came through, name the last call that they took, and go."""
    etcd = launch_etcd()
    proxy = launch_proxy(etcd)
    client = RawWatch(proxy.address)
    async with asyncio.TaskGroup() as tasks:
        await client.until_watching(tasks.create_task(client.until_closed()))
        await asyncio.to_thread(etcd.stop)
    told = [int.from_bytes(frame.payload[:4], "big") for frame in client.frames if frame.kind == GOAWAY]
    if etcd.version >= (3, 5, 30):
        assert told == [2**31 - 1, 1]
    else:
        assert set(told) <= {2**31 - 1, 1}, "it says so only where it finds the time"


async def _read_frame(reader: asyncio.StreamReader) -> Frame:
    head = await reader.readexactly(9)
    payload = await reader.readexactly(int.from_bytes(head[:3], "big"))
    return Frame(head[3], head[4], int.from_bytes(head[5:9], "big"), payload)


def _head() -> bytes:
    fields = [(":method", "POST"), (":scheme", "http"), (":path", "/etcdserverpb.Watch/Watch")]
    return hpack.Encoder().encode(
        [*fields, (":authority", "x"), ("te", "trailers"), ("content-type", "application/grpc")]
    )
