"""Three members behind one proxy: one is cut off, the leader is killed, the leader is cut off, and all come back.

The rule: the clients take no notice of Greenroom, and what they were told is compared with what is in etcd at the end.
No lease is lost, no event missed, no acknowledged write gone, nobody shown early, and verdicts work in between.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.client import EtcdClient
from tests.support.cluster import Cluster, launched_cluster, members_told, watchers_until_at
from tests.support.control import Control
from tests.support.endpoints import SHADOWS
from tests.support.greenroom import Greenroom
from tests.support.history import history, lost, missed
from tests.support.steady import BEATS_A_TTL, Lease, Steady, Watched, steady_clients
from tests.support.waiting import wait_for, wait_for_async
from tests.support.workers import Worker

TTL_SECONDS = 10
LEASES = 6
WATCHERS = 6
WRITERS = 3
WORKERS = 4
BACK_SECONDS = 20
"""Elections take their time, and so does a busy machine. How soon clients move is shown in test_members.py."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with launched_cluster() as made:
        yield made


@pytest.fixture
def greenroom(cluster: Cluster, tmp_path: Path) -> Iterator[Greenroom]:
    with Greenroom(cluster.urls, tmp_path) as proxy:
        yield proxy


class Fleet:
    """Clients of every kind, and workers that are held until somebody passes their gates."""

    def __init__(self, cluster: Cluster, greenroom: Greenroom, clients: Steady, workers: list[Worker]) -> None:
        self.cluster, self.greenroom, self.workers = cluster, greenroom, workers
        self.leases = [clients.keep(Lease(worker.lease, TTL_SECONDS / BEATS_A_TTL)) for worker in workers]
        self.written = [clients.writer(b"log/%d/" % number, every_seconds=0.05) for number in range(WRITERS)]
        self._clients = clients
        self.watchers = [self.watch() for _ in range(WATCHERS)]
        self.released: list[Worker] = []

    def watch(self) -> Watched:
        """One more watcher of all that is written."""
        return self._clients.watcher(b"log/", 1)

    async def all_work(self) -> None:
        """Every writer is answered, every watcher sees what is written from here on, every lease is kept alive."""
        writes = [len(written.acknowledged) for written in self.written]
        events = [len(watched.events) for watched in self.watchers]
        answers = [len(lease.answers) for lease in self.leases]

        async def work() -> bool:
            assert not any(lease.is_lost for lease in self.leases)
            return (
                all(len(one.acknowledged) > seen for one, seen in zip(self.written, writes, strict=True))
                and all(len(one.events) > seen for one, seen in zip(self.watchers, events, strict=True))
                and all(len(one.answers) > seen for one, seen in zip(self.leases, answers, strict=True))
            )

        await wait_for_async(work, BACK_SECONDS, "every client works")

    async def members_are(self, *good: int) -> None:
        """The proxy knows exactly these as good, and does its own work over one of them."""
        await self.known_as_good(*good)
        await asyncio.to_thread(wait_for, self.greenroom.is_ready, BACK_SECONDS, "the proxy works over one of them")

    async def known_as_good(self, *good: int) -> None:
        """The proxy knows exactly these as good; none where there is no quorum."""
        await asyncio.to_thread(wait_for, lambda: self._good() == set(good), BACK_SECONDS, f"{good} are good")

    async def release_one(self) -> None:
        """A verdict is taken, and what it leads to is seen by everybody; whoever was not judged is still held."""
        await asyncio.to_thread(self._release_one)

    def _release_one(self) -> None:
        worker = self.workers[len(self.released)]
        with Control(self.greenroom.control) as control, self._public() as public:
            assert control.pass_gates(worker.instance) == "RELEASED"
            self.released.append(worker)
            for one in self.workers:
                is_released = one in self.released
                assert (public.get(one.card_key) is not None) is is_released
                shadow = SHADOWS + one.instance.encode() + b"/" + one.card_key
                assert (public.get(shadow) is not None) is not is_released

    def check(self) -> None:
        """What all were told is what happened."""
        with self._public() as public:
            # First of all: nobody keeps them alive any more.
            alive = set(public.leases())
            gone = [lease for lease in self.leases if lease.is_lost or lease.id not in alive]
            truth = history(public, b"log/", max(max(one.acknowledged.values()) for one in self.written))
        assert not gone, "a lease was lost"
        for watched in self.watchers:
            assert missed(watched, truth) == ""
        for written in self.written:
            assert not lost(written, truth)

    async def all_seen(self) -> None:
        """Every watcher has come as far as the last write that was acknowledged."""
        last = max(max(one.acknowledged.values()) for one in self.written)

        async def seen() -> bool:
            return all(watched.next_revision > last for watched in self.watchers)

        await wait_for_async(seen, BACK_SECONDS, "every watcher saw the last write")

    def _good(self) -> set[int]:
        told = members_told(self.greenroom)
        return {place for place, member in enumerate(self.cluster.members) if told[member.address] == "answers"}

    def _public(self) -> EtcdClient:
        """A client of a running member that the others follow."""
        return self.cluster.members[self.cluster.leader()].client()


@asynccontextmanager
async def fleet_of(cluster: Cluster, greenroom: Greenroom) -> AsyncIterator[Fleet]:
    with EtcdClient(greenroom.address) as client:
        workers = [Worker(client, ttl_seconds=TTL_SECONDS) for _ in range(WORKERS)]
        assert all(worker.register().succeeded for worker in workers)
    async with steady_clients(greenroom.address) as clients:
        fleet = Fleet(cluster, greenroom, clients, workers)
        fleet.leases += [await clients.lease(TTL_SECONDS) for _ in range(LEASES)]
        await fleet.all_work()
        yield fleet


@pytest.mark.timeout(240)
async def test_one_member_is_cut_off_the_leader_dies_and_nothing_is_lost(
    cluster: Cluster, greenroom: Greenroom
) -> None:
    """A bad day: everything that can happen to one member at a time, and for a while to two of three."""
    (own,) = [place for place in range(3) if cluster.watchers(place)]  # of the proxy, for nobody else is there yet
    leader, third = (own + 1) % 3, (own + 2) % 3
    cluster.move_leader(leader)
    async with fleet_of(cluster, greenroom) as fleet:
        fleet.watchers += await watchers_until_at(cluster, own, fleet.watch)
        await fleet.all_work()

        cluster.cut(own)
        await fleet.members_are(leader, third)
        await fleet.all_work()
        await fleet.release_one()

        cluster.members[leader].kill()
        await fleet.known_as_good()
        cluster.heal(own)
        await fleet.members_are(own, third)
        await fleet.all_work()
        await fleet.release_one()

        await asyncio.to_thread(cluster.members[leader].start)
        await fleet.members_are(0, 1, 2)
        await fleet.all_work()
        await fleet.release_one()

        led = await asyncio.to_thread(cluster.leader)
        cluster.cut(led)
        await fleet.members_are(*({0, 1, 2} - {led}))
        await fleet.all_work()
        await fleet.release_one()

        cluster.heal(led)
        await fleet.members_are(0, 1, 2)
        await fleet.all_work()
        await fleet.all_seen()
    fleet.check()
