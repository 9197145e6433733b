"""Compares as the core reads them against a real etcd: the same outcome for any compare of any keys.

And of guards: they hold as things are, and whatever is done then, as long as one holds its compare fails.
"""

from collections.abc import Iterator

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from greenroom.core.compares import always, guard, holds, looking_at, never
from greenroom.pb.etcd import rpc_pb2
from tests.property.test_model_etcd import Compare, compares, deletes, moved, puts, txns_of
from tests.support.client import EtcdClient
from tests.support.etcd import Etcd
from tests.support.model_etcd import ModelEtcd

LEASE = 11
COMPARES_AT_ONCE = 60


def _over(compare: Compare, key: bytes, range_end: bytes) -> Compare:
    """The same of other keys."""
    other = Compare()
    other.CopyFrom(compare)
    other.key, other.range_end = key, range_end
    return other


writes = st.builds(rpc_pb2.RequestOp, request_put=puts) | st.builds(rpc_pb2.RequestOp, request_delete_range=deletes)
txns = txns_of(writes)

# Few keys and ranges that hold them: a deletion is to hit what decides.
few = st.sampled_from((b"a", b"a/"))
values = st.sampled_from((b"1", b"2"))
put = st.builds(rpc_pb2.PutRequest, key=few, value=values, lease=st.sampled_from((0, LEASE)))
delete = st.builds(rpc_pb2.DeleteRangeRequest, key=few)
write = st.builds(rpc_pb2.RequestOp, request_put=put) | st.builds(rpc_pb2.RequestOp, request_delete_range=delete)
ranged = st.builds(_over, compares, few, st.sampled_from((b"", b"b", b"\0")))


@pytest.fixture(scope="module")
def real(session_etcd: Etcd) -> Iterator[EtcdClient]:
    with session_etcd.client() as client:
        yield client


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(txns, min_size=1, max_size=6), st.lists(compares, min_size=1, max_size=COMPARES_AT_ONCE))
def test_a_compare_comes_to_what_it_comes_to_in_a_real_etcd(
    real: EtcdClient, history: list[rpc_pb2.TxnRequest], asked: list[Compare]
) -> None:
    """Two Txns over the same state: one reads what is compared, one lets etcd compare."""
    real.wipe()
    start = real.revision() - 1
    real.grant(lease=LEASE)
    for txn in history:
        _done(real, moved(txn, start))
    compared = [moved(compare, start) for compare in asked]
    read = real.txn([], [looking_at(compare) for compare in compared])
    judged = real.txn([], [_branch(compare) for compare in compared])
    for compare, seen, verdict in zip(compared, read.responses, judged.responses, strict=True):
        found = seen.response_range
        assert holds(compare, found.kvs) == verdict.response_txn.succeeded, (compare, found)
        kept = guard(compare, found.kvs, more=found.more)
        assert (kept is None) == verdict.response_txn.succeeded, compare
        for own, expected in ((kept or always(compare), True), (always(compare), True), (never(compare.key), False)):
            assert real.txn([own], []).succeeded == expected, own


@settings(max_examples=500, deadline=None)
@given(st.lists(write, max_size=4), ranged, st.lists(write, min_size=1, max_size=2))
def test_while_its_guard_holds_a_compare_fails(
    before: list[rpc_pb2.RequestOp], compare: Compare, after: list[rpc_pb2.RequestOp]
) -> None:
    etcd = ModelEtcd().grant(LEASE)
    for operation in before:
        etcd, _ = etcd.txn(rpc_pb2.TxnRequest(success=[operation]))
    found = etcd.range(looking_at(compare).request_range)
    kept = guard(compare, found.kvs, more=found.more)
    assert _succeeds(etcd, kept or compare)
    for operation in after if kept else ():
        etcd, _ = etcd.txn(rpc_pb2.TxnRequest(success=[operation]))
        assert not (_succeeds(etcd, kept) and _succeeds(etcd, compare)), (kept, compare)


def _branch(compare: Compare) -> rpc_pb2.RequestOp:
    return rpc_pb2.RequestOp(request_txn=rpc_pb2.TxnRequest(compare=[compare]))


def _done(real: EtcdClient, txn: rpc_pb2.TxnRequest) -> None:
    """Carried out, or refused, as etcd likes."""
    try:
        real.txn(list(txn.compare), list(txn.success), list(txn.failure))
    except grpc.RpcError:
        return


def _succeeds(etcd: ModelEtcd, compare: Compare) -> bool:
    return etcd.txn(rpc_pb2.TxnRequest(compare=[compare]))[1].succeeded
