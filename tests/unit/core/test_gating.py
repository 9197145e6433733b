"""Workers' calls as they are sent: one test for each row of the protocol that is about them, then the edges.

R is the record, last written at revision 7 where there is one; the snapshot is of revision 100; shadows were written
at revision 20 and after, public keys at 40 and after.
"""

import json
from datetime import timedelta

import pytest

from greenroom.core import record as records
from greenroom.core.gating import MAX_CARDS, MAX_RELEASE_BYTES, Gated, LookAtLease, entry_of, gate_call, needs_of
from greenroom.core.keyspace import RECORDS, Key
from greenroom.core.policy import Hold, Policy
from greenroom.core.publication import release_txn
from greenroom.core.record import MAX_ACTOR_BYTES, MAX_REASON_BYTES, MAX_TRANSITIONS, Gate, GateState, Record
from greenroom.core.snapshot import Snapshot
from greenroom.core.transitions import (
    Outcome,
    opened_as_public,
    overridden,
    released,
    retried,
    with_verdict,
    withdrawn,
)
from greenroom.core.worker_calls import examine
from greenroom.errors import EtcdRefusal, NewCardNeedsGates
from greenroom.pb.etcd import rpc_pb2
from tests.support.instances import (
    GATED_KEYS,
    LORA,
    NAMES,
    NOW,
    SHADOWS,
    TEXT,
    I,
    K,
    create_txn,
    delete,
    edit_txn,
    edited,
    entry,
    gated,
    get,
    held_record,
    lora_cards,
    mod,
    needs,
    policy,
    put,
    recorded_txns,
    snapshot,
    txn_from,
    value_of,
    version,
)
from tests.support.later import with_later
from tests.support.txn_text import record_text

MIB = 1 << 20
SMOKE = policy("smoke")
WHOLE = policy("smoke", hold=Hold.CARD_AND_INSTANCE, component="pyw")
HEALTH = policy("smoke", hold=Hold.HEALTH)
NO_RULE = policy()
ELSE = "get R keys"
LATER = NOW + timedelta(seconds=60)
SAME_BUT_TAINTS = edited(K, taints=["a100", "gold"])
OTHER_CARD = edited(K, context_length=4096)


def plan(txn: rpc_pb2.TxnRequest, seen: Snapshot, rules: Policy = SMOKE, *, lease_was_seen: bool = True) -> Gated:
    planned = looked_at(txn, seen, rules, lease_was_seen=lease_was_seen)
    assert isinstance(planned, Gated)
    return planned


def looked_at(
    txn: rpc_pb2.TxnRequest, seen: Snapshot, rules: Policy = SMOKE, *, lease_was_seen: bool
) -> Gated | LookAtLease:
    uses = examine(txn, GATED_KEYS)
    assert uses is not None
    return gate_call(txn, uses, seen, GATED_KEYS, rules, LATER, lease_was_seen=lease_was_seen)


def then(*operations: rpc_pb2.RequestOp, compare: tuple[rpc_pb2.Compare, ...] = ()) -> rpc_pb2.TxnRequest:
    return rpc_pb2.TxnRequest(compare=compare, success=operations)


def record_in(planned: Gated) -> Record | None:
    """The record that the Txn writes; None where it writes none."""
    written = [op.request_put.value for op in planned.txn.success if op.request_put.key.startswith(RECORDS)]
    assert len(written) <= 1
    return records.decode(written[0], "R") if written else None


def recorded_in(planned: Gated) -> Record:
    record = record_in(planned)
    assert record is not None
    return record


def later_in(planned: Gated) -> dict[Key, tuple[str, ...]]:
    """The later cards of the record that the Txn writes, with the gates that each waits for."""
    return {entry.gated_key: entry.later_gates for entry in recorded_in(planned).later}


def left(planned: Gated) -> str:
    return record_text(recorded_in(planned), NAMES)


def with_gates(record: Record, state: GateState) -> Record:
    gates = {name: gate.model_copy(update={"state": state}) for name, gate in record.gates.items()}
    return record.model_copy(update={"gates": gates})


def released_record(*keys: Key, hold: Hold = Hold.CARD) -> Record:
    return released(with_gates(held_record(*keys, hold=hold), GateState.PASSED), NOW)


REJECTED = with_verdict(held_record(K), "smoke", 1, Outcome.FAILED, reason="no", reporter="ci", now=NOW)
LATER_CARD = with_later(released_record(LORA))
WITHDRAWN = withdrawn(released_record(K), "alice", "bad", NOW, by_person=True)


def test_row_2_the_first_card_opens_the_record() -> None:
    planned = plan(create_txn(K), snapshot())
    assert TEXT.txn(planned.txn) == (
        "ver(S(K))=0 | mod(R)=0 | mod(S*)<101 | ver(K)=0"
        " || put S(K) lease; put R lease"
        " || get S(K); get R keys; get S* keys limit=1 min_mod_revision=101; get K keys"
    )
    assert left(planned) == "HELD card g1 [K] smoke:PENDING#1"
    assert planned.opens


