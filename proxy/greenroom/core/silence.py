"""What becomes of a gate about which nobody says anything: runners went away without a word, a pass was not renewed.

The rule: each is an event of the transition table like any other, and the trail names the proxy itself. (The deadline
of an open attempt is in `transitions`.)
"""

from datetime import datetime

from greenroom.core.attempts import next_attempt, noted
from greenroom.core.events import Event
from greenroom.core.record import GateState, Record
from greenroom.core.transitions import ITSELF, by_itself, gate_of


def pass_lapsed(record: Record, gate_name: str, now: datetime) -> Record:
    """The record of an instance that waits, after the pass of a continuous gate was not renewed: it must pass anew."""
    gate = gate_of(record, gate_name)
    reason = f"not renewed within {gate.ttl_seconds:g} s"
    return by_itself(record, Event.PASS_LAPSED, gate_name, next_attempt(gate, now), now, what="lapsed", reason=reason)


def worn_out(record: Record, gate_name: str, now: datetime) -> Record:
    """The record after the last claim of an attempt ended without a verdict: no runner is to try it again."""
    gate = gate_of(record, gate_name)
    reason = f"{gate.claims} claims ended without a verdict"
    given_up = noted(gate, GateState.ERROR, reason, ITSELF)
    return by_itself(record, Event.GATE_UNDECIDED, gate_name, given_up, now, what="error", reason=reason)
