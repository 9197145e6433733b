"""Claims as they are sent: who gets one, who is told what, and what each Txn compares."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from greenroom.core import record as records
from greenroom.core.attempts import with_claims
from greenroom.core.claims import (
    Claim,
    ClaimSeen,
    PlannedClaim,
    as_stored,
    check,
    claim_txn,
    decode,
    encode,
    is_claimed,
    read_request,
    release_txn,
    renewal_txn,
    seen_from,
)
from greenroom.core.keyspace import InstanceId, claim_key, claim_prefix
from greenroom.core.policy import Phase
from greenroom.core.record import Gate, GateState, Record
from greenroom.core.transitions import Outcome, gate_of, with_gate, with_verdict
from greenroom.errors import (
    ClaimLimitReached,
    GateClaimed,
    GreenroomError,
    StaleAttempt,
    TooManyClaims,
    UnknownClaim,
    UnknownGate,
    UnknownInstance,
    VerdictAlreadyGiven,
)
from greenroom.pb.etcd import kv_pb2, rpc_pb2
from tests.support.instances import INSTANCE, NOW, K, held_record
from tests.support.txn_text import TxnText

C = claim_key(INSTANCE, "smoke")
OURS, THEIRS = 0x77, 0x88
CLAIM = Claim(runner="runner-1", attempt=1, claimed=NOW, expires=NOW + timedelta(seconds=30))
HELD = held_record(K)
TEXT = TxnText(INSTANCE, {C: "C", claim_prefix("smoke"): "C*", claim_prefix("smoke")[:-1] + b"0": "end"})


def gate(record: Record = HELD, **settings: object) -> Record:
    return with_gate(record, "smoke", gate_of(record, "smoke").model_copy(update=settings))


def seen(record: Record | None = HELD, claim: Claim | None = None, *, lease: int = THEIRS, count: int = 0) -> ClaimSeen:
    """What one read at revision 100 saw; `count` are the claims of other instances."""
    found = [[] if record is None else [kv_pb2.KeyValue(value=records.encode(record), mod_revision=7)]]
    found += [[] if claim is None else [kv_pb2.KeyValue(value=encode(claim), mod_revision=30, lease=lease)], []]
    answer = rpc_pb2.TxnResponse(succeeded=True, header=rpc_pb2.ResponseHeader(revision=100))
    for kvs in found:
        answer.responses.add().response_range.kvs.extend(kvs)
    answer.responses[2].response_range.count = count + (claim is not None)
    return seen_from(INSTANCE, "smoke", answer)


def told(planned: PlannedClaim) -> str:
    return TEXT.txn(planned.txn)


def claims_left(planned: PlannedClaim) -> int:
    return records.decode(planned.txn.success[-1].request_put.value, "R").gates["smoke"].claims


def test_the_read_asks_for_record_and_claim_and_counts_the_gates_claims() -> None:
    assert TEXT.txn(read_request(INSTANCE, "smoke")) == " || get R; get C; get [C*, end) count"


def test_a_claim_is_made_on_its_lease_and_counted_in_the_record() -> None:
    planned = claim_txn(seen(), CLAIM, OURS)
    assert told(planned) == "mod(R)=7 | mod(C)=0 || put C lease=77; put R keep"
    assert claims_left(planned) == 1
    assert decode(planned.txn.success[0].request_put.value) == CLAIM


def test_where_claims_are_bounded_none_may_have_come_since_they_were_counted() -> None:
    planned = claim_txn(seen(gate(max_concurrent=3), count=2), CLAIM, OURS)
    assert told(planned) == "mod(R)=7 | mod(C)=0 | create([C*, end))<101 || put C lease=77; put R keep"


def test_a_claim_on_an_attempt_that_is_over_makes_room() -> None:
    """A card changed while a runner was at it: the new attempt need not wait until the runner notices."""
    again = gate(attempt=2, max_concurrent=1)
    assert told(claim_txn(seen(again, CLAIM), CLAIM.model_copy(update={"attempt": 2}), OURS)).startswith(
        "mod(R)=7 | mod(C)=30 | "
    )


REFUSED: list[tuple[ClaimSeen, int, type[GreenroomError], str]] = [
    (seen(None), 1, UnknownInstance, f"no instance {INSTANCE}"),
    (seen(HELD.model_copy(update={"gates": {}})), 1, UnknownGate, "no gate 'smoke'"),
    (seen(gate(attempt=3)), 1, StaleAttempt, "is at attempt 3, the claim is for attempt 1"),
    (seen(gate(state=GateState.PASSED, reporter="ci")), 1, VerdictAlreadyGiven, "decided as passed by ci: there is"),
    (seen(HELD, CLAIM), 1, GateClaimed, "is claimed by runner-1 until 2026-03-01 12:00:30 UTC"),
    (seen(gate(claims=3)), 1, ClaimLimitReached, "was claimed 3 times, and no runner came to a verdict"),
    (seen(gate(max_concurrent=2), count=2), 1, TooManyClaims, "is claimed for 2 instances, and 2 may be at once"),
]


@pytest.mark.parametrize(("found", "attempt", "error", "says"), REFUSED, ids=[one[2].__name__ for one in REFUSED])
def test_who_may_not_claim_is_told_why(found: ClaimSeen, attempt: int, error: type[GreenroomError], says: str) -> None:
    for ask in (check, lambda *_: claim_txn(found, CLAIM, OURS)):
        with pytest.raises(error, match=says):
            ask(found, attempt)


def test_a_pass_that_must_be_renewed_can_be_claimed_to_renew_it() -> None:
    record = gate(state=GateState.PASSED, phase=Phase.CONTINUOUS, ttl_seconds=60.0)
    assert check(seen(record), 1).must_be_renewed


def test_one_claim_less_than_the_limit_may_still_be_made() -> None:
    assert check(seen(gate(claims=2, max_concurrent=2), count=1), 1).claims == 2


def test_a_claim_that_cannot_be_read_stands() -> None:
    """A newer proxy wrote it: whoever runs the gate is not to be disturbed."""
    found = seen(HELD, CLAIM)
    unreadable = ClaimSeen(**{name: getattr(found, name) for name in found.__slots__} | {"claim": None})
    assert is_claimed(unreadable, gate_of(HELD, "smoke"))
    with pytest.raises(GateClaimed, match="a runner of a newer version: run another"):
        check(unreadable, 1)


def test_a_renewal_rewrites_the_claim_and_leaves_the_record() -> None:
    later = NOW + timedelta(seconds=99)
    planned = renewal_txn(seen(gate(claims=1), CLAIM, lease=OURS), OURS, later)
    assert told(planned) == "mod(C)=30 || put C keep"
    assert decode(planned.txn.success[0].request_put.value) == CLAIM.model_copy(update={"expires": later})


def test_a_claim_that_is_given_back_does_not_count() -> None:
    planned = release_txn(seen(gate(claims=2), CLAIM, lease=OURS), OURS)
    assert told(planned) == "mod(R)=7 | mod(C)=30 || del C; put R keep"
    assert claims_left(planned) == 1


@pytest.mark.parametrize("record", [None, gate(attempt=2), HELD], ids=["gone", "another attempt", "decided since"])
def test_a_claim_whose_attempt_is_over_can_be_given_back_too(record: Record | None) -> None:
    revision = 0 if record is None else 7
    planned = release_txn(seen(record, CLAIM, lease=OURS), OURS)
    assert told(planned) == f"mod(R)={revision} | mod(C)=30 || del C"


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (seen(HELD), "is not claimed with lease 77: the claim expired, was released, or ended with a verdict$"),
        (seen(HELD, CLAIM, lease=THEIRS), "ended with a verdict; runner-1 has claimed it meanwhile"),
    ],
)
@pytest.mark.parametrize("ask", [release_txn, lambda found, lease: renewal_txn(found, lease, NOW)])
def test_only_who_has_the_lease_may_renew_or_release(
    ask: Callable[[ClaimSeen, int], PlannedClaim], found: ClaimSeen, says: str
) -> None:
    with pytest.raises(UnknownClaim, match=says):
        ask(found, OURS)


def test_a_runner_that_renews_learns_that_there_is_nothing_left_to_run() -> None:
    with pytest.raises(StaleAttempt):
        renewal_txn(seen(gate(attempt=2), CLAIM, lease=OURS), OURS, NOW)
    with pytest.raises(VerdictAlreadyGiven):
        renewal_txn(seen(gate(state=GateState.FAILED), CLAIM, lease=OURS), OURS, NOW)


def test_the_count_is_of_claims_without_a_verdict() -> None:
    """Two runners went away, the third could not tell: the next three may try."""
    record = gate(claims=2)
    said = {"reason": "no GPU", "reporter": "ci", "now": NOW}
    after = with_verdict(record, "smoke", 1, Outcome.INCONCLUSIVE, **said)  # type: ignore[arg-type]
    assert after.gates["smoke"].claims == 0
    assert with_claims(Gate.model_validate(after.gates["smoke"]), 3).is_worn_out


def test_times_are_those_that_etcd_keeps() -> None:
    precise = CLAIM.model_copy(update={"expires": NOW + timedelta(microseconds=678_901)})
    assert as_stored(precise).expires == NOW + timedelta(microseconds=678_000)
    assert as_stored(CLAIM) == CLAIM


def test_keys_tell_whose_gate_they_are_about() -> None:
    assert claim_key(InstanceId("7f"), "smoke").startswith(claim_prefix("smoke"))
    assert decode(b"no claim") is None