def test_row_2_the_card_as_dynamo_sends_it_keeps_its_value_and_answers_as_the_owner_expects() -> None:
    (txn,) = [txn for txn in recorded_txns() if txn == create_txn(LORA)]
    planned = plan(txn, snapshot())
    assert planned.txn.success[0].request_put.value == value_of(LORA)
    assert recorded_in(planned).cards == (entry(LORA),)
    assert (recorded_in(planned).cards[0].model, recorded_in(planned).cards[0].suffix) == ("lora-a", "lora-a")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (held_record(K), "HELD card g2 [K LORA] smoke:PENDING#2"),
        (with_gates(held_record(K), GateState.PASSED), "HELD card g2 [K LORA] smoke:PENDING#2"),
        (held_record(LORA, K), "HELD card g2 [K LORA] smoke:PENDING#2"),
        (held_record(gates=("a", "b")), "HELD card g2 [K LORA] a:PENDING#2 b:PENDING#2 smoke:PENDING#1"),
        (REJECTED, "REJECTED card g2 [K LORA] smoke:FAILED#1"),
        (WITHDRAWN, "WITHDRAWN card g2 [K LORA] smoke:PENDING#3"),
    ],
    ids=["held", "passed", "registered again", "more gates", "rejected", "withdrawn"],
)
def test_row_3_a_new_card_of_a_waiting_instance_goes_last_and_opens_new_attempts(before: Record, after: str) -> None:
    planned = plan(create_txn(LORA), snapshot(before, shadows=(K,)))
    assert TEXT.txn(planned.txn) == (
        "ver(S(LORA))=0 | mod(R)=7 | ver(LORA)=0"
        " || put S(LORA) lease; put R keep"
        " || get S(LORA); get R keys; get LORA keys"
    )
    assert left(planned) == after
    assert not planned.opens


def test_row_3_a_new_instance_record_is_listed_and_opens_no_attempt() -> None:
    before = with_gates(held_record(K, hold=Hold.CARD_AND_INSTANCE), GateState.PASSED)
    planned = plan(create_txn(I), snapshot(before, shadows=(K,)), WHOLE)
    assert TEXT.txn(planned.txn) == (
        "ver(S(I))=0 | mod(R)=7 | ver(I)=0 || put S(I) lease; put R keep || get S(I); get R keys; get I keys"
    )
    assert left(planned) == "HELD card+instance g1 [K I] smoke:PASSED#1"


def test_row_3_an_instance_record_that_its_own_rule_holds_makes_the_record_say_so() -> None:
    """Else another proxy, with other rules, would publish the next one, and a withdrawal would forget it."""
    planned = plan(create_txn(I), snapshot(held_record(K), shadows=(K,)), WHOLE)
    assert left(planned) == "HELD card+instance g1 [K I] smoke:PENDING#1"


@pytest.mark.parametrize("before", [held_record(K), REJECTED, WITHDRAWN], ids=lambda record: record.state)
def test_row_4_an_edit_of_taints_does_not_write_the_record(before: Record) -> None:
    planned = plan(edit_txn(K, 20, SAME_BUT_TAINTS), snapshot(before, shadows=(K,)))
    assert TEXT.txn(planned.txn) == (
        "mod(S(K))=20 | mod(R)=7 | ver(S(K))>0 || put S(K) lease || get S(K); get R keys; get S(K) keys"
    )
    assert record_in(planned) is None


ONLY_INSTANCE = policy("route", hold=Hold.CARD_AND_INSTANCE, component="pyw", model="another")
"""A rule about another model: it matches no card here, and the instance record, which names no model."""


def test_gates_that_only_the_instance_record_asks_for_are_added_and_reopen_nothing() -> None:
    """Lost, the instance record would become public as soon as its card's gates have passed."""
    before = with_gates(held_record(K), GateState.PASSED)
    planned = plan(create_txn(I), snapshot(before, shadows=(K,)), ONLY_INSTANCE)
    assert left(planned) == "HELD card+instance g1 [K I] smoke:PASSED#1 route:PENDING#1"


def test_a_card_without_a_rule_before_an_instance_record_with_one_does_not_open_a_record_without_gates() -> None:
    for operations in ((put(K), put(I)), (put(I), put(K))):
        assert list(recorded_in(plan(then(*operations), snapshot(), ONLY_INSTANCE)).gates) == ["route"]


def test_an_instance_record_of_a_released_instance_whose_own_gates_have_not_passed_is_held() -> None:
    planned = plan(create_txn(I), snapshot(released_record(K), public=(K,)), ONLY_INSTANCE)
    assert TEXT.operations(planned.txn.success) == "put S(I) lease; put R keep"
    assert left(planned) == "RELEASED card+instance g1 [K I] smoke:PASSED#1 route:PENDING#1"
    assert later_in(planned) == {I: ("route",)}


def test_row_4_the_recorded_taint_edits_are_edits_of_taints() -> None:
    edits = [txn for txn in recorded_txns() if txn.compare[0].target == rpc_pb2.Compare.MOD]
    assert len(edits) == 3
    for txn in edits:
        planned = plan(txn, snapshot(held_record(K), shadows=(K,)))
        assert record_in(planned) is None
        assert TEXT.operations(planned.txn.success) == "put S(K) lease"
        assert planned.txn.success[0].request_put.value == txn.success[0].request_put.value


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (with_gates(held_record(K, LORA), GateState.PASSED), "HELD card g2 [K LORA] smoke:PENDING#2"),
        (REJECTED, "REJECTED card g2 [K] smoke:FAILED#1"),
        (WITHDRAWN, "WITHDRAWN card g2 [K] smoke:PENDING#3"),
    ],
    ids=["held", "rejected", "withdrawn"],
)
def test_row_5_an_edit_of_more_than_taints_opens_new_attempts_and_keeps_the_order(before: Record, after: str) -> None:
    planned = plan(edit_txn(K, 20, OTHER_CARD), snapshot(before, shadows=(K,)))
    assert TEXT.txn(planned.txn) == (
        "mod(S(K))=20 | mod(R)=7 | ver(S(K))>0 || put S(K) lease; put R keep || get S(K); get R keys; get S(K) keys"
    )
    assert left(planned) == after


