"""The server of one preview: what it knows, what it passes on, how it ends. It listens; nothing answers behind it."""

import grpc
import pytest

from greenroom.addresses import Address
from greenroom.core.preview import View
from greenroom.core.templates import dynamo_gated_keys
from greenroom.pb.etcd import rpc_pb2, rpc_pb2_grpc
from greenroom.preview.server import PreviewServer, _metadata
from greenroom.processes import can_bind
from tests.support.control_side import EventLog
from tests.support.mirroring import unconnected
from tests.support.ports import free_port

GATED = dynamo_gated_keys(instances=False)


def test_the_clients_metadata_goes_on_and_grpcs_own_does_not() -> None:
    own = [("user-agent", "tonic"), ("grpc-timeout", "1S"), ("grpc-accept-encoding", "gzip")]
    theirs = [("authorization", "token"), ("hasleader", "true"), ("trace-bin", b"\0")]
    assert _metadata([*own, *theirs]) == tuple(theirs)


async def test_an_unknown_method_is_refused_in_words_and_a_mistake_by_its_code() -> None:
    upstream, address = unconnected(), Address("127.0.0.1", free_port())
    server = PreviewServer(lambda own: View(GATED, own_leases=own), upstream, log=EventLog())
    await server.start(address)
    async with grpc.aio.insecure_channel(str(address)) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await rpc_pb2_grpc.MaintenanceStub(channel).Snapshot(rpc_pb2.SnapshotRequest()).read()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await rpc_pb2_grpc.KVStub(channel).Put(rpc_pb2.PutRequest(key=b"v1/mdc/x"))
    assert unknown.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "a preview has no Snapshot: it has Range, Put," in (unknown.value.details() or "")
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    await server.stop("")
    await upstream.close()


async def test_a_port_that_is_taken_is_said_and_is_free_after_the_end() -> None:
    upstream, address = unconnected(), Address("127.0.0.1", free_port())
    one, other = (PreviewServer(lambda own: View(GATED), upstream, log=EventLog()) for _ in range(2))
    await one.start(address)
    with pytest.raises(OSError, match="is taken"):
        await other.start(address)
    await other.stop("")
    await one.stop("over")
    assert can_bind(address.host, address.port)
    await upstream.close()
