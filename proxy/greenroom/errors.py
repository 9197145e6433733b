"""Every error that Greenroom itself answers with, each with its gRPC code and its reason for machines.

etcd's own errors never pass through here: their code, text and trailers go to the client as they came.
"""

from typing import ClassVar, Final

import grpc


class GreenroomError(Exception):
    """Base of all. `code` is what a gRPC client sees, `reason` the ErrorInfo reason of the control API."""

    code: ClassVar[grpc.StatusCode] = grpc.StatusCode.INTERNAL
    reason: str = "INTERNAL"

    def __init__(self, message: str, **metadata: str) -> None:
        super().__init__(message)
        self.metadata = metadata
        """Further fields of the ErrorInfo, such as the instance or the current attempt."""


class RefusedWrite(GreenroomError):
    """A call that must not happen: a reserved key, a key that fits no template, a value that disagrees."""

    code = grpc.StatusCode.INVALID_ARGUMENT
    reason = "REFUSED_WRITE"


class PublicPortOnly(GreenroomError):
    """A write of a gated key on a port that shows what is public and nothing else."""

    code = grpc.StatusCode.PERMISSION_DENIED
    reason = "PUBLIC_PORT_ONLY"


class PreviewWrite(GreenroomError):
    """A write of a gated key through a preview, which only shows them."""

    code = grpc.StatusCode.PERMISSION_DENIED
    reason = "PREVIEW_WRITE"


class EtcdRefusal(GreenroomError):
    """What etcd itself would refuse about a call as the client sent it, in etcd's own words."""

    code = grpc.StatusCode.INVALID_ARGUMENT
    reason = "ETCD_REFUSAL"


class UnsupportedCall(GreenroomError):
    """A call that etcd would take, and that cannot be gated safely."""

    code = grpc.StatusCode.UNIMPLEMENTED
    reason = "UNSUPPORTED_CALL"


class NewCardNeedsGates(GreenroomError):
    """An edit would make a public card one whose gates have not passed here."""

    code = grpc.StatusCode.FAILED_PRECONDITION
    reason = "NEW_CARD_NEEDS_GATES"


class FenceContended(GreenroomError):
    """The record kept changing between read and write until the time was up."""

    code = grpc.StatusCode.UNAVAILABLE
    reason = "FENCE_CONTENDED"


class UnreadableRecord(GreenroomError):
    """A record in etcd that this version cannot read: nothing of the instance is written or released."""

    code = grpc.StatusCode.FAILED_PRECONDITION
    reason = "UNREADABLE_RECORD"


class InvalidRequest(GreenroomError):
    """A control request with a missing or malformed field."""

    code = grpc.StatusCode.INVALID_ARGUMENT
    reason = "INVALID_REQUEST"


class UnknownInstance(GreenroomError):
    """No record of that name: never registered through a proxy, or its lease ended."""

    code = grpc.StatusCode.NOT_FOUND
    reason = "UNKNOWN_INSTANCE"


class UnknownGate(GreenroomError):
    """The instance has no such gate."""

    code = grpc.StatusCode.NOT_FOUND
    reason = "UNKNOWN_GATE"


class UnknownRolloutHold(GreenroomError):
    """No rollout hold of that name: never created, lifted, or expired."""

    code = grpc.StatusCode.NOT_FOUND
    reason = "UNKNOWN_ROLLOUT_HOLD"


class RolloutHoldExists(GreenroomError):
    """A rollout hold of that name is there already."""

    code = grpc.StatusCode.ALREADY_EXISTS
    reason = "ROLLOUT_HOLD_EXISTS"


class UnknownPreview(GreenroomError):
    """No preview of that name is open at this proxy: never opened here, or closed."""

    code = grpc.StatusCode.NOT_FOUND
    reason = "UNKNOWN_PREVIEW"


class PreviewClosed(GreenroomError):
    """A preview ended while a client of it was connected."""

    code = grpc.StatusCode.UNAVAILABLE
    reason = "PREVIEW_CLOSED"


class TooManyPreviews(GreenroomError):
    """No preview more can be opened: as many are open as may be, or no port is free."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    reason = "TOO_MANY_PREVIEWS"


class StandingPreview(GreenroomError):
    """The preview that the proxy was started with ends with it, and not before."""

    code = grpc.StatusCode.FAILED_PRECONDITION
    reason = "STANDING_PREVIEW"


class StaleAttempt(GreenroomError):
    """A verdict for another attempt than the one that is open."""

    code = grpc.StatusCode.FAILED_PRECONDITION
    reason = "STALE_ATTEMPT"


class VerdictAlreadyGiven(GreenroomError):
    """The attempt was decided, and otherwise."""

    code = grpc.StatusCode.FAILED_PRECONDITION
    reason = "VERDICT_ALREADY_GIVEN"


class UnknownClaim(GreenroomError):
    """No claim with that lease: it expired, was released, or a verdict ended it."""

    code = grpc.StatusCode.NOT_FOUND
    reason = "UNKNOWN_CLAIM"


class GateClaimed(GreenroomError):
    """Another runner has the claim."""

    code = grpc.StatusCode.ALREADY_EXISTS
    reason = "GATE_CLAIMED"


class TooManyClaims(GreenroomError):
    """As many claims of the gate are in force as it allows at once."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    reason = "TOO_MANY_CLAIMS"


