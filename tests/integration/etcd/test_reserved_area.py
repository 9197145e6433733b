"""The reserved area through the proxy: ranges inside it are empty, exact writes to it are refused."""

from collections.abc import Callable

import grpc
import pytest

from greenroom.pb.etcd import election_pb2, election_pb2_grpc, lock_pb2, lock_pb2_grpc, rpc_pb2
from tests.support.client import EtcdClient, RequestOp, get, prefix_end, put, version_is
from tests.support.endpoints import PROXIES, RESERVED, ROLLOUT_HOLDS, SHADOWS, Proxy

INSIDE = {
    "the proxy's own keys": (RESERVED, prefix_end(RESERVED)),
    "the shadows": (SHADOWS, prefix_end(SHADOWS)),
    "the whole area": (b"\0", b"\x02"),
    "its upper half": (b"\x01", b"\x02"),
    "its start": (b"\0\0", b"\0\1"),
}
RESERVED_KEYS = [ROLLOUT_HOLDS + b"mine", SHADOWS + b"1/v1/mdc/a", b"\0", b"\x01", b"\x01\xff\xff\xff", b"\0free"]


def a_put(client: EtcdClient, key: bytes) -> object:
    return client.put(key, b"x")


def a_put_in_then(client: EtcdClient, key: bytes) -> object:
    return client.txn([version_is(b"a", 0)], [put(b"b", b""), put(key, b"x")])


def a_put_in_else(client: EtcdClient, key: bytes) -> object:
    return client.txn([version_is(b"a", 7)], [get(b"b")], [put(key, b"x")])


def a_put_in_a_nested_txn(client: EtcdClient, key: bytes) -> object:
    inner = RequestOp(request_txn=rpc_pb2.TxnRequest(success=[put(key, b"x")]))
    return client.txn([], [put(b"b", b""), inner])


def a_lock(client: EtcdClient, key: bytes) -> object:
    return lock_pb2_grpc.LockStub(client.channel).Lock(lock_pb2.LockRequest(name=key, lease=1), timeout=20)


def an_unlock(client: EtcdClient, key: bytes) -> object:
    return lock_pb2_grpc.LockStub(client.channel).Unlock(lock_pb2.UnlockRequest(key=key), timeout=20)


def a_campaign(client: EtcdClient, key: bytes) -> object:
    request = election_pb2.CampaignRequest(name=key, lease=1, value=b"x")
    return election_pb2_grpc.ElectionStub(client.channel).Campaign(request, timeout=20)


def a_proclamation(client: EtcdClient, key: bytes) -> object:
    request = election_pb2.ProclaimRequest(leader=election_pb2.LeaderKey(name=b"e", key=key, rev=1), value=b"x")
    return election_pb2_grpc.ElectionStub(client.channel).Proclaim(request, timeout=20)


def a_resignation(client: EtcdClient, key: bytes) -> object:
    request = election_pb2.ResignRequest(leader=election_pb2.LeaderKey(name=b"e", key=key, rev=1))
    return election_pb2_grpc.ElectionStub(client.channel).Resign(request, timeout=20)


def a_question_for_the_leader(client: EtcdClient, key: bytes) -> object:
    request = election_pb2.LeaderRequest(name=key)
    return election_pb2_grpc.ElectionStub(client.channel).Leader(request, timeout=20)


def an_observation(client: EtcdClient, key: bytes) -> object:
    request = election_pb2.LeaderRequest(name=key)
    return next(iter(election_pb2_grpc.ElectionStub(client.channel).Observe(request, timeout=20)))


Write = Callable[[EtcdClient, bytes], object]
PUTS: list[Write] = [a_put, a_put_in_then, a_put_in_else, a_put_in_a_nested_txn]
BY_NAME: list[Write] = [a_lock, a_campaign, a_question_for_the_leader, an_observation]
BY_KEY: list[Write] = [an_unlock, a_proclamation, a_resignation]
NAMED = [
    *((call, name) for call in BY_NAME for name in (ROLLOUT_HOLDS + b"mine", b"\x01", b"v1", b"v1/mdc", b"v1/mdc/a")),
    *((call, key) for call in BY_KEY for key in (ROLLOUT_HOLDS + b"mine", b"\x01", b"v1/mdc/dynamo/backend/7/1")),
]


