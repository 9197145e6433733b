"""The model etcd behind the methods of `store.upstream.Upstream`, for what decides between two calls to etcd.

The rule: it answers as the model does and adds nothing but a place to step in: `between` runs before each Txn, so that
a test can let somebody else be faster.
"""

from collections.abc import Callable

import grpc
from grpc.aio import Metadata as GrpcMetadata

from greenroom.pb.etcd import lock_pb2, rpc_pb2
from greenroom.store.upstream import Metadata
from tests.support.model_etcd import ModelEtcd, Refusal

ONE = rpc_pb2.Member(ID=1, name="one", clientURLs=["http://etcd:2379", "http://etcd:2479"])


class ModelUpstream:
    """What a handler sees of etcd. `etcd` is the store's present state, `sent` every Txn with its metadata."""

    def __init__(self, etcd: ModelEtcd) -> None:
        self.etcd = etcd
        self.sent: list[tuple[rpc_pb2.TxnRequest, Metadata]] = []
        self.plain_calls: list[tuple[str, Metadata, float | None]] = []
        self.timeouts_seconds: list[float | None] = []
        self.between: Callable[[int], None] = lambda _: None

    async def txn(
        self, request: rpc_pb2.TxnRequest, *, metadata: Metadata = (), timeout_seconds: float | None = None
    ) -> rpc_pb2.TxnResponse:
        self.between(len(self.sent))
        self.sent.append((request, metadata))
        self.timeouts_seconds.append(timeout_seconds)
        try:
            self.etcd, answer = self.etcd.txn(request)
        except Refusal as refusal:
            raise grpc.aio.AioRpcError(
                refusal.code, GrpcMetadata(), GrpcMetadata(("trailer", "etcd's")), refusal.text
            ) from refusal
        return answer

    async def lease_time_to_live(
        self, request: rpc_pb2.LeaseTimeToLiveRequest, *, metadata: Metadata = (), timeout_seconds: float | None = None
    ) -> rpc_pb2.LeaseTimeToLiveResponse:
        if request.ID not in self.etcd.leases:
            return rpc_pb2.LeaseTimeToLiveResponse(ID=request.ID, TTL=-1)
        keys = self.etcd.lease_keys(request.ID) if request.keys else []
        return rpc_pb2.LeaseTimeToLiveResponse(ID=request.ID, TTL=30, grantedTTL=30, keys=keys)

    async def plain(
        self, path: str, request: bytes, *, metadata: Metadata = (), timeout_seconds: float | None = None
    ) -> bytes:
        self.plain_calls.append((path, metadata, timeout_seconds))
        match path.rpartition("/")[2]:
            case "Put":
                self.etcd, put = self.etcd.put(rpc_pb2.PutRequest.FromString(request))
                return put.SerializeToString()
            case "Range":
                return self.etcd.range(rpc_pb2.RangeRequest.FromString(request)).SerializeToString()
            case "Lock":
                return lock_pb2.LockResponse(key=lock_pb2.LockRequest.FromString(request).name).SerializeToString()
            case "MemberAdd":
                return rpc_pb2.MemberAddResponse(member=rpc_pb2.Member(ID=2), members=[ONE]).SerializeToString()
            case "MemberList" | "MemberUpdate" | "MemberRemove" | "MemberPromote":  # answered alike
                return rpc_pb2.MemberListResponse(members=[ONE]).SerializeToString()
        raise AssertionError(path)
