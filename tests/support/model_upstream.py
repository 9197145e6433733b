"""The model etcd behind the methods of `store.upstream.Upstream`, for what decides between two calls to etcd.

The rule: it answers as the model does and adds nothing but a place to step in: `between` runs before each Txn, so that
a test can let somebody else be faster.
"""

from collections.abc import Callable

import grpc
from grpc.aio import Metadata as GrpcMetadata

from greenroom.pb.etcd import rpc_pb2
from greenroom.store.upstream import Metadata
from tests.support.model_etcd import ModelEtcd, Refusal


class ModelUpstream:
    """What a handler sees of etcd. `etcd` is the store's present state, `sent` every Txn with its metadata."""

    def __init__(self, etcd: ModelEtcd) -> None:
        self.etcd = etcd
        self.sent: list[tuple[rpc_pb2.TxnRequest, Metadata]] = []
        self.between: Callable[[int], None] = lambda _: None

    async def txn(
        self, request: rpc_pb2.TxnRequest, *, metadata: Metadata = (), timeout_seconds: float | None = None
    ) -> rpc_pb2.TxnResponse:
        self.between(len(self.sent))
        self.sent.append((request, metadata))
        try:
            self.etcd, answer = self.etcd.txn(request)
        except Refusal as refusal:
            raise grpc.aio.AioRpcError(
                refusal.code, GrpcMetadata(), GrpcMetadata(("trailer", "etcd's")), refusal.text
            ) from refusal
        return answer

    async def range(
        self, request: rpc_pb2.RangeRequest, *, metadata: Metadata = (), timeout_seconds: float | None = None
    ) -> rpc_pb2.RangeResponse:
        return self.etcd.range(request)

    async def put(
        self, request: rpc_pb2.PutRequest, *, metadata: Metadata = (), timeout_seconds: float | None = None
    ) -> rpc_pb2.PutResponse:
        self.etcd, answer = self.etcd.put(request)
        return answer

    async def delete_range(
        self, request: rpc_pb2.DeleteRangeRequest, *, metadata: Metadata = (), timeout_seconds: float | None = None
    ) -> rpc_pb2.DeleteRangeResponse:
        self.etcd, answer = self.etcd.delete(request)
        return answer

    async def lease_time_to_live(
        self, request: rpc_pb2.LeaseTimeToLiveRequest, *, metadata: Metadata = (), timeout_seconds: float | None = None
    ) -> rpc_pb2.LeaseTimeToLiveResponse:
        if request.ID not in self.etcd.leases:
            return rpc_pb2.LeaseTimeToLiveResponse(ID=request.ID, TTL=-1)
        keys = self.etcd.lease_keys(request.ID) if request.keys else []
        return rpc_pb2.LeaseTimeToLiveResponse(ID=request.ID, TTL=30, grantedTTL=30, keys=keys)

    async def member_list(
        self, request: rpc_pb2.MemberListRequest, *, metadata: Metadata = (), timeout_seconds: float | None = None
    ) -> rpc_pb2.MemberListResponse:
        return rpc_pb2.MemberListResponse(members=[rpc_pb2.Member(name="one", clientURLs=["http://etcd:2379"])])
