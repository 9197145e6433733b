"""etcd leases of Greenroom's own: granted with ids that clients' calls cannot end, and never left behind.

The rule: what cannot be revoked now ends by itself, and a lease that somebody put other keys on is let be.
"""

from typing import Any

import grpc

from greenroom.core.own_leases import new_own_lease
from greenroom.pb.etcd import rpc_pb2
from greenroom.store.fenced import DEADLINE_SECONDS
from greenroom.store.upstream import Upstream, why


class OwnLeases:
    """Grants and revokes. `left_event` is the name of the log event that tells of a lease that could not be revoked."""

    def __init__(self, upstream: Upstream, *, left_event: str, log: Any) -> None:
        self._upstream, self._left_event, self._log = upstream, left_event, log

    async def grant(self, ttl_seconds: int) -> rpc_pb2.LeaseGrantResponse:
        """A new lease; etcd may make a very short one longer. etcd's errors come out as grpc.aio.AioRpcError."""
        return await self._upstream.lease_grant(own_grant(ttl_seconds), timeout_seconds=DEADLINE_SECONDS)

    async def revoke(self, lease: int) -> None:
        """Ends a lease with all its keys."""
        try:
            await self._upstream.lease_revoke(rpc_pb2.LeaseRevokeRequest(ID=lease), timeout_seconds=DEADLINE_SECONDS)
        except grpc.aio.AioRpcError as error:
            self._left(lease, error)

    async def revoke_if_empty(self, lease: int) -> None:
        """Not a lease that somebody put other keys on: revoking it would delete them."""
        request = rpc_pb2.LeaseTimeToLiveRequest(ID=lease, keys=True)
        try:
            left = await self._upstream.lease_time_to_live(request, timeout_seconds=DEADLINE_SECONDS)
        except grpc.aio.AioRpcError as error:
            self._left(lease, error)
            return
        if left.TTL > 0 and not left.keys:
            await self.revoke(lease)

    def _left(self, lease: int, error: grpc.aio.AioRpcError) -> None:
        self._log.warning(self._left_event, lease=f"{lease:x}", reason=why(error, DEADLINE_SECONDS))


def own_grant(ttl_seconds: int) -> rpc_pb2.LeaseGrantRequest:
    """What to ask etcd for."""
    return rpc_pb2.LeaseGrantRequest(TTL=ttl_seconds, ID=new_own_lease())
