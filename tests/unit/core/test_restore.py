"""etcd's answers turned back: what the owner sees is what etcd would have said about the real key."""

import pytest

from greenroom.core.gating import Gated, gate_call
from greenroom.core.keyspace import ROLLOUT_HOLDS, ROOT
from greenroom.core.policy import Policy
from greenroom.core.restore import (
    FenceLost,
    lease_answer,
    read_answer,
    read_txn,
    settle,
    without_reserved_keys,
)
from greenroom.core.snapshot import Snapshot
from greenroom.core.worker_calls import examine
from greenroom.pb.etcd import kv_pb2, rpc_pb2
from tests.support.instances import (
    GATED_KEYS,
    LEASE,
    LORA,
    NOW,
    RECORD,
    SHADOWS,
    TEXT,
    K,
    create_txn,
    delete,
    edit_txn,
    edited,
    gated,
    get,
    held_record,
    policy,
    put,
    snapshot,
    value_of,
    version,
)

HELD = snapshot(held_record(K), shadows=(K,))
HEADER = rpc_pb2.ResponseHeader(cluster_id=1, member_id=2, revision=103, raft_term=4)
OTHER_CARD = edited(K, context_length=4096)


def gate(txn: rpc_pb2.TxnRequest, seen: Snapshot, rules: Policy | None = None) -> Gated:
    uses = examine(txn, GATED_KEYS)
    assert uses is not None
    found = gate_call(txn, uses, seen, GATED_KEYS, rules or policy("smoke"), NOW, lease_was_seen=True)
    assert isinstance(found, Gated)
    return found


def kv(key: bytes, mod_revision: int, value: bytes = b"") -> kv_pb2.KeyValue:
    return kv_pb2.KeyValue(key=key, value=value, mod_revision=mod_revision, create_revision=20, version=2, lease=LEASE)


def found(*kvs: kv_pb2.KeyValue) -> rpc_pb2.ResponseOp:
    answer = rpc_pb2.RangeResponse(header=rpc_pb2.ResponseHeader(revision=103), kvs=kvs, count=len(kvs))
    return rpc_pb2.ResponseOp(response_range=answer)


def written(previous: kv_pb2.KeyValue | None = None) -> rpc_pb2.ResponseOp:
    header = rpc_pb2.ResponseHeader(revision=103)
    return rpc_pb2.ResponseOp(response_put=rpc_pb2.PutResponse(header=header, prev_kv=previous))


def deleted(count: int, *previous: kv_pb2.KeyValue) -> rpc_pb2.ResponseOp:
    header = rpc_pb2.ResponseHeader(revision=103)
    answer = rpc_pb2.DeleteRangeResponse(header=header, deleted=count, prev_kvs=previous)
    return rpc_pb2.ResponseOp(response_delete_range=answer)


def answer(*responses: rpc_pb2.ResponseOp, succeeded: bool) -> rpc_pb2.TxnResponse:
    return rpc_pb2.TxnResponse(header=HEADER, succeeded=succeeded, responses=responses)


def test_a_create_answers_as_etcd_does() -> None:
    planned = gate(create_txn(K), snapshot())
    assert settle(planned, answer(written(), written(), succeeded=True)) == answer(written(), succeeded=True)


def test_a_put_names_the_previous_key_as_its_owner_knows_it() -> None:
    planned = gate(rpc_pb2.TxnRequest(success=[put(K, OTHER_CARD, prev_kv=True)]), HELD)
    given = answer(written(kv(SHADOWS + K, 20, b"old")), written(), succeeded=True)
    assert settle(planned, given) == answer(written(kv(K, 20, b"old")), succeeded=True)


def test_an_answer_without_a_previous_key_gets_none() -> None:
    planned = gate(rpc_pb2.TxnRequest(success=[put(K, OTHER_CARD)]), HELD)
    settled = settle(planned, answer(written(), written(), succeeded=True))
    assert isinstance(settled, rpc_pb2.TxnResponse)
    assert not settled.responses[0].response_put.HasField("prev_kv")


def test_a_second_create_fails_and_gets_the_held_value_under_its_own_name() -> None:
    planned = gate(create_txn(K), HELD)
    assert TEXT.operations(planned.txn.failure) == "get S(K); get R keys; get S(K) keys"
    given = answer(
        found(kv(SHADOWS + K, 20, b"held")), found(kv(RECORD, 7)), found(kv(SHADOWS + K, 20)), succeeded=False
    )
    assert settle(planned, given) == answer(found(kv(K, 20, b"held")), succeeded=False)


