"""What becomes of each message that could touch gated or reserved keys."""

from itertools import product

import pytest
from google.protobuf.message import Message

from greenroom.core.keyspace import BUDGET, SHADOWS, prefix_end
from greenroom.core.methods import METHODS, Handling
from greenroom.core.own_leases import new_own_lease
from greenroom.core.templates import GatedKeys, KeyKind, Template, dynamo_gated_keys
from greenroom.pb.etcd import election_pb2, lock_pb2, rpc_pb2
from greenroom.relay.calls import FORWARD_AS_IS, Code, Decision, Edit, HandOver, Kind, Refuse
from greenroom.serve.inspector import MAX_SURPLUS_BYTES, EtcdInspector
from greenroom.serve.work import GatedCall, PlainCall
from tests.support.wire import VARINT, bytes_field, number_field, tag

INSPECTOR = EtcdInspector(dynamo_gated_keys(instances=False))
RANGE, PUT, DELETE, TXN = (b"/etcdserverpb.KV/" + name for name in (b"Range", b"Put", b"DeleteRange", b"Txn"))
WATCH = b"/etcdserverpb.Watch/Watch"
GRANT = b"/etcdserverpb.Lease/LeaseGrant"
REVOKE = b"/etcdserverpb.Lease/LeaseRevoke"
OWN_LEASE = new_own_lease()
TIME_TO_LIVE = b"/etcdserverpb.Lease/LeaseTimeToLive"
CLUSTER = b"/etcdserverpb.Cluster/"
MEMBERS = CLUSTER + b"MemberList"
LOCK, UNLOCK = b"/v3lockpb.Lock/Lock", b"/v3lockpb.Lock/Unlock"
CAMPAIGN, PROCLAIM, LEADER, OBSERVE, RESIGN = (
    b"/v3electionpb.Election/" + name for name in (b"Campaign", b"Proclaim", b"Leader", b"Observe", b"Resign")
)
INVALID_ARGUMENT = 3

CARD = b"v1/mdc/dynamo/backend/generate/6177a228983c0b2b"
UNFIT = b"v1/mdc/dynamo/backend/generate/6177A228983C0B2B"
MOVED = b"\x01" + b"\xff" * (len(BUDGET) - 1)

Operation = rpc_pb2.RequestOp


def inspect(path: bytes, request: Message) -> Decision:
    return INSPECTOR.inspect(path, request.SerializeToString())


def get(key: bytes, range_end: bytes = b"") -> rpc_pb2.RangeRequest:
    return rpc_pb2.RangeRequest(key=key, range_end=range_end)


def put(key: bytes) -> rpc_pb2.PutRequest:
    return rpc_pb2.PutRequest(key=key, value=b"value", lease=7)


def delete(key: bytes, range_end: bytes = b"") -> rpc_pb2.DeleteRangeRequest:
    return rpc_pb2.DeleteRangeRequest(key=key, range_end=range_end)


def compare(key: bytes, range_end: bytes = b"") -> rpc_pb2.Compare:
    return rpc_pb2.Compare(key=key, range_end=range_end, target=rpc_pb2.Compare.VERSION, version=0)


def operation(request: Message) -> Operation:
    match request:
        case rpc_pb2.RangeRequest():
            return Operation(request_range=request)
        case rpc_pb2.PutRequest():
            return Operation(request_put=request)
        case rpc_pb2.DeleteRangeRequest():
            return Operation(request_delete_range=request)
    assert isinstance(request, rpc_pb2.TxnRequest)
    return Operation(request_txn=request)


def txn(*success: Message, compares: tuple[rpc_pb2.Compare, ...] = ()) -> rpc_pb2.TxnRequest:
    return rpc_pb2.TxnRequest(compare=compares, success=[operation(request) for request in success])


def watch(key: bytes, range_end: bytes = b"", **options: int) -> rpc_pb2.WatchRequest:
    return rpc_pb2.WatchRequest(
        create_request=rpc_pb2.WatchCreateRequest(key=key, range_end=range_end, **options)  # type: ignore[arg-type]
    )


