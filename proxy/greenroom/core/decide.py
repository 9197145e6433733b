"""What should happen to an instance now, and why not yet: one pure answer for the reconciler, lists and people."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from greenroom.core.conflicts import Conflict, in_words
from greenroom.core.fleet import Limits, Standing
from greenroom.core.keyspace import BUDGET, InstanceId, Key
from greenroom.core.policy import OnConflict, Phase
from greenroom.core.record import Gate, GateState, Record, State
from greenroom.core.rollout_holds import RolloutHold, matching
from greenroom.core.transitions import ITSELF

DEADLINE_GRACE_SECONDS = 60.0
"""Reporters may have been waiting for this proxy, or for etcd, to come back: their verdicts get so long to arrive."""


REJECTED_BY_PERSON = "RejectedByPerson"
WITHDRAWN_BY_PERSON = "WithdrawnByPerson"
"""What a condition's reason says of an instance that waits for a person, and not for its gates alone."""
TO_BE_WITHDRAWN = "ToBeWithdrawn"
"""What it says of one that is released, though a continuous gate of it failed or was not renewed."""


class ConditionType(StrEnum):
    """The questions whose answers say why an instance is not released."""

    GATES_PASSED = "GatesPassed"
    NOT_ON_HOLD = "NotOnHold"
    BUDGET_AVAILABLE = "BudgetAvailable"
    NO_CONFLICT = "NoConflict"


@dataclass(frozen=True, slots=True)
class Condition:
    """One answer: `reason` for machines, `message` for people, `time` where it is known since when."""

    type: ConditionType
    status: bool
    reason: str
    message: str
    time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """Publish it now."""


@dataclass(frozen=True, slots=True)
class Reject:
    """This gate's time is up."""

    gate: str


@dataclass(frozen=True, slots=True)
class Lapse:
    """The pass of this continuous gate was not renewed: it must pass again before a release."""

    gate: str


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Take it out of service: this continuous gate failed, or was not renewed."""

    gate: str
    reason: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """So many claims of this gate's attempt ended without a verdict that no runner is to try it again."""

    gate: str


@dataclass(frozen=True, slots=True)
class RejectForConflict:
    """Its rules do not let it stand beside one that is released."""

    why: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before `until` (None: before something changes)."""

    until: datetime | None = None


Decision = Release | Reject | RejectForConflict | Lapse | Withdraw | GiveUp | Wait


def decide(
    record: Record,
    *,
    live_cards: int,
    rollout_holds: Sequence[RolloutHold],
    now: datetime,
    no_rejection_before: datetime | None = None,
    claimed: Collection[str] | None = None,
    conflicts: Sequence[Conflict] = (),
) -> Decision:
    """What to do with an instance at `now`.

    `live_cards` is how many cards (instance records not counted) wait for publication, or with hold `health` are
    public; of a released instance how many keys wait, and `record` has no marks of others (see `Record.with_held`).
    Deadlines are not held against anyone before `no_rejection_before`. `claimed` are the gates whose attempt a runner
    has claimed at the moment; None: that is not known here.
    """
    if record.state is State.RELEASED and (failed := _failed_pass(record)):
        return failed
    minded = _minded(record, conflicts)
    if minded and record.on_conflict is OnConflict.REJECT and record.state is State.HELD:
        return RejectForConflict(in_words(minded))
    if not minded and _is_due(record, live_cards, rollout_holds, now):
        return Release()
    if claimed is not None and (worn_out := _worn_out(record, claimed)):
        return GiveUp(worn_out)
    return _by_deadline(record, now, no_rejection_before)


def _minded(record: Record, conflicts: Sequence[Conflict]) -> Sequence[Conflict]:
    """Those that keep an instance back: a later card, or one that was withdrawn, is never rejected for them."""
    if record.on_conflict is OnConflict.WARN:
        return ()
    return [conflict for conflict in conflicts if conflict.is_public]


def is_ready(record: Record, *, live_cards: int) -> bool:
    """Whether nothing of the instance's own keeps it from being released, or its later cards from being published."""
    if record.state is State.REJECTED or (record.state is State.WITHDRAWN and record.withdrawn_by):
        return False
    # Some rule asked for gates, or there would be no record: one without any has lost them, and proves nothing.
    gates = record.waited_for
    return live_cards > 0 and bool(gates) and all(gate.state.is_through for gate in gates.values())


