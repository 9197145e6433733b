"""The life of an instance: every (state, event) pair and where it leads, and the functions that go there.

The rules:

* Nobody sets an instance's state: it follows from its gates. One failed gate is enough for REJECTED, and it takes a
  retry of each failed one to come back to HELD. Where the table says SETTLE, the gates are asked.
* What a person kept out, by a rejection or a withdrawal, no gate brings back: only a person's retry or override does.
* A reporter looked at the cards of one moment. When a card comes or changes, whatever passed must be checked again, so
  each gate that has not failed gets another attempt. Their numbers only rise, until the lease ends with the record.
* The first `passed` or `failed` decides an attempt. `inconclusive` and `error` are noted, and decide nothing.
* An instance record is not checked by itself: it brings the gates that only its own rules ask for, no new attempts.
* An event that the table refuses raises, and the record is as it was.

The lease's end is not in the table: etcd removes the record itself.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from greenroom.core.policy import GatePolicy, Hold, Requirements
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
from greenroom.errors import StaleAttempt, UnknownGate, VerdictAlreadyGiven, WrongState

ITSELF = "greenroom"
"""The actor of what no person and no reporter decided."""
MAX_EVENT_CHARACTERS = 200
"""In the trail, whose lines are bounded. Names of gates are as long as DNS labels, and any number can be retried."""


class Event(StrEnum):
    """What can happen to an instance that has a record."""

    CARD_ADDED = "card added"
    CARD_CHANGED = "card changed"
    GATE_PASSED = "gate passed"
    GATE_FAILED = "gate failed"
    GATE_UNDECIDED = "gate undecided"
    DEADLINE_PASSED = "deadline passed"
    RELEASE = "release"
    OVERRIDE = "override"
    RETRY = "retry"
    REJECT = "reject"
    WITHDRAW = "withdraw"
    DROP = "drop"
    REVOKE_LEASE = "revoke lease"


Refused = Literal["refused"]
Settle = Literal["settle"]
REFUSED: Refused = "refused"
SETTLE: Settle = "settle"

_H, _L, _J, _W = State.HELD, State.RELEASED, State.REJECTED, State.WITHDRAWN
TABLE: Mapping[tuple[State, Event], State | Refused | Settle] = {
    (_H, Event.CARD_ADDED): _H,
    (_H, Event.CARD_CHANGED): _H,
    (_H, Event.GATE_PASSED): SETTLE,
    (_H, Event.GATE_FAILED): _J,
    (_H, Event.GATE_UNDECIDED): _H,
    (_H, Event.DEADLINE_PASSED): _J,
    (_H, Event.RELEASE): _L,
    (_H, Event.OVERRIDE): SETTLE,
    (_H, Event.RETRY): SETTLE,
    (_H, Event.REJECT): _J,
    (_H, Event.WITHDRAW): REFUSED,
    (_H, Event.DROP): _H,
    (_H, Event.REVOKE_LEASE): _H,
    (_L, Event.CARD_ADDED): _L,
    (_L, Event.CARD_CHANGED): _L,
    (_L, Event.GATE_PASSED): REFUSED,
    (_L, Event.GATE_FAILED): REFUSED,
    (_L, Event.GATE_UNDECIDED): REFUSED,
    (_L, Event.DEADLINE_PASSED): REFUSED,
    (_L, Event.RELEASE): REFUSED,
    (_L, Event.OVERRIDE): REFUSED,
    (_L, Event.RETRY): REFUSED,
    (_L, Event.REJECT): REFUSED,
    (_L, Event.WITHDRAW): _W,
    (_L, Event.DROP): REFUSED,
    (_L, Event.REVOKE_LEASE): _L,
    (_J, Event.CARD_ADDED): _J,
    (_J, Event.CARD_CHANGED): _J,
    (_J, Event.GATE_PASSED): SETTLE,
    (_J, Event.GATE_FAILED): _J,
    (_J, Event.GATE_UNDECIDED): _J,
    (_J, Event.DEADLINE_PASSED): REFUSED,
    (_J, Event.RELEASE): REFUSED,
    (_J, Event.OVERRIDE): SETTLE,
    (_J, Event.RETRY): SETTLE,
    (_J, Event.REJECT): _J,
    (_J, Event.WITHDRAW): REFUSED,
    (_J, Event.DROP): _J,
    (_J, Event.REVOKE_LEASE): _J,
    (_W, Event.CARD_ADDED): _W,
    (_W, Event.CARD_CHANGED): _W,
    (_W, Event.GATE_PASSED): _W,
    (_W, Event.GATE_FAILED): _J,
    (_W, Event.GATE_UNDECIDED): _W,
    (_W, Event.DEADLINE_PASSED): REFUSED,
    (_W, Event.RELEASE): _L,
    (_W, Event.OVERRIDE): SETTLE,
    (_W, Event.RETRY): _W,
    (_W, Event.REJECT): _J,
    (_W, Event.WITHDRAW): REFUSED,
    (_W, Event.DROP): _W,
    (_W, Event.REVOKE_LEASE): _W,
}


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

    @property
    def event(self) -> Event:
        """What it means for the instance."""
        decided = {Outcome.PASSED: Event.GATE_PASSED, Outcome.FAILED: Event.GATE_FAILED}
        return decided.get(self, Event.GATE_UNDECIDED)


def opened(entry: GatedEntry, needs: Requirements, now: datetime, public: tuple[GatedEntry, ...] = ()) -> Record:
    """The record of an instance that registers its first gated key; `public`: those that it has outside already."""
    line = Transition(time=now, actor=ITSELF, event="opened", to_state=State.HELD, reason=entry.key)
    gates = {name: _first_attempt(gate, now) for name, gate in needs.gates.items()}
    return Record(
        state=State.HELD, hold=needs.hold, cards=(*public, entry), gates=gates, first_held=now, transitions=(line,)
    )


def opened_as_public(entries: tuple[GatedEntry, ...], needs: Requirements, now: datetime) -> Record:
    """The record of an instance that served before it was first seen: its gates count as overridden."""
    line = Transition(time=now, actor=ITSELF, event="opened", to_state=State.RELEASED, reason=ALREADY_PUBLIC)
    gates = {
        name: _first_attempt(gate, now).model_copy(
            update={"state": GateState.OVERRIDDEN, "decided": now, "reporter": ITSELF, "reason": ALREADY_PUBLIC}
        )
        for name, gate in needs.gates.items()
    }
    return Record(
        state=State.RELEASED,
        hold=needs.hold,
        reason=ALREADY_PUBLIC,
        cards=entries,
        gates=gates,
        released=now,
        transitions=(line,),
    )


def card_added(record: Record, entry: GatedEntry, needs: Requirements | None, now: datetime) -> Record:
    """A gated key registered while the instance waits; it becomes the last in the order of publication."""
    others = tuple(other for other in record.cards if other.key != entry.key)
    grown = record.model_copy(update={"cards": (*others, entry)})
    return _checked_anew(grown, entry, needs, Event.CARD_ADDED, now)


def card_changed(record: Record, entry: GatedEntry, needs: Requirements | None, now: datetime) -> Record:
    """A waiting card changed in more than its taints; its place in the order stays."""
    cards = tuple(entry if other.key == entry.key else other for other in record.cards)
    return _checked_anew(record.model_copy(update={"cards": cards}), entry, needs, Event.CARD_CHANGED, now)


def card_published(record: Record, entry: GatedEntry, needs: Requirements | None = None) -> Record:
    """A released instance registered one more key, straight to its public place."""
    others = tuple(other for other in record.cards if other.key != entry.key)
    return record.model_copy(update={"cards": (*others, entry), "hold": _hold_with(record, needs)})


def with_verdict(
    record: Record, gate_name: str, attempt: int, outcome: Outcome, *, reason: str, reporter: str, now: datetime
) -> Record:
    """The record after a verdict; the record itself for one that says what the last one said."""
    gate = gate_of(record, gate_name)
    if attempt != gate.attempt:
        raise StaleAttempt(
            f"gate {gate_name!r} is at attempt {gate.attempt}, the verdict is for attempt {attempt}: "
            "check the instance as it is now, and report for its current attempt",
            gate=gate_name,
            current_attempt=str(gate.attempt),
        )
    if not gate.state.is_open:
        return _repeated(record, gate_name, gate, outcome)
    goal = _goal(record, outcome.event)
    decided = gate.model_copy(
        update={
            "state": outcome.gate_state,
            "reason": bounded_reason(reason),
            "reporter": reporter,
            "decided": None if outcome.gate_state.is_open else now,
        }
    )
    if decided == gate:
        return record
    after = _with_gate(record, gate_name, decided)
    if decided.state is gate.state:
        # Undecided as before: reporters try again for as long as they may, and would fill the whole trail.
        return after
    return _moved(after, goal, now, reporter, f"{gate_name} {outcome}", reason)


def deadline_passed(record: Record, gate_name: str, now: datetime) -> Record:
    """The record after a gate's time was up. WrongState for a gate that was decided in time."""
    gate = gate_of(record, gate_name)
    goal = _goal(record, Event.DEADLINE_PASSED)
    if not gate.state.is_open:
        raise WrongState(f"gate {gate_name!r} was decided as {gate.state.lower()} in time", state=record.state)
    last = f"; last: {gate.state.lower()}: {gate.reason}" if gate.state is not GateState.PENDING else ""
    reason = bounded_reason(f"no verdict within {gate.timeout_seconds:g} s{last}")
    failed = gate.model_copy(update={"state": GateState.FAILED, "reason": reason, "reporter": ITSELF, "decided": now})
    return _moved(_with_gate(record, gate_name, failed), goal, now, ITSELF, f"{gate_name} deadline passed", reason)