def test_kinds_follow_the_table() -> None:
    kinds = {
        RANGE: Kind.UNARY,
        b"/etcdserverpb.KV/Compact": Kind.FORWARD,
        WATCH: Kind.STREAM,
        MEMBERS: Kind.UNARY,
        b"/etcdserverpb.Lease/LeaseKeepAlive": Kind.FORWARD,
        b"/etcdserverpb.KV/RangeStream": Kind.REFUSE,
        b"etcdserverpb.KV/Range": Kind.REFUSE,
        b"": Kind.REFUSE,
    }
    assert {path: INSPECTOR.kind(path) for path in kinds} == kinds


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (b"/etcdserverpb.KV/RangeStream", "unknown method RangeStream for service etcdserverpb.KV"),
        (b"etcdserverpb.KV/Range", "unknown method Range for service etcdserverpb.KV"),
        (b"/nobody.Nothing/Range", "unknown service nobody.Nothing"),
        (b"//etcdserverpb.KV/Range", "unknown service /etcdserverpb.KV"),
        (b"/nothing", 'malformed method name: "/nothing"'),
        (b"", 'malformed method name: ""'),
        (b"/" + b"x" * 5000 + b"/y", f"unknown service {'x' * 200}…"),
        (b"/\xff/y", "unknown service \ufffd"),
    ],
)
def test_what_nobody_knows_is_named(path: bytes, said: str) -> None:
    assert INSPECTOR.unknown(path) == said


def test_every_method_that_is_looked_into_has_a_judge() -> None:
    for path, handling in METHODS.items():
        if handling is not Handling.FORWARD:
            decision = INSPECTOR.inspect(path, b"")
            assert isinstance(decision, HandOver) if handling is Handling.HAND_OVER else decision == FORWARD_AS_IS


@pytest.mark.parametrize(
    ("path", "request_"),
    [
        (RANGE, get(b"v1/mdc/", b"v1/mdc0")),
        (RANGE, get(b"a")),
        (RANGE, get(b"")),
        (RANGE, get(b"", b"\0")),
        (RANGE, get(b"\0")),
        (RANGE, get(UNFIT)),
        (RANGE, get(b"v1/mdc/")),
        (RANGE, get(CARD, prefix_end(CARD + b"/"))),
        (PUT, put(b"a")),
        (PUT, put(b"")),
        (PUT, put(b"v1/mdc")),
        (DELETE, delete(b"a")),
        (DELETE, delete(UNFIT)),
        (DELETE, delete(b"v1/mdc/", b"v1/mdc0")),
        (DELETE, delete(CARD, prefix_end(CARD))),
        (TXN, txn()),
        (TXN, txn(put(b"a"), get(b"v1/mdc/", b"v1/mdc0"), delete(b"b"), compares=(compare(b"a"),))),
        (TXN, txn(get(UNFIT), delete(UNFIT), compares=(compare(UNFIT),))),
        (TXN, txn(get(b"a"), compares=(compare(CARD, prefix_end(CARD + b"/")),))),
        (TXN, rpc_pb2.TxnRequest(success=[Operation()])),
        (TXN, txn(txn(txn(put(b"a"))))),
        (WATCH, watch(b"v1/mdc/", b"v1/mdc0")),
        (WATCH, watch(CARD)),
        (WATCH, watch(b"")),
        (WATCH, rpc_pb2.WatchRequest()),
        (WATCH, rpc_pb2.WatchRequest(cancel_request=rpc_pb2.WatchCancelRequest(watch_id=3))),
        (WATCH, rpc_pb2.WatchRequest(progress_request=rpc_pb2.WatchProgressRequest())),
        (TIME_TO_LIVE, rpc_pb2.LeaseTimeToLiveRequest(ID=7)),
        (GRANT, rpc_pb2.LeaseGrantRequest(TTL=30)),
        (GRANT, rpc_pb2.LeaseGrantRequest(TTL=30, ID=7)),
        (REVOKE, rpc_pb2.LeaseRevokeRequest(ID=7)),
        (REVOKE, rpc_pb2.LeaseRevokeRequest(ID=-7)),
        (LOCK, lock_pb2.LockRequest(name=b"jobs/v1", lease=7)),
        (LOCK, lock_pb2.LockRequest(name=b"v1/mdcs")),
        (LOCK, lock_pb2.LockRequest()),
        (UNLOCK, lock_pb2.UnlockRequest(key=b"v1/694d")),
        (CAMPAIGN, election_pb2.CampaignRequest(name=b"leader", value=b"me")),
        (PROCLAIM, election_pb2.ProclaimRequest(leader=election_pb2.LeaderKey(name=b"leader", key=b"leader/ab"))),
        (LEADER, election_pb2.LeaderRequest(name=b"leader")),
        (RESIGN, election_pb2.ResignRequest(leader=election_pb2.LeaderKey(key=b"leader/ab"))),
    ],
)
def test_ungated_calls_pass_as_they_came(path: bytes, request_: Message) -> None:
    assert inspect(path, request_) == FORWARD_AS_IS


