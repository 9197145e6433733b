"""Clients that compress with gzip: taken where etcd takes them (from 3.5 on), and held all the same.

The clients are grpcio's, which compresses what gets smaller by it, and frames made by hand.
"""

import gzip

import grpc
import pytest

from greenroom.pb.etcd import rpc_pb2
from tests.support.client import CALL_SECONDS, version_is
from tests.support.endpoints import Endpoint, Proxy
from tests.support.frames import framed_message
from tests.support.raw_grpc import RawGrpc
from tests.support.workers import Worker

GZIP = (("grpc-encoding", "gzip"),)
LARGE = b"large " * 10_000
TAKES_GZIP = (3, 5)
CALL = {"timeout": CALL_SECONDS, "compression": grpc.Compression.Gzip}


def takes_gzip(endpoint: Endpoint) -> bool:
    return endpoint.etcd.version >= TAKES_GZIP


def compressed(message: bytes) -> bytes:
    return framed_message(gzip.compress(message), compressed=True)


def test_a_compressed_put_and_what_is_read_back(etcd_or_proxy: Endpoint) -> None:
    put, read = rpc_pb2.PutRequest(key=b"a", value=LARGE), rpc_pb2.RangeRequest(key=b"a")
    if not takes_gzip(etcd_or_proxy):
        with pytest.raises(grpc.RpcError, match='Decompressor is not installed for grpc-encoding "gzip"'):
            etcd_or_proxy.client.kv.Put(put, **CALL)
        return
    revision = etcd_or_proxy.client.kv.Put(put, **CALL).header.revision
    (found,) = etcd_or_proxy.client.kv.Range(read, **CALL).kvs
    assert (found.value, found.mod_revision) == (LARGE, revision)


def test_compressed_requests_of_a_watch(etcd_or_proxy: Endpoint) -> None:
    """Two watches on one stream, the second one on a key so long that it is worth compressing."""
    if not takes_gzip(etcd_or_proxy):
        pytest.skip("this etcd takes no gzip")
    key = b"k" * 2_000
    requests = [rpc_pb2.WatchRequest(create_request=rpc_pb2.WatchCreateRequest(key=each)) for each in (b"a", key)]
    call = etcd_or_proxy.client.watcher.Watch(iter(requests), **CALL)
    assert [next(call).created for _ in requests] == [True, True]
    etcd_or_proxy.public.put(key, b"1")
    assert next(call).events[0].kv.key == key
    call.cancel()


def test_a_compressed_registration_is_held(proxy: Proxy) -> None:
    """By the Txn that Dynamo sends; and the worker reads its card back. No byte of it got past the proxy."""
    worker = Worker(proxy.client)
    create = rpc_pb2.PutRequest(key=worker.card_key, value=worker.card(), lease=worker.lease)
    txn = rpc_pb2.TxnRequest(compare=[version_is(worker.card_key, 0)], success=[rpc_pb2.RequestOp(request_put=create)])
    with proxy.public.watch(worker.card_key) as seen:
        assert proxy.client.kv.Txn(txn, **CALL).succeeded
        assert proxy.held(worker) == [worker.card_key]
        found = proxy.client.kv.Range(rpc_pb2.RangeRequest(key=worker.card_key), **CALL)
        assert [entry.value for entry in found.kvs] == [worker.card()]
        assert proxy.shown(worker) == []
        assert seen.changes == []


def test_a_compressed_range_over_everything_shows_nothing_that_is_held(proxy: Proxy) -> None:
    """Its bytes cannot be clipped in their place, so it goes up as a call of the proxy's."""
    proxy.hold_somebody()
    proxy.public.put(b"a", b"1")
    request = rpc_pb2.RangeRequest(key=b"\0", range_end=b"\0").SerializeToString()
    with RawGrpc(proxy.address) as raw:
        answer = raw.call_content("/etcdserverpb.KV/Range", compressed(request), headers=GZIP)
        found = rpc_pb2.RangeResponse.FromString(answer.messages[0])
    assert [entry.key for entry in found.kvs] == [b"a"]


def test_a_compressed_watch_over_everything_shows_nothing_that_is_held(proxy: Proxy) -> None:
    if not takes_gzip(proxy):
        pytest.skip("this etcd takes no gzip")
    create = rpc_pb2.WatchCreateRequest(key=b"\0", range_end=b"\0")
    request = rpc_pb2.WatchRequest(create_request=create).SerializeToString()
    with RawGrpc(proxy.address) as raw:
        stream = raw.start("/etcdserverpb.Watch/Watch", headers=GZIP, half_close=False)
        raw.send_content(stream, compressed(request))
        raw.wait_messages(stream, 1)
        proxy.hold_somebody()
        proxy.public.put(b"a", b"1")
        raw.wait_messages(stream, 2)
        content = bytes(raw.answers[stream].content)
    assert b"greenroom" not in content + b"".join(map(gunzipped, raw.answers[stream].messages))


def gunzipped(message: bytes) -> bytes:
    return gzip.decompress(message) if message.startswith(b"\x1f\x8b") else message


def test_a_message_that_two_readers_may_read_differently_goes_nowhere(proxy: Proxy) -> None:
    """Two members, one behind the other: to some readers the first one is all, to etcd's it is one message."""
    worker = Worker(proxy.client)
    create = rpc_pb2.PutRequest(key=worker.card_key, value=worker.card(), lease=worker.lease).SerializeToString()
    harmless = rpc_pb2.PutRequest(key=b"a").SerializeToString()
    content = framed_message(gzip.compress(harmless) + gzip.compress(create), compressed=True)
    with RawGrpc(proxy.address) as raw:
        assert raw.call_content("/etcdserverpb.KV/Put", content, headers=GZIP).status == 13
    assert proxy.shown(worker) == []
    assert proxy.public.get(b"a") is None


def test_a_few_bytes_that_say_a_great_deal_are_refused(etcd_or_proxy: Endpoint) -> None:
    content = compressed(rpc_pb2.PutRequest(key=b"a", value=bytes(20 << 20)).SerializeToString())
    with RawGrpc(etcd_or_proxy.address) as raw:
        answer = raw.call_content("/etcdserverpb.KV/Put", content, headers=GZIP)
    if takes_gzip(etcd_or_proxy):
        assert answer.status == 8
        assert "larger than max" in answer.trailers["grpc-message"]
    assert answer.status != 0
