"""What can happen to an instance, and where it leads: every (state, event) pair, in one table.

The rule: what is not to happen stands here as refused; where the gates decide it says SETTLE. Nobody else says where an
event leads. The diagram in docs/states.md is made from it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

from greenroom.core.record import State


class Event(StrEnum):
    """What can happen to an instance that has a record."""

    CARD_ADDED = "card added"
    CARD_CHANGED = "card changed"
    GATE_PASSED = "gate passed"
    GATE_FAILED = "gate failed"
    GATE_UNDECIDED = "gate undecided"
    ATTEMPT_FAILED = "attempt failed"
    PASS_RENEWED = "pass renewed"
    PASS_FAILED = "pass failed"
    PASS_LAPSED = "pass lapsed"
    DEADLINE_PASSED = "deadline passed"
    RELEASE = "release"
    OVERRIDE = "override"
    RETRY = "retry"
    REJECT = "reject"
    WITHDRAW = "withdraw"
    DROP = "drop"
    REVOKE_LEASE = "revoke lease"
    CONFLICT = "conflict"


Refused = Literal["refused"]
Settle = Literal["settle"]
Apart = Literal["apart"]
REFUSED: Refused = "refused"
SETTLE: Settle = "settle"
APART: Apart = "apart"
"""The instance stays as it is; refused where no later card waits, for it is about those alone."""

_H, _L, _J, _W = State.HELD, State.RELEASED, State.REJECTED, State.WITHDRAWN
TABLE: Mapping[tuple[State, Event], State | Refused | Settle | Apart] = {
    (_H, Event.CARD_ADDED): _H,
    (_H, Event.CARD_CHANGED): _H,
    (_H, Event.GATE_PASSED): SETTLE,
    (_H, Event.GATE_FAILED): _J,
    (_H, Event.GATE_UNDECIDED): _H,
    (_H, Event.ATTEMPT_FAILED): _H,
    (_H, Event.PASS_RENEWED): _H,
    (_H, Event.PASS_FAILED): _J,
    (_H, Event.PASS_LAPSED): _H,
    (_H, Event.DEADLINE_PASSED): _J,
    (_H, Event.RELEASE): _L,
    (_H, Event.OVERRIDE): SETTLE,
    (_H, Event.RETRY): SETTLE,
    (_H, Event.REJECT): _J,
    (_H, Event.WITHDRAW): REFUSED,
    (_H, Event.DROP): _H,
    (_H, Event.REVOKE_LEASE): _H,
    (_H, Event.CONFLICT): _J,
    (_L, Event.CARD_ADDED): _L,
    (_L, Event.CARD_CHANGED): _L,
    (_L, Event.GATE_PASSED): APART,
    (_L, Event.GATE_FAILED): APART,
    (_L, Event.GATE_UNDECIDED): APART,
    (_L, Event.ATTEMPT_FAILED): _L,
    (_L, Event.PASS_RENEWED): _L,
    (_L, Event.PASS_FAILED): _L,
    (_L, Event.PASS_LAPSED): REFUSED,
    (_L, Event.DEADLINE_PASSED): APART,
    (_L, Event.RELEASE): APART,
    (_L, Event.OVERRIDE): APART,
    (_L, Event.RETRY): APART,
    (_L, Event.REJECT): REFUSED,
    (_L, Event.WITHDRAW): _W,
    (_L, Event.DROP): APART,
    (_L, Event.REVOKE_LEASE): _L,
    (_L, Event.CONFLICT): REFUSED,
    (_J, Event.CARD_ADDED): SETTLE,
    (_J, Event.CARD_CHANGED): SETTLE,
    (_J, Event.GATE_PASSED): SETTLE,
    (_J, Event.GATE_FAILED): _J,
    (_J, Event.GATE_UNDECIDED): _J,
    (_J, Event.ATTEMPT_FAILED): _J,
    (_J, Event.PASS_RENEWED): _J,
    (_J, Event.PASS_FAILED): _J,
    (_J, Event.PASS_LAPSED): REFUSED,
    (_J, Event.DEADLINE_PASSED): REFUSED,
    (_J, Event.RELEASE): REFUSED,
    (_J, Event.OVERRIDE): SETTLE,
    (_J, Event.RETRY): SETTLE,
    (_J, Event.REJECT): _J,
    (_J, Event.WITHDRAW): REFUSED,
    (_J, Event.DROP): _J,
    (_J, Event.REVOKE_LEASE): _J,
    (_J, Event.CONFLICT): REFUSED,
    (_W, Event.CARD_ADDED): _W,
    (_W, Event.CARD_CHANGED): _W,
    (_W, Event.GATE_PASSED): _W,
    (_W, Event.GATE_FAILED): _J,
    (_W, Event.GATE_UNDECIDED): _W,
    (_W, Event.ATTEMPT_FAILED): _W,
    (_W, Event.PASS_RENEWED): _W,
    (_W, Event.PASS_FAILED): _J,
    (_W, Event.PASS_LAPSED): _W,
    (_W, Event.DEADLINE_PASSED): REFUSED,
    (_W, Event.RELEASE): _L,
    (_W, Event.OVERRIDE): SETTLE,
    (_W, Event.RETRY): _W,
    (_W, Event.REJECT): _J,
    (_W, Event.WITHDRAW): REFUSED,
    (_W, Event.DROP): _W,
    (_W, Event.REVOKE_LEASE): _W,
    (_W, Event.CONFLICT): REFUSED,
}
