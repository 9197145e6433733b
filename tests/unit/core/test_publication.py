"""The Txns that move an instance, word by word: one test for each row of the protocol that is about them."""

from collections.abc import Iterable

import pytest

from greenroom.core import budget as budgets
from greenroom.core import record as records
from greenroom.core.budget import Budget
from greenroom.core.gating import CARD_BYTES, MAX_RELEASE_BYTES, record_bytes
from greenroom.core.keyspace import Key
from greenroom.core.publication import (
    MAX_FLAT_WITHDRAWAL,
    adoption_txn,
    drop_txn,
    record_txn,
    release_txn,
    withdrawal_txn,
)
from greenroom.core.record import ALREADY_PUBLIC, Record
from greenroom.core.rollout_holds import stop_after
from greenroom.core.transitions import Outcome, dropped, released, with_verdict, withdrawn
from greenroom.core.txns import MAX_OPERATIONS
from greenroom.pb.etcd import rpc_pb2
from tests.support.instances import (
    INSTANCE,
    LORA,
    NAMES,
    NOW,
    TEXT,
    I,
    K,
    edited,
    entry,
    held_record,
    lora_cards,
    needs,
    snapshot,
    value_of,
)
from tests.support.txn_text import record_text


def passed(*keys: Key) -> Record:
    return with_verdict(held_record(*keys), "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=NOW)


def left(txn: rpc_pb2.TxnRequest) -> str:
    (value,) = (op.request_put.value for op in txn.success if TEXT.key(op.request_put.key) == "R")
    return record_text(records.decode(value, "R"), NAMES)


def flat(operations: Iterable[rpc_pb2.RequestOp]) -> list[rpc_pb2.RequestOp]:
    return [inner for op in operations for inner in (op.request_txn.success if op.HasField("request_txn") else (op,))]


def test_row_14_a_withdrawal_writes_the_budget_and_may_stop_what_comes() -> None:
    record = released(passed(K), NOW)
    stop = stop_after(INSTANCE, record, "alice", "bad", NOW)
    seen = snapshot(record, public={K: 41}, budget_revision=6)
    txn = withdrawal_txn(seen, withdrawn(record, "alice", "bad", NOW, by_person=True), budget=Budget(), stop=stop)
    assert TEXT.txn(txn) == (
        f"mod(R)=7 | mod(K)=41 | mod(B)=6 || put S(K) lease; del K; put B; put H/stopped-{INSTANCE}; put R keep"
    )


def test_row_14_the_largest_withdrawal_has_room_for_both() -> None:
    """124 cards are two operations in each nested Txn: one more operation beside them would leave room for one."""
    cards = lora_cards(124)
    record = released(passed(*cards), NOW)
    stop = stop_after(INSTANCE, record, "alice", "bad", NOW)
    after = withdrawn(record, "alice", "bad", NOW, by_person=True)
    txn = withdrawal_txn(snapshot(record, public=cards, asked=tuple(cards)), after, budget=Budget(), stop=stop)
    outer = max(len(txn.compare), len(txn.success))
    assert max(len(op.request_txn.success) for op in txn.success) <= MAX_OPERATIONS - outer
    assert len(flat(txn.success)) == 2 * 124 + 3


def test_row_9_a_record_rewritten_alone() -> None:
    before = held_record(K)
    txn = record_txn(snapshot(before, shadows=(K,)), passed(K))
    assert TEXT.txn(txn) == "mod(R)=7 || put R keep"
    assert left(txn) == "HELD card g1 [K] smoke:PASSED#1"


def test_row_10_a_release_publishes_in_the_order_of_the_record() -> None:
    record = passed(LORA, I, K)
    seen = snapshot(record, shadows={K: 21, LORA: 22, I: 23}, budget_revision=6)
    txn = release_txn(seen, record, NOW)
    assert TEXT.txn(txn) == (
        "mod(R)=7 | mod(S(LORA))=22 | mod(S(I))=23 | mod(S(K))=21 | mod(S*)<101 | mod(H)<101 | mod(B)=6"
        " || put LORA lease; put I lease; put K lease; del S*; put R keep"
    )
    assert left(txn) == "RELEASED card g1 [LORA I K] smoke:PASSED#1"


def test_row_10_a_release_under_a_limit_writes_the_budget() -> None:
    budget = Budget().with_release(INSTANCE, NOW)
    txn = release_txn(snapshot(passed(K), shadows=(K,), budget_revision=6), passed(K), NOW, budget=budget)
    assert TEXT.operations(txn.success) == "put K lease; del S*; put R keep; put B"
    assert budgets.decode(txn.success[-1].request_put.value) == budget


def test_row_10_values_are_published_as_they_are_now() -> None:
    now = edited(K, taints=["gold"])
    txn = release_txn(snapshot(passed(K), shadows=(K,), values={K: now}), passed(K), NOW)
    assert txn.success[0].request_put.value == now != value_of(K)


def test_row_10_a_deleted_card_is_neither_compared_nor_brought_back() -> None:
    txn = release_txn(snapshot(passed(K, LORA), shadows=(LORA,)), passed(K, LORA), NOW)
    assert TEXT.txn(txn) == (
        "mod(R)=7 | mod(S(LORA))=20 | mod(S*)<101 | mod(H)<101 | mod(B)=0 || put LORA lease; del S*; put R keep"
    )


def test_row_10_of_what_is_public_already_with_hold_health() -> None:
    record = passed(K)
    txn = release_txn(snapshot(record, public=(K,)), record, NOW)
    assert TEXT.txn(txn) == "mod(R)=7 | mod(S*)<101 | mod(H)<101 | mod(B)=0 || del S*; put R keep"


def test_row_10_never_deletes_a_shadow_that_it_does_not_publish() -> None:
    with pytest.raises(AssertionError, match="lora-a"):
        release_txn(snapshot(passed(K), shadows=(K, LORA)), passed(K), NOW)


def test_row_10_as_many_cards_as_etcd_takes() -> None:
    cards = lora_cards(120)
    txn = release_txn(snapshot(passed(*cards), shadows=cards), passed(*cards), NOW)
    assert len(txn.compare) == 124 <= MAX_OPERATIONS
    assert len(txn.success) == 122


@pytest.mark.parametrize("count", [2, 120])
def test_row_10_what_was_accepted_fits_etcds_request_after_the_longest_life(count: int) -> None:
    """Every write is let in by the size of its values; the record with all its reasons must not spoil the release."""
    cards = lora_cards(count)
    record, gates = held_record(*cards, gates=tuple(f"gate-{number}" for number in range(16))), range(16)
    for number in (*gates, *gates, *gates, *gates, *gates):
        outcome = Outcome.ERROR if len(record.transitions) < 64 else Outcome.PASSED
        record = with_verdict(record, f"gate-{number}", 1, outcome, reason="x" * 9000, reporter="ci" * 20, now=NOW)
    opened = held_record(*cards, gates=tuple(record.gates))
    room = (
        MAX_RELEASE_BYTES
        - record_bytes(opened, records.encode(opened))
        - sum(2 * len(key) + CARD_BYTES for key in cards)
    )
    values = {key: value_of(key) + b" " * (room // count - len(value_of(key))) for key in cards}
    txn = release_txn(snapshot(record, shadows=cards, values=values), record, NOW)
    assert txn.ByteSize() < 1.5 * 1024 * 1024


def taken(*keys: Key) -> Record:
    return withdrawn(released(passed(*keys), NOW), "alice", "bad answers", NOW, by_person=True)


def test_row_14_a_withdrawal_compares_each_listed_card_and_takes_the_live_ones() -> None:
    before = released(passed(LORA, K, I), NOW)
    seen = snapshot(before, public={LORA: 41, I: 43}, budget_revision=6)
    txn = withdrawal_txn(seen, taken(LORA, K, I))
    assert TEXT.txn(txn) == (
        "mod(R)=7 | mod(LORA)=41 | mod(K)=0 | mod(I)=43 | mod(B)=6"
        " || put S(LORA) lease; del LORA; put S(I) lease; del I; put R keep"
    )
    assert left(txn) == "WITHDRAWN card g1 [LORA K I] smoke:PENDING#2"
    assert txn.success[0].request_put.value == value_of(LORA)


def test_row_14_needs_to_have_seen_every_listed_card() -> None:
    with pytest.raises(AssertionError):
        withdrawal_txn(snapshot(released(passed(K, LORA), NOW), public=(K,), asked=(K,)), taken(K, LORA))


@pytest.mark.parametrize("count", [MAX_FLAT_WITHDRAWAL, MAX_FLAT_WITHDRAWAL + 1, 120, 124])
def test_row_14_many_cards_are_moved_in_nested_parts_under_compares_outside(count: int) -> None:
    cards = lora_cards(count)
    seen = snapshot(released(passed(*cards), NOW), public=cards, asked=tuple(cards))
    txn = withdrawal_txn(seen, taken(*cards))
    assert any(op.HasField("request_txn") for op in txn.success) == (count > MAX_FLAT_WITHDRAWAL)
    assert max(len(txn.compare), len(txn.success)) <= MAX_OPERATIONS
    parts = [op.request_txn for op in txn.success if op.HasField("request_txn")]
    room = MAX_OPERATIONS - max(len(txn.compare), len(txn.success))
    assert all(len(part.success) <= room and not part.compare and not part.failure for part in parts)
    keys = [TEXT.key(key) for key in cards]
    expected = [word for key in keys for word in (f"put S({key}) lease", f"del {key}")] + ["put R keep"]
    assert TEXT.operations(flat(txn.success)) == "; ".join(expected)


def test_row_16_a_drop() -> None:
    before = held_record(K, LORA)
    txn = drop_txn(snapshot(before, shadows=(K, LORA)), dropped(before, "alice", "gone mad", NOW))
    assert TEXT.txn(txn) == "mod(R)=7 || del S*; put R keep"
    assert left(txn) == "HELD card g1 [] smoke:PENDING#1"


def test_row_17_an_instance_that_serves_already_is_opened_as_released() -> None:
    txn = adoption_txn(snapshot(public={K: 41, LORA: 42}), [entry(K), entry(LORA)], needs("smoke", "chat"), NOW)
    assert TEXT.txn(txn) == "mod(R)=0 | mod(K)=41 | mod(LORA)=42 || put R lease"
    assert left(txn) == "RELEASED card g1 [K LORA] smoke:OVERRIDDEN#1 chat:OVERRIDDEN#1"
    assert records.decode(txn.success[0].request_put.value, "R").reason == ALREADY_PUBLIC


def test_no_txn_of_ours_reads_in_its_else() -> None:
    record = passed(K)
    seen = snapshot(record, shadows=(K,))
    assert not release_txn(seen, record, NOW).failure
    assert not record_txn(seen, record).failure
    assert not drop_txn(seen, record).failure