@pytest.mark.parametrize(("start", "range_end"), INSIDE.values(), ids=INSIDE)
def test_a_range_inside_the_reserved_area_is_empty(proxy: Proxy, start: bytes, range_end: bytes) -> None:
    """An answer of etcd's own, with its revision, and nothing in it."""
    proxy.hold_somebody()
    answer = proxy.client.range(start, range_end)
    assert (answer.count, list(answer.kvs), answer.more) == (0, [], False)
    assert answer.header.revision == proxy.public.revision()
    assert answer.header.cluster_id == proxy.public.range(b"a").header.cluster_id


@pytest.mark.parametrize(("start", "range_end"), INSIDE.values(), ids=INSIDE)
def test_a_delete_inside_the_reserved_area_deletes_nothing(proxy: Proxy, start: bytes, range_end: bytes) -> None:
    proxy.hold_somebody()
    before, shadows = proxy.public.revision(), proxy.public.prefix(SHADOWS).count
    answer = proxy.client.delete(start, range_end, prev_kv=True)
    assert (answer.deleted, list(answer.prev_kvs), answer.header.revision) == (0, [], before)
    assert proxy.public.prefix(SHADOWS).count == shadows


@pytest.mark.parametrize(("start", "range_end"), INSIDE.values(), ids=INSIDE)
def test_a_watch_inside_the_reserved_area_is_created_and_canceled(proxy: Proxy, start: bytes, range_end: bytes) -> None:
    """As etcd does it with a range that is empty, in its words."""
    with proxy.client.watch(start, range_end) as log, proxy.public.watch(b"b", b"a") as empty:
        canceled, expected = log.wait_canceled(), empty.wait_canceled()
    assert (canceled.created, canceled.watch_id) == (True, expected.watch_id)
    assert canceled.cancel_reason == expected.cancel_reason != ""
    assert log.events == []


@pytest.mark.parametrize("write", PUTS, ids=lambda write: write.__name__)
@pytest.mark.parametrize("key", RESERVED_KEYS)
def test_a_write_to_a_reserved_key_is_refused(proxy: Proxy, write: Write, key: bytes) -> None:
    """A mistaken or malicious client cannot forge a shadow, a record or a rollout hold; nothing else is written."""
    refused_without_a_trace(proxy, write, key)


@pytest.mark.parametrize(("call", "name"), NAMED, ids=lambda given: getattr(given, "__name__", str(given)))
def test_a_lock_or_election_on_reserved_or_gated_keys_is_refused(proxy: Proxy, call: Write, name: bytes) -> None:
    """etcd writes a lock's keys itself, under its name: such a key would be public at once, whatever is held."""
    refused_without_a_trace(proxy, call, name)


def refused_without_a_trace(proxy: Proxy, call: Write, key: bytes) -> None:
    before = proxy.public.revision()
    with pytest.raises(grpc.RpcError) as refusal:
        call(proxy.client, key)
    assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert repr(key) in refusal.value.details()
    assert proxy.public.revision() == before


def test_deleting_a_reserved_key_finds_nothing(proxy: Proxy) -> None:
    """Somebody tries to make a held worker's record go: it is not there for him."""
    proxy.hold_somebody()
    reserved = [entry.key for entry in proxy.public.prefix(RESERVED).kvs if not entry.key.startswith(PROXIES)]
    for key in reserved:
        assert proxy.client.delete(key).deleted == 0
    left = [entry.key for entry in proxy.public.prefix(RESERVED).kvs if not entry.key.startswith(PROXIES)]
    assert left == reserved
