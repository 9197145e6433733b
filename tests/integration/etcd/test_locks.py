"""etcd's own locks and elections, which it makes of keys by itself: as without a proxy, under names that are no cards.

What etcdctl calls a lock is made by the client, of Txns; test_etcdctl.py has these. Here it is the service.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import grpc
import pytest

from greenroom.pb.etcd import election_pb2, election_pb2_grpc, lock_pb2, lock_pb2_grpc
from tests.support.client import EtcdClient
from tests.support.endpoints import Endpoint
from tests.support.waiting import wait_for

CALL_SECONDS = 20


@dataclass(frozen=True)
class Services:
    """Both services through the endpoint."""

    client: EtcdClient
    lock: lock_pb2_grpc.LockStub
    election: election_pb2_grpc.ElectionStub

    def locked(self, name: bytes, lease: int) -> lock_pb2.LockResponse:
        return self.lock.Lock(lock_pb2.LockRequest(name=name, lease=lease), timeout=CALL_SECONDS)

    def unlocked(self, key: bytes) -> lock_pb2.UnlockResponse:
        return self.lock.Unlock(lock_pb2.UnlockRequest(key=key), timeout=CALL_SECONDS)

    def won(self, name: bytes, lease: int, value: bytes) -> election_pb2.LeaderKey:
        request = election_pb2.CampaignRequest(name=name, lease=lease, value=value)
        return self.election.Campaign(request, timeout=CALL_SECONDS).leader

    def leader(self, name: bytes) -> bytes:
        return self.election.Leader(election_pb2.LeaderRequest(name=name), timeout=CALL_SECONDS).kv.value


@pytest.fixture
def services(etcd_or_proxy: Endpoint) -> Services:
    client = etcd_or_proxy.client
    return Services(client, lock_pb2_grpc.LockStub(client.channel), election_pb2_grpc.ElectionStub(client.channel))


@pytest.fixture
def aside() -> Iterator[ThreadPoolExecutor]:
    """For what waits."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def test_a_lock_goes_from_one_to_the_next(
    services: Services, etcd_or_proxy: Endpoint, aside: ThreadPoolExecutor
) -> None:
    first, second = services.client.grant(), services.client.grant()
    held = services.locked(b"mutex", first)
    assert held.key == b"mutex/%x" % first
    assert held.header.revision == etcd_or_proxy.public.revision()
    waiting = aside.submit(services.locked, b"mutex", second)
    wait_for(lambda: etcd_or_proxy.public.get(b"mutex/%x" % second), describe="the second one waits in line")
    assert not waiting.done()
    services.unlocked(held.key)
    assert waiting.result(CALL_SECONDS).key == b"mutex/%x" % second
    assert etcd_or_proxy.public.get(held.key) is None


def test_a_lock_ends_with_its_lease(services: Services, aside: ThreadPoolExecutor) -> None:
    """Whoever holds it dies: its lease ends, and the next one is let in."""
    first, second = services.client.grant(), services.client.grant()
    services.locked(b"mutex", first)
    waiting = aside.submit(services.locked, b"mutex", second)
    services.client.revoke(first)
    assert waiting.result(CALL_SECONDS).key == b"mutex/%x" % second


def test_an_election_from_its_campaign_to_its_resignation(
    services: Services, etcd_or_proxy: Endpoint, aside: ThreadPoolExecutor
) -> None:
    first, second = services.client.grant(), services.client.grant()
    leader = services.won(b"chief", first, b"one")
    assert (leader.name, leader.key, leader.lease) == (b"chief", b"chief/%x" % first, first)
    assert services.leader(b"chief") == b"one"
    proclaimed = election_pb2.ProclaimRequest(leader=leader, value=b"still one")
    services.election.Proclaim(proclaimed, timeout=CALL_SECONDS)
    assert services.leader(b"chief") == b"still one"
    waiting = aside.submit(services.won, b"chief", second, b"two")
    services.election.Resign(election_pb2.ResignRequest(leader=leader), timeout=CALL_SECONDS)
    assert waiting.result(CALL_SECONDS).key == b"chief/%x" % second
    assert services.leader(b"chief") == b"two"
    assert [entry.key for entry in etcd_or_proxy.public.prefix(b"chief/").kvs] == [b"chief/%x" % second]


def test_observers_are_told_of_each_leader(services: Services) -> None:
    lease = services.client.grant()
    observed = services.election.Observe(election_pb2.LeaderRequest(name=b"chief"), timeout=CALL_SECONDS)
    leader = services.won(b"chief", lease, b"one")
    assert next(observed).kv.value == b"one"
    services.election.Proclaim(election_pb2.ProclaimRequest(leader=leader, value=b"two"), timeout=CALL_SECONDS)
    assert next(observed).kv.value == b"two"
    observed.cancel()


def test_whoever_did_not_win_can_neither_proclaim_nor_resign_another(services: Services) -> None:
    lease = services.client.grant()
    leader = services.won(b"chief", lease, b"one")
    stale = election_pb2.LeaderKey(name=leader.name, key=leader.key, rev=leader.rev + 1, lease=lease)
    with pytest.raises(grpc.RpcError) as refusal:
        services.election.Proclaim(election_pb2.ProclaimRequest(leader=stale, value=b"x"), timeout=CALL_SECONDS)
    assert refusal.value.details() == "election: not leader"
    services.election.Resign(election_pb2.ResignRequest(leader=stale), timeout=CALL_SECONDS)
    assert services.leader(b"chief") == b"one"