def test_row_5_what_a_person_withdrew_stays_so_after_an_edit() -> None:
    planned = plan(edit_txn(K, 20, OTHER_CARD), snapshot(WITHDRAWN, shadows=(K,)))
    assert recorded_in(planned).withdrawn_by == "alice"


@pytest.mark.parametrize("shadows", [(K,), ()], ids=["there", "gone already"])
def test_row_6_a_held_delete_writes_nothing_else(shadows: tuple[Key, ...]) -> None:
    planned = plan(then(delete(K)), snapshot(held_record(K), shadows=shadows))
    assert TEXT.txn(planned.txn) == "mod(R)=7 || del S(K) || get R keys"
    assert record_in(planned) is None


@pytest.mark.parametrize(
    ("operation", "sent"), [(put(K, OTHER_CARD), "put K lease"), (delete(K), "del K")], ids=["put", "delete"]
)
@pytest.mark.parametrize(
    ("before", "revision"), [(None, 0), (held_record(LORA), 7)], ids=["no record", "another card is held"]
)
def test_row_7_what_is_public_already_stays_at_its_place(
    operation: rpc_pb2.RequestOp, sent: str, before: Record | None, revision: int
) -> None:
    planned = plan(then(operation), snapshot(before, shadows=(LORA,) if before else (), public=(K,)), NO_RULE)
    assert TEXT.txn(planned.txn) == (
        f"mod(R)={revision} | ver(S(K))=0 | ver(K)>0 || {sent} || get R keys; get S(K) keys; get K keys"
    )
    assert record_in(planned) is None


@pytest.mark.parametrize(
    ("before", "hold"),
    [
        (None, Hold.CARD),
        (None, Hold.CARD_AND_INSTANCE),
        (held_record(LORA), Hold.CARD),
        (held_record(K, hold=Hold.HEALTH), Hold.CARD),
        (released_record(K), Hold.CARD),
        (opened_as_public((entry(K),), needs(), NOW), Hold.CARD),
    ],
    ids=["no record", "no record, hold all", "another card is held", "hold health", "released", "AlreadyPublic"],
)
@pytest.mark.parametrize("value", [edited(K, display_name="secret"), b"not json"], ids=["gated", "unreadable"])
def test_a_public_card_cannot_be_turned_into_one_whose_gates_have_not_passed(
    before: Record | None, hold: Hold, value: bytes
) -> None:
    """It was free when it was registered, as a model that no rule names; the edit names one that a rule does."""
    rules = policy("evals", hold=hold, model="secret", component="pyw")
    seen = snapshot(before, shadows=(LORA,) if before and LORA in before.keys else (), public=(K,))
    with pytest.raises(NewCardNeedsGates, match="needs the gates evals, which have not passed here"):
        plan(then(put(K, value)), seen, rules)


def test_a_public_card_can_become_one_whose_gates_have_passed_or_that_holds_nothing_back() -> None:
    turned = then(put(K, edited(K, display_name="secret")))
    for seen, rules in (
        (snapshot(released_record(K), public=(K,)), policy("smoke", model="secret")),
        (snapshot(public=(K,)), policy("evals", hold=Hold.HEALTH, model="secret")),
        (snapshot(public=(K,)), policy("evals")),
    ):
        assert TEXT.operations(plan(turned, seen, rules).txn.success) == "put K lease"


def test_row_8_what_no_rule_concerns_is_written_through_with_a_fence() -> None:
    planned = plan(create_txn(K), snapshot(), NO_RULE)
    assert TEXT.txn(planned.txn) == (
        "ver(K)=0 | mod(R)=0 | ver(S(K))=0 | ver(K)=0 || put K lease || get K; get R keys; get S(K) keys; get K keys"
    )
    assert record_in(planned) is None


def test_row_8_ends_where_there_is_a_record_for_the_record_decides() -> None:
    planned = plan(create_txn(LORA), snapshot(held_record(K), shadows=(K,)), NO_RULE)
    assert TEXT.operations(planned.txn.success) == "put S(LORA) lease; put R keep"
    assert left(planned) == "HELD card g2 [K LORA] smoke:PENDING#2"


@pytest.mark.parametrize("value", [SAME_BUT_TAINTS, OTHER_CARD], ids=["taints", "more"])
def test_row_11_an_edit_of_a_released_card_is_put_at_once(value: bytes) -> None:
    planned = plan(edit_txn(K, 40, value), snapshot(released_record(K), public=(K,)))
    assert TEXT.txn(planned.txn) == "mod(K)=40 | mod(R)=7 | ver(K)>0 || put K lease || get K; get R keys; get K keys"
    assert record_in(planned) is None


@pytest.mark.parametrize(
    "before",
    [
        released_record(K),
        released_record(K, LORA),
        opened_as_public((entry(K),), needs(), NOW),
    ],
    ids=["new", "again", "AlreadyPublic"],
)
def test_row_12_a_new_lora_card_of_a_released_instance_whose_gates_passed(before: Record) -> None:
    planned = plan(create_txn(LORA), snapshot(before, public=(K,)))
    assert TEXT.txn(planned.txn) == "ver(LORA)=0 | mod(R)=7 || put LORA lease; put R keep || get LORA; get R keys"
    state = "OVERRIDDEN" if before.reason else "PASSED"
    assert left(planned) == f"RELEASED card g1 [K LORA] smoke:{state}#1"


def test_row_12_a_card_that_no_rule_concerns_is_listed_so_that_a_withdrawal_takes_it_too() -> None:
    planned = plan(create_txn(K), snapshot(released_record(LORA), public=(LORA,)), NO_RULE)
    assert TEXT.operations(planned.txn.success) == "put K lease; put R keep"
    assert left(planned) == "RELEASED card g1 [LORA K] smoke:PASSED#1"