@pytest.mark.parametrize(
    ("path", "request_"),
    [
        (RANGE, get(CARD)),
        (RANGE, get(CARD + b"/lora-a")),
        (PUT, put(CARD)),
        (PUT, put(UNFIT)),
        (PUT, put(b"v1/mdc/")),
        (DELETE, delete(CARD)),
        (DELETE, delete(CARD, prefix_end(CARD + b"/"))),
        (DELETE, delete(CARD + b"/", prefix_end(CARD + b"/"))),
        (TXN, txn(compares=(compare(CARD),))),
        (TXN, txn(put(CARD))),
        (TXN, txn(put(UNFIT))),
        (TXN, txn(get(b"a"), get(CARD))),
        (TXN, txn(delete(CARD))),
        (TXN, txn(delete(CARD, prefix_end(CARD + b"/")))),
        (TXN, rpc_pb2.TxnRequest(failure=[operation(get(CARD))])),
        (TXN, txn(txn(txn(put(CARD))))),
        (TXN, txn(txn(compares=(compare(CARD),)))),
        (TIME_TO_LIVE, rpc_pb2.LeaseTimeToLiveRequest(ID=7, keys=True)),
        (MEMBERS, rpc_pb2.MemberListRequest(linearizable=True)),
        (CLUSTER + b"MemberAdd", rpc_pb2.MemberAddRequest(peerURLs=["http://etcd:2380"], isLearner=True)),
        (CLUSTER + b"MemberUpdate", rpc_pb2.MemberUpdateRequest(ID=7)),
        (CLUSTER + b"MemberRemove", rpc_pb2.MemberRemoveRequest(ID=7)),
        (CLUSTER + b"MemberPromote", rpc_pb2.MemberPromoteRequest(ID=7)),
    ],
)
def test_gated_calls_are_handed_over_parsed(path: bytes, request_: Message) -> None:
    assert inspect(path, request_) == HandOver(GatedCall(path, request_))


@pytest.mark.parametrize(
    ("path", "request_"),
    [
        (PUT, put(SHADOWS + b"ab/" + CARD)),
        (PUT, put(b"\0")),
        (TXN, txn(put(BUDGET))),
        (TXN, txn(put(CARD), txn(put(BUDGET)))),
        (LOCK, lock_pb2.LockRequest(name=BUDGET)),
        (LOCK, lock_pb2.LockRequest(name=b"v1/mdc")),
        (LOCK, lock_pb2.LockRequest(name=b"v1/mdc/dynamo")),
        (LOCK, lock_pb2.LockRequest(name=b"v1")),
        (UNLOCK, lock_pb2.UnlockRequest(key=CARD)),
        (UNLOCK, lock_pb2.UnlockRequest(key=BUDGET)),
        (CAMPAIGN, election_pb2.CampaignRequest(name=b"v1/mdc/x")),
        (CAMPAIGN, election_pb2.CampaignRequest(name=b"\x01")),
        (PROCLAIM, election_pb2.ProclaimRequest(leader=election_pb2.LeaderKey(name=b"x", key=UNFIT))),
        (PROCLAIM, election_pb2.ProclaimRequest(leader=election_pb2.LeaderKey(name=b"x", key=BUDGET))),
        (LEADER, election_pb2.LeaderRequest(name=b"\x01greenroom/held")),
        (LEADER, election_pb2.LeaderRequest(name=b"v1/mdc")),
        (OBSERVE, election_pb2.LeaderRequest(name=b"\x01greenroom/held/ab/v1")),
        (RESIGN, election_pb2.ResignRequest(leader=election_pb2.LeaderKey(key=CARD))),
    ],
)
def test_what_would_touch_reserved_keys_or_get_round_gating_is_refused(path: bytes, request_: Message) -> None:
    """Locks and elections read and write inside etcd, where nothing is clipped; Leader would show a held card."""
    decision = inspect(path, request_)
    assert isinstance(decision, Refuse)
    assert decision.code == INVALID_ARGUMENT
    assert "reserved" in decision.details or "gated" in decision.details