def released(record: Record, now: datetime, actor: str = ITSELF) -> Record:
    """The record as the releasing Txn writes it."""
    goal = _goal(record, Event.RELEASE)
    assert isinstance(goal, State)
    return record.model_copy(update={"released": now, "withdrawn_by": ""}).with_transition(now, actor, "released", goal)


def overridden(record: Record, actor: str, reason: str, now: datetime) -> Record:
    """Every gate that is not through set aside by a person, who answers for it by name and reason."""
    goal = _goal(record, Event.OVERRIDE)
    words = {"state": GateState.OVERRIDDEN, "reason": bounded_reason(reason), "reporter": actor, "decided": now}
    gates = {
        name: gate if gate.state.is_through else gate.model_copy(update=words) for name, gate in record.gates.items()
    }
    settled = record.model_copy(update={"gates": gates, "withdrawn_by": "", "rejected_by": ""})
    return _moved(settled, goal, now, actor, "override", reason)


def retried(record: Record, gate_names: tuple[str, ...], actor: str, reason: str, now: datetime) -> Record:
    """A new attempt of the named gates, or with none named of every gate that is not through."""
    goal = _goal(record, Event.RETRY)
    asked = gate_names or tuple(name for name, gate in record.gates.items() if not gate.state.is_through)
    names = tuple(dict.fromkeys((*asked, *_overslept(record, now))))
    gates = dict(record.gates)
    for name in names:
        gates[name] = _next_attempt(gate_of(record, name), now)
    again = record.model_copy(update={"gates": gates, "withdrawn_by": "", "rejected_by": ""})
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
    gates = {name: _next_attempt(gate, now) for name, gate in record.gates.items()}
    # Whatever opened it as released is over: from here on its gates decide.
    taken = record.model_copy(update={"gates": gates, "reason": "", "withdrawn_by": actor if by_person else ""})
    return taken.with_transition(now, actor, "withdraw", goal, reason)


