"""A port that shows what is public: gated keys mean their public selves, and cannot be written."""

import pytest
from google.protobuf.message import Message

from greenroom.core.methods import METHODS
from greenroom.core.templates import dynamo_gated_keys
from greenroom.pb.etcd import rpc_pb2
from greenroom.relay.calls import FORWARD_AS_IS, Decision, Edit, HandOver, Kind, Refuse
from greenroom.serve.inspector import EtcdInspector
from greenroom.serve.public_inspector import PublicInspector

GATED = dynamo_gated_keys(instances=False)
PUBLIC = PublicInspector(GATED)
CARD = b"v1/mdc/dynamo/backend/generate/6177a228983c0b2b"
UNFIT = b"v1/mdc/x"
INVALID_ARGUMENT, PERMISSION_DENIED = 3, 7
KV = b"/etcdserverpb.KV/"
Compare, Operation = rpc_pb2.Compare, rpc_pb2.RequestOp


def inspected(method: bytes, request: Message, inspector: EtcdInspector = PUBLIC) -> Decision:
    return inspector.inspect(KV + method, request.SerializeToString())


READ = Operation(request_range=rpc_pb2.RangeRequest(key=CARD))
DELETE = Operation(request_delete_range=rpc_pb2.DeleteRangeRequest(key=CARD))
PUT = Operation(request_put=rpc_pb2.PutRequest(key=CARD, value=b"{}", lease=7))
ABSENT = Compare(key=CARD, target=Compare.VERSION, result=Compare.EQUAL, version=0)


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        (b"Range", rpc_pb2.RangeRequest(key=CARD)),
        (b"DeleteRange", rpc_pb2.DeleteRangeRequest(key=CARD)),
        (b"DeleteRange", rpc_pb2.DeleteRangeRequest(key=CARD + b"/", range_end=CARD + b"0")),
        (b"Txn", rpc_pb2.TxnRequest(compare=[ABSENT], success=[READ], failure=[DELETE])),
    ],
)
def test_gated_keys_are_read_compared_and_deleted_as_etcd_has_them(method: bytes, request_: Message) -> None:
    """On the workers' port each of these would be about what is held, too."""
    assert inspected(method, request_) is FORWARD_AS_IS
    assert isinstance(inspected(method, request_, EtcdInspector(GATED)), HandOver)


@pytest.mark.parametrize("key", [CARD, UNFIT])
def test_nothing_can_be_registered_there(key: bytes) -> None:
    """What its answer says, an old value or a failed compare, would tell of what is held."""
    put = rpc_pb2.PutRequest(key=key, value=b"{}", lease=7)
    nested = rpc_pb2.TxnRequest(success=[Operation(request_put=put)])
    txn = rpc_pb2.TxnRequest(failure=[Operation(request_txn=nested)])
    for method, request in ((b"Put", put), (b"Txn", nested), (b"Txn", txn)):
        refused = inspected(method, request)
        assert isinstance(refused, Refuse)
        assert (refused.code, "this port shows what is public only" in refused.details) == (
            PERMISSION_DENIED,
            True,
        )


def test_the_reserved_area_is_as_far_away_as_ever() -> None:
    everything = inspected(b"Range", rpc_pb2.RangeRequest(key=b"\1", range_end=b"\0"))
    assert isinstance(everything, Edit)
    refused = inspected(b"Put", rpc_pb2.PutRequest(key=b"\1greenroom/held/x"))
    assert isinstance(refused, Refuse)
    assert refused.code == INVALID_ARGUMENT


def test_other_keys_are_written_as_ever() -> None:
    assert inspected(b"Put", rpc_pb2.PutRequest(key=b"v1/planner/x", value=b"1")) is FORWARD_AS_IS


def test_a_snapshot_has_what_is_held_and_is_no_call_of_this_port() -> None:
    kinds = {path for path in METHODS if PUBLIC.kind(path) is not EtcdInspector(GATED).kind(path)}
    assert kinds == {b"/etcdserverpb.Maintenance/Snapshot"}
    assert PUBLIC.kind(b"/etcdserverpb.Maintenance/Snapshot") is Kind.REFUSE