CREATES_SHADOW = (
    "ver(S({0}))=0 | mod(R)=7 | ver({0})=0 || put S({0}) lease; put R keep || get S({0}); get R keys; get {0} keys"
)


@pytest.mark.parametrize(
    ("key", "before", "rules", "after", "waits_for"),
    [
        (
            LORA,
            released_record(K),
            policy("smoke", "chat", "slow"),
            "RELEASED card g2 [K LORA] smoke:PASSED#1 chat:PENDING#1 slow:PENDING#1",
            ("chat", "slow"),
        ),
        (K, released_record(LORA), SMOKE, "RELEASED card g2 [LORA K] smoke:PENDING#2", ("smoke",)),
        (K, released_record(K, LORA), SMOKE, "RELEASED card g2 [LORA K] smoke:PENDING#2", ("smoke",)),
        (
            K,
            opened_as_public((entry(LORA),), needs(), NOW),
            SMOKE,
            "RELEASED card g2 [LORA K] smoke:PENDING#2",
            ("smoke",),
        ),
        (
            K,
            released_record(LORA, hold=Hold.HEALTH),
            SMOKE,
            "RELEASED health g2 [LORA K] smoke:PENDING#2",
            ("smoke",),
        ),
    ],
    ids=["a gate that it brings", "another model", "back again", "AlreadyPublic", "hold health, but its own rules"],
)
def test_row_19_a_later_card_is_held_by_itself_for_the_gates_that_have_not_seen_it(
    key: Key, before: Record, rules: Policy, after: str, waits_for: tuple[str, ...]
) -> None:
    planned = plan(create_txn(key), snapshot(before, public=(K,) if key == LORA else (LORA,)), rules)
    name = NAMES[key]
    assert TEXT.txn(planned.txn) == CREATES_SHADOW.format(name)
    assert (left(planned), later_in(planned)) == (after, {key: waits_for})
    assert recorded_in(planned).released == before.released


def test_row_19_a_gate_that_failed_for_a_later_card_stays_so_for_the_next() -> None:
    """It is for a person to retry, as while an instance waits."""
    failed = with_verdict(LATER_CARD, "smoke", 2, Outcome.FAILED, reason="no", reporter="ci", now=NOW)
    planned = plan(create_txn(LORA), snapshot(failed, shadows=(K,)))
    assert left(planned) == "RELEASED card g3 [K LORA] smoke:FAILED#2"
    assert later_in(planned) == {K: ("smoke",), LORA: ("smoke",)}


def test_row_19_a_later_card_that_is_gone_has_no_part_in_what_comes_after_it() -> None:
    planned = plan(create_txn(LORA), snapshot(LATER_CARD), policy("chat"))
    assert later_in(planned) == {LORA: ("chat",)}


def test_row_19_a_card_beside_it_that_has_nothing_to_pass_is_public_at_once() -> None:
    """Of one call's puts only the one is held."""
    txn = then(put(K), put(LORA))
    planned = plan(txn, snapshot(released_record(I), public=(I,)))
    assert TEXT.operations(planned.txn.success) == "put S(K) lease; put LORA lease; put R keep"
    assert later_in(planned) == {K: ("smoke",)}


def test_row_4_an_edit_of_a_later_cards_taints_does_not_write_the_record() -> None:
    planned = plan(edit_txn(K, 20, SAME_BUT_TAINTS), snapshot(LATER_CARD, shadows=(K,), public=(LORA,)))
    assert TEXT.txn(planned.txn) == (
        "mod(S(K))=20 | mod(R)=7 | ver(S(K))>0 || put S(K) lease || get S(K); get R keys; get S(K) keys"
    )


@pytest.mark.parametrize("rules", [SMOKE, NO_RULE, policy("smoke", "chat")], ids=["its rule", "no rule", "more"])
def test_row_5_an_edit_of_more_opens_new_attempts_of_what_the_later_card_waits_for(rules: Policy) -> None:
    """The record says which gates those are, so that a replica with another policy opens them too."""
    passed = with_verdict(LATER_CARD, "smoke", 2, Outcome.PASSED, reason="", reporter="ci", now=NOW)
    planned = plan(edit_txn(K, 20, OTHER_CARD), snapshot(passed, shadows=(K,), public=(LORA,)), rules)
    assert TEXT.operations(planned.txn.success) == "put S(K) lease; put R keep"
    more = " chat:PENDING#1" if rules == policy("smoke", "chat") else ""
    assert left(planned) == f"RELEASED card g3 [LORA K] smoke:PENDING#3{more}"
    assert set(later_in(planned)) == {K}


def test_row_6_a_later_card_is_deleted_where_it_is() -> None:
    planned = plan(then(delete(K)), snapshot(LATER_CARD, shadows=(K,), public=(LORA,)))
    assert TEXT.txn(planned.txn) == "mod(R)=7 || del S(K) || get R keys"


def test_row_13_a_released_delete() -> None:
    planned = plan(then(delete(K)), snapshot(released_record(K), public=(K,)))
    assert TEXT.txn(planned.txn) == "mod(R)=7 || del K || get R keys"
    assert record_in(planned) is None


