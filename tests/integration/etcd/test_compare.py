"""Compares over ranges of keys: what is held takes no part in them.

Every public key is under no lease, every held key under one: `lease == 0` holds over everything only if the reserved
area is left out.
"""

import pytest

from greenroom.pb.etcd import rpc_pb2
from tests.support.client import EVERYTHING, Compare, EtcdClient, RequestOp, get, prefix_end, put
from tests.support.endpoints import RESERVED, SHADOWS, Endpoint, Proxy


def all_without_lease(start: bytes, range_end: bytes) -> Compare:
    return Compare(key=start, range_end=range_end, target=Compare.LEASE, result=Compare.EQUAL, lease=0)


def older_than(revision: int) -> Compare:
    return Compare(key=b"\0", range_end=b"\0", target=Compare.MOD, result=Compare.LESS, mod_revision=revision)


@pytest.fixture
def endpoint(etcd_or_proxy: Endpoint) -> Endpoint:
    etcd_or_proxy.public.put(b"a", b"1")
    etcd_or_proxy.hold_somebody()
    return etcd_or_proxy


@pytest.mark.parametrize("start", [b"\0", b"\0\0", b"\x01", SHADOWS])
def test_a_compare_over_everything_leaves_out_what_is_held(endpoint: Endpoint, start: bytes) -> None:
    assert endpoint.client.txn([all_without_lease(start, b"\0")], [put(b"b", b"")]).succeeded
    assert endpoint.public.get(b"b") is not None


def test_nothing_is_newer_than_the_newest_public_key(endpoint: Endpoint) -> None:
    """A client makes sure that nobody wrote since it read: registrations that are held do not count as writes."""
    newest = endpoint.public.get(b"a")
    assert newest is not None
    assert endpoint.client.txn([older_than(newest.mod_revision + 1)], []).succeeded
    assert not endpoint.client.txn([older_than(newest.mod_revision)], []).succeeded


@pytest.mark.parametrize("branch", ["success", "failure"])
def test_a_compare_inside_a_nested_txn_leaves_out_what_is_held(endpoint: Endpoint, branch: str) -> None:
    inner = RequestOp(request_txn=rpc_pb2.TxnRequest(compare=[all_without_lease(*EVERYTHING)], success=[get(b"a")]))
    never = Compare(key=b"a", target=Compare.VERSION, result=Compare.EQUAL, version=0)
    answer = nested(endpoint.client, inner) if branch == "success" else nested(endpoint.client, inner, never)
    assert answer.succeeded
    assert answer.responses[0].response_range.count == 1


def nested(client: EtcdClient, inner: RequestOp, *never: Compare) -> rpc_pb2.TxnResponse:
    """The answer of a Txn inside another one's Then, or Else where there is a compare that never holds."""
    outer = client.txn(list(never), [] if never else [inner], [inner] if never else [])
    assert outer.succeeded is not bool(never)
    return outer.responses[0].response_txn


def test_a_reserved_key_compares_as_absent(proxy: Proxy) -> None:
    """Somebody asks whether a given instance is known: to clients there never is a record, nor a shadow."""
    proxy.hold_somebody()
    reserved = [entry.key for entry in proxy.public.prefix(RESERVED).kvs]
    for key in reserved:
        absent = Compare(key=key, target=Compare.VERSION, result=Compare.EQUAL, version=0)
        assert proxy.client.txn([absent], []).succeeded, key


def test_a_compare_over_the_reserved_area_alone_finds_nothing(proxy: Proxy) -> None:
    """etcd compares an empty range as one absent key; so it must be over the proxy's own keys."""
    proxy.hold_somebody()
    exists = Compare(
        key=RESERVED, range_end=prefix_end(RESERVED), target=Compare.VERSION, result=Compare.GREATER, version=0
    )
    assert proxy.public.txn([exists], []).succeeded
    assert not proxy.client.txn([exists], []).succeeded