def _failed_pass(record: Record) -> Withdraw | None:
    """What a released instance was to be withdrawn for at once. A gate that only a later card failed never passed."""
    failed = (
        Withdraw(name, f"gate {name} failed: {gate.reason}" if gate.reason else f"gate {name} failed")
        for name, gate in record.binding.items()
        if gate.phase is Phase.CONTINUOUS and gate.state is GateState.FAILED and gate.passed is not None
    )
    return next(failed, None)


def _not_renewed(name: str, gate: Gate) -> Withdraw:
    return Withdraw(name, f"gate {name} was not renewed within {gate.ttl_seconds:g} s")


def why_in_service(instance: InstanceId, record: Record, limits: Limits, now: datetime | None = None) -> str:
    """Why a released instance serves, though automation has reason to withdraw it; empty where it has none.

    `now` None: only failed gates are looked at.
    """
    if record.state is not State.RELEASED or record.dry_run:
        return ""
    binding = record.binding.items()
    lapsed = (_not_renewed(name, gate) for name, gate in binding if now is not None and gate.has_lapsed(now))
    if (due := _failed_pass(record) or next(lapsed, None)) is None:
        return ""
    floor = limits.floor_as_known(instance, record)
    kept = f"it stays in service, since {floor}; a person may withdraw it" if floor else "it is about to be withdrawn"
    return f"{due.reason}; {kept}"


def _by_deadline(record: Record, now: datetime, no_rejection_before: datetime | None) -> Decision:
    waiting = [(gate.deadline, name) for name, gate in record.binding.items() if _at_deadline(record, name, gate)]
    if not waiting:
        return Wait()
    deadline, name = min(waiting, key=lambda item: item[0])
    due = max(deadline, no_rejection_before or deadline)
    decision = _at_deadline(record, name, record.gates[name])
    return decision if due <= now and decision else Wait(due)


def _at_deadline(record: Record, name: str, gate: Gate) -> Decision | None:
    """What a gate's deadline leads to when it comes; None where nobody waits for it."""
    if gate.must_be_renewed:
        if record.state is State.RELEASED:
            return _not_renewed(name, gate)
        return Lapse(name) if record.state in (State.HELD, State.WITHDRAWN) else None
    waits = record.state in (State.HELD, State.RELEASED) and name in record.waited_for
    return Reject(name) if waits and gate.state.is_open else None


def deadline_counts(record: Record, name: str) -> bool:
    """Whether the gate's attempt fails by itself at its deadline; not where it is decided, or nobody waits for it."""
    return isinstance(_at_deadline(record, name, record.gates[name]), Reject) and name in record.binding


def _worn_out(record: Record, claimed: Collection[str]) -> str | None:
    """The first gate that waits for a runner in vain, and does not say so yet."""
    if record.state is State.REJECTED:
        return None
    waiting = ((name, gate) for name, gate in record.waited_for.items() if gate.state.is_open and gate.is_worn_out)
    silent = (name for name, gate in waiting if name not in claimed and not _was_given_up(gate))
    return next(silent, None)


def _was_given_up(gate: Gate) -> bool:
    return gate.state is GateState.ERROR and gate.reporter == ITSELF


def grace_end(since: datetime) -> datetime:
    """Until when deadlines are not held against anyone, after a start or an outage that ended at `since`."""
    return since + timedelta(seconds=DEADLINE_GRACE_SECONDS)


def waits_its_turn(
    record: Record,
    *,
    live_cards: int,
    rollout_holds: Sequence[RolloutHold],
    now: datetime | None = None,
    conflicts: Sequence[Conflict] = (),
) -> bool:
    """Whether only the budget, and those before it, can keep an instance from being released.

    `now` None: a pass counts until the record says that it lapsed. What is in dry run serves, and takes no turn; nor
    do later cards of a released instance.
    """
    takes_one = not record.dry_run and record.state is not State.RELEASED and not _minded(record, conflicts)
    return takes_one and _is_due(record, live_cards, rollout_holds, now)