@pytest.mark.parametrize(
    ("path", "request_", "said"),
    [
        (GRANT, rpc_pb2.LeaseGrantRequest(TTL=30, ID=OWN_LEASE), "choose another, or ask for 0 and etcd chooses"),
        (REVOKE, rpc_pb2.LeaseRevokeRequest(ID=OWN_LEASE), "no client's to end: a rollout hold is lifted with"),
    ],
)
def test_greenrooms_own_leases_are_no_clients_to_end(path: bytes, request_: Message, said: str) -> None:
    """The end of its lease would lift a rollout hold."""
    decision = inspect(path, request_)
    assert isinstance(decision, Refuse)
    assert decision.code == INVALID_ARGUMENT
    assert f"{OWN_LEASE:x}" in decision.details
    assert said in decision.details


ODD_RANGE = rpc_pb2.RangeRequest(key=b"a", sort_target=5)
ODD_COMPARE = rpc_pb2.Compare(key=b"a", result=9)


@pytest.mark.parametrize(
    ("path", "request_"),
    [
        (RANGE, ODD_RANGE),
        (RANGE, rpc_pb2.RangeRequest(key=b"a", sort_order=3)),
        (RANGE, rpc_pb2.RangeRequest(key=CARD, sort_target=5)),
        (TXN, txn(ODD_RANGE)),
        (TXN, txn(txn(ODD_RANGE))),
        (TXN, txn(compares=(ODD_COMPARE,))),
        (TXN, txn(put(CARD), compares=(rpc_pb2.Compare(key=b"a", target=7),))),
        (TXN, rpc_pb2.TxnRequest(failure=[operation(ODD_RANGE)])),
        (WATCH, watch(b"a", filters=[2])),
    ],
)
def test_an_enum_value_that_nobody_knows_is_refused(path: bytes, request_: Message) -> None:
    """A sort target of 5 makes etcd 3.4 exit: one client's slip would take the store from everybody."""
    decision = inspect(path, request_)
    assert isinstance(decision, Refuse)
    assert decision.code == INVALID_ARGUMENT
    assert "does not name" in decision.details


def test_a_stream_of_answers_cannot_be_asked_for_in_ambiguous_bytes() -> None:
    """It could only go up in other bytes than came, and a handler gives one answer."""
    twice = bytes_field(1, b"a") + bytes_field(1, b"leader")
    decision = INSPECTOR.inspect(OBSERVE, twice)
    assert isinstance(decision, Refuse)
    assert decision.code == Code.UNIMPLEMENTED
    assert "v3electionpb.LeaderRequest" in decision.details
    assert INSPECTOR.inspect(LEADER, twice) == HandOver(PlainCall(LEADER, election_pb2.LeaderRequest(name=b"leader")))


def test_which_inspected_calls_are_answered_by_a_stream() -> None:
    """Any other one may be sent on by a handler."""
    described = {
        f"/{service.full_name}/{method.name}".encode(): method.server_streaming
        for file in (rpc_pb2.DESCRIPTOR, lock_pb2.DESCRIPTOR, election_pb2.DESCRIPTOR)
        for service in file.services_by_name.values()
        for method in service.methods
    }
    unary = [path for path in METHODS if INSPECTOR.kind(path) is Kind.UNARY]
    assert [path for path in unary if described[path]] == [OBSERVE]