def dropped(record: Record, actor: str, reason: str, now: datetime, public: tuple[GatedEntry, ...] = ()) -> Record:
    """The record without its held cards, and with those that are `public` all the same; attempts stay as they are."""
    goal = _goal(record, Event.DROP)
    assert isinstance(goal, State)
    return record.model_copy(update={"cards": public}).with_transition(now, actor, "drop", goal, reason)


def lease_revoked(record: Record, actor: str, reason: str, now: datetime) -> Record:
    """The record as those who follow it see it last: who ended its lease, and why."""
    goal = _goal(record, Event.REVOKE_LEASE)
    return _moved(record, goal, now, actor, Event.REVOKE_LEASE, reason)


def gate_of(record: Record, name: str) -> Gate:
    """The gate of that name; UnknownGate names those that there are."""
    if name not in record.gates:
        known = ", ".join(sorted(record.gates)) or "none"
        raise UnknownGate(f"the instance has no gate {name!r}; its gates are: {known}", gate=name)
    return record.gates[name]


def _goal(record: Record, event: Event) -> State | Settle:
    goal = TABLE[record.state, event]
    if goal == REFUSED:
        raise WrongState(f"{event} is refused: the instance is {record.state}", state=record.state)
    return goal


def _moved(record: Record, goal: State | Settle, now: datetime, actor: str, event: str, reason: str) -> Record:
    target = _settled(record) if goal == SETTLE else goal
    return record.with_transition(now, actor, event, target, reason)


