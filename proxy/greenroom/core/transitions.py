"""The life of an instance: the functions that go where the table of `events` leads.

The rules:

* Nobody sets an instance's state: it follows from its gates. One failed gate is enough for REJECTED, and it takes a
  retry of each failed one to come back to HELD. Where the table says SETTLE, the gates are asked. A conflict that its
  rules reject is like one more failed gate, which a retry, an override or a change of a card ends.
* What a person kept out, by a rejection or a withdrawal, no gate brings back: only a person's retry or override does.
* A reporter looked at the cards of one moment. When a card comes or changes, whatever passed must be checked again, so
  each gate that has not failed gets another attempt. Their numbers only rise, until the lease ends with the record.
* The first `passed` or `failed` decides an attempt. `inconclusive` and `error` are noted, and decide nothing. A failed
  attempt that is forgiven (see `attempts`) is no failed gate: the next one is open.
* An instance record is not checked by itself: it brings the gates that only its own rules ask for, no new attempts.
* A later card, which a released instance registers, is held by itself: the gates that it waits for begin anew, and
  whatever becomes of them, what is public stays public. Its mark in the record says which gates those are.
* An event that the table refuses raises, and the record is as it was.

The lease's end is not in the table: etcd removes the record itself.
"""

from datetime import datetime
from enum import StrEnum

from greenroom.core.attempts import (
    after_failure,
    after_verdict,
    first_attempt,
    is_renewal,
    next_attempt,
    stale_attempt,
    still_passed,
    was_forgiven,
)
from greenroom.core.events import APART, REFUSED, SETTLE, TABLE, Event, Settle
from greenroom.core.policy import Hold, OnConflict, Requirements
from greenroom.core.record import (
    ALREADY_PUBLIC,
    Gate,
    GatedEntry,
    GateState,
    Record,
    State,
    Transition,
    bounded_reason,
)
from greenroom.core.templates import KeyKind
from greenroom.errors import UnknownGate, VerdictAlreadyGiven, WrongState

ITSELF = "greenroom"
"""The actor of what no person and no reporter decided."""
MAX_EVENT_CHARACTERS = 200
"""In the trail, whose lines are bounded. Names of gates are as long as DNS labels, and any number can be retried."""


class Outcome(StrEnum):
    """What a verdict says."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    ERROR = "error"

    @property
    def gate_state(self) -> GateState:
        """The gate's state after this verdict."""
        return GateState(self.value.upper())


def opened(entry: GatedEntry, needs: Requirements, now: datetime, public: tuple[GatedEntry, ...] = ()) -> Record:
    """The record of an instance that registers its first gated key; `public`: those that it has outside already."""
    line = Transition(time=now, actor=ITSELF, event="opened", to_state=State.HELD, reason=entry.key)
    return Record(
        state=State.HELD,
        hold=needs.hold,
        cards=(*public, entry),
        gates=_first_attempts(needs, now),
        first_held=now,
        dry_run=needs.dry_run,
        on_conflict=needs.on_conflict,
        transitions=(line,),
    )


def opened_as_public(entries: tuple[GatedEntry, ...], needs: Requirements, now: datetime) -> Record:
    """The record of an instance that served before it was first seen: its gates count as overridden."""
    line = Transition(time=now, actor=ITSELF, event="opened", to_state=State.RELEASED, reason=ALREADY_PUBLIC)
    gates = {
        name: gate.model_copy(
            update={"state": GateState.OVERRIDDEN, "decided": now, "reporter": ITSELF, "reason": ALREADY_PUBLIC}
        )
        for name, gate in _first_attempts(needs, now).items()
    }
    return Record(
        state=State.RELEASED,
        hold=needs.hold,
        reason=ALREADY_PUBLIC,
        cards=entries,
        gates=gates,
        released=now,
        dry_run=needs.dry_run,
        on_conflict=needs.on_conflict,
        transitions=(line,),
    )


def card_added(record: Record, entry: GatedEntry, needs: Requirements | None, now: datetime) -> Record:
    """A gated key that is held; it becomes the last in the order of publication. Of a released instance: marked."""
    others = tuple(other for other in record.cards if other.key != entry.key)
    grown = record.model_copy(update={"cards": (*others, entry)})
    return _checked_anew(grown, entry, needs, Event.CARD_ADDED, now)


def card_changed(record: Record, entry: GatedEntry, needs: Requirements | None, now: datetime) -> Record:
    """A held card changed in more than its taints; its place in the order stays. Of a released instance: marked."""
    cards = tuple(entry if other.key == entry.key else other for other in record.cards)
    return _checked_anew(record.model_copy(update={"cards": cards}), entry, needs, Event.CARD_CHANGED, now)


