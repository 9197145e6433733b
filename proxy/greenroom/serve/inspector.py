"""Decides about each request message that could touch gated or reserved keys: pass, edit, hand over, refuse.

What is decided is the meaning that we read, so only bytes of one meaning may go up as they came: those equal to our
own serialisation, or proven by the strict scan. Anything else goes up in our serialisation. A request with a field
that we do not know is refused, since etcd might know it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from google.protobuf.message import DecodeError, Message

from greenroom.core.enums import check_enums
from greenroom.core.glance import Glance
from greenroom.core.keyspace import FIRST_CLIENT_KEY, is_reserved, prefix_end
from greenroom.core.methods import METHODS, Handling
from greenroom.core.own_leases import check_grant, check_revoke
from greenroom.core.ranges import Leaf, check_write, clip_range, clip_txn, clip_watch, leaves
from greenroom.core.strict import AMBIGUOUS, OK, Finding, Reading, Schema, schema_of
from greenroom.core.templates import GatedKey, GatedKeys
from greenroom.errors import GreenroomError, RefusedWrite
from greenroom.pb.etcd import election_pb2, lock_pb2, rpc_pb2
from greenroom.relay.calls import FORWARD_AS_IS, Code, Decision, Edit, HandOver, Kind, Refuse
from greenroom.serve.work import GatedCall, PlainCall

_KINDS: Final = {
    Handling.FORWARD: Kind.FORWARD,
    Handling.INSPECT: Kind.UNARY,
    Handling.HAND_OVER: Kind.UNARY,
    Handling.WATCH: Kind.STREAM,
}

_SERVICES: Final = frozenset(path.decode().strip("/").rpartition("/")[0] for path in METHODS)
_MAX_NAME_CHARACTERS: Final = 200
"""Of a name that nobody knows: clients take no long trailers."""

_OBSERVE: Final = b"/v3electionpb.Election/Observe"
"""Looked into, and answered by a stream: a handler, which gives one answer, cannot send it on."""

MAX_SURPLUS_BYTES: Final = 64 * 1024
"""Bytes of a request that say nothing: zeros spelled out, a field that comes again. Common clients write a few a field.

The scan looks at each field, and half a million of them would stop everybody else's calls for a second.
"""
_TOO_VERBOSE: Final = Refuse(
    Code.RESOURCE_EXHAUSTED, f"more than {MAX_SURPLUS_BYTES} bytes of the request are repeated or unknown fields"
)

_Judge: TypeAlias = Callable[[bytes, Any], Message | GatedCall]
"""Path and request in; out comes what is to be sent (the request itself where nothing changes), or work for a handler.

