"""One answer of the public watch, taken together."""

from greenroom.demo.public import sighting_of
from greenroom.pb.etcd import kv_pb2


def event(kind: "kv_pb2.Event.EventType.ValueType", key: bytes, revision: int) -> kv_pb2.Event:
    return kv_pb2.Event(type=kind, kv=kv_pb2.KeyValue(key=key, mod_revision=revision))


def test_keys_keep_their_order_and_revisions_are_collected() -> None:
    put, delete = kv_pb2.Event.PUT, kv_pb2.Event.DELETE
    seen = sighting_of([event(put, b"b", 7), event(put, b"a", 7), event(delete, b"c", 8)])
    assert (seen.appeared, seen.gone, seen.revisions) == ((b"b", b"a"), (b"c",), {7, 8})