@pytest.mark.parametrize(
    ("record", "shadow", "lost"),
    [
        ([kv(RECORD, 7)], [kv(SHADOWS + K, 20)], False),
        ([kv(RECORD, 7)], [kv(SHADOWS + K, 99)], False),
        ([kv(RECORD, 8)], [kv(SHADOWS + K, 20)], True),
        ([], [kv(SHADOWS + K, 20)], True),
        ([kv(RECORD, 7)], [], True),
        ([], [], True),
    ],
    ids=["as it was", "edited meanwhile", "record changed", "record gone", "card gone", "all gone"],
)
def test_an_edit_that_failed_is_the_clients_unless_the_fence_was_lost(
    record: list[kv_pb2.KeyValue], shadow: list[kv_pb2.KeyValue], lost: bool
) -> None:
    planned = gate(edit_txn(K, 20, OTHER_CARD), HELD)
    assert TEXT.operations(planned.txn.failure) == "get S(K); get R keys; get S(K) keys"
    settled = settle(planned, answer(found(), found(*record), found(*shadow), succeeded=False))
    assert settled == (FenceLost() if lost else answer(found(), succeeded=False))


@pytest.mark.parametrize(
    ("record", "newer_shadow", "public", "lost"),
    [
        ([], [], [], False),
        ([kv(RECORD, 101)], [], [], True),
        ([], [kv(SHADOWS + LORA, 101)], [], True),
        ([], [], [kv(K, 101)], True),
    ],
    ids=["as it was", "opened meanwhile", "a shadow came", "published past us"],
)
def test_an_opening_that_failed_is_the_clients_unless_the_fence_was_lost(
    record: list[kv_pb2.KeyValue], newer_shadow: list[kv_pb2.KeyValue], public: list[kv_pb2.KeyValue], lost: bool
) -> None:
    txn = rpc_pb2.TxnRequest(compare=[version(b"other")], success=[put(K)], failure=[get(b"other")])
    planned = gate(txn, snapshot())
    given = answer(found(kv(b"other", 3)), found(*record), found(*newer_shadow), found(*public), succeeded=False)
    assert settle(planned, given) == (FenceLost() if lost else answer(found(kv(b"other", 3)), succeeded=False))


@pytest.mark.parametrize(("shadow", "public", "lost"), [(1, 0, True), (0, 1, True), (0, 0, False)])
def test_a_write_past_all_rules_that_failed(shadow: int, public: int, lost: bool) -> None:
    planned = gate(create_txn(K), snapshot(), policy())
    probes = (found(), found(*[kv(SHADOWS + K, 9)] * shadow), found(*[kv(K, 9)] * public))
    settled = settle(planned, answer(found(), *probes, succeeded=False))
    assert settled == (FenceLost() if lost else answer(found(), succeeded=False))


def test_a_call_without_compares_of_its_own_fails_only_by_the_fence() -> None:
    planned = gate(rpc_pb2.TxnRequest(success=[delete(K)]), HELD)
    assert settle(planned, answer(found(kv(RECORD, 8)), succeeded=False)) == FenceLost()


def test_the_answers_of_a_mixed_txn_keep_their_places() -> None:
    txn = rpc_pb2.TxnRequest(success=[get(b"other"), put(K, OTHER_CARD), get(K), delete(LORA), delete(b"other")])
    ours, theirs = found(kv(SHADOWS + K, 103)), found(kv(K, 103))
    before, after = (found(kv(b"other", 3)), written()), (deleted(1), deleted(0))
    given = answer(*before, ours, *after, written(), succeeded=True)
    assert settle(gate(txn, HELD), given) == answer(*before, theirs, *after, succeeded=True)


def test_a_range_delete_counts_and_shows_held_and_public_keys_alike() -> None:
    start, end = K + b"/", K + b"0"
    planned = gate(rpc_pb2.TxnRequest(success=[get(b"other"), delete(start, end, prev_kv=True), get(b"other")]), HELD)
    assert planned.widths == (1, 2, 1)
    held = deleted(2, kv(SHADOWS + LORA, 31), kv(SHADOWS + K + b"/z", 32))
    given = answer(found(), deleted(1, kv(K + b"/a", 30)), held, found(), succeeded=True)
    assert settle(planned, given) == answer(
        found(), deleted(3, kv(K + b"/a", 30), kv(LORA, 31), kv(K + b"/z", 32)), found(), succeeded=True
    )


def test_a_range_delete_of_both_shows_them_in_the_order_of_their_names() -> None:
    """etcd shows what was deleted in order; here the public keys come first, and then the held ones."""
    planned = gate(rpc_pb2.TxnRequest(success=[delete(K + b"/", K + b"0", prev_kv=True)]), HELD)
    given = answer(deleted(1, kv(K + b"/z", 30)), deleted(1, kv(SHADOWS + LORA, 31)), succeeded=True)
    assert settle(planned, given) == answer(deleted(2, kv(LORA, 31), kv(K + b"/z", 30)), succeeded=True)


def test_a_range_delete_of_held_keys_alone_bears_the_revision_at_which_they_went() -> None:
    """The public half found nothing, and so etcd answers it with the revision of before the Txn."""
    planned = gate(rpc_pb2.TxnRequest(success=[delete(K + b"/", K + b"0")]), HELD)
    nothing = deleted(0)
    nothing.response_delete_range.header.revision = 102
    assert settle(planned, answer(nothing, deleted(1), succeeded=True)) == answer(deleted(1), succeeded=True)


