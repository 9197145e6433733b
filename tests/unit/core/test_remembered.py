"""Instances known without a read: new ones by their lease, others as their last Txn left them.

`tests/property/test_remembered.py` holds what is remembered against what is read, after any calls.
"""

from dataclasses import replace

import pytest

from greenroom.core.gating import MANY_CARDS, Gated, gate_call
from greenroom.core.remembered import MAX_KEYS, MAX_OPERATIONS, after, is_enough, newborn
from greenroom.core.snapshot import Snapshot
from greenroom.core.worker_calls import examine
from greenroom.pb.etcd import rpc_pb2
from tests.support.instances import (
    GATED_KEYS,
    INSTANCE,
    LORA,
    NOW,
    RECORD,
    SHADOWS,
    TEXT,
    I,
    K,
    create_txn,
    delete,
    edited,
    get,
    held_record,
    lora_cards,
    policy,
    put,
    snapshot,
    value_of,
    version,
)

HELD = snapshot(held_record(K), shadows={K: 20}, asked=(K,))
OTHER_CARD = edited(K, context_length=4096)
GOLD = edited(K, taints=["gold"])


def then(*operations: rpc_pb2.RequestOp) -> rpc_pb2.TxnRequest:
    return rpc_pb2.TxnRequest(success=operations)


def plan(txn: rpc_pb2.TxnRequest, seen: Snapshot) -> Gated:
    uses = examine(txn, GATED_KEYS)
    assert uses is not None
    planned = gate_call(txn, uses, seen, GATED_KEYS, policy("smoke"), NOW, lease_was_seen=True)
    assert isinstance(planned, Gated)
    return planned


def left(txn: rpc_pb2.TxnRequest, seen: Snapshot, *, succeeded: bool = True) -> Snapshot | None:
    header = rpc_pb2.ResponseHeader(revision=105)
    return after(seen, plan(txn, seen), rpc_pb2.TxnResponse(succeeded=succeeded, header=header))


def known(snapshot: Snapshot | None) -> Snapshot:
    assert snapshot is not None
    return snapshot


def lease(*keys: bytes) -> rpc_pb2.LeaseTimeToLiveResponse:
    return rpc_pb2.LeaseTimeToLiveResponse(keys=keys, header=rpc_pb2.ResponseHeader(revision=50))


@pytest.mark.parametrize("keys", [(), (b"v1/event_channels/x", b"other")])
def test_an_instance_is_new_whose_lease_has_nothing_gated(keys: tuple[bytes, ...]) -> None:
    assert newborn(INSTANCE, [K], lease(*keys), GATED_KEYS) == replace(snapshot(asked=(K,)), revision=50)


@pytest.mark.parametrize("key", [RECORD, SHADOWS + K, K, I, b"v1/mdc/of/no/shape"])
def test_it_is_not_new_where_anything_of_it_is_there(key: bytes) -> None:
    assert newborn(INSTANCE, [K], lease(b"other", key), GATED_KEYS) is None


def test_an_opening_leaves_the_record_and_the_shadow() -> None:
    opened = known(left(create_txn(K), snapshot(asked=(K,))))
    assert (opened.revision, opened.record_revision, opened.remembered) == (105, 105, True)
    assert opened.record == held_record(K)
    kv = opened.shadows[K]
    assert (kv.key, kv.value, kv.mod_revision, opened.public) == (SHADOWS + K, value_of(K), 105, {})


def test_an_edit_of_taints_leaves_the_record_as_it_was_and_a_change_does_not() -> None:
    tainted = known(left(then(put(K, GOLD)), HELD))
    assert (tainted.record, tainted.record_revision, tainted.shadows[K].value) == (HELD.record, 7, GOLD)
    changed = known(left(then(put(K, OTHER_CARD)), HELD))
    assert changed.record is not None
    assert (changed.record.generation, changed.record_revision) == (2, 105)


def test_a_delete_a_read_and_what_is_not_gated() -> None:
    gone = known(left(then(delete(K), get(K), put(b"other", b"x", lease=0), delete(b"another")), HELD))
    assert (gone.shadows, gone.public, gone.record_revision) == ({}, {}, 7)