class ClaimLimitReached(GreenroomError):
    """So many claims of the attempt ended without a verdict that it can be claimed no more."""

    code = grpc.StatusCode.FAILED_PRECONDITION
    reason = "CLAIM_LIMIT_REACHED"


class WrongState(GreenroomError):
    """The instance's state does not allow this."""

    code = grpc.StatusCode.FAILED_PRECONDITION
    reason = "WRONG_STATE"


class RevokeLeaseOff(GreenroomError):
    """This proxy was not started with the option that lets people end workers' leases."""

    code = grpc.StatusCode.PERMISSION_DENIED
    reason = "REVOKE_LEASE_OFF"


class NoSpaceToWithdraw(GreenroomError):
    """etcd takes no write, and a withdrawal that only deleted would lose the worker's cards."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    reason = "NO_SPACE"


class NotReady(GreenroomError):
    """The proxy's own view of etcd is not there yet, or etcd does not answer."""

    code = grpc.StatusCode.UNAVAILABLE
    reason = "NOT_READY"


class HistoryGone(GreenroomError):
    """etcd no longer has the history that a resume token needs, or is another etcd."""

    code = grpc.StatusCode.OUT_OF_RANGE
    reason = "HISTORY_GONE"


class TooManyWatchers(GreenroomError):
    """So many streams are open that one more would cost the others."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    reason = "TOO_MANY_WATCHERS"


class AccessRefused(GreenroomError):
    """A call that the access file does not allow. `cause` and `caller` are for the log, and told to nobody."""

    code = grpc.StatusCode.PERMISSION_DENIED
    reason = "ACCESS_REFUSED"

    def __init__(self, message: str, *, cause: str, caller: str = "", **metadata: str) -> None:
        super().__init__(message, **metadata)
        self.cause, self.caller = cause, caller


class Unauthenticated(AccessRefused):
    """Nobody knows who makes the call: no token, or none that is known here."""

    code = grpc.StatusCode.UNAUTHENTICATED
    reason = "UNAUTHENTICATED"


class NotPermitted(AccessRefused):
    """It is known who makes the call, and that caller may not do this."""

    code = grpc.StatusCode.PERMISSION_DENIED
    reason = "NOT_PERMITTED"


class StartError(GreenroomError):
    """The proxy cannot start or go on: one line for the operator, exit code 1."""


class PortTakenError(StartError):
    """The embedded etcd could not listen where it was told to."""


class ControlError(GreenroomError):
    """A call of the control API failed. `reason` is the ErrorInfo's, or one of those below, or empty.

    `field` is the one of the request that was wrong, where the ErrorInfo names one.
    """

    UNREACHABLE: ClassVar[str] = "UNREACHABLE"
    """Nobody answers at the control port."""
    HISTORY_GONE: ClassVar[str] = HistoryGone.reason
    """A resume token is of no use any more."""

    def __init__(self, message: str, reason: str = "", field: str = "") -> None:
        super().__init__(message)
        self.reason, self.field = reason, field

    @property
    def may_pass(self) -> bool:
        """Whether asking again later can help: the proxy, or its etcd, is away or too busy, or has no room."""
        return self.reason in _PASSING


_PASSING: Final = frozenset(
    {
        ControlError.UNREACHABLE,
        NotReady.reason,
        FenceContended.reason,
        TooManyWatchers.reason,
        TooManyClaims.reason,
        TooManyPreviews.reason,
    }
)


class NoSuchInstanceError(ControlError):
    """No instance fits what the caller gave: it has not registered yet, or its lease ended."""


class RejectedError(ControlError):
    """An instance that was waited for is rejected: it will not be released unless somebody retries or overrides."""

    REJECTED: ClassVar[str] = "REJECTED"


class TimedOutError(ControlError):
    """The time to wait is over; the text says what is missing."""

    TIMED_OUT: ClassVar[str] = "TIMED_OUT"


class EtcdCallError(ControlError):
    """A command's call of etcd itself failed."""


class CheckFailed(GreenroomError):
    """A built-in check found its instance wanting: one line, exit code 1."""

    code = grpc.StatusCode.FAILED_PRECONDITION
    reason = "CHECK_FAILED"


class CheckInconclusive(GreenroomError):
    """A built-in check could not tell: one line, exit code 75."""

    code = grpc.StatusCode.FAILED_PRECONDITION
    reason = "CHECK_INCONCLUSIVE"


class SettingsError(GreenroomError):
    """A setting is wrong: one line naming field and value, exit code 2."""

    code = grpc.StatusCode.INVALID_ARGUMENT
    reason = "SETTINGS"