GreenroomError refuses. The request is of the class that the method table below gives for the path.
"""

_Glance: TypeAlias = Callable[[bytes], bool]
"""Whether a message shows at a glance what `_Judge` would find: that nothing changes."""


@dataclass(frozen=True, slots=True)
class _Method:
    request: type[Message]
    schema: Schema
    judge: _Judge
    is_plain: _Glance  # a message as it came, and in bytes that can be read in one way only
    is_plain_as_ours: _Glance  # one that is in our own serialisation
    is_stream: bool


class EtcdInspector:
    """The relay's Inspector for etcd's services, by one set of templates."""

    def __init__(self, gated_keys: GatedKeys) -> None:
        self._gated_keys = gated_keys
        self._prefixes = gated_keys.prefixes
        glances = self._glances()
        self._methods = {
            path: _Method(
                request,
                schema_of(request),
                judge,
                *glances.get(path, (_never, _never)),
                METHODS[path] is Handling.WATCH,
            )
            for path, (request, judge) in self._judges().items()
        }

    def kind(self, path: bytes) -> Kind:
        """What is done with a method's messages: exact paths only, anything else is refused."""
        handling = METHODS.get(path)
        return Kind.REFUSE if handling is None else _KINDS[handling]

    def unknown(self, path: bytes) -> str:
        """As etcd's gRPC library says it."""
        service, slash, method = path.decode("utf-8", "replace").removeprefix("/").rpartition("/")
        if not slash:
            return f'malformed method name: "{_short(path.decode("utf-8", "replace"))}"'
        is_known = service in _SERVICES
        return (
            f"unknown method {_short(method)} for service {service}"
            if is_known
            else f"unknown service {_short(service)}"
        )

    def inspect(self, path: bytes, message: bytes) -> Decision:
        """What to do with one message of an inspected method. KeyError for the path of another one."""
        method = self._methods[path]
        if method.is_plain(message):
            return FORWARD_AS_IS  # the usual case
        try:
            request = method.request.FromString(message)
        except DecodeError:
            return _undecodable(method)
        # Unknown fields would come out again in our serialisation; without them its equality proves there are none.
        request.DiscardUnknownFields()
        own = request.SerializeToString()
        if own == message and method.is_plain_as_ours(own):
            return FORWARD_AS_IS
        if len(message) - len(own) > MAX_SURPLUS_BYTES:
            return _TOO_VERBOSE
        try:
            # Before the scan, for this bounds how much there is to scan.
            outcome = method.judge(path, request)
        except GreenroomError as error:
            return Refuse(error.code.value[0], str(error))
        finding = OK if own == message else method.schema.scan(message)
        if finding is not OK and finding is not AMBIGUOUS:
            return _refusal(method, finding)
        if outcome is request and finding is OK:
            return FORWARD_AS_IS
        return _changed(method, path, message, outcome)

    def _glances(self) -> dict[bytes, tuple[_Glance, _Glance]]:
        """For the methods that come by the thousand."""
        glance, kv = Glance(self._prefixes), b"/etcdserverpb.KV/"
        return {
            kv + b"Range": (glance.range_is_plain, _never),
            kv + b"Put": (glance.put_is_plain, _never),
            kv + b"DeleteRange": (glance.delete_is_plain, _never),
            kv + b"Txn": (_never, glance.txn_is_plain),
        }

    def _judges(self) -> dict[bytes, tuple[type[Message], _Judge]]:
        etcd, election = b"/etcdserverpb.", b"/v3electionpb.Election/"
        return {
            etcd + b"KV/Range": (rpc_pb2.RangeRequest, self._range),
            etcd + b"KV/Put": (rpc_pb2.PutRequest, self._put),
            etcd + b"KV/DeleteRange": (rpc_pb2.DeleteRangeRequest, self._range),
            etcd + b"KV/Txn": (rpc_pb2.TxnRequest, self._txn),
            etcd + b"Watch/Watch": (rpc_pb2.WatchRequest, _watch),
            etcd + b"Lease/LeaseGrant": (rpc_pb2.LeaseGrantRequest, _grant),
            etcd + b"Lease/LeaseRevoke": (rpc_pb2.LeaseRevokeRequest, _revoke),
            etcd + b"Lease/LeaseTimeToLive": (rpc_pb2.LeaseTimeToLiveRequest, _time_to_live),
            etcd + b"Cluster/MemberList": (rpc_pb2.MemberListRequest, GatedCall),
            etcd + b"Cluster/MemberAdd": (rpc_pb2.MemberAddRequest, GatedCall),
            etcd + b"Cluster/MemberUpdate": (rpc_pb2.MemberUpdateRequest, GatedCall),
            etcd + b"Cluster/MemberRemove": (rpc_pb2.MemberRemoveRequest, GatedCall),
            etcd + b"Cluster/MemberPromote": (rpc_pb2.MemberPromoteRequest, GatedCall),
            b"/v3lockpb.Lock/Lock": (lock_pb2.LockRequest, self._named),
            b"/v3lockpb.Lock/Unlock": (lock_pb2.UnlockRequest, self._unlock),
            election + b"Campaign": (election_pb2.CampaignRequest, self._named),
            election + b"Proclaim": (election_pb2.ProclaimRequest, self._leader),
            election + b"Leader": (election_pb2.LeaderRequest, self._named),
            election + b"Observe": (election_pb2.LeaderRequest, self._named),
            election + b"Resign": (election_pb2.ResignRequest, self._leader),
        }

    def _range(self, path: bytes, request: rpc_pb2.RangeRequest | rpc_pb2.DeleteRangeRequest) -> Message | GatedCall:
        check_enums(request)
        return GatedCall(path, request) if self._is_gated(request) else clip_range(request)

    def _put(self, path: bytes, request: rpc_pb2.PutRequest) -> Message | GatedCall:
        check_write(request.key)
        return GatedCall(path, request) if self._is_gated(request) else request

    def _txn(self, path: bytes, request: rpc_pb2.TxnRequest) -> Message | GatedCall:
        parts = leaves(request)
        for part in parts:
            check_enums(part)
        clipped = clip_txn(request, parts)
        return GatedCall(path, clipped) if any(map(self._is_gated, parts)) else clipped

    def _is_gated(self, leaf: Leaf) -> bool:
        """Whether a handler must see to it. A key that fits no template can be read and deleted, but not written."""
        key = leaf.key
        if not key.startswith(self._prefixes):
            return False
        if isinstance(leaf, rpc_pb2.PutRequest):
            return True
        if not leaf.range_end:
            return isinstance(self._gated_keys.classify(key), GatedKey)
        return (
            isinstance(leaf, rpc_pb2.DeleteRangeRequest)
            and self._gated_keys.within_one_instance(key, leaf.range_end) is not None
        )

    def _named(
        self, _: bytes, request: lock_pb2.LockRequest | election_pb2.CampaignRequest | election_pb2.LeaderRequest
    ) -> Message:
        """etcd keeps a lock's or election's keys under its name and a slash, and reads all that lies there."""
        prefix = request.name + b"/"
        self._check_untouched("name", request.name, prefix, prefix_end(prefix))
        return request

    def _unlock(self, _: bytes, request: lock_pb2.UnlockRequest) -> Message:
        self._check_untouched("key", request.key, request.key, b"")
        return request

    def _leader(self, _: bytes, request: election_pb2.ProclaimRequest | election_pb2.ResignRequest) -> Message:
        """The proof of having won names the key that etcd then writes or deletes."""
        self._check_untouched("key", request.leader.key, request.leader.key, b"")
        return request

    def _check_untouched(self, what: str, given: bytes, start: bytes, range_end: bytes) -> None:
        if is_reserved(start):
            raise RefusedWrite(f"{what} {given!r} is reserved: clients' keys start at {FIRST_CLIENT_KEY!r}")
        if self._gated_keys.overlaps(start, range_end):
            gated = ", ".join(prefix.decode() for prefix in self._prefixes)
            raise RefusedWrite(f"{what} {given!r} overlaps gated keys ({gated})")


