"""Three members of one etcd cluster on loopback, whose peers speak through a network that can be cut.

The rule: time goes as in production (etcd's own heartbeat and election times), so what is seen here holds there.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import grpc

from greenroom.pb.etcd import rpc_pb2
from tests.support.client import EtcdClient
from tests.support.etcd import Etcd
from tests.support.etcd_metrics import WATCHERS, metric
from tests.support.forwarders import Network
from tests.support.greenroom import Greenroom
from tests.support.http import ask
from tests.support.steady import Watched
from tests.support.waiting import wait_for

MEMBERS = 3
TIMES = ("--heartbeat-interval=100", "--election-timeout=1000")
PRE_VOTE = "--pre-vote=true"
"""etcd's default since 3.5. Without it a member that comes back deposes the leader, now and then for many seconds."""
ELECTED_SECONDS = 20


class Cluster:
    """Members are named by their place: `cluster.members[0]`."""

    def __init__(self, members: Sequence[Etcd], network: Network) -> None:
        self.members = list(members)
        self.network = network

    @property
    def urls(self) -> str:
        """As `--upstream` takes them."""
        return ",".join(member.endpoint for member in self.members)

    def leader(self) -> int:
        """The place of the member that the others follow, as members that know one say; waits for an election."""
        return wait_for(lambda: self._leaders(), ELECTED_SECONDS, "one leader is known")[0]

    def move_leader(self, place: int) -> None:
        """Makes a member the leader."""
        if (present := self.leader()) == place:
            return
        with self.members[present].client() as client, self.members[place].client() as other:
            to = other.maintenance.Status(rpc_pb2.StatusRequest(), timeout=5).header.member_id
            client.maintenance.MoveLeader(rpc_pb2.MoveLeaderRequest(targetID=to), timeout=10)
        wait_for(lambda: self.leader() == place, ELECTED_SECONDS, f"member {place} leads")

    def cut(self, place: int) -> None:
        """Takes the member away from its peers; clients reach it as before."""
        self.network.cut(_name(place))

    def heal(self, place: int) -> None:
        self.network.heal(_name(place))

    def recover(self) -> None:
        """Every member runs and reaches the others."""
        for place, member in enumerate(self.members):
            self.heal(place)
            if member.running:
                member.resume()
            else:
                member.start()

    def settle(self) -> None:
        """Every member carries out writes: one that just lost its leader lets some calls time out."""
        for place, member in enumerate(self.members):
            with member.client() as client:
                wait_for(partial(_writes, client), ELECTED_SECONDS, f"member {place} carries out a write")

    def watchers(self, place: int) -> int:
        """How many watches the member serves."""
        return metric(self.members[place], WATCHERS)

    def _leaders(self) -> list[int]:
        """One place, if every running member that knows a leader knows the same one and that one agrees."""
        ids, leaders = {}, set()
        for place, member in enumerate(self.members):
            if not member.running:
                continue
            with member.client() as client:
                try:
                    status = client.maintenance.Status(rpc_pb2.StatusRequest(), timeout=2)
                except grpc.RpcError:
                    continue
            ids[status.header.member_id] = place
            leaders.add(status.leader)
        leaders.discard(0)
        return [ids[leader] for leader in leaders if leader in ids] if len(leaders) == 1 else []


@contextmanager
def launched_cluster() -> Iterator[Cluster]:
    """A cluster that answers, and is gone afterwards."""
    members = [Etcd() for _ in range(MEMBERS)]
    try:
        with Network() as network:
            _introduce(members, network)
            with ThreadPoolExecutor(MEMBERS) as pool:
                list(pool.map(Etcd.start, members))
            yield Cluster(members, network)
            _end(members)
    finally:
        _end(members)


async def watchers_until_at(cluster: Cluster, place: int, start: Callable[[], Watched]) -> list[Watched]:
    """Starts watchers until one more is served by that member: to whom a client comes is not the client's choice."""

    def served() -> list[int]:
        return [cluster.watchers(at) for at in range(MEMBERS)]

    begun, started = served(), []
    while served()[place] <= begun[place]:
        before = sum(served())
        started.append(start())
        await asyncio.to_thread(
            wait_for, partial(_exceeds, served, before), ELECTED_SECONDS, "one more watch is served"
        )
    return started


def _writes(client: EtcdClient) -> bool:
    try:
        client.put(b"settled")
    except grpc.RpcError:
        return False
    return True


def _exceeds(served: Callable[[], list[int]], before: int) -> bool:
    return sum(served()) > before


def members_told(greenroom: Greenroom) -> dict[str, str]:
    """What a proxy knows of each member, by its host:port."""
    told: dict[str, str] = ask(f"{greenroom.http_url}/ready").json["members"]
    return told


def _introduce(members: Sequence[Etcd], network: Network) -> None:
    """Tells each member of all, by the addresses of the network."""
    peers = {}
    for place, member in enumerate(members):
        port = network.forward(_name(place), member.peer_port, partial(_pid, member))
        peers[_name(place)] = f"http://127.0.0.1:{port}"
    everybody = ",".join(f"{name}={url}" for name, url in peers.items())
    for (name, url), member in zip(peers.items(), members, strict=True):
        # The last of two equal flags counts, so these take the place of those of a member that is alone.
        own = (f"--name={name}", f"--initial-advertise-peer-urls={url}", f"--initial-cluster={everybody}")
        member.arguments = (*own, *TIMES, PRE_VOTE)


def _pid(member: Etcd) -> int:
    return member.child.pid if member.child is not None else 0


def _end(members: Sequence[Etcd]) -> None:
    for member in members:
        member.close()


def _name(place: int) -> str:
    return f"member-{place}"