def _settled(record: Record) -> State:
    """Where the gates put an instance that waits, unless a person keeps it out."""
    failed = any(gate.state is GateState.FAILED for gate in record.gates.values())
    return State.REJECTED if failed or record.rejected_by else State.HELD


def _overslept(record: Record, now: datetime) -> tuple[str, ...]:
    """Gates whose time was up while the instance was rejected, when no deadline counts: it would count at once now."""
    if record.state is not State.REJECTED:
        return ()
    return tuple(name for name, gate in record.gates.items() if gate.state.is_open and gate.deadline <= now)


def _repeated(record: Record, name: str, gate: Gate, outcome: Outcome) -> Record:
    if gate.state is outcome.gate_state:
        return record
    raise VerdictAlreadyGiven(
        f"attempt {gate.attempt} of gate {name!r} was decided as {gate.state.lower()} by {gate.reporter or 'unknown'}; "
        f"{outcome} comes too late: only a new attempt can be decided otherwise",
        gate=name,
        decided=gate.state.lower(),
    )


def _with_gate(record: Record, name: str, gate: Gate) -> Record:
    return record.model_copy(update={"gates": {**record.gates, name: gate}})


def _checked_anew(record: Record, entry: GatedEntry, needs: Requirements | None, event: Event, now: datetime) -> Record:
    """What a new or changed key does to hold, gates and generation. A released instance's gates are done with."""
    goal = _goal(record, event)
    kept = record.model_copy(update={"hold": _hold_with(record, needs)})
    if record.state is State.RELEASED:
        return kept
    checked = entry.kind is KeyKind.CARD
    gates = {name: _again(gate, now) if checked else gate for name, gate in record.gates.items()}
    for name, gate in (needs.gates if needs else {}).items():
        gates.setdefault(name, _first_attempt(gate, now))
    if gates == record.gates and not checked:
        return kept
    anew = kept.model_copy(update={"gates": gates, "generation": record.generation + checked})
    return _moved(anew, goal, now, ITSELF, event, entry.key)


def _again(gate: Gate, now: datetime) -> Gate:
    """Another attempt, unless it has failed: that is for a person to retry."""
    return gate if gate.state is GateState.FAILED else _next_attempt(gate, now)


def _hold_with(record: Record, needs: Requirements | None) -> Hold:
    """The hold with one more key's rules. `health` stays: it says that keys of the instance are public already."""
    if needs is None or record.hold is Hold.HEALTH:
        return record.hold
    return record.hold.stronger(needs.hold)


def _first_attempt(asked: GatePolicy, now: datetime) -> Gate:
    deadline = now + timedelta(seconds=asked.timeout_seconds)
    return Gate(timeout_seconds=asked.timeout_seconds, started=now, deadline=deadline)


def _next_attempt(gate: Gate, now: datetime) -> Gate:
    """A fresh attempt. What a newer proxy keeps with the gate stays with it."""
    again: dict[str, object] = {
        "state": GateState.PENDING,
        "attempt": gate.attempt + 1,
        "started": now,
        "deadline": now + timedelta(seconds=gate.timeout_seconds),
        "decided": None,
        "reason": "",
        "reporter": "",
    }
    return gate.model_copy(update=again)
