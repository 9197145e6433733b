"""What is handed over: handlers tell the two kinds of work apart by their class."""

from greenroom.pb.etcd import rpc_pb2
from greenroom.serve.work import GatedCall, PlainCall

PATH = b"/etcdserverpb.KV/Range"


def test_a_gated_call_is_never_taken_for_a_plain_one() -> None:
    request = rpc_pb2.RangeRequest(key=b"a")
    assert GatedCall(PATH, request) != PlainCall(PATH, request)
    assert GatedCall(PATH, request) == GatedCall(PATH, rpc_pb2.RangeRequest(key=b"a"))