def test_headers_stay_etcds_own_outside_and_inside() -> None:
    """etcd gives the answers inside a Txn a header with nothing but a revision, and so do we."""
    settled = settle(gate(create_txn(K), snapshot()), answer(written(), written(), succeeded=True))
    assert isinstance(settled, rpc_pb2.TxnResponse)
    assert settled.header == HEADER
    assert settled.responses[0].response_put.header == rpc_pb2.ResponseHeader(revision=103)


def test_etcds_answer_is_left_as_it_was() -> None:
    given = answer(written(kv(SHADOWS + K, 20)), written(), succeeded=True)
    before = given.SerializeToString()
    settle(gate(rpc_pb2.TxnRequest(success=[put(K, OTHER_CARD, prev_kv=True)]), HELD), given)
    assert given.SerializeToString() == before


def test_what_a_newer_etcd_adds_to_an_answer_reaches_the_client() -> None:
    strange = b"\xa2\x06\x03new"  # field 100, of a length
    given = rpc_pb2.TxnResponse.FromString(answer(written(), written(), succeeded=True).SerializeToString() + strange)
    settled = settle(gate(create_txn(K), snapshot()), given)
    assert isinstance(settled, rpc_pb2.TxnResponse)
    assert settled.SerializeToString().endswith(strange)


def test_row_1_a_read_of_an_exact_key_asks_both_places_at_one_revision_with_the_callers_options() -> None:
    request = rpc_pb2.RangeRequest(key=K, revision=50, keys_only=True, serializable=True)
    txn = read_txn(request, gated(K))
    assert TEXT.txn(txn) == " || get S(K) keys revision=50; get K keys revision=50"
    assert all(operation.request_range.serializable for operation in txn.success)


@pytest.mark.parametrize(
    ("shadow", "public", "seen"),
    [
        ([kv(SHADOWS + K, 20, b"held")], [], [kv(K, 20, b"held")]),
        ([], [kv(K, 40, b"public")], [kv(K, 40, b"public")]),
        ([kv(SHADOWS + K, 20, b"held")], [kv(K, 40, b"public")], [kv(K, 20, b"held")]),
        ([], [], []),
    ],
    ids=["held", "public", "both", "neither"],
)
def test_row_1_the_first_that_exists_answers(
    shadow: list[kv_pb2.KeyValue], public: list[kv_pb2.KeyValue], seen: list[kv_pb2.KeyValue]
) -> None:
    told = read_answer(answer(found(*shadow), found(*public), succeeded=True))
    assert told == rpc_pb2.RangeResponse(header=HEADER, kvs=seen, count=len(seen))


def test_row_1_a_count_without_keys_tells_too() -> None:
    counted = rpc_pb2.ResponseOp(response_range=rpc_pb2.RangeResponse(count=1))
    assert read_answer(answer(counted, found(), succeeded=True)).count == 1
    assert read_answer(answer(found(), counted, succeeded=True)).count == 1


def test_a_lease_shows_its_owners_names_once_and_no_record() -> None:
    given = rpc_pb2.LeaseTimeToLiveResponse(ID=LEASE, TTL=8, grantedTTL=10, header=HEADER)
    given.keys.extend([RECORD, SHADOWS + K, SHADOWS + LORA, K, b"v1/event_channels/x"])
    told = lease_answer(given)
    assert list(told.keys) == [K, LORA, b"v1/event_channels/x"]
    assert (told.ID, told.TTL, told.grantedTTL, told.header) == (LEASE, 8, 10, HEADER)
    assert len(given.keys) == 5


def test_a_lease_shows_none_of_the_proxys_own_keys() -> None:
    """A proxy's registration and a rollout hold that expires lie on leases too, which any client can ask about."""
    given = rpc_pb2.LeaseTimeToLiveResponse(ID=5, keys=[ROOT + b"proxies/a", ROLLOUT_HOLDS + b"freeze", b"mine"])
    assert list(lease_answer(given).keys) == [b"mine"]


def test_values_are_never_touched() -> None:
    value = value_of(K).replace(b"tiny2", b"\x01greenroom/held/x/y")
    told = read_answer(answer(found(kv(SHADOWS + K, 20, value)), found(), succeeded=True))
    assert told.kvs[0].value == value


def test_others_are_told_of_a_leases_public_keys_only() -> None:
    given = rpc_pb2.LeaseTimeToLiveResponse(header=HEADER, ID=LEASE, TTL=7, keys=[RECORD, SHADOWS + K, LORA, b"mine"])
    told = without_reserved_keys(given)
    assert list(told.keys) == [LORA, b"mine"]
    assert (told.header, told.ID, told.TTL) == (HEADER, LEASE, 7)
    assert len(given.keys) == 4
