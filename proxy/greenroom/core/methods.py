"""Which calls clients may make, and which of them are looked into: one exact table of paths.

A method that is not here is answered UNIMPLEMENTED, for one that nobody has thought about might show or write gated
keys. Paths are compared byte by byte: etcd takes some that are merely similar.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Handling(StrEnum):
    """What becomes of a method's calls."""

    FORWARD = "forward"  # its messages touch no gated or reserved key
    INSPECT = "inspect"  # its one request message decides
    WATCH = "watch"  # each message of its request stream decides
    HAND_OVER = "hand over"  # etcd's own answer is never what the client should see


_HANDLING: Final[Mapping[str, Mapping[Handling, str]]] = {
    "etcdserverpb.KV": {
        Handling.INSPECT: "Range Put DeleteRange Txn",
        Handling.FORWARD: "Compact",
    },
    "etcdserverpb.Watch": {
        Handling.WATCH: "Watch",
    },
    "etcdserverpb.Lease": {
        Handling.INSPECT: "LeaseGrant LeaseRevoke LeaseTimeToLive",
        Handling.FORWARD: "LeaseKeepAlive LeaseLeases",
    },
    "etcdserverpb.Cluster": {
        Handling.HAND_OVER: "MemberList MemberAdd MemberRemove MemberUpdate MemberPromote",
    },
    "etcdserverpb.Maintenance": {
        Handling.FORWARD: "Alarm Status Defragment Hash HashKV Snapshot MoveLeader Downgrade",
    },
    "etcdserverpb.Auth": {
        Handling.FORWARD: "AuthEnable AuthDisable AuthStatus Authenticate UserAdd UserGet UserList UserDelete "
        "UserChangePassword UserGrantRole UserRevokeRole RoleAdd RoleGet RoleList RoleDelete RoleGrantPermission "
        "RoleRevokePermission",
    },
    # etcd runs these two services on its own side of the door: what they read and write is judged by the names.
    "v3lockpb.Lock": {
        Handling.INSPECT: "Lock Unlock",
    },
    "v3electionpb.Election": {
        Handling.INSPECT: "Campaign Proclaim Leader Observe Resign",
    },
    "grpc.health.v1.Health": {
        Handling.FORWARD: "Check Watch",
    },
}

METHODS: Final[Mapping[bytes, Handling]] = {
    f"/{service}/{method}".encode(): handling
    for service, handlings in _HANDLING.items()
    for handling, methods in handlings.items()
    for method in methods.split()
}
"""Path as on the wire (`/package.Service/Method`) to handling. Absent: UNIMPLEMENTED."""