def test_a_public_card_is_left_in_its_place() -> None:
    public = snapshot(public={K: 40}, asked=(K, LORA))
    edit = known(left(then(put(K, GOLD)), public))
    assert (edit.public[K].value, edit.public[K].mod_revision, edit.shadows) == (GOLD, 105, {})


def test_a_value_that_is_kept_is_the_one_that_was_there() -> None:
    kept = known(left(then(put(K, b"", ignore_value=True)), HELD))
    assert (kept.shadows[K].value, kept.shadows[K].mod_revision) == (value_of(K), 105)
    other = known(left(then(get(K), put(b"other", b"", lease=0, ignore_value=True)), HELD))
    assert other.shadows == HELD.shadows


def test_a_call_that_failed_by_the_clients_own_compare_leaves_all_as_it_was() -> None:
    assert left(create_txn(K), HELD, succeeded=False) == replace(HELD, remembered=True)


@pytest.mark.parametrize(
    "operation",
    [delete(K, K + b"0"), delete(b"a", b"b"), rpc_pb2.RequestOp(request_txn=then(put(b"other", b"x", lease=0)))],
    ids=["its own range", "another range", "nested"],
)
def test_what_is_not_followed_leaves_nothing_known(operation: rpc_pb2.RequestOp) -> None:
    assert left(then(get(K), operation), HELD) is None


def test_all_that_is_remembered_is_compared_with_what_it_was() -> None:
    both = replace(snapshot(held_record(K, LORA), shadows={K: 20, LORA: 21}), remembered=True)
    planned = plan(then(put(K, GOLD)), both)
    assert TEXT.txn(planned.txn).startswith("mod(R)=7 | mod(S(K))=20 | mod(S(LORA))=21 || put S(K) lease || ")
    assert TEXT.operations(planned.txn.failure) == "get R keys; get S(K) keys; get S(LORA) keys"
    public = replace(snapshot(held_record(K), public={LORA: 40}, shadows={K: 20}), remembered=True)
    compares = TEXT.txn(plan(then(put(LORA, edited(LORA, taints=["a"]))), public).txn).partition(" || ")[0]
    assert compares == "mod(R)=7 | mod(S(K))=20 | ver(S(LORA))=0 | mod(LORA)=40"


def test_a_delete_of_what_is_remembered_is_compared_too() -> None:
    remembered = replace(HELD, remembered=True)
    assert TEXT.txn(plan(then(delete(K)), remembered).txn).startswith("mod(R)=7 | mod(S(K))=20 || del S(K)")


def enough(txn: rpc_pb2.TxnRequest, seen: Snapshot = HELD) -> bool:
    uses = examine(txn, GATED_KEYS)
    assert uses is not None
    return is_enough(seen, txn, uses)


def test_only_keys_that_were_asked_for_are_known() -> None:
    assert enough(then(put(K)))
    assert not enough(then(put(LORA)))
    assert not enough(then(put(K), get(LORA)))


@pytest.mark.parametrize("part", ["compare", "success", "failure"])
def test_a_large_call_keeps_the_room_that_it_has_after_a_read(part: str) -> None:
    for count, expected in ((MAX_OPERATIONS - 1, True), (MAX_OPERATIONS, False)):
        txn = create_txn(K)
        more = version(b"other") if part == "compare" else get(b"other")
        getattr(txn, part).extend([more] * count)
        assert enough(txn) == expected


def test_many_cards_are_read() -> None:
    keys = tuple(lora_cards(MAX_KEYS + 1))
    few, many = (snapshot(held_record(*some), shadows=some, asked=(K, *keys)) for some in (keys[:-1], keys))
    assert (enough(then(put(K)), few), enough(then(put(K)), many)) == (True, False)
    assert not enough(then(*map(get, keys)), snapshot(held_record(K), asked=keys))
    record = held_record(K)
    long = record.model_copy(update={"cards": record.cards * MANY_CARDS})
    assert not enough(then(put(K)), snapshot(long, shadows={K: 20}, asked=(K,)))