def card_published(record: Record, entry: GatedEntry, needs: Requirements | None = None) -> Record:
    """A released instance registered one more key, straight to its public place."""
    others = tuple(other for other in record.cards if other.key != entry.key)
    return _with_rules(record.model_copy(update={"cards": (*others, entry)}), needs)


def with_verdict(
    record: Record, gate_name: str, attempt: int, outcome: Outcome, *, reason: str, reporter: str, now: datetime
) -> Record:
    """The record after a verdict; the record itself for one that says what the last one said."""
    gate = gate_of(record, gate_name)
    if attempt != gate.attempt:
        return _for_another_attempt(record, gate_name, gate, attempt, outcome)
    renews = gate.must_be_renewed and outcome in (Outcome.PASSED, Outcome.FAILED)
    if not gate.state.is_open and not renews:
        return _repeated(record, gate_name, gate, outcome)
    judged = after_verdict(gate, outcome.gate_state, reason=reason, reporter=reporter, now=now)
    # What rules in dry run ask for is noted in every state, and moves nothing.
    is_only_noted = gate_name not in record.binding or record.is_reopened(gate_name)
    goal = record.state if is_only_noted else _goal(record, _event(gate, judged))
    if gate.must_be_renewed and judged.attempt != gate.attempt and record.state is State.RELEASED:
        judged = still_passed(gate, judged)
    if judged is gate:
        return record
    after = with_gate(record, gate_name, judged)
    if judged.attempt == gate.attempt and judged.state is gate.state:
        # Undecided or passed as before: reporters say so for as long as they may, and would fill the whole trail.
        return after
    why = reason if judged.attempt != gate.attempt else judged.reason
    return _moved(after, goal, now, reporter, f"{gate_name} {_word(gate, judged)}", why)


def deadline_passed(record: Record, gate_name: str, now: datetime) -> Record:
    """The record after a gate's time was up. WrongState for a gate that was decided in time."""
    gate = gate_of(record, gate_name)
    goal = _goal(record, Event.DEADLINE_PASSED)
    if not gate.state.is_open:
        raise WrongState(f"gate {gate_name!r} was decided as {gate.state.lower()} in time", state=record.state)
    last = f"; last: {gate.state.lower()}: {gate.reason}" if gate.state is not GateState.PENDING else ""
    reason = bounded_reason(f"no verdict within {gate.timeout_seconds:g} s{last}")
    failed = gate.model_copy(update={"state": GateState.FAILED, "reason": reason, "reporter": ITSELF, "decided": now})
    return _moved(with_gate(record, gate_name, failed), goal, now, ITSELF, f"{gate_name} deadline passed", reason)


def released(record: Record, now: datetime, actor: str = ITSELF) -> Record:
    """The record as the releasing Txn writes it; that which publishes later cards is another event than the release."""
    goal = _goal(record, Event.RELEASE)
    assert isinstance(goal, State)
    if record.state is State.RELEASED:
        keys = ", ".join(entry.key for entry in record.later)
        return record.with_held(()).with_transition(now, actor, "published", goal, keys)
    return record.model_copy(update={"released": now, "withdrawn_by": ""}).with_transition(now, actor, "released", goal)


def overridden(record: Record, actor: str, reason: str, now: datetime) -> Record:
    """Every gate that is not through set aside by a person, who answers for it by name and reason."""
    goal = _goal(record, Event.OVERRIDE)
    words = {"state": GateState.OVERRIDDEN, "reason": bounded_reason(reason), "reporter": actor, "decided": now}
    set_aside = {
        name: gate.model_copy(update=words) for name, gate in record.waited_for.items() if _is_missing(gate, now)
    }
    # Whoever sets gates aside answers for the whole release, conflicts too.
    accepted = {"on_conflict": OnConflict.WARN, "conflict": "", "withdrawn_by": "", "rejected_by": ""}
    settled = record.model_copy(update={"gates": {**record.gates, **set_aside}, **accepted})
    return _moved(settled, goal, now, actor, "override", reason)


def retried(record: Record, gate_names: tuple[str, ...], actor: str, reason: str, now: datetime) -> Record:
    """A new attempt of the named gates, or with none named of every gate that is not through.

    WrongState for a gate of a released instance that no later card waits for.
    """
    only_reopened = bool(gate_names) and all(map(record.is_reopened, gate_names))
    goal = record.state if only_reopened else _goal(record, Event.RETRY)
    asked = gate_names or tuple(name for name, gate in record.waited_for.items() if _is_missing(gate, now))
    names = tuple(dict.fromkeys((*asked, *_overslept(record, now))))
    gates = dict(record.gates)
    for name in names:
        gates[name] = next_attempt(gate_of(record, name), now)
        if record.state is State.RELEASED and not (name in record.waited_for or record.is_reopened(name)):
            raise WrongState(f"no later card of the released instance waits for gate {name!r}", state=record.state)
    again = record.model_copy(update={"gates": gates, "withdrawn_by": "", "rejected_by": "", "conflict": ""})
    event = " ".join((Event.RETRY, *names))
    told = event if len(event) <= MAX_EVENT_CHARACTERS else f"{Event.RETRY} {len(names)} gates"
    return _moved(again, goal, now, actor, told, reason)