@pytest.mark.parametrize(
    ("hold", "rules", "cards"),
    [
        (Hold.CARD_AND_INSTANCE, WHOLE, "[K I]"),
        (Hold.CARD_AND_INSTANCE, SMOKE, "[K I]"),
        (Hold.CARD, WHOLE, "[K I]"),
        (Hold.CARD, SMOKE, None),
    ],
    ids=["held by both", "held by the record", "held by its own rule", "not held"],
)
def test_a_released_instance_record_is_listed_where_anything_would_hold_it(
    hold: Hold, rules: Policy, cards: str | None
) -> None:
    """Else a withdrawal would leave it public. Its record says the stronger hold from then on, to every replica."""
    planned = plan(create_txn(I), snapshot(released_record(K, hold=hold), public=(K,)), rules)
    assert TEXT.operations(planned.txn.success[:1]) == "put I lease"
    assert cards is None or recorded_in(planned).hold is Hold.CARD_AND_INSTANCE
    assert ((record := record_in(planned)) and record_text(record, NAMES).split(" g1 ")[1]) == (
        cards and f"{cards} smoke:PASSED#1"
    )


def test_row_17_the_lease_is_looked_at_before_a_record_is_opened() -> None:
    for txn in (create_txn(K), then(put(K)), edit_txn(K, 40, SAME_BUT_TAINTS)):
        assert isinstance(looked_at(txn, snapshot(public=(K,)), lease_was_seen=False), LookAtLease)
    assert isinstance(looked_at(then(delete(K)), snapshot(public=(K,)), lease_was_seen=False), LookAtLease)


@pytest.mark.parametrize(
    ("txn", "seen", "rules"),
    [
        (then(delete(K)), snapshot(), SMOKE),
        (then(get(K)), snapshot(public=(K,)), SMOKE),
        (create_txn(K), snapshot(), NO_RULE),
        (create_txn(K), snapshot(held_record(K)), SMOKE),
    ],
    ids=["deletes nothing", "reads", "no rule", "there is a record"],
)
def test_row_17_does_not_concern(txn: rpc_pb2.TxnRequest, seen: Snapshot, rules: Policy) -> None:
    assert isinstance(looked_at(txn, seen, rules, lease_was_seen=False), Gated)


def test_hold_health_publishes_and_opens_the_record() -> None:
    planned = plan(create_txn(K), snapshot(), HEALTH)
    assert TEXT.txn(planned.txn) == (
        "ver(K)=0 | mod(R)=0 | mod(S*)<101 | ver(S(K))=0 | ver(K)=0"
        " || put K lease; put R lease"
        " || get K; get R keys; get S* keys limit=1 min_mod_revision=101; get S(K) keys; get K keys"
    )
    assert left(planned) == "HELD health g1 [K] smoke:PENDING#1"


def test_hold_health_an_edit_of_more_than_taints_opens_new_attempts_though_it_is_public() -> None:
    passed = with_gates(held_record(K, hold=Hold.HEALTH), GateState.PASSED)
    planned = plan(edit_txn(K, 40, OTHER_CARD), snapshot(passed, public=(K,)), HEALTH)
    assert TEXT.operations(planned.txn.success) == "put K lease; put R keep"
    assert left(planned) == "HELD health g2 [K] smoke:PENDING#2"
    assert record_in(plan(edit_txn(K, 40, SAME_BUT_TAINTS), snapshot(passed, public=(K,)), HEALTH)) is None


def test_hold_health_a_card_whose_own_rules_hold_it_is_held() -> None:
    planned = plan(create_txn(LORA), snapshot(held_record(K, hold=Hold.HEALTH), public=(K,)), SMOKE)
    assert TEXT.operations(planned.txn.success) == "put S(LORA) lease; put R keep"


def test_hold_health_a_new_card_of_a_withdrawn_instance_is_held() -> None:
    """Somebody took all of it back; one more adapter must not go on serving in its name."""
    taken = withdrawn(released_record(K, hold=Hold.HEALTH), "alice", "bad", NOW, by_person=True)
    planned = plan(create_txn(LORA), snapshot(taken, shadows=(K,)), HEALTH)
    assert TEXT.operations(planned.txn.success) == "put S(LORA) lease; put R keep"
    assert left(planned) == "WITHDRAWN health g2 [K LORA] smoke:PENDING#3"


def test_hold_health_stays_for_else_its_public_cards_would_count_as_gone_and_it_would_wait_for_ever() -> None:
    before = held_record(K, hold=Hold.HEALTH)
    changed = plan(edit_txn(K, 40, OTHER_CARD), snapshot(before, public=(K,)), SMOKE)
    assert left(changed) == "HELD health g2 [K] smoke:PENDING#2"
    added = plan(create_txn(LORA), snapshot(before, public=(K,)), SMOKE)
    assert left(added) == "HELD health g2 [K LORA] smoke:PENDING#2"


def test_several_cards_in_one_txn_open_one_record() -> None:
    planned = plan(then(put(K), put(LORA), put(I)), snapshot(), WHOLE)
    assert TEXT.txn(planned.txn) == (
        "mod(R)=0 | mod(S*)<101 | ver(K)=0 | ver(LORA)=0 | ver(I)=0"
        " || put S(K) lease; put S(LORA) lease; put S(I) lease; put R lease"
        " || get R keys; get S* keys limit=1 min_mod_revision=101; get K keys; get LORA keys; get I keys"
    )
    assert left(planned) == "HELD card+instance g2 [K LORA I] smoke:PENDING#2"


def test_an_instance_record_that_comes_first_opens_the_record_and_its_card_the_attempt_that_counts() -> None:
    """Python workers register their instance before their card."""
    opened = plan(create_txn(I), snapshot(), WHOLE)
    assert left(opened) == "HELD card+instance g1 [I] smoke:PENDING#1"
    assert left(plan(create_txn(K), snapshot(recorded_in(opened), shadows=(I,)), WHOLE)) == (
        "HELD card+instance g2 [I K] smoke:PENDING#2"
    )