def _is_due(record: Record, live_cards: int, rollout_holds: Sequence[RolloutHold], now: datetime | None) -> bool:
    if now is not None and any(gate.has_lapsed(now) for gate in record.binding.values()):
        return False
    return is_ready(record, live_cards=live_cards) and not matching(rollout_holds, record)


def lapses_at(record: Record) -> datetime | None:
    """When the first of the passes that must be renewed is over; None where none must be."""
    return min((gate.deadline for gate in record.binding.values() if gate.must_be_renewed), default=None)


def conditions(
    record: Record,
    *,
    live_cards: int,
    rollout_holds: Sequence[RolloutHold],
    outside: Sequence[Key] = (),
    standing: Standing | None = None,
    conflicts: Sequence[Conflict] = (),
    in_service: str = "",
) -> tuple[Condition, ...]:
    """Why an instance is, or is not, released. `outside` are its cards that are public though it is not.

    `standing` None: releases are not limited. `in_service`: see `why_in_service`.
    """
    waits = waits_its_turn(record, live_cards=live_cards, rollout_holds=rollout_holds, conflicts=conflicts)
    gates_passed = _gates_passed(record, live_cards, outside)
    return (
        _to_be_withdrawn(in_service, gates_passed) if in_service else gates_passed,
        _not_on_hold(record, rollout_holds),
        _budget_available(record, standing, waits=waits),
        _no_conflict(record, conflicts),
    )


def _to_be_withdrawn(in_service: str, gates_passed: Condition) -> Condition:
    """Of one that serves all the same: its later cards may wait for gates, too, and would not be told of else."""
    said = (in_service,) if gates_passed.status else (in_service, gates_passed.message)
    return Condition(ConditionType.GATES_PASSED, False, TO_BE_WITHDRAWN, "; ".join(said))


def _gates_passed(record: Record, live_cards: int, outside: Sequence[Key]) -> Condition:
    kind = ConditionType.GATES_PASSED
    missing = {name: gate for name, gate in record.waited_for.items() if not gate.state.is_through}
    cardless = () if live_cards or record.state is State.RELEASED else (_no_card(outside),)
    if (by_person := _kept_out(record)) is not None:
        reason, said = by_person
        failed = (_waits_for(record, name) for name, gate in missing.items() if _failed(gate))
        ends = f"{said}; a retry or override ends that"
        return Condition(kind, False, reason, "; ".join((ends, *failed, *cardless)))
    if missing:
        reason = "GateFailed" if any(_failed(gate) for gate in missing.values()) else "GatesOpen"
        waits = "; ".join((*(_waits_for(record, name) for name in missing), *cardless))
        return Condition(kind, False, reason, f"{_later_cards(record)}{waits}")
    if not record.binding and record.state is not State.RELEASED:
        return Condition(kind, False, "NoGates", "the record names no gate, so nothing says that it was checked")
    if record.state is not State.RELEASED and not live_cards:
        return Condition(kind, False, "NoCard", _no_card(outside))
    decided = [gate.decided for gate in record.binding.values() if gate.decided]
    message = record.reason or "every gate passed or was overridden"
    if record.state is State.RELEASED and not all(gate.state.is_through for gate in record.gates.values()):
        message = "whatever it has registered is public"  # A later card that is gone left gates that nobody waits for.
    return Condition(kind, True, "AllPassed", message, max(decided, default=None))


def _kept_out(record: Record) -> tuple[str, str] | None:
    """The word and the sentence about the person who keeps it out, whatever its gates say; None where nobody does."""
    if record.rejected_by:
        return REJECTED_BY_PERSON, f"{record.rejected_by} rejected it"
    if record.state is State.WITHDRAWN and record.withdrawn_by:
        return WITHDRAWN_BY_PERSON, f"{record.withdrawn_by} withdrew it"
    return None