def test_a_refused_write_names_its_key() -> None:
    decision = inspect(PUT, put(BUDGET))
    assert isinstance(decision, Refuse)
    assert repr(bytes(BUDGET)) in decision.details


@pytest.mark.parametrize(
    ("path", "request_", "edited"),
    [
        (RANGE, get(b"\0", b"\0"), get(b"\x02", b"\0")),
        (RANGE, get(BUDGET), get(MOVED)),
        (RANGE, get(BUDGET, b"z"), get(MOVED, b"z")),
        (DELETE, delete(b"\x01", b"\0"), delete(b"\x02", b"\0")),
        (DELETE, delete(BUDGET), delete(MOVED)),
        (
            TXN,
            txn(get(b"\0", b"\0"), put(b"a"), compares=(compare(b"\x01", b"b"),)),
            txn(get(b"\x02", b"\0"), put(b"a"), compares=(compare(b"\x02", b"b"),)),
        ),
        (TXN, txn(txn(delete(BUDGET))), txn(txn(delete(MOVED)))),
    ],
)
def test_reserved_starts_are_edited_in_place(path: bytes, request_: Message, edited: Message) -> None:
    """With the same work at hand where the beginning of the message has already left."""
    decision = inspect(path, request_)
    assert decision == Edit(edited.SerializeToString(), PlainCall(path, edited))
    assert len(edited.SerializeToString()) == len(request_.SerializeToString())


def test_a_gated_txn_is_handed_over_clipped() -> None:
    request = txn(put(CARD), get(b"\0", b"\0"))
    assert inspect(TXN, request) == HandOver(GatedCall(TXN, txn(put(CARD), get(b"\x02", b"\0"))))


@pytest.mark.parametrize(
    ("request_", "edited"),
    [
        (watch(b"\0", b"\0", watch_id=4), watch(b"\x02", b"\0", watch_id=4)),
        (watch(b"", b"\0", start_revision=9), watch(b"\x02", b"\0", start_revision=9)),
        (watch(b"", b"b"), watch(b"\x02", b"b")),
        (watch(BUDGET), watch(MOVED)),
    ],
)
def test_watches_are_edited_whatever_the_length(request_: Message, edited: Message) -> None:
    assert inspect(WATCH, request_) == Edit(edited.SerializeToString())


def test_explicit_zeros_pass_as_they_came() -> None:
    """protobufjs writes them on nearly every Txn."""
    assert INSPECTOR.inspect(RANGE, bytes_field(1, b"a") + number_field(3, 0)) == FORWARD_AS_IS
    zeros = bytes_field(1, number_field(1, 0) + number_field(2, 0) + bytes_field(3, b"k") + number_field(4, 0))
    assert INSPECTOR.inspect(TXN, zeros) == FORWARD_AS_IS


def test_explicit_zeros_do_not_hide_a_gated_key() -> None:
    zeros = bytes_field(2, b"") + bytes_field(1, CARD) + number_field(3, 0)
    assert INSPECTOR.inspect(RANGE, zeros) == HandOver(GatedCall(RANGE, get(CARD)))


def test_a_clipped_request_of_another_length_is_made_anew() -> None:
    zeros = bytes_field(1, b"\0") + bytes_field(2, b"\0") + number_field(3, 0)
    assert INSPECTOR.inspect(RANGE, zeros) == HandOver(PlainCall(RANGE, get(b"\x02", b"\0")))


def test_ambiguous_bytes_never_go_up() -> None:
    twice = bytes_field(1, b"a") + bytes_field(1, b"b")
    assert INSPECTOR.inspect(RANGE, twice) == HandOver(PlainCall(RANGE, get(b"b")))


def test_ambiguous_bytes_of_the_right_length_are_replaced() -> None:
    """A boolean written as 2 has the length of our own 1."""
    request = rpc_pb2.RangeRequest(key=b"a", keys_only=True)
    odd = bytes_field(1, b"a") + tag(8, VARINT) + b"\2"
    assert INSPECTOR.inspect(RANGE, odd) == Edit(request.SerializeToString(), PlainCall(RANGE, request))