def test_without_a_rule_that_holds_them_instance_records_are_written_through() -> None:
    planned = plan(create_txn(I), snapshot(held_record(K), shadows=(K,)), SMOKE)
    assert TEXT.txn(planned.txn) == (
        "ver(I)=0 | mod(R)=7 | ver(S(I))=0 | ver(I)=0 || put I lease || get I; get R keys; get S(I) keys; get I keys"
    )


def test_a_txn_keeps_its_other_parts_and_their_places() -> None:
    txn = rpc_pb2.TxnRequest(
        compare=[version(b"other"), mod(K, 20), version(LORA)],
        success=[
            get(b"other"),
            put(K, SAME_BUT_TAINTS, prev_kv=True),
            get(K, keys_only=True),
            put(b"other", b"x", lease=0),
        ],
        failure=[get(LORA), get(b"other")],
    )
    planned = plan(txn, snapshot(held_record(K), shadows=(K,)))
    assert TEXT.txn(planned.txn) == (
        "ver(other)=0 | mod(S(K))=20 | ver(S(LORA))=0 | mod(R)=7 | ver(S(K))>0 | ver(LORA)=0"
        " || get other; put S(K) lease prev; get S(K) keys; put other"
        " || get S(LORA); get other; get R keys; get S(K) keys; get LORA keys"
    )
    assert planned.widths == (1, 1, 1, 1)


def test_a_compare_keeps_its_target_and_value() -> None:
    held = snapshot(held_record(K), shadows=(K,))
    compares = (
        rpc_pb2.Compare(key=K, target=rpc_pb2.Compare.VALUE, result=rpc_pb2.Compare.NOT_EQUAL, value=b"v"),
        rpc_pb2.Compare(key=K, target=rpc_pb2.Compare.LEASE, lease=9),
        rpc_pb2.Compare(key=K, target=rpc_pb2.Compare.CREATE, result=rpc_pb2.Compare.LESS, create_revision=3),
    )
    assert TEXT.txn(plan(then(compare=compares), held).txn).startswith(
        "value(S(K))!=b'v' | lease(S(K))=9 | create(S(K))<3 | mod(R)=7"
    )


def test_the_clients_own_request_is_left_as_it_was() -> None:
    txn = create_txn(K)
    plan(txn, snapshot())
    assert txn == create_txn(K)


def test_a_range_delete_within_one_instance_takes_its_shadows_too() -> None:
    planned = plan(then(get(b"other"), delete(K + b"/", K + b"0", prev_kv=True)), snapshot(held_record(LORA)))
    assert TEXT.txn(planned.txn) == (
        "mod(R)=7 || get other; "
        f"del [{K + b'/'!r}, {K + b'0'!r}) prev; del [S({K + b'/'!r}), S({K + b'0'!r})) prev || get R keys"
    )
    assert planned.widths == (1, 2)


def test_a_range_that_starts_at_a_held_key_stays_the_public_view() -> None:
    seen = snapshot(held_record(K), shadows=(K,))
    txn = then(get(K), get(K, range_end=b"v1/n"), delete(K, b"v1/n"))
    assert TEXT.operations(plan(txn, seen).txn.success) == "get S(K); get [K, b'v1/n'); del [K, b'v1/n')"


def test_a_range_delete_beyond_one_instance_takes_public_keys_only() -> None:
    planned = plan(then(put(K), delete(b"v1/event", b"v1/f")), snapshot())
    assert TEXT.operations(planned.txn.success) == "put S(K) lease; del [b'v1/event', b'v1/f'); put R lease"
    assert planned.widths == (1, 1)


def test_a_nested_txn_of_other_keys_stays_as_it_is() -> None:
    inner = rpc_pb2.RequestOp(request_txn=then(put(b"other", b"x", lease=0), compare=(version(b"other"),)))
    planned = plan(then(put(K), inner), snapshot())
    assert planned.txn.success[1] == inner


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({"ignore_lease": True, "lease": 0}, "put S(K) keep"),
        ({"ignore_value": True, "value": b""}, "put S(K) lease same"),
        ({"prev_kv": True}, "put S(K) lease prev"),
    ],
    ids=lambda option: next(iter(option)) if isinstance(option, dict) else None,
)
def test_options_of_a_put_stay_etcds_own(options: dict[str, object], sent: str) -> None:
    planned = plan(then(put(K, **options)), snapshot(held_record(K), shadows=(K,)))
    assert TEXT.operations(planned.txn.success) == sent
    assert record_in(planned) is None


def test_the_same_key_may_be_compared_read_and_written() -> None:
    planned = plan(then(put(K, SAME_BUT_TAINTS), get(K), compare=(mod(K, 20),)), snapshot(held_record(K), shadows=(K,)))
    assert TEXT.txn(planned.txn) == (
        "mod(S(K))=20 | mod(R)=7 | ver(S(K))>0 || put S(K) lease; get S(K) || get R keys; get S(K) keys"
    )


def sized(key: Key, size: int) -> bytes:
    padding = size - len(json.dumps({"model_suffix": gated(key).suffix, "pad": ""}))
    return json.dumps({"model_suffix": gated(key).suffix, "pad": "x" * padding}).encode()


@pytest.mark.parametrize(("live", "fits"), [(MAX_CARDS - 1, True), (MAX_CARDS, False)], ids=["120th", "121st"])
def test_as_many_cards_as_one_release_can_publish(live: int, fits: bool) -> None:
    cards = lora_cards(live)
    seen = snapshot(held_record(*cards), shadows=cards)
    if fits:
        assert record_in(plan(create_txn(K), seen)) is not None
        return
    with pytest.raises(EtcdRefusal, match="too many operations in txn request"):
        plan(create_txn(K), seen)


