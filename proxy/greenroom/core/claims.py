"""Claims: a runner's right to run one gate's attempt, so that no two run it, nor more than the gate allows in all.

A claim is a key on an etcd lease of its own. It ends when its runner no longer renews it, by no clock of ours, and the
attempt is free again. The lease's id is the claim's token: whoever has it may renew or release the claim.

The rules:

* The record counts the claims of an attempt in the Txn that makes one. A verdict sets the count back, and a claim that
  its runner gives back does not count; so what is left is how many ended without a word. After `claim_limit` of them
  the attempt can be claimed no more.
* Claims of one gate lie under one prefix, whatever their instance. Where `max_concurrent` bounds them they are counted
  in the one read, and the Txn compares that none was created since: two proxies never give one too many.
* A claim on an attempt that is not the current one counts for nothing there, and makes room for one that is.
* A verdict needs no claim, and ends the one that there is.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import Field, ValidationError

from greenroom.core import attempts, txns
from greenroom.core import record as records
from greenroom.core.keyspace import InstanceId, claim_key, claim_prefix, prefix_end, record_key
from greenroom.core.record import Gate, Moment, Record, Stored
from greenroom.core.transitions import gate_of, with_gate
from greenroom.errors import (
    ClaimLimitReached,
    GateClaimed,
    TooManyClaims,
    UnknownClaim,
    UnknownInstance,
    VerdictAlreadyGiven,
)
from greenroom.pb.etcd import kv_pb2, rpc_pb2


class Claim(Stored):
    """A claim as stored. `expires` is told, not obeyed: the etcd lease that it lies on ends it."""

    schema_version: Literal[1] = 1
    runner: str = Field(min_length=1)
    attempt: int = Field(ge=1)
    claimed: Moment
    expires: Moment


@dataclass(frozen=True, slots=True)
class ClaimSeen:
    """What one read saw of a gate's claim: `count` are the claims of this gate over all instances."""

    instance: InstanceId
    gate: str
    revision: int
    record: Record | None
    record_revision: int
    claim: Claim | None
    claim_revision: int
    lease: int
    count: int


@dataclass(frozen=True, slots=True)
class PlannedClaim:
    """A Txn, and the claim that it is about: as it will be, or of one that is given back as it was."""

    txn: rpc_pb2.TxnRequest
    claim: Claim


def encode(claim: Claim) -> bytes:
    """The claim as etcd stores it."""
    return claim.model_dump_json().encode()


def as_stored(claim: Claim) -> Claim:
    """The claim as every later reader sees it: etcd keeps its times to the millisecond."""
    return Claim.model_validate_json(encode(claim))


def decode(value: bytes) -> Claim | None:
    """The claim from etcd; None for one that cannot be read: it stands, and says nothing."""
    try:
        return Claim.model_validate_json(value)
    except ValidationError:
        return None


def read_request(instance: InstanceId, gate: str) -> rpc_pb2.TxnRequest:
    """The one read Txn: record, claim, and how many claims of this gate there are."""
    everywhere = claim_prefix(gate)
    txn = rpc_pb2.TxnRequest()
    for request in (
        rpc_pb2.RangeRequest(key=record_key(instance)),
        rpc_pb2.RangeRequest(key=claim_key(instance, gate)),
        rpc_pb2.RangeRequest(key=everywhere, range_end=prefix_end(everywhere), count_only=True),
    ):
        txn.success.add().request_range.CopyFrom(request)
    return txn


def seen_from(instance: InstanceId, gate: str, answer: rpc_pb2.TxnResponse) -> ClaimSeen:
    """The answer to `read_request` with the same arguments. UnreadableRecord where the record is not understood."""
    record, claim, everywhere = (response.response_range for response in answer.responses)
    found = claim.kvs[0] if claim.kvs else kv_pb2.KeyValue()
    return ClaimSeen(
        instance=instance,
        gate=gate,
        revision=answer.header.revision,
        record=records.decode(record.kvs[0].value, repr(record_key(instance).decode("latin-1")))
        if record.kvs
        else None,
        record_revision=record.kvs[0].mod_revision if record.kvs else 0,
        claim=decode(found.value),
        claim_revision=found.mod_revision,
        lease=found.lease,
        count=everywhere.count,
    )


def check(seen: ClaimSeen, attempt: int) -> Gate:
    """The gate, if its attempt may be claimed now.

    UnknownInstance, UnknownGate, StaleAttempt, VerdictAlreadyGiven, GateClaimed, ClaimLimitReached, TooManyClaims.
    """
    gate = _to_run(seen, attempt)
    if is_claimed(seen, gate):
        raise _claimed(seen, attempt)
    if gate.is_worn_out:
        raise ClaimLimitReached(
            f"attempt {attempt} of gate {seen.gate!r} was claimed {gate.claims} times, and no runner came to a "
            "verdict: see what ends them; a retry opens an attempt that can be claimed again",
            gate=seen.gate,
        )
    if gate.max_concurrent is not None and seen.count - bool(seen.claim_revision) >= gate.max_concurrent:
        raise TooManyClaims(
            f"gate {seen.gate!r} is claimed for {seen.count} instances, and {gate.max_concurrent} may be at once: "
            "try again when one has been decided",
            gate=seen.gate,
        )
    return gate