def _later_cards(record: Record) -> str:
    """Which cards of a released instance are meant."""
    if not record.later:
        return ""
    more = f" and {len(record.later) - 1} more" if len(record.later) > 1 else ""
    return f"it is released, but {record.later[0].key}{more}, which came later: "


def _no_card(outside: Sequence[Key]) -> str:
    """Instance records are published with a card; one whose card no rule matched has none to wait for."""
    if not outside:
        return "no card is registered at the moment"
    more = f" and {len(outside) - 1} more" if len(outside) > 1 else ""
    first = outside[0].decode("utf-8", "backslashreplace")
    return f"no card is held that it could be published with: {first}{more} is public already, as no rule held it"


def _failed(gate: Gate) -> bool:
    return not gate.state.is_open


def _waits_for(record: Record, name: str) -> str:
    gate = record.gates[name]
    if _failed(gate):
        return f"{name} failed: {gate.reason}" if gate.reason else f"{name} failed"
    last = f", last {gate.state.lower()}: {gate.reason}" if gate.state != "PENDING" else ""
    until = f" until {gate.deadline:%Y-%m-%d %H:%M:%S} UTC" if deadline_counts(record, name) else ""
    return f"{name}{until} (attempt {gate.attempt}{_forgiven(gate)}{last})"


def _forgiven(gate: Gate) -> str:
    if not gate.failures:
        return ""
    left = gate.failure_limit - gate.failures
    more = f"{left} more {'is' if left == 1 else 'are'} forgiven" if left > 0 else "the next one counts"
    return f" after {gate.failures} that failed, {more}"


def _no_conflict(record: Record, conflicts: Sequence[Conflict]) -> Condition:
    kind = ConditionType.NO_CONFLICT
    if record.conflict:
        return Condition(kind, False, "RejectedForConflict", record.conflict)
    if not conflicts:
        compared = record.state is not State.RELEASED or record.later
        message = "nobody's card of the same model is configured otherwise" if compared else "it is released"
        return Condition(kind, True, "NoConflict", message)
    reason = "ConflictsWithReleased" if conflicts[0].is_public else "ConflictsWithHeld"
    waits = "; it waits as long as one that is released differs" if _minded(record, conflicts) else ""
    return Condition(kind, False, reason, f"{in_words(conflicts)}{waits}")


def _not_on_hold(record: Record, rollout_holds: Sequence[RolloutHold]) -> Condition:
    holds = matching(rollout_holds, record)
    if not holds:
        return Condition(ConditionType.NOT_ON_HOLD, True, "NoRolloutHold", "no rollout hold applies")
    said = "; ".join(f"rollout hold {hold.hold_id} by {hold.actor}: {hold.reason}" for hold in holds)
    return Condition(ConditionType.NOT_ON_HOLD, False, "RolloutHold", said, holds[0].created)


def _budget_available(record: Record, standing: Standing | None, *, waits: bool) -> Condition:
    kind = ConditionType.BUDGET_AVAILABLE
    if standing is None:
        return Condition(kind, True, "NoBudget", "releases are not limited")
    if record.state is State.RELEASED:
        return Condition(kind, True, "Released", "it waits for no other release")
    if record.dry_run:
        return Condition(kind, True, "DryRun", "a dry run takes no place among the releases")
    if not standing.readable:
        said = f"the key {BUDGET!r} cannot be read, so nothing is released: delete it in etcd to begin anew"
        return Condition(kind, False, "BudgetUnreadable", said)
    if not waits:
        return Condition(kind, True, "NotQueued", f"it is not in the queue; {_in_flight(standing)}")
    place = f"place {standing.position} of {standing.length} in the queue" if standing.position else "in the queue"
    return Condition(kind, False, "InQueue", f"{place}; {_in_flight(standing)}")


def _in_flight(standing: Standing) -> str:
    if standing.in_flight is None:
        return f"at most {standing.max_in_flight} releases are in flight at once"
    return f"{standing.in_flight} of {standing.max_in_flight} releases in flight"