def test_the_last_card_that_fits_can_still_be_edited() -> None:
    cards = lora_cards(MAX_CARDS)
    seen = snapshot(held_record(*cards), shadows=cards)
    last = list(cards)[-1]
    assert record_in(plan(then(put(last, edited(last, context_length=4096))), seen)) is not None


@pytest.mark.parametrize(("size", "fits"), [(1_400_000, True), (1_470_000, True), (1_530_000, False)])
@pytest.mark.parametrize("first_write", [True, False], ids=["created", "edited"])
def test_as_many_bytes_as_one_release_can_publish(size: int, fits: bool, first_write: bool) -> None:
    record = held_record(K) if first_write else held_record(K, LORA)
    big = {K: sized(K, 700_000)}
    seen = snapshot(record, shadows=(K,) if first_write else (K, LORA), values=big)
    txn = then(put(LORA, sized(LORA, size - 700_000)))
    if fits:
        assert record_in(plan(txn, seen)) is not None
        return
    with pytest.raises(EtcdRefusal, match="request is too large"):
        plan(txn, seen)


LINE_BREAKS, ESCAPES = ("alice" * 20, "\n"), ('"' * MAX_ACTOR_BYTES, "\x1b")


@pytest.mark.parametrize(
    ("suffix_bytes", "value_bytes", "gates", "actor", "said"),
    [
        (1, 12_800, 1, *ESCAPES),
        (6_000, 1, 1, *LINE_BREAKS),
        (3_000, 4_000, 30, *ESCAPES),
        (1, 400_000, 50, *LINE_BREAKS),
    ],
    ids=["values", "names", "gates", "large cards"],
)
def test_whatever_was_accepted_can_be_released_when_its_record_has_grown(
    suffix_bytes: int, value_bytes: int, gates: int, actor: str, said: str
) -> None:
    """Cards are registered until one is refused; then every gate gets a long reason and the trail fills up."""
    reason = said * MAX_REASON_BYTES
    rules = policy(*(f"gate-{number}" for number in range(gates)))
    record: Record | None = None
    values: dict[Key, bytes] = {}
    for number in range(MAX_CARDS):
        key = Key(K + b"/%03d" % number + b"x" * suffix_bytes)
        seen = snapshot(record, shadows=tuple(values), values=values, asked=())
        try:
            record = recorded_in(plan(then(put(key, b"x" * value_bytes)), seen, rules))
        except EtcdRefusal:
            break
        values[key] = b"x" * value_bytes
    assert record is not None
    grown = overridden(record, actor, reason, LATER)
    for _ in range(MAX_TRANSITIONS):
        grown = retried(grown, ("gate-0",), actor, reason, LATER)
    grown = overridden(grown, actor, reason, LATER)
    release = release_txn(snapshot(grown, shadows=tuple(values), values=values, asked=()), grown, LATER)
    assert 0.85 * 1.5 * MIB < release.ByteSize() + 64 < 1.5 * MIB


def test_a_card_that_shrinks_is_taken_though_all_of_them_are_too_large_still() -> None:
    """They may have been too large before: what brings them nearer to a release must not be refused."""
    big = {K: sized(K, 1_000_000), LORA: sized(LORA, 1_000_000)}
    seen = snapshot(held_record(K, LORA), shadows=(K, LORA), values=big)
    assert TEXT.operations(plan(then(put(LORA, sized(LORA, 900_000))), seen).txn.success[:1]) == "put S(LORA) lease"
    with pytest.raises(EtcdRefusal, match="request is too large"):
        plan(then(put(LORA, sized(LORA, 1_000_001))), seen)


def test_a_card_deleted_in_the_same_txn_makes_room() -> None:
    big = {K: sized(K, 700_000), LORA: sized(LORA, 700_000)}
    seen = snapshot(held_record(K, LORA), shadows=(K, LORA), values=big)
    added = Key(K + b"/lora-b")
    with pytest.raises(EtcdRefusal, match="request is too large"):
        plan(then(put(added, b"x" * 700_000)), seen)
    assert plan(then(delete(LORA), put(added, b"x" * 700_000)), seen)


def test_taints_count_too() -> None:
    huge = edited(K, taints=["x" * MAX_RELEASE_BYTES])
    with pytest.raises(EtcdRefusal, match="request is too large"):
        plan(edit_txn(K, 20, huge), snapshot(held_record(K), shadows=(K,)))


def test_what_became_too_much_all_the_same_can_be_deleted() -> None:
    cards = lora_cards(MAX_CARDS + 1)
    assert record_in(plan(then(delete(next(iter(cards)))), snapshot(held_record(*cards), shadows=cards))) is None


def test_cards_opened_in_one_txn_must_fit_one_release_too() -> None:
    with pytest.raises(EtcdRefusal, match="request is too large"):
        plan(then(put(K, sized(K, 800_000)), put(LORA, sized(LORA, 800_000))), snapshot())


def test_a_released_instance_is_not_bound_by_the_size_of_a_release() -> None:
    seen = snapshot(released_record(K, LORA), public=(K, LORA), values={K: sized(K, 1_000_000)})
    assert record_in(plan(then(put(LORA, sized(LORA, 1_000_000))), seen)) is None


def test_a_key_without_a_value_needs_what_any_model_would() -> None:
    rules = policy("smoke", model="tiny*")
    assert needs_of(rules, gated(K), None) == needs_of(rules, gated(K), value_of(K)) == needs("smoke")
    assert needs_of(rules, gated(K), edited(K, display_name="big")) is None


