"""What people decide about one instance against, or without, its gates: each decision as a plan.

The rules: a person answers for it by name and reason, and both stand in the record's trail. Whoever asks for what the
instance's state does not allow is told what can be done instead.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from greenroom.core.conflicts import Conflicts, none_known
from greenroom.core.events import Event
from greenroom.core.fleet import UNLIMITED, Limits
from greenroom.core.keyspace import InstanceId
from greenroom.core.record import Record, State
from greenroom.core.snapshot import Snapshot
from greenroom.core.transitions import lease_revoked, rejected, retried
from greenroom.core.verdicts import Plan, Planner, drop, edit, note, override, withdrawal
from greenroom.errors import WrongState


class DecisionKind(StrEnum):
    """What a person can decide."""

    OVERRIDE = "override"
    REJECT = "reject"
    WITHDRAW = "withdraw"
    RETRY = "retry"
    DROP = "drop"
    REVOKE_LEASE = "revoke-lease"

    @property
    def event(self) -> Event:
        """The same in the table of transitions."""
        return Event(self.value.replace("-", " "))


@dataclass(frozen=True, slots=True)
class PersonsDecision:
    """Who decided what about whom, and why. `gates` are those of a retry; none: all that are not through."""

    kind: DecisionKind
    instance: InstanceId
    actor: str
    reason: str
    gates: tuple[str, ...] = ()


INSTEAD: Mapping[tuple[State, DecisionKind], str] = {
    (State.RELEASED, DecisionKind.OVERRIDE): "its cards are public already",
    (State.RELEASED, DecisionKind.RETRY): "a withdrawal takes it back, and opens new attempts of all its gates",
    (State.RELEASED, DecisionKind.REJECT): "withdraw it, which takes its cards back",
    (State.RELEASED, DecisionKind.DROP): "nothing of it is held; withdraw it, which takes its cards back",
    (State.HELD, DecisionKind.WITHDRAW): "it was not released; reject it, which keeps it out",
    (State.REJECTED, DecisionKind.WITHDRAW): "it is out already, until a person's retry or override",
    (State.WITHDRAWN, DecisionKind.WITHDRAW): "it is out already; reject it, so that only a person brings it back",
}
"""What to do where the table of transitions refuses a decision."""


def planned(decision: PersonsDecision, limits: Limits = UNLIMITED, conflicts: Conflicts = none_known) -> Planner:
    """The plan that carries a decision out. It raises WrongState with advice where the state does not allow it."""
    planner = _planner(decision, limits, conflicts)

    def plan(snapshot: Snapshot, now: datetime) -> Plan:
        try:
            return planner(snapshot, now)
        except WrongState as refused:
            state = State(refused.metadata["state"])
            if (advice := INSTEAD.get((state, decision.kind))) is None:
                raise
            raise WrongState(f"{refused}; {advice}", state=state) from refused

    return plan


def _planner(decision: PersonsDecision, limits: Limits, conflicts: Conflicts) -> Planner:
    actor, reason = decision.actor, decision.reason

    def by_person(change: Callable[[Record, str, str, datetime], Record]) -> Callable[[Record, datetime], Record]:
        return lambda record, now: change(record, actor, reason, now)

    match decision.kind:
        case DecisionKind.OVERRIDE:
            return override(actor, reason, limits, conflicts)
        case DecisionKind.REJECT:
            return edit(by_person(rejected), limits, conflicts)
        case DecisionKind.WITHDRAW:
            return withdrawal(actor, reason, by_person=True, limits=limits)
        case DecisionKind.RETRY:
            return edit(lambda record, now: retried(record, decision.gates, actor, reason, now), limits, conflicts)
        case DecisionKind.DROP:
            return drop(actor, reason)
        case DecisionKind.REVOKE_LEASE:
            return note(by_person(lease_revoked))
        case _:
            assert_never(decision.kind)
