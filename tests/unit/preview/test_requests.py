"""What a preview's clients may send."""

import pytest

from greenroom.core.keyspace import BUDGET
from greenroom.core.preview import View
from greenroom.core.templates import dynamo_gated_keys
from greenroom.errors import GreenroomError, PreviewWrite, RefusedWrite, UnsupportedCall
from greenroom.pb.etcd import rpc_pb2
from greenroom.preview.requests import checked_delete, checked_put, checked_read, checked_txn, parsed
from tests.support.client import delete, get, put, version_is
from tests.support.mirroring import ONE, TWO
from tests.support.registering import card_key, instance_record_key
from tests.support.wire import bytes_field

VIEW = View(dynamo_gated_keys(instances=False))
ALONE = View(VIEW.gated_keys, instance=ONE, only=True)
CARD = card_key(ONE)
Txn = rpc_pb2.TxnRequest


def test_a_field_that_is_not_known_might_mean_something_to_etcd() -> None:
    data = rpc_pb2.PutRequest(key=b"k").SerializeToString() + bytes_field(99, b"x")
    with pytest.raises(UnsupportedCall, match=r"PutRequest has a field 99 that this version does not know"):
        parsed(rpc_pb2.PutRequest, data)


def test_bytes_that_are_no_request_are_told_as_any_grpc_server_does() -> None:
    with pytest.raises(GreenroomError, match="error unmarshalling request"):
        parsed(rpc_pb2.PutRequest, b"\x0a\xff")


def test_a_request_is_read() -> None:
    request = rpc_pb2.RangeRequest(key=b"\0", range_end=b"\0", limit=3)
    read = parsed(rpc_pb2.RangeRequest, request.SerializeToString())
    assert (read, checked_read(read).key) == (request, b"\x02")


def test_a_number_without_a_meaning_is_refused() -> None:
    request = rpc_pb2.RangeRequest.FromString(rpc_pb2.RangeRequest(key=b"k").SerializeToString() + b"\x28\x09")
    with pytest.raises(RefusedWrite, match="sort_order is 9"):
        checked_read(request)


def test_gated_keys_are_not_written() -> None:
    with pytest.raises(PreviewWrite, match="a preview only shows"):
        checked_put(rpc_pb2.PutRequest(key=CARD), VIEW)
    with pytest.raises(PreviewWrite, match="or the range from there has gated keys"):
        checked_delete(rpc_pb2.DeleteRangeRequest(key=b"v1/", range_end=b"v2"), VIEW)
    for operation in (put(b"v1/mdc/x", b""), delete(CARD)):
        nested = rpc_pb2.RequestOp(request_txn=Txn(failure=[operation]))
        with pytest.raises(PreviewWrite):
            checked_txn(Txn(compare=[version_is(CARD, 0)], success=[nested]), VIEW)


def test_reserved_keys_are_out_of_reach() -> None:
    with pytest.raises(RefusedWrite, match="is reserved"):
        checked_put(rpc_pb2.PutRequest(key=BUDGET), VIEW)
    moved = checked_txn(Txn(success=[get(BUDGET)]), VIEW)
    assert moved.success[0].request_range.key not in (BUDGET, b"")


def test_a_txn_would_show_gated_keys_as_etcd_has_them() -> None:
    for wrong in (Txn(compare=[version_is(CARD, 0)]), Txn(success=[get(b"v1/", b"v2")])):
        with pytest.raises(UnsupportedCall, match="neither reads nor compares gated keys"):
            checked_txn(wrong, VIEW)
    ranged = Txn(success=[get(b"v1/a", b"v1/b")])
    assert checked_txn(ranged, VIEW) is ranged
    own, anothers = (Txn(compare=[version_is(instance_record_key(instance), 0)]) for instance in (ONE, TWO))
    assert checked_txn(own, ALONE) is own
    for wrong in (ranged, anothers):
        with pytest.raises(UnsupportedCall, match="reads no ranges, and no keys of another one"):
            checked_txn(wrong, ALONE)


def test_a_client_may_write_its_own() -> None:
    key = b"v1/event_channels/a"
    txn = Txn(compare=[version_is(key, 0)], success=[put(key, b"")], failure=[get(key)])
    assert checked_txn(txn, ALONE) is txn
    assert checked_put(rpc_pb2.PutRequest(key=key), ALONE).key == key
    assert checked_delete(rpc_pb2.DeleteRangeRequest(key=key), ALONE).key == key