def test_a_put_that_keeps_the_value_needs_what_that_value_does() -> None:
    same = then(put(K, b"", ignore_value=True))
    for model, expected in (("big", Gated), ("tiny*", LookAtLease)):
        rules = policy("smoke", model=model)
        assert isinstance(looked_at(same, snapshot(public=(K,)), rules, lease_was_seen=False), expected)


@pytest.mark.parametrize(
    "value", [b"not json", b"5", b'{"card_json": {"display_name": 7}}', b'{"card_json": {"display_name": "\\ud800"}}']
)
def test_a_value_that_cannot_be_read_is_held_by_every_rule_and_stored(value: bytes) -> None:
    planned = plan(then(put(K, value)), snapshot(), policy("smoke", model="tiny*"))
    assert left(planned) == "HELD card g1 [K] smoke:PENDING#1"
    assert entry_of(gated(K), value).model is None


def test_gates_of_several_rules_are_joined_and_a_known_gate_is_kept() -> None:
    before = held_record(K, gates=("smoke",))
    kept = before.model_copy(update={"gates": {"smoke": Gate(timeout_seconds=5, started=NOW, deadline=NOW)}})
    planned = plan(create_txn(LORA), snapshot(kept, shadows=(K,)), policy("smoke", "chat"))
    assert {name: gate.timeout_seconds for name, gate in recorded_in(planned).gates.items()} == {
        "smoke": 5,
        "chat": 900,
    }
    assert recorded_in(planned).gates["smoke"].deadline == LATER + timedelta(seconds=5)


def test_every_recorded_write_of_a_gated_key_can_be_gated() -> None:
    """Each as the first of its instance: real Dynamo always agrees with itself, so nothing is refused."""
    for txn in recorded_txns():
        uses = examine(txn, GATED_KEYS)
        if uses is None:
            continue
        for rules in (SMOKE, NO_RULE):
            seen = Snapshot(uses.instance, 100, None, 0, {}, {}, frozenset(uses.keys), (), 0)
            planned = gate_call(txn, uses, seen, GATED_KEYS, rules, NOW, lease_was_seen=True)
            assert isinstance(planned, Gated)
            assert len(planned.txn.success) == len(txn.success) + (record_in(planned) is not None)
            assert len(planned.txn.failure) == len(txn.failure) + len(planned.fence)


def test_the_recording_is_read_as_it_was_on_the_wire() -> None:
    message = {"compare": [{"target": "MOD", "key": "v1/mdc/x", "mod_revision": 34}], "success": []}
    assert txn_from(message).SerializeToString() == b"\n\x0e\x10\x02\x1a\x08v1/mdc/x0\x22"


def test_a_card_that_no_rule_matches_is_held_with_the_one_that_is_registered_beside_it() -> None:
    """One Txn registers the base model, which nobody checks, and an adapter that must be checked."""
    planned = plan(then(put(K), put(LORA)), snapshot(), policy("smoke", suffix="lora-a"))
    assert recorded_in(planned).keys == (K, LORA)
    assert [operation.request_put.key for operation in planned.txn.success[:2]] == [SHADOWS + K, SHADOWS + LORA]


def test_a_worker_may_load_and_unload_adapters_for_ever() -> None:
    """Its record names the cards that ever were; those known to be gone make room before etcd's limit is met."""
    ever = lora_cards(119)
    gone = tuple(ever)[:110]
    record = released_record(K, *ever)
    seen = snapshot(record, public={key: at for key, at in ever.items() if key not in gone}, asked=(LORA, *ever))
    planned = plan(then(put(LORA)), seen, policy())
    assert recorded_in(planned).keys == (K, *tuple(ever)[110:], LORA)


def test_the_121st_card_of_a_released_worker_is_refused_as_etcd_would() -> None:
    """A withdrawal could not take them back together."""
    ever = lora_cards(120)
    seen = snapshot(released_record(*ever), public=ever, asked=(LORA, *ever))
    with pytest.raises(EtcdRefusal, match="too many operations"):
        plan(then(put(LORA)), seen, policy())


DRY_RUN = Policy.model_validate({"rules": [{"mode": "dry-run", "gates": {"chat": {"timeout_seconds": 60}}}]})
BESIDE_SMOKE = Policy(rules=(*SMOKE.rules, *DRY_RUN.rules))


def test_what_only_rules_in_dry_run_match_is_written_through_and_has_a_record() -> None:
    planned = plan(create_txn(K), snapshot(), DRY_RUN)
    assert TEXT.operations(planned.txn.success) == "put K lease; put R lease"
    record = recorded_in(planned)
    assert (record.hold, record.dry_run, record.gates["chat"].dry_run) == (Hold.HEALTH, True, True)


def test_a_gate_in_dry_run_keeps_no_key_of_a_released_instance_back() -> None:
    assert left(plan(create_txn(LORA), snapshot(released_record(K), public=(K,)), BESIDE_SMOKE)) == (
        "RELEASED card g1 [K LORA] smoke:PASSED#1"
    )
    new = plan(create_txn(K), snapshot(released_record(LORA), public=(LORA,)), DRY_RUN)
    assert left(new) == "RELEASED card g1 [LORA K] smoke:PASSED#1"
    edit = plan(then(put(K, edited(K, display_name="other"))), snapshot(released_record(K), public=(K,)), BESIDE_SMOKE)
    assert record_in(edit) is None


def test_beside_an_obeyed_rule_its_gates_are_opened_too() -> None:
    record = recorded_in(plan(create_txn(K), snapshot(), BESIDE_SMOKE))
    assert (record.hold, record.dry_run) == (Hold.CARD, False)
    assert {name: gate.dry_run for name, gate in record.gates.items()} == {"smoke": False, "chat": True}
