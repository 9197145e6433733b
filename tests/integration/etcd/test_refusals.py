"""What etcd refuses, asked of it and of the proxy in front of it: the same answer, to the last header.

The rule: both are asked the same thing of the same store. Where a request is about gated keys, a worker registered past
the proxy asks etcd, and one that is held asks the proxy, each about its own.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from google.protobuf.message import Message

from greenroom.pb.etcd import auth_pb2, election_pb2, lock_pb2, rpc_pb2
from tests.support.client import RequestOp, delete, get, put, version_is
from tests.support.endpoints import Proxy, launched_proxy
from tests.support.etcd import Etcd
from tests.support.raw_grpc import RawGrpc
from tests.support.workers import Worker

NO_LEASE = 0x3039
NO_MEMBER = 7
LATE, COMPACTED = 1_000_000, 2
TOO_LARGE = b"x" * (1600 << 10)
TOO_MANY = 129
ETCD, LOCK, ELECTION = "/etcdserverpb.", "/v3lockpb.Lock/", "/v3electionpb.Election/"

Asked = Callable[[Worker], Message]


@dataclass(frozen=True)
class Sides:
    """Both connections, with who asks on each."""

    direct: RawGrpc
    public: Worker
    proxied: RawGrpc
    held: Worker


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    with Etcd.launch() as etcd, launched_proxy(etcd, tmp_path_factory.mktemp("proxy")) as proxy:
        for number in range(4):
            proxy.public.put(b"a", b"%d" % number)
        public = Worker(proxy.public, ttl_seconds=600)
        assert public.register().succeeded
        held = proxy.held_worker(ttl_seconds=600)
        proxy.public.compact(proxy.public.revision())
        with RawGrpc(etcd.address) as direct, RawGrpc(proxy.address) as proxied:
            yield Sides(direct, public, proxied, held)
            # None of the requests may have cost the connection, or the worker its place.
            assert (proxied.goaway, proxied.closed) == (direct.goaway, direct.closed) == (None, False)
        assert_still_held(proxy, held)


def assert_still_held(proxy: Proxy, worker: Worker) -> None:
    assert proxy.held(worker) == [worker.card_key]
    assert proxy.shown(worker) == []


def txn(*success: RequestOp, **more: Any) -> rpc_pb2.TxnRequest:
    return rpc_pb2.TxnRequest(success=success, **more)


def own(worker: Worker, **options: Any) -> rpc_pb2.PutRequest:
    """A put of the worker's own card."""
    return rpc_pb2.PutRequest(**{"key": worker.card_key, "value": worker.card(), "lease": worker.lease, **options})


def own_op(worker: Worker, **options: Any) -> RequestOp:
    return RequestOp(request_put=own(worker, **options))


def of_nobody(worker: Worker) -> rpc_pb2.PutRequest:
    """A card of a worker whose lease has ended."""
    return rpc_pb2.PutRequest(key=b"v1/mdc/dynamo/backend/generate/%x" % NO_LEASE, value=b"", lease=NO_LEASE)