def is_claimed(seen: ClaimSeen, gate: Gate) -> bool:
    """Whether a claim on the gate's current attempt is in force. One that cannot be read counts as one."""
    return bool(seen.claim_revision) and (seen.claim is None or seen.claim.attempt == gate.attempt)


def claim_txn(seen: ClaimSeen, claim: Claim, lease: int) -> PlannedClaim:
    """Claim the gate on this lease; raises what `check` raises."""
    gate, record = check(seen, claim.attempt), _record(seen)
    txn = _fenced(seen)
    if gate.max_concurrent is not None:
        txn.compare.append(txns.none_created(claim_prefix(seen.gate), seen.revision))
    txn.success.append(txns.put(claim_key(seen.instance, seen.gate), encode(claim), lease))
    txn.success.append(_with_claims(seen, record, gate, gate.claims + 1))
    return PlannedClaim(txn, claim)


def renewal_txn(seen: ClaimSeen, lease: int, expires: datetime) -> PlannedClaim:
    """Say when the claim on this lease ends now.

    UnknownClaim where it is not in force; StaleAttempt or VerdictAlreadyGiven where there is nothing left to run.
    """
    claim = _own(seen, lease)
    _to_run(seen, claim.attempt)
    key, later = claim_key(seen.instance, seen.gate), claim.model_copy(update={"expires": expires})
    compare, keep = txns.unchanged(key, seen.claim_revision), txns.keep(key, encode(later))
    return PlannedClaim(rpc_pb2.TxnRequest(compare=[compare], success=[keep]), later)


def release_txn(seen: ClaimSeen, lease: int) -> PlannedClaim:
    """Give the claim on this lease back: it does not count. UnknownClaim where it is not in force."""
    claim = _own(seen, lease)
    txn = _fenced(seen)
    txn.success.append(txns.delete(claim_key(seen.instance, seen.gate)))
    gate = seen.record.gates.get(seen.gate) if seen.record else None
    if seen.record and gate and gate.attempt == claim.attempt and gate.claims:
        txn.success.append(_with_claims(seen, seen.record, gate, gate.claims - 1))
    return PlannedClaim(txn, claim)


def _fenced(seen: ClaimSeen) -> rpc_pb2.TxnRequest:
    key = claim_key(seen.instance, seen.gate)
    return rpc_pb2.TxnRequest(
        compare=[
            txns.unchanged(record_key(seen.instance), seen.record_revision),
            txns.unchanged(key, seen.claim_revision),
        ]
    )


def _with_claims(seen: ClaimSeen, record: Record, gate: Gate, count: int) -> txns.Operation:
    counted = with_gate(record, seen.gate, attempts.with_claims(gate, count))
    return txns.keep_record(seen.instance, records.encode(counted))


def _record(seen: ClaimSeen) -> Record:
    if seen.record is None:
        raise UnknownInstance(
            f"no instance {seen.instance}: it never registered through a proxy, or its lease ended",
            instance=seen.instance,
        )
    return seen.record


def _to_run(seen: ClaimSeen, attempt: int) -> Gate:
    """The gate whose attempt this is, and waits for a verdict: a continuous one does so while it has passed too."""
    gate = gate_of(_record(seen), seen.gate)
    if attempt != gate.attempt:
        raise attempts.stale_attempt(seen.gate, gate, f"the claim is for attempt {attempt}")
    if not gate.state.is_open and not gate.must_be_renewed:
        raise VerdictAlreadyGiven(
            f"attempt {attempt} of gate {seen.gate!r} was decided as {gate.state.lower()} by "
            f"{gate.reporter or 'unknown'}: there is nothing to run",
            gate=seen.gate,
            decided=gate.state.lower(),
        )
    return gate


def _own(seen: ClaimSeen, lease: int) -> Claim:
    if seen.claim is not None and seen.lease == lease:
        return seen.claim
    now = f"; {seen.claim.runner} has claimed it meanwhile" if seen.claim else ""
    raise UnknownClaim(
        f"gate {seen.gate!r} of instance {seen.instance} is not claimed with lease {lease:x}: the claim expired, was "
        f"released, or ended with a verdict{now}",
        gate=seen.gate,
    )


def _claimed(seen: ClaimSeen, attempt: int) -> GateClaimed:
    runner, until = "a runner of a newer version", ""
    if seen.claim is not None:
        runner, until = seen.claim.runner, f" until {seen.claim.expires:%Y-%m-%d %H:%M:%S} UTC"
    return GateClaimed(
        f"attempt {attempt} of gate {seen.gate!r} is claimed by {runner}{until}: run another, or try again then",
        gate=seen.gate,
        runner=runner,
    )