def rejected(record: Record, actor: str, reason: str, now: datetime) -> Record:
    """Kept out by a person, whatever its gates say. Of one that was withdrawn, too: then it stays taken back."""
    goal = _goal(record, Event.REJECT)
    taken_back = record.withdrawn_by or (actor if record.state is State.WITHDRAWN else "")
    kept_out = record.model_copy(update={"rejected_by": actor, "withdrawn_by": taken_back})
    return _moved(kept_out, goal, now, actor, Event.REJECT, reason)


def withdrawn(record: Record, actor: str, reason: str, now: datetime, *, by_person: bool) -> Record:
    """The record as the withdrawing Txn writes it: nothing that passed counts any more."""
    goal = _goal(record, Event.WITHDRAW)
    assert isinstance(goal, State)
    gates = {
        name: (after_failure if gate.state is GateState.FAILED else next_attempt)(gate, now)
        for name, gate in record.gates.items()
    }
    # Whatever opened it as released is over: from here on its gates decide.
    by = actor if by_person else ""
    taken = record.with_held(()).model_copy(update={"gates": gates, "reason": "", "withdrawn_by": by})
    return taken.with_transition(now, actor, "withdraw", goal, reason)


def conflicted(record: Record, why: str, now: datetime) -> Record:
    """The record of an instance that its rules reject for a conflict with a released one."""
    goal = _goal(record, Event.CONFLICT)
    return _moved(record.model_copy(update={"conflict": why}), goal, now, ITSELF, Event.CONFLICT, why)


def dropped(record: Record, actor: str, reason: str, now: datetime, public: tuple[GatedEntry, ...] = ()) -> Record:
    """The record without its held cards, and with those that are `public` all the same; attempts stay as they are.

    Of a released instance it is without its later cards.
    """
    goal = _goal(record, Event.DROP)
    assert isinstance(goal, State)
    is_released = record.state is State.RELEASED
    kept = tuple(entry for entry in record.cards if not entry.later_gates) if is_released else public
    return record.model_copy(update={"cards": kept}).with_transition(now, actor, "drop", goal, reason)


def lease_revoked(record: Record, actor: str, reason: str, now: datetime) -> Record:
    """The record as those who follow it see it last: who ended its lease, and why."""
    goal = _goal(record, Event.REVOKE_LEASE)
    return _moved(record, goal, now, actor, Event.REVOKE_LEASE, reason)


def by_itself(
    record: Record, event: Event, gate_name: str, gate: Gate, now: datetime, *, what: str, reason: str
) -> Record:
    """The record after something happened to one gate that nobody did; `what` is the trail's word for it."""
    return _moved(with_gate(record, gate_name, gate), _goal(record, event), now, ITSELF, f"{gate_name} {what}", reason)


def gate_of(record: Record, name: str) -> Gate:
    """The gate of that name; UnknownGate names those that there are."""
    if name not in record.gates:
        known = ", ".join(sorted(record.gates)) or "none"
        raise UnknownGate(f"the instance has no gate {name!r}; its gates are: {known}", gate=name)
    return record.gates[name]


def with_gate(record: Record, name: str, gate: Gate) -> Record:
    """The record with another value of one gate, in whatever state."""
    return record.model_copy(update={"gates": {**record.gates, name: gate}})


def _goal(record: Record, event: Event) -> State | Settle:
    goal = TABLE[record.state, event]
    if goal == APART and record.later:
        return record.state
    if goal in (REFUSED, APART):
        raise WrongState(f"{event} is refused: the instance is {record.state}", state=record.state)
    return goal


def _moved(record: Record, goal: State | Settle, now: datetime, actor: str, event: str, reason: str) -> Record:
    target = _settled(record) if goal == SETTLE else goal
    return record.with_transition(now, actor, event, target, reason)


def _settled(record: Record) -> State:
    """Where the gates put an instance that waits, unless a person keeps it out."""
    failed = any(gate.state is GateState.FAILED for gate in record.binding.values())
    return State.REJECTED if failed or record.rejected_by or record.conflict else State.HELD


def _overslept(record: Record, now: datetime) -> tuple[str, ...]:
    """Gates whose time was up while the instance was rejected, when no deadline counts: it would count at once now."""
    if record.state is not State.REJECTED:
        return ()
    return tuple(name for name, gate in record.binding.items() if gate.state.is_open and gate.deadline <= now)