READ, PUT, DELETE = rpc_pb2.RangeRequest, rpc_pb2.PutRequest, rpc_pb2.DeleteRangeRequest
OF_OTHER_KEYS: dict[str, tuple[str, Asked]] = {
    "range without a key": ("KV/Range", lambda _: READ()),
    "range of a late revision": ("KV/Range", lambda _: READ(key=b"a", revision=LATE)),
    "range of a compacted revision": ("KV/Range", lambda _: READ(key=b"a", revision=COMPACTED)),
    "put without a key": ("KV/Put", lambda _: PUT(value=b"x")),
    "put under no lease": ("KV/Put", lambda _: PUT(key=b"a", lease=NO_LEASE)),
    "put too large": ("KV/Put", lambda _: PUT(key=b"a", value=TOO_LARGE)),
    "put ignoring the value that it has": ("KV/Put", lambda _: PUT(key=b"a", value=b"x", ignore_value=True)),
    "put ignoring the lease that it has": ("KV/Put", lambda w: PUT(key=b"a", lease=w.lease, ignore_lease=True)),
    "put ignoring the value of nothing": ("KV/Put", lambda _: PUT(key=b"nothing", ignore_value=True)),
    "put ignoring the lease of nothing": ("KV/Put", lambda _: PUT(key=b"nothing", ignore_lease=True)),
    "delete without a key": ("KV/DeleteRange", lambda _: DELETE()),
    "txn with a read without a key": ("KV/Txn", lambda _: txn(get(b""))),
    "txn with a put without a key": ("KV/Txn", lambda _: txn(put(b"", b""))),
    "txn with a delete without a key": ("KV/Txn", lambda _: txn(delete(b""))),
    "txn with a compare without a key": ("KV/Txn", lambda _: txn(compare=[version_is(b"", 0)])),
    "txn with too many operations": ("KV/Txn", lambda _: txn(*[get(b"a")] * TOO_MANY)),
    "txn with too many otherwise": ("KV/Txn", lambda _: txn(failure=[get(b"a")] * TOO_MANY)),
    "txn with too many compares": ("KV/Txn", lambda _: txn(compare=[version_is(b"a", 0)] * TOO_MANY)),
    "txn that puts twice": ("KV/Txn", lambda _: txn(put(b"a", b""), put(b"a", b""))),
    "txn that puts and deletes": ("KV/Txn", lambda _: txn(put(b"a", b""), delete(b"a"))),
    "txn with an operation that is not set": ("KV/Txn", lambda _: txn(RequestOp())),
    "txn with a put under no lease": ("KV/Txn", lambda _: txn(put(b"a", b"", NO_LEASE))),
    "txn with a late read": ("KV/Txn", lambda _: txn(get(b"a", revision=LATE))),
    "txn with a compacted read": ("KV/Txn", lambda _: txn(get(b"a", revision=COMPACTED))),
    "txn too large": ("KV/Txn", lambda _: txn(put(b"a", TOO_LARGE))),
    "late compaction": ("KV/Compact", lambda _: rpc_pb2.CompactionRequest(revision=LATE)),
    "compaction once more": ("KV/Compact", lambda _: rpc_pb2.CompactionRequest(revision=COMPACTED)),
    "grant of a lease that is there": ("Lease/LeaseGrant", lambda w: rpc_pb2.LeaseGrantRequest(TTL=9, ID=w.lease)),
    "grant for too long": ("Lease/LeaseGrant", lambda _: rpc_pb2.LeaseGrantRequest(TTL=10**10)),
    "revocation of no lease": ("Lease/LeaseRevoke", lambda _: rpc_pb2.LeaseRevokeRequest(ID=NO_LEASE)),
    "member at no URL": ("Cluster/MemberAdd", lambda _: rpc_pb2.MemberAddRequest()),
    "member at nonsense": ("Cluster/MemberAdd", lambda _: rpc_pb2.MemberAddRequest(peerURLs=["nonsense"])),
    "removal of no member": ("Cluster/MemberRemove", lambda _: rpc_pb2.MemberRemoveRequest(ID=NO_MEMBER)),
    "update of no member": ("Cluster/MemberUpdate", lambda _: rpc_pb2.MemberUpdateRequest(ID=NO_MEMBER)),
    "promotion of no member": ("Cluster/MemberPromote", lambda _: rpc_pb2.MemberPromoteRequest(ID=NO_MEMBER)),
    "leadership for no member": (
        "Maintenance/MoveLeader",
        lambda _: rpc_pb2.MoveLeaderRequest(targetID=NO_MEMBER),
    ),
    "hash of a late revision": ("Maintenance/HashKV", lambda _: rpc_pb2.HashKVRequest(revision=LATE)),
    "hash of a compacted revision": ("Maintenance/HashKV", lambda _: rpc_pb2.HashKVRequest(revision=COMPACTED)),
    "downgrade to nonsense": ("Maintenance/Downgrade", lambda _: rpc_pb2.DowngradeRequest(version="nonsense")),
    "auth without a root": ("Auth/AuthEnable", lambda _: rpc_pb2.AuthEnableRequest()),
    "token without auth": ("Auth/Authenticate", lambda _: rpc_pb2.AuthenticateRequest(name="a", password="b")),
    "user without a name": ("Auth/UserAdd", lambda _: rpc_pb2.AuthUserAddRequest(password="b")),
    "no user": ("Auth/UserGet", lambda _: rpc_pb2.AuthUserGetRequest(name="nobody")),
    "deletion of no user": ("Auth/UserDelete", lambda _: rpc_pb2.AuthUserDeleteRequest(name="nobody")),
    "password of no user": (
        "Auth/UserChangePassword",
        lambda _: rpc_pb2.AuthUserChangePasswordRequest(name="nobody", password="x"),
    ),
    "role for no user": (
        "Auth/UserGrantRole",
        lambda _: rpc_pb2.AuthUserGrantRoleRequest(user="nobody", role="x"),
    ),
    "role of no user": (
        "Auth/UserRevokeRole",
        lambda _: rpc_pb2.AuthUserRevokeRoleRequest(name="nobody", role="x"),
    ),
    "role without a name": ("Auth/RoleAdd", lambda _: rpc_pb2.AuthRoleAddRequest()),
    "no role": ("Auth/RoleGet", lambda _: rpc_pb2.AuthRoleGetRequest(role="nobody")),
    "deletion of no role": ("Auth/RoleDelete", lambda _: rpc_pb2.AuthRoleDeleteRequest(role="nobody")),
    "permission for no role": (
        "Auth/RoleGrantPermission",
        lambda _: rpc_pb2.AuthRoleGrantPermissionRequest(name="nobody", perm=auth_pb2.Permission(key=b"a")),
    ),
    "permission of no role": (
        "Auth/RoleRevokePermission",
        lambda _: rpc_pb2.AuthRoleRevokePermissionRequest(role="nobody", key=b"a"),
    ),
    "lock under no lease": (f"{LOCK}Lock", lambda _: lock_pb2.LockRequest(name=b"a", lease=NO_LEASE)),
    "unlocking nothing": (f"{LOCK}Unlock", lambda _: lock_pb2.UnlockRequest()),
    "campaign under no lease": (
        f"{ELECTION}Campaign",
        lambda _: election_pb2.CampaignRequest(name=b"a", lease=NO_LEASE),
    ),
    "leader of no election": (f"{ELECTION}Leader", lambda _: election_pb2.LeaderRequest(name=b"nobody")),
    "proclamation without a leader": (f"{ELECTION}Proclaim", lambda _: election_pb2.ProclaimRequest()),
    "proclamation of one who did not win": (
        f"{ELECTION}Proclaim",
        lambda _: election_pb2.ProclaimRequest(leader=election_pb2.LeaderKey(name=b"a", key=b"a/1", rev=3)),
    ),
    "resignation without a leader": (f"{ELECTION}Resign", lambda _: election_pb2.ResignRequest()),
    "health of no service": ("/grpc.health.v1.Health/Check", lambda _: rpc_pb2.AuthUserGetRequest(name="nobody")),
}
OF_GATED_KEYS: dict[str, tuple[str, Asked]] = {
    "range of a late revision": ("KV/Range", lambda w: READ(key=w.card_key, revision=LATE)),
    "range of a compacted revision": ("KV/Range", lambda w: READ(key=w.card_key, revision=COMPACTED)),
    "put under a lease that ended": ("KV/Put", of_nobody),
    "put too large": ("KV/Put", lambda w: own(w, value=TOO_LARGE)),
    "put ignoring the value that it has": ("KV/Put", lambda w: own(w, ignore_value=True)),
    "put ignoring the lease that it has": ("KV/Put", lambda w: own(w, ignore_lease=True)),
    "put ignoring the value of nothing": (
        "KV/Put",
        lambda w: own(w, key=w.lora_key(), value=b"", ignore_value=True),
    ),
    "put ignoring the lease of nothing": (
        "KV/Put",
        lambda w: own(w, key=w.lora_key(), value=w.lora_card(), lease=0, ignore_lease=True),
    ),
    "txn with a put without a key": ("KV/Txn", lambda w: txn(own_op(w), put(b"", b""))),
    "txn with a read without a key": ("KV/Txn", lambda w: txn(own_op(w), get(b""))),
    "txn with a compare without a key": ("KV/Txn", lambda w: txn(own_op(w), compare=[version_is(b"", 0)])),
    "txn with too many operations": ("KV/Txn", lambda w: txn(*[get(w.card_key)] * TOO_MANY)),
    "txn with too many compares": ("KV/Txn", lambda w: txn(compare=[version_is(w.card_key, 0)] * TOO_MANY)),
    "txn that puts twice": ("KV/Txn", lambda w: txn(own_op(w), own_op(w))),
    "txn that puts and deletes": ("KV/Txn", lambda w: txn(own_op(w), delete(w.card_key))),
    "txn with an operation that is not set": ("KV/Txn", lambda w: txn(own_op(w), RequestOp())),
    "txn with a put of another key under no lease": ("KV/Txn", lambda w: txn(own_op(w), put(b"a", b"", NO_LEASE))),
    "txn under a lease that ended": ("KV/Txn", lambda w: txn(RequestOp(request_put=of_nobody(w)))),
    "txn with a late read": ("KV/Txn", lambda w: txn(get(w.card_key, revision=LATE))),
    "txn with a compacted read": ("KV/Txn", lambda w: txn(get(w.card_key, revision=COMPACTED))),
    "txn too large": ("KV/Txn", lambda w: txn(own_op(w, value=TOO_LARGE))),
}


