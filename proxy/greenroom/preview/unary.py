"""A preview's calls with one answer: reads with held keys in them, and its clients' own writes and leases as they are.

The rule: everything is asked of etcd as the client, with its metadata and its deadline, so etcd judges it.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from google.protobuf.message import Message

from greenroom.core.own_leases import check_grant, check_revoke
from greenroom.core.preview import View
from greenroom.core.preview_answers import without_others
from greenroom.core.preview_reads import read_answer, read_txn
from greenroom.errors import UnsupportedCall
from greenroom.pb.etcd import rpc_pb2
from greenroom.preview.requests import (
    check_keys_of_lease,
    checked_delete,
    checked_put,
    checked_read,
    checked_txn,
    parsed,
)
from greenroom.store.upstream import ClientCalls

AUTHENTICATE: Final = "/etcdserverpb.Auth/Authenticate"

MAX_OWN_LEASES: Final = 10_000
"""Leases that clients of a preview were granted and are remembered; a frontend has one or two."""

UnaryMethod = Callable[[bytes, ClientCalls, float | None], Awaitable[Message]]
"""A request's bytes, whom to ask as, and the seconds that are left; GreenroomError or AioRpcError."""


class OwnLeases:
    """The leases that were granted through one preview. Of too many the oldest are forgotten."""

    def __init__(self) -> None:
        self._known: dict[int, None] = {}

    def __contains__(self, lease: object) -> bool:
        return lease in self._known

    def add(self, lease: int) -> None:
        """Granted to one of the preview's clients."""
        if len(self._known) >= MAX_OWN_LEASES:
            del self._known[next(iter(self._known))]
        self._known[lease] = None


class UnaryCalls:
    """The methods, by their paths as on the wire."""

    def __init__(self, view: View, own_leases: OwnLeases) -> None:
        self._view, self._own_leases = view, own_leases
        kv, lease = "/etcdserverpb.KV/", "/etcdserverpb.Lease/"
        self.methods: Mapping[str, UnaryMethod] = {
            kv + "Range": self._range,
            kv + "Put": self._put,
            kv + "DeleteRange": self._delete_range,
            kv + "Txn": self._txn,
            lease + "LeaseGrant": self._grant,
            lease + "LeaseRevoke": self._revoke,
            lease + "LeaseTimeToLive": self._time_to_live,
            AUTHENTICATE: self._authenticate,
        }

    async def _range(self, data: bytes, client: ClientCalls, seconds: float | None) -> Message:
        request = checked_read(parsed(rpc_pb2.RangeRequest, data))
        txn = read_txn(request, self._view)
        if txn is None:
            return await client.range(request, timeout_seconds=seconds)
        return read_answer(request, self._view, await client.txn(txn, timeout_seconds=seconds))

    async def _put(self, data: bytes, client: ClientCalls, seconds: float | None) -> Message:
        request = checked_put(parsed(rpc_pb2.PutRequest, data), self._view)
        return without_others(await client.put(request, timeout_seconds=seconds), self._view)

    async def _delete_range(self, data: bytes, client: ClientCalls, seconds: float | None) -> Message:
        request = checked_delete(parsed(rpc_pb2.DeleteRangeRequest, data), self._view)
        return without_others(await client.delete_range(request, timeout_seconds=seconds), self._view)

    async def _txn(self, data: bytes, client: ClientCalls, seconds: float | None) -> Message:
        request = checked_txn(parsed(rpc_pb2.TxnRequest, data), self._view)
        return without_others(await client.txn(request, timeout_seconds=seconds), self._view)

    async def _grant(self, data: bytes, client: ClientCalls, seconds: float | None) -> Message:
        request = parsed(rpc_pb2.LeaseGrantRequest, data)
        check_grant(request.ID)
        granted = await client.lease_grant(request, timeout_seconds=seconds)
        self._own_leases.add(granted.ID)
        return granted

    async def _revoke(self, data: bytes, client: ClientCalls, seconds: float | None) -> Message:
        request = parsed(rpc_pb2.LeaseRevokeRequest, data)
        check_revoke(request.ID)
        asked = rpc_pb2.LeaseTimeToLiveRequest(ID=request.ID, keys=True)
        check_keys_of_lease(await client.lease_time_to_live(asked, timeout_seconds=seconds), self._view)
        return await client.lease_revoke(request, timeout_seconds=seconds)

    async def _time_to_live(self, data: bytes, client: ClientCalls, seconds: float | None) -> Message:
        request = parsed(rpc_pb2.LeaseTimeToLiveRequest, data)
        if request.keys:
            raise UnsupportedCall("a preview does not list a lease's keys: ask without `keys`, or at the proxy's port")
        return await client.lease_time_to_live(request, timeout_seconds=seconds)

    async def _authenticate(self, data: bytes, client: ClientCalls, seconds: float | None) -> Message:
        request = parsed(rpc_pb2.AuthenticateRequest, data)
        answer = await client.plain(AUTHENTICATE, request.SerializeToString(), timeout_seconds=seconds)
        return rpc_pb2.AuthenticateResponse.FromString(answer)