def _is_missing(gate: Gate, now: datetime) -> bool:
    """Whether a release would wait for it."""
    return not gate.state.is_through or gate.has_lapsed(now)


def _event(before: Gate, after: Gate) -> Event:
    """What a verdict on one gate means for the instance."""
    if after.attempt != before.attempt:
        return Event.ATTEMPT_FAILED
    if before.must_be_renewed:
        return Event.PASS_RENEWED if is_renewal(before, after) else Event.PASS_FAILED
    decided = {GateState.PASSED: Event.GATE_PASSED, GateState.FAILED: Event.GATE_FAILED}
    return decided.get(after.state, Event.GATE_UNDECIDED)


def _word(before: Gate, after: Gate) -> str:
    """How the trail tells it."""
    return f"attempt {before.attempt} failed" if after.attempt != before.attempt else after.state.lower()


def _for_another_attempt(record: Record, name: str, gate: Gate, attempt: int, outcome: Outcome) -> Record:
    if was_forgiven(gate, attempt, outcome.gate_state):
        return record
    raise stale_attempt(name, gate, f"the verdict is for attempt {attempt}")


def _repeated(record: Record, name: str, gate: Gate, outcome: Outcome) -> Record:
    if gate.state is outcome.gate_state:
        return record
    if gate.must_be_renewed:
        raise VerdictAlreadyGiven(
            f"gate {name!r} has passed until {gate.deadline:%Y-%m-%d %H:%M:%S} UTC, and {outcome} says nothing of "
            "that: report passed to renew it, or failed",
            gate=name,
            decided=gate.state.lower(),
        )
    raise VerdictAlreadyGiven(
        f"attempt {gate.attempt} of gate {name!r} was decided as {gate.state.lower()} by {gate.reporter or 'unknown'}; "
        f"{outcome} comes too late: only a new attempt can be decided otherwise "
        "(greenroom retry; of a released instance, withdraw)",
        gate=name,
        decided=gate.state.lower(),
    )


def _checked_anew(record: Record, entry: GatedEntry, needs: Requirements | None, event: Event, now: datetime) -> Record:
    """What a new or changed key does to hold, gates and generation. A released instance's gates are done with.

    But for those that a later card is marked with: they have not seen it.
    """
    goal = _goal(record, event)
    if record.state is State.RELEASED and not entry.later_gates:
        return _with_rules(record, needs)
    asked = _first_attempts(needs, now) if needs else {}
    concerned = entry.later_gates or (*record.gates, *asked)
    checked = entry.kind is KeyKind.CARD
    gates = {
        name: _again(record, name, now) if checked and name in concerned else gate
        for name, gate in record.gates.items()
    }
    new = {name: gate for name, gate in asked.items() if name in concerned and name not in gates}
    kept = _with_rules(record.model_copy(update={"gates": {**gates, **new}}), needs)
    if kept.gates == record.gates and not checked:
        return kept
    anew = kept.model_copy(update={"generation": record.generation + 1, "conflict": ""} if checked else {})
    if record.dry_run and not anew.dry_run and not anew.withdrawn_by and record.state is not State.RELEASED:
        # What rules in dry run would have done is over: from here on it counts.
        goal = SETTLE
    return _moved(anew, goal, now, ITSELF, event, entry.key)


def _again(record: Record, name: str, now: datetime) -> Gate:
    """Another attempt, unless it has failed and counts: that is for a person to retry."""
    gate = record.gates[name]
    return gate if gate.state is GateState.FAILED and name in record.binding else next_attempt(gate, now)


def _first_attempts(needs: Requirements, now: datetime) -> dict[str, Gate]:
    return {name: first_attempt(gate, now, dry_run=name in needs.dry_gates) for name, gate in needs.gates.items()}


def _with_rules(record: Record, needs: Requirements | None) -> Record:
    """The record with one more key's rules. The hold `health` stays: keys of the instance are public already.

    A gate of a dry run that an obeyed rule asks for too counts from now on, and it is no dry run of the instance's any
    more.
    """
    if needs is None:
        return record
    hold = record.hold if record.hold is Hold.HEALTH else record.hold.stronger(needs.hold)
    obeyed = needs.gates.keys() - needs.dry_gates
    counting = {name: gate for name, gate in record.gates.items() if gate.dry_run and name in obeyed}
    gates = {**record.gates, **{name: gate.model_copy(update={"dry_run": False}) for name, gate in counting.items()}}
    is_dry = record.dry_run and all(gate.dry_run for gate in gates.values())
    on_conflict = record.on_conflict.stronger(needs.on_conflict)
    return record.model_copy(update={"hold": hold, "gates": gates, "dry_run": is_dry, "on_conflict": on_conflict})
