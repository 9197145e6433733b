"""What is told at a glance is what the full examination finds, for whatever bytes."""

from typing import Any

from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom.core.strict import OK, schema_of
from greenroom.core.templates import dynamo_gated_keys
from greenroom.pb.etcd import rpc_pb2
from greenroom.relay.calls import FORWARD_AS_IS, Decision
from greenroom.serve import inspector as inspection
from tests.property.test_strict import messages, odd_bytes

GATED = dynamo_gated_keys(instances=True)
INSPECTOR = inspection.EtcdInspector(GATED)
KV = b"/etcdserverpb.KV/"
METHODS = {
    KV + b"Range": rpc_pb2.RangeRequest,
    KV + b"Put": rpc_pb2.PutRequest,
    KV + b"DeleteRange": rpc_pb2.DeleteRangeRequest,
    KV + b"Txn": rpc_pb2.TxnRequest,
}
KEYS = (b"k", b"\x02", b"\x01", b"\0a", b"\x01greenroom/budget", b"v1/mdc/", b"v1/mdc/a/b/c/1f", b"v1/mdc", b"k" * 130)


class Thorough(inspection.EtcdInspector):
    """Examines everything in full."""

    def _glances(self) -> dict[bytes, Any]:
        return {}


THOROUGH = Thorough(GATED)


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Messages with keys that matter, some of them tampered with."""
    path, message = draw(st.sampled_from(list(METHODS.items())))
    if draw(st.integers(0, 3)) == 0:
        return path, draw(odd_bytes(message))
    made = draw(messages(message))
    _give_keys(draw, made)
    data = made.SerializeToString()
    if draw(st.booleans()):
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.binary(max_size=2)) + data[at + draw(st.integers(0, 2)) :]
    return path, data


def _give_keys(draw: st.DrawFn, made: Any) -> None:
    for field in made.DESCRIPTOR.fields:
        if field.name == "key" and draw(st.booleans()):
            made.key = draw(st.sampled_from(KEYS))
        elif field.message_type is not None:
            inside = getattr(made, field.name)
            for inner in inside if field.is_repeated else [inside] if made.HasField(field.name) else []:
                _give_keys(draw, inner)


def passes(decision: Decision) -> bool:
    return decision is FORWARD_AS_IS


@settings(max_examples=700)
@given(requests())
def test_what_passes_at_a_glance_passes_the_full_examination_and_can_be_read_in_one_way(
    case: tuple[bytes, bytes],
) -> None:
    path, data = case
    assert INSPECTOR.inspect(path, data) == THOROUGH.inspect(path, data)
    plain, _ = INSPECTOR._glances()[path]
    if plain(data):
        assert schema_of(METHODS[path]).scan(data) is OK
        assert METHODS[path].FromString(data).SerializeToString() == data


@given(st.binary(max_size=12), st.sampled_from(sorted(METHODS)))
def test_any_bytes_can_be_looked_at(data: bytes, path: bytes) -> None:
    try:
        METHODS[path].FromString(data)
    except DecodeError:
        assert not passes(INSPECTOR.inspect(path, data))


def test_the_usual_calls_pass_at_a_glance() -> None:
    """Or none of this would be worth having."""
    usual = {
        KV + b"Range": rpc_pb2.RangeRequest(key=b"k", range_end=b"l"),
        KV + b"Put": rpc_pb2.PutRequest(key=b"k", value=bytes(300), lease=1 << 62),
        KV + b"DeleteRange": rpc_pb2.DeleteRangeRequest(key=b"k"),
        KV + b"Txn": rpc_pb2.TxnRequest(
            compare=[rpc_pb2.Compare(key=b"k", target=rpc_pb2.Compare.VERSION, version=0)],
            success=[rpc_pb2.RequestOp(request_put=rpc_pb2.PutRequest(key=b"k", value=bytes(300)))],
            failure=[rpc_pb2.RequestOp(request_range=rpc_pb2.RangeRequest(key=b"k"))],
        ),
    }
    for path, request in usual.items():
        own = request.SerializeToString()
        assert any(plain(own) for plain in INSPECTOR._glances()[path]), path
