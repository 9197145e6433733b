"""What each method of the control API needs at least. A method that is not in the table is refused."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """What a caller may do, from the least to the most: each may what those before it may."""

    VIEWER = "viewer"
    REPORTER = "reporter"
    OPERATOR = "operator"

    def covers(self, least: "Role") -> bool:
        """Whether this role is enough where `least` is needed."""
        ranks = list(Role)
        return ranks.index(self) >= ranks.index(least)


METRICS: Final = "/metrics"
REFLECTION: Final = "ServerReflectionInfo"
OPENAPI: Final = "/v1/openapi.json"
HEALTH: Final = "/v1/health"
OTHERS: Final = frozenset({METRICS, REFLECTION, OPENAPI, HEALTH})
"""What is no method of the control API, and is asked for by the same ports. Whoever probes is told whether all is well,
and those who are known are told the rest of a health answer too.
"""

METHODS: Final[Mapping[str, Role]] = {
    METRICS: Role.VIEWER,
    REFLECTION: Role.VIEWER,
    OPENAPI: Role.VIEWER,
    HEALTH: Role.VIEWER,
    "ListInstances": Role.VIEWER,
    "WatchInstances": Role.VIEWER,
    "GetInstance": Role.VIEWER,
    "ListRolloutHolds": Role.VIEWER,
    "GetPolicy": Role.VIEWER,
    "ReportVerdict": Role.REPORTER,
    "ClaimGate": Role.REPORTER,
    "RenewClaim": Role.REPORTER,
    "ReleaseClaim": Role.REPORTER,
    "OpenPreview": Role.REPORTER,
    "ListPreviews": Role.REPORTER,
    "GetPreview": Role.REPORTER,
    "ClosePreview": Role.REPORTER,
    "CreateRolloutHold": Role.OPERATOR,
    "LiftRolloutHold": Role.OPERATOR,
    "ReleaseInstance": Role.OPERATOR,
    "RejectInstance": Role.OPERATOR,
    "WithdrawInstance": Role.OPERATOR,
    "RetryGates": Role.OPERATOR,
    "DropCards": Role.OPERATOR,
    "RevokeLease": Role.OPERATOR,
}
"""Methods by their names in the proto. A reporter's methods name a gate, which a caller may be limited to."""

WITHOUT_GATES: Final = frozenset({"OpenPreview", "ListPreviews", "GetPreview", "ClosePreview"})
"""But for these, which are about instances: a preview shows what is held, and a viewer is not even told where it is."""