def test_a_watch_created_twice_goes_up_as_the_one_that_was_judged() -> None:
    """Merged it starts at 0x02; etcd would take the second alone, which sees everything."""
    leak = bytes_field(1, bytes_field(1, b"\x02")) + bytes_field(1, bytes_field(2, b"\0"))
    assert INSPECTOR.inspect(WATCH, leak) == Edit(watch(b"\x02", b"\0").SerializeToString())


@pytest.mark.parametrize("path", [RANGE, PUT, TXN, WATCH, TIME_TO_LIVE, MEMBERS, LOCK, CAMPAIGN])
def test_an_unknown_field_is_refused_by_its_number(path: bytes) -> None:
    decision = INSPECTOR.inspect(path, number_field(99, 1))
    assert isinstance(decision, Refuse)
    assert decision.code == Code.UNIMPLEMENTED
    assert "99" in decision.details


def test_an_unknown_field_deep_inside_is_refused() -> None:
    decision = INSPECTOR.inspect(TXN, bytes_field(2, bytes_field(1, bytes_field(1, b"a") + bytes_field(77, b"x"))))
    assert decision == Refuse(
        Code.UNIMPLEMENTED, "etcdserverpb.RangeRequest has a field 77 that this version does not know"
    )


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (RANGE, b"\x0a\x05a"),
        (PUT, b"\xff" * 11),
        (TXN, b"\x0a\x02\x1a\x05"),
        (WATCH, b"\x0b"),
        (RANGE, number_field(1, 5)),
    ],
)
def test_undecodable_messages_are_answered_as_grpc_does(path: bytes, message: bytes) -> None:
    """The last one is a key of the wrong wire type: unknown to one parser, an error to etcd's."""
    decision = INSPECTOR.inspect(path, message)
    assert isinstance(decision, Refuse)
    assert decision.code == Code.INTERNAL
    assert "unmarshal" in decision.details


def test_a_request_that_mostly_repeats_itself_is_refused_before_it_is_scanned() -> None:
    """Half a million times the same field: each would be looked at, and etcd takes only the last."""
    decision = INSPECTOR.inspect(RANGE, bytes_field(1, b"a") * (MAX_SURPLUS_BYTES // 3 + 2))
    assert isinstance(decision, Refuse)
    assert decision.code == Code.RESOURCE_EXHAUSTED
    assert isinstance(INSPECTOR.inspect(RANGE, bytes_field(1, b"a") * (MAX_SURPLUS_BYTES // 3)), HandOver)


def test_a_txn_of_very_many_operations_is_refused_in_etcds_words_before_it_is_scanned() -> None:
    """One explicit zero among a million empty operations would have them all scanned."""
    decision = INSPECTOR.inspect(TXN, bytes_field(2, b"") * 1_000_000 + bytes_field(1, number_field(1, 0)))
    assert decision == Refuse(INVALID_ARGUMENT, "etcdserver: too many operations in txn request")


def test_a_txn_nested_too_deep_is_undecodable() -> None:
    data = b""
    for _ in range(200):
        data = bytes_field(2, bytes_field(4, data))
    decision = INSPECTOR.inspect(TXN, data)
    assert isinstance(decision, Refuse)
    assert decision.code == Code.INTERNAL


def test_instance_records_are_gated_where_they_are_held() -> None:
    key = b"v1/instances/dynamo/backend/generate/6177a228983c0b2b"
    both = EtcdInspector(dynamo_gated_keys(instances=True))
    assert inspect(PUT, put(key)) == FORWARD_AS_IS
    assert both.inspect(PUT, put(key).SerializeToString()) == HandOver(GatedCall(PUT, put(key)))


def test_without_an_election_name_a_prefix_of_slashes_overlaps() -> None:
    """etcd reads an empty name as all keys that begin with a slash."""
    slashed = EtcdInspector(GatedKeys((Template("/services/{instance}", KeyKind.CARD),)))
    for path, message in product((LOCK, LEADER), (b"", bytes_field(1, b"/services"))):
        assert isinstance(slashed.inspect(path, message), Refuse)


def test_messages_of_methods_that_are_not_looked_into_are_nobodys() -> None:
    with pytest.raises(KeyError):
        INSPECTOR.inspect(b"/etcdserverpb.KV/Compact", b"")