def path_of(method: str) -> str:
    return method if method.startswith("/") else ETCD + method


def both(sides: Sides, method: str, asked: Asked) -> None:
    """Asks both, who must refuse, and in the same words."""
    path = path_of(method)
    direct = sides.direct.call(path, asked(sides.public).SerializeToString())
    proxied = sides.proxied.call(path, asked(sides.held).SerializeToString())
    assert direct.status, f"etcd does not refuse this: {direct}"
    assert proxied == direct


@pytest.mark.parametrize(("method", "asked"), OF_OTHER_KEYS.values(), ids=OF_OTHER_KEYS)
def test_a_refusal_is_etcds_to_the_last_header(sides: Sides, method: str, asked: Asked) -> None:
    both(sides, method, asked)


@pytest.mark.parametrize(("method", "asked"), OF_GATED_KEYS.values(), ids=OF_GATED_KEYS)
def test_a_refusal_of_a_held_workers_call_is_etcds_to_the_last_header(sides: Sides, method: str, asked: Asked) -> None:
    """The proxy makes other calls of these, or answers them by itself: the worker is not to notice."""
    both(sides, method, asked)


@pytest.mark.parametrize("path", ["/etcdserverpb.KV/RangeStream", "/etcdserverpb.KV/range", "/nobody.Nothing/Range"])
def test_what_there_is_not_is_told_in_etcds_words(sides: Sides, path: str) -> None:
    both(sides, path, lambda _: READ(key=b"a"))