def _short(name: str) -> str:
    return name if len(name) <= _MAX_NAME_CHARACTERS else f"{name[:_MAX_NAME_CHARACTERS]}…"


def _watch(_: bytes, request: rpc_pb2.WatchRequest) -> Message:
    """Only creating a watch names keys. The oneof may be unset, then etcd ignores the message."""
    if request.WhichOneof("request_union") != "create_request":
        return request
    check_enums(request.create_request)
    create = clip_watch(request.create_request)
    return request if create is request.create_request else rpc_pb2.WatchRequest(create_request=create)


def _time_to_live(path: bytes, request: rpc_pb2.LeaseTimeToLiveRequest) -> Message | GatedCall:
    """Only with its keys does a lease's answer name shadows."""
    return GatedCall(path, request) if request.keys else request


def _grant(_: bytes, request: rpc_pb2.LeaseGrantRequest) -> Message:
    check_grant(request.ID)
    return request


def _revoke(_: bytes, request: rpc_pb2.LeaseRevokeRequest) -> Message:
    check_revoke(request.ID)
    return request


def _never(_: bytes) -> bool:
    return False


def _changed(method: _Method, path: bytes, message: bytes, outcome: Message | GatedCall) -> Decision:
    """A handler's work, or our serialisation; that of a unary call can only go up in as many bytes as came."""
    if isinstance(outcome, GatedCall):
        return HandOver(outcome)
    own = outcome.SerializeToString()
    if method.is_stream:
        return Edit(own)
    if path == _OBSERVE:
        name = method.request.DESCRIPTOR.full_name
        return Refuse(Code.UNIMPLEMENTED, f"this {name} can be read in more than one way: write each field once")
    work = PlainCall(path, outcome)
    return Edit(own, work) if len(own) == len(message) else HandOver(work)


def _undecodable(method: _Method) -> Refuse:
    """The code that gRPC servers give for it."""
    return Refuse(Code.INTERNAL, f"error unmarshalling request: not a valid {method.request.DESCRIPTOR.full_name}")


def _refusal(method: _Method, finding: Finding) -> Refuse:
    if finding.reading is Reading.MALFORMED:
        return _undecodable(method)
    return Refuse(Code.UNIMPLEMENTED, f"{finding.message} has a field {finding.number} that this version does not know")
