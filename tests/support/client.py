"""A thin synchronous etcd client for tests, on our own generated messages.

The rule: it adds nothing to what etcd answers. Every call has a deadline; errors come out as grpc.RpcError.
"""

from typing import Any, Self

import grpc

from greenroom.pb.etcd import kv_pb2, rpc_pb2, rpc_pb2_grpc
from tests.support.watching import WatchLog

CALL_SECONDS = 20
# etcd has no limit of its own on what it answers; the tests want to see it all. And grpc would let all clients of an
# address share one connection, whatever one of them does to it.
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)
EVERYTHING = (b"\0", b"\0")

Compare = rpc_pb2.Compare
RequestOp = rpc_pb2.RequestOp
Metadata = tuple[tuple[str, str], ...]


class EtcdClient:
    """One connection. The services are open for what has no method here: `kv`, `lease`, `auth` …"""

    def __init__(
        self, address: str, metadata: Metadata = (), credentials: grpc.ChannelCredentials | None = None
    ) -> None:
        self.channel = channel(address, credentials)
        self.metadata = metadata
        self.kv = rpc_pb2_grpc.KVStub(self.channel)
        self.lease = rpc_pb2_grpc.LeaseStub(self.channel)
        self.watcher = rpc_pb2_grpc.WatchStub(self.channel)
        self.auth = rpc_pb2_grpc.AuthStub(self.channel)
        self.cluster = rpc_pb2_grpc.ClusterStub(self.channel)
        self.maintenance = rpc_pb2_grpc.MaintenanceStub(self.channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.channel.close()

    def range(self, key: bytes, range_end: bytes = b"", **options: Any) -> rpc_pb2.RangeResponse:
        return self.kv.Range(rpc_pb2.RangeRequest(key=key, range_end=range_end, **options), **self._call)

    def prefix(self, prefix: bytes, **options: Any) -> rpc_pb2.RangeResponse:
        return self.range(prefix, prefix_end(prefix), **options)

    def everything(self, **options: Any) -> rpc_pb2.RangeResponse:
        return self.range(*EVERYTHING, **options)

    def get(self, key: bytes, **options: Any) -> kv_pb2.KeyValue | None:
        return next(iter(self.range(key, **options).kvs), None)

    def put(self, key: bytes, value: bytes = b"", lease: int = 0, **options: Any) -> rpc_pb2.PutResponse:
        return self.kv.Put(rpc_pb2.PutRequest(key=key, value=value, lease=lease, **options), **self._call)

    def delete(self, key: bytes, range_end: bytes = b"", **options: Any) -> rpc_pb2.DeleteRangeResponse:
        return self.kv.DeleteRange(rpc_pb2.DeleteRangeRequest(key=key, range_end=range_end, **options), **self._call)

    def txn(
        self, compare: list[Compare], success: list[RequestOp], failure: list[RequestOp] | None = None
    ) -> rpc_pb2.TxnResponse:
        return self.kv.Txn(rpc_pb2.TxnRequest(compare=compare, success=success, failure=failure or []), **self._call)

    def create(self, key: bytes, value: bytes, lease: int = 0) -> rpc_pb2.TxnResponse:
        """Put where absent, else read: the Txn by which Dynamo registers."""
        return self.txn([version_is(key, 0)], [put(key, value, lease)], [get(key)])

    def compact(self, revision: int) -> None:
        self.kv.Compact(rpc_pb2.CompactionRequest(revision=revision), **self._call)

    def revision(self) -> int:
        """The store's present revision."""
        return self.range(b"\xff", count_only=True).header.revision

    def grant(self, ttl_seconds: int = 60, lease: int = 0) -> int:
        return self.lease.LeaseGrant(rpc_pb2.LeaseGrantRequest(TTL=ttl_seconds, ID=lease), **self._call).ID

    def revoke(self, lease: int) -> None:
        self.lease.LeaseRevoke(rpc_pb2.LeaseRevokeRequest(ID=lease), **self._call)

    def time_to_live(self, lease: int, *, keys: bool = True) -> rpc_pb2.LeaseTimeToLiveResponse:
        return self.lease.LeaseTimeToLive(rpc_pb2.LeaseTimeToLiveRequest(ID=lease, keys=keys), **self._call)

    def keep_alive_once(self, lease: int) -> rpc_pb2.LeaseKeepAliveResponse:
        """One answer of a stream of its own; TTL 0 when there is no such lease."""
        answers = self.lease.LeaseKeepAlive(iter([rpc_pb2.LeaseKeepAliveRequest(ID=lease)]), **self._call)
        answer = next(iter(answers))
        answers.cancel()
        return answer

    def leases(self) -> list[int]:
        return [lease.ID for lease in self.lease.LeaseLeases(rpc_pb2.LeaseLeasesRequest(), **self._call).leases]

    def wipe(self) -> None:
        """Leaves no key and no lease."""
        self.delete(*EVERYTHING)
        for lease in self.leases():
            self.revoke(lease)

    def watch(self, key: bytes = EVERYTHING[0], range_end: bytes = EVERYTHING[1], **options: Any) -> WatchLog:
        """A log that is already created on etcd's side when this returns; everything by default."""
        create = rpc_pb2.WatchCreateRequest(key=key, range_end=range_end, **options)
        return WatchLog(self.watcher, create, self.metadata)

    @property
    def _call(self) -> dict[str, Any]:
        return {"timeout": CALL_SECONDS, "metadata": self.metadata}


def channel(address: str, credentials: grpc.ChannelCredentials | None = None) -> grpc.Channel:
    """A connection of its own."""
    if credentials is None:
        return grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
    return grpc.secure_channel(address, credentials, options=CHANNEL_OPTIONS)


def prefix_end(prefix: bytes) -> bytes:
    """The range end for all keys that start with `prefix`; the prefix must not end in 0xff."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


def version_is(key: bytes, version: int) -> Compare:
    return Compare(key=key, target=Compare.VERSION, result=Compare.EQUAL, version=version)


def mod_revision_is(key: bytes, mod_revision: int) -> Compare:
    return Compare(key=key, target=Compare.MOD, result=Compare.EQUAL, mod_revision=mod_revision)


def value_is(key: bytes, value: bytes) -> Compare:
    return Compare(key=key, target=Compare.VALUE, result=Compare.EQUAL, value=value)


def put(key: bytes, value: bytes, lease: int = 0, **options: Any) -> RequestOp:
    return RequestOp(request_put=rpc_pb2.PutRequest(key=key, value=value, lease=lease, **options))


def get(key: bytes, range_end: bytes = b"", **options: Any) -> RequestOp:
    return RequestOp(request_range=rpc_pb2.RangeRequest(key=key, range_end=range_end, **options))


def delete(key: bytes, range_end: bytes = b"", **options: Any) -> RequestOp:
    return RequestOp(request_delete_range=rpc_pb2.DeleteRangeRequest(key=key, range_end=range_end, **options))
