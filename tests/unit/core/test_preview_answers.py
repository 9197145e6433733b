"""What answers to writes and Txns through a preview of one instance alone say of other keys."""

from greenroom.core.keyspace import lease_of
from greenroom.core.preview import View
from greenroom.core.preview_answers import without_others
from greenroom.core.templates import dynamo_gated_keys
from greenroom.pb.etcd import kv_pb2, rpc_pb2
from tests.support.mirroring import ONE, TWO

GATED = dynamo_gated_keys(instances=False)
ALONE = View(GATED, instance=ONE, only=True, own_leases=frozenset({9}))
OWN = [kv_pb2.KeyValue(key=b"v1/a", lease=lease) for lease in (lease_of(ONE), 9, 0)]
ANOTHERS = kv_pb2.KeyValue(key=b"v1/a", lease=lease_of(TWO))


def test_what_lies_on_anothers_lease_is_not_told() -> None:
    for kv, kept in (*((one, True) for one in OWN), (ANOTHERS, False)):
        put = without_others(rpc_pb2.PutResponse(prev_kv=kv), ALONE)
        assert put.HasField("prev_kv") is kept
        found = without_others(rpc_pb2.RangeResponse(kvs=[kv], count=1), ALONE)
        assert (len(found.kvs), found.count) == (kept, kept)
    deleted = without_others(rpc_pb2.DeleteRangeResponse(prev_kvs=[*OWN, ANOTHERS], deleted=4), ALONE)
    assert (list(deleted.prev_kvs), deleted.deleted) == (OWN, 4)
    assert without_others(rpc_pb2.RangeResponse(count=1), ALONE).count == 1, "only counted"


def test_nor_within_a_txn_however_deep() -> None:
    read = rpc_pb2.ResponseOp(response_range=rpc_pb2.RangeResponse(kvs=[ANOTHERS], count=1))
    inner = rpc_pb2.ResponseOp(response_txn=rpc_pb2.TxnResponse(responses=[read]))
    answer = without_others(rpc_pb2.TxnResponse(responses=[rpc_pb2.ResponseOp(), read, inner]), ALONE)
    assert ANOTHERS.SerializeToString() not in answer.SerializeToString()
    assert [response.WhichOneof("response") for response in answer.responses] == [
        None,
        "response_range",
        "response_txn",
    ]


def test_other_previews_take_nothing_away() -> None:
    put = rpc_pb2.PutResponse(prev_kv=ANOTHERS)
    assert without_others(put, View(GATED, instance=ONE)).prev_kv == ANOTHERS
