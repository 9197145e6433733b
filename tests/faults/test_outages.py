"""etcd is away for a minute, or stops in the middle of everything, behind a proxy that stays.

The rule: whoever lives through that with etcd alone lives through it with the proxy between, as soon after; and while
there is nothing to be done the proxy does next to nothing. Waits here are the outages themselves.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc
import pytest

from greenroom.pb.etcd import rpc_pb2, rpc_pb2_grpc
from tests.bench.processor import cpu_seconds
from tests.support import steady
from tests.support.endpoints import Proxy
from tests.support.etcd import Etcd
from tests.support.history import history, lost, missed
from tests.support.steady import Steady, steady_clients
from tests.support.waiting import wait_for_async

AWAY_SECONDS = 60.0
STOPPED_SECONDS = 20.0
TOLD_SECONDS = 18.0
"""The relay asks a silent etcd after 10 s, gives it 5 s, and looks each half second; a machine may be busy."""
BACK_SECONDS = 5.0
LEASE_SECONDS = 180
IDLE_CLIENTS = 200
CPU_SHARE = 0.05
"""Of a core. A proxy that spins, or polls for each client, takes many times that."""
SETTLED_SECONDS = 3.0
"""After that the first, quick attempts of everybody are over, and what follows is the outage as it goes on."""


class Calling:
    """A synchronous client that calls again and again from a thread of its own."""

    def __init__(self, address: str) -> None:
        self.answered_at = 0.0
        self.errors = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._call, args=(address,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _call(self, address: str) -> None:
        with grpc.insecure_channel(address, options=steady.OPTIONS) as channel:
            stub = rpc_pb2_grpc.KVStub(channel)
            while not self._over.wait(0.1):
                try:
                    stub.Range(rpc_pb2.RangeRequest(key=b"any"), timeout=2)
                    self.answered_at = time.monotonic()
                except grpc.RpcError:
                    self.errors += 1


@contextmanager
def calling(address: str) -> Iterator[Calling]:
    client = Calling(address)
    yield client
    client.close()


class Clients:
    """One of each kind: watchers, keepalives, a writer, a synchronous one, and a held worker."""

    def __init__(self, proxy: Proxy, clients: Steady, synchronous: Calling) -> None:
        self.proxy, self.clients, self.synchronous = proxy, clients, synchronous
        self.began = time.monotonic()
        self.watchers = [clients.watcher(b"log/", 1) for _ in range(3)]
        self.written = clients.writer(b"log/", every_seconds=0.05)
        self.worker = proxy.held_worker(ttl_seconds=LEASE_SECONDS)
        self.leases = [clients.keep(steady.Lease(self.worker.lease, LEASE_SECONDS / steady.BEATS_A_TTL))]

    async def begin(self) -> None:
        self.leases += [await self.clients.lease(LEASE_SECONDS) for _ in range(2)]
        await self._until(self._all_work_since(self.began), 10, "everybody works before it begins")

    async def all_back_after(self, since: float) -> None:
        """Everybody works again, with what they had, in time."""
        await self._until(self._all_work_since(since), BACK_SECONDS, "everybody works again")

    def check(self) -> None:
        """Nothing was lost that was told, and who was held is held."""
        assert not any(lease.is_lost for lease in self.leases)
        last = max(self.written.acknowledged.values())
        truth = history(self.proxy.public, b"log/", last)
        for watched in self.watchers:
            assert missed(watched, truth) == ""
        assert not lost(self.written, truth)
        assert self.proxy.held(self.worker) == [self.worker.card_key]
        assert self.proxy.public.get(self.worker.card_key) is None
        assert self.worker.read().value == self.worker.card()
        assert self.proxy.control.pass_gates(self.worker.instance) == "RELEASED"
        assert self.proxy.public.get(self.worker.card_key) is not None

    def _all_work_since(self, since: float) -> Callable[[], bool]:
        events = [len(watched.events) for watched in self.watchers]
        writes = len(self.written.acknowledged)

        def all_work() -> bool:
            return (
                len(self.written.acknowledged) > writes
                and all(len(watched.events) > seen for watched, seen in zip(self.watchers, events, strict=True))
                and all(lease.answers and lease.answers[-1] > since for lease in self.leases)
                and self.synchronous.answered_at > since
            )

        return all_work

    async def _until(self, fact: Callable[[], bool], seconds: float, what: str) -> None:
        async def asked() -> bool:
            return fact()

        await wait_for_async(asked, seconds, what)


@pytest.mark.timeout(240)
async def test_etcd_is_away_for_a_minute_and_another_one_stalls_meanwhile(
    launch_etcd: Callable[..., Etcd], launch_proxy: Callable[..., Proxy]
) -> None:
    """Two etcds with a proxy each, at the same time, since both take long. Each story is told below."""
    away, stalling = launch_etcd(), launch_etcd()
    async with asyncio.TaskGroup() as stories:
        stories.create_task(everybody_is_back_within_five_seconds(away, launch_proxy(away)))
        stories.create_task(clients_of_a_stalled_etcd_are_told(stalling, launch_proxy(stalling)))


async def everybody_is_back_within_five_seconds(etcd: Etcd, proxy: Proxy) -> None:
    """An upgrade of etcd that took longer than planned, with 200 more clients that come again and again meanwhile."""
    async with steady_clients(proxy.address) as clients:
        with calling(proxy.address) as synchronous:
            everybody = Clients(proxy, clients, synchronous)
            idle = [clients.watcher(b"idle/", 1) for _ in range(IDLE_CLIENTS)]
            await everybody.begin()
            await asyncio.to_thread(etcd.stop)
            await asyncio.sleep(SETTLED_SECONDS)
            share = await _cpu_share(proxy.greenroom.pid, AWAY_SECONDS - SETTLED_SECONDS)
            assert not proxy.greenroom.is_ready()
            assert all(watched.errors for watched in idle), "nobody is left in silence"
            await asyncio.to_thread(etcd.start)
            await everybody.all_back_after(time.monotonic())
            await wait_for_async(lambda: _ready(proxy), BACK_SECONDS, "the proxy is ready again")
    everybody.check()
    assert share < CPU_SHARE, f"{share:.1%} of a core"


async def clients_of_a_stalled_etcd_are_told(etcd: Etcd, proxy: Proxy) -> None:
    """A machine that stalls keeps its connections. TCP notices nothing; the relay asks, and then ends them."""
    async with steady_clients(proxy.address) as clients:
        with calling(proxy.address) as synchronous:
            everybody = Clients(proxy, clients, synchronous)
            await everybody.begin()
            etcd.pause()
            began = time.monotonic()
            streams = [*everybody.watchers, *everybody.leases]
            await everybody._until(lambda: all(s.errors for s in streams), TOLD_SECONDS, "all streams ended")
            await asyncio.sleep(began + STOPPED_SECONDS - time.monotonic())
            etcd.resume()
            await everybody.all_back_after(time.monotonic())
    everybody.check()


async def _cpu_share(pid: int, seconds: float) -> float:
    """How much of one core a process used on average over the coming time."""
    before, began = cpu_seconds(pid), time.monotonic()
    await asyncio.sleep(seconds)
    return (cpu_seconds(pid) - before) / (time.monotonic() - began)


async def _ready(proxy: Proxy) -> bool:
    return await asyncio.to_thread(proxy.greenroom.is_ready)
