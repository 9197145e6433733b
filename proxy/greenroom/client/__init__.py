"""The control API from Python: for programs that write gates, and for the command line, which is made of the same.

greenroom   `Greenroom`, which programs use; values: what it tells
watching, waiting, claims
            a watch over many streams, the wait for one instance, a claim that renews itself
following   one stream after another, for whoever follows the instances
reading     from the API's messages to values
calls       the API's calls, as they are; refusals, tls_words: their errors in words
place       where the API is asked: address, files, token; naming: what callers call these; callers: who is asking
"""

from greenroom.client.claims import KeptClaim
from greenroom.client.greenroom import Greenroom
from greenroom.client.values import (
    Change,
    ChangeKind,
    Claim,
    Condition,
    Decision,
    Gate,
    GateClaim,
    GatedKey,
    GateState,
    Hold,
    Instance,
    Outcome,
    Phase,
    Preview,
    RemovalReason,
    Selector,
    State,
    Verdict,
)
from greenroom.errors import ControlError, NoSuchInstanceError, RejectedError, SettingsError, TimedOutError

__all__ = [
    "Change",
    "ChangeKind",
    "Claim",
    "Condition",
    "ControlError",
    "Decision",
    "Gate",
    "GateClaim",
    "GateState",
    "GatedKey",
    "Greenroom",
    "Hold",
    "Instance",
    "KeptClaim",
    "NoSuchInstanceError",
    "Outcome",
    "Phase",
    "Preview",
    "RejectedError",
    "RemovalReason",
    "Selector",
    "SettingsError",
    "State",
    "TimedOutError",
    "Verdict",
]
