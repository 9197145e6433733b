"""The model etcd behind the methods of `store.upstream`, for what decides between two calls to etcd.

The rule: it answers as the model does and adds nothing but places to step in: `between` runs before each Txn, so that
a test can let somebody else be faster, and `denies` says which Txns of clients etcd would not permit. A client's call
is noted with the client's metadata, one of the proxy's own with None.
"""

from collections.abc import Callable

import grpc
from grpc.aio import Metadata as GrpcMetadata

from greenroom.pb.etcd import lock_pb2, rpc_pb2
from greenroom.store.credentials import Metadata
from tests.support.model_etcd import ModelEtcd, Refusal

ONE = rpc_pb2.Member(ID=1, name="one", clientURLs=["http://etcd:2379", "http://etcd:2479"])
DENIED = Refusal((grpc.StatusCode.PERMISSION_DENIED, "etcdserver: permission denied"))


class ModelUpstream:
    """What a handler sees of etcd. `etcd` is the store's present state, `sent` every Txn with who sent it."""

    def __init__(self, etcd: ModelEtcd, *, has_user: bool = False) -> None:
        self.etcd = etcd
        self.has_user = has_user
        self.sent: list[tuple[rpc_pb2.TxnRequest, Metadata | None]] = []
        self.leases_seen = 0
        self.plain_calls: list[tuple[str, Metadata, float | None]] = []
        self.timeouts_seconds: list[float | None] = []
        self.between: Callable[[int], None] = lambda _: None
        self.may_know_keys = True
        """Whether clients may read all keys of every lease, which they must to be told of them."""
        self.denies: Callable[[rpc_pb2.TxnRequest], bool] = lambda _: False

    def as_client(self, metadata: Metadata) -> "AsClient":
        return AsClient(self, metadata)

    async def txn(self, request: rpc_pb2.TxnRequest, *, timeout_seconds: float | None = None) -> rpc_pb2.TxnResponse:
        return self.note_txn(request, None, timeout_seconds)

    async def lease_time_to_live(
        self, request: rpc_pb2.LeaseTimeToLiveRequest, *, timeout_seconds: float | None = None
    ) -> rpc_pb2.LeaseTimeToLiveResponse:
        self.leases_seen += 1
        header = rpc_pb2.ResponseHeader(revision=self.etcd.revision)
        if request.ID not in self.etcd.leases:
            return rpc_pb2.LeaseTimeToLiveResponse(header=header, ID=request.ID, TTL=-1)
        keys = self.etcd.lease_keys(request.ID) if request.keys else []
        return rpc_pb2.LeaseTimeToLiveResponse(header=header, ID=request.ID, TTL=30, grantedTTL=30, keys=keys)

    def note_txn(
        self, request: rpc_pb2.TxnRequest, metadata: Metadata | None, timeout_seconds: float | None
    ) -> rpc_pb2.TxnResponse:
        self.between(len(self.sent))
        self.sent.append((request, metadata))
        self.timeouts_seconds.append(timeout_seconds)
        try:
            if metadata is not None and self.denies(request):
                raise DENIED
            self.etcd, answer = self.etcd.txn(request)
        except Refusal as refusal:
            raise as_error(refusal) from refusal
        return answer


def as_error(refusal: Refusal) -> grpc.aio.AioRpcError:
    """A refusal as the connection gives it, with a trailer of etcd's."""
    return grpc.aio.AioRpcError(refusal.code, GrpcMetadata(), GrpcMetadata(("trailer", "etcd's")), refusal.text)


class AsClient:
    """The same etcd, as one client."""

    def __init__(self, upstream: ModelUpstream, metadata: Metadata) -> None:
        self._upstream, self._metadata = upstream, metadata

    async def txn(self, request: rpc_pb2.TxnRequest, *, timeout_seconds: float | None = None) -> rpc_pb2.TxnResponse:
        return self._upstream.note_txn(request, self._metadata, timeout_seconds)

    async def range(
        self, request: rpc_pb2.RangeRequest, *, timeout_seconds: float | None = None
    ) -> rpc_pb2.RangeResponse:
        return self._upstream.etcd.range(request)

    async def lease_time_to_live(
        self, request: rpc_pb2.LeaseTimeToLiveRequest, *, timeout_seconds: float | None = None
    ) -> rpc_pb2.LeaseTimeToLiveResponse:
        if not self._upstream.may_know_keys:
            raise as_error(DENIED)
        return await self._upstream.lease_time_to_live(request, timeout_seconds=timeout_seconds)

    async def plain(self, path: str, request: bytes, *, timeout_seconds: float | None = None) -> bytes:
        self._upstream.plain_calls.append((path, self._metadata, timeout_seconds))
        etcd = self._upstream.etcd
        match path.rpartition("/")[2]:
            case "Put":
                self._upstream.etcd, put = etcd.put(rpc_pb2.PutRequest.FromString(request))
                return put.SerializeToString()
            case "Range":
                return etcd.range(rpc_pb2.RangeRequest.FromString(request)).SerializeToString()
            case "Lock":
                return lock_pb2.LockResponse(key=lock_pb2.LockRequest.FromString(request).name).SerializeToString()
            case "MemberAdd":
                return rpc_pb2.MemberAddResponse(member=rpc_pb2.Member(ID=2), members=[ONE]).SerializeToString()
            case "MemberList" | "MemberUpdate" | "MemberRemove" | "MemberPromote":  # answered alike
                return rpc_pb2.MemberListResponse(members=[ONE]).SerializeToString()
        raise AssertionError(path)
