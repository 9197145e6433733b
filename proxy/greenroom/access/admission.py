"""The one way in for a call of the control API, whichever port it came by.

The rule: whoever serves a call does so within `call`. It finds the caller, refuses what the caller's role is not enough
for before anything of the request is read, and logs and counts every refusal that comes out, the planner's too.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from time import monotonic
from typing import Any, Final, Protocol, TypeVar

from google.protobuf.message import Message

from greenroom.access.authorise import authorise, check_instance, check_operator, check_role
from greenroom.access.callers import ANYBODY, Caller
from greenroom.access.known import KnownCallers, Presented
from greenroom.access.roles import Role
from greenroom.core.keyspace import InstanceId
from greenroom.core.record import Record
from greenroom.core.snapshot import Snapshot
from greenroom.core.verdicts import Plan, Planner
from greenroom.errors import AccessRefused

QUIET_SECONDS: Final = 10.0
"""Whoever can connect can be refused as often as it likes: of each kind one line in this time is logged."""
MAX_KINDS: Final = 1000
"""Of refusals that are remembered for that; past them the oldest is logged again."""

_acting: Final[ContextVar[Caller]] = ContextVar("acting caller", default=ANYBODY)

MessageT = TypeVar("MessageT", bound=Message)
OnRefused = Callable[[str], None]
"""Told of each refusal by its cause."""


class InForce(Protocol):
    """Where the callers come from that are known at the moment."""

    @property
    def known(self) -> KnownCallers:
        """As of now."""


class Admitted:
    """A call that was let in, so far as nothing of its request is known."""

    def __init__(self, method: str, caller: Caller, again: Callable[[], object]) -> None:
        self.caller = caller
        self._method, self._again = method, again

    def authorised(self, request: MessageT) -> MessageT:
        """The request as it goes on, with the caller's name; NotPermitted."""
        return authorise(self.caller, self._method, request)

    def check_again(self) -> None:
        """For calls that last: Unauthenticated or NotPermitted where the caller would not be let in any more."""
        self._again()


class Admission:
    """Lets calls in. Without `access` (there is no access file) anybody, to do anything."""

    def __init__(
        self,
        access: InForce | None,
        *,
        clock: Callable[[], datetime],
        log: Any,
        on_refused: OnRefused = lambda cause: None,
        monotonic: Callable[[], float] = monotonic,
    ) -> None:
        self._access, self._clock, self._log, self._on_refused = access, clock, log, on_refused
        self._monotonic = monotonic
        self._last_logged: dict[tuple[str, ...], float] = {}

    @contextmanager
    def call(self, method: str, presented: Presented) -> Iterator[Admitted]:
        """One call, from its beginning to its end. AccessRefused from here or from within goes on to the caller."""
        with self.telling(method, presented):
            caller = self._enter(method, presented)
            before = _acting.set(caller)
            try:
                yield Admitted(method, caller, lambda: self._enter(method, presented))
            finally:
                _acting.reset(before)

    @contextmanager
    def telling(self, method: str, presented: Presented) -> Iterator[None]:
        """Logs and counts the refusal that comes out of the block, and lets it go on.

        For what goes on after `call`, in a task of its own, such as a stream's later answers.
        """
        try:
            yield
        except AccessRefused as refused:
            self._tell(refused, method, presented.peer)
            raise

    def knows(self, method: str, presented: Presented) -> bool:
        """Whether the call would be let in; of one that shows nothing and would not, nothing is told."""
        try:
            self._enter(method, presented)
        except AccessRefused as refused:
            if presented.authorization is not None:
                self._tell(refused, method, presented.peer)
            return False
        return True

    def _enter(self, method: str, presented: Presented) -> Caller:
        caller = _anybody(presented) if self._access is None else self._access.known.caller(presented, self._clock())
        check_role(caller, method)
        return caller

    def _tell(self, refused: AccessRefused, method: str, peer: str) -> None:
        self._on_refused(refused.cause)
        kind = (method, refused.cause, refused.caller, _host(peer))
        now = self._monotonic()
        if now - self._last_logged.get(kind, now - QUIET_SECONDS) < QUIET_SECONDS:
            return
        self._last_logged.pop(kind, None)
        if len(self._last_logged) >= MAX_KINDS:
            del self._last_logged[next(iter(self._last_logged))]
        self._last_logged[kind] = now
        # A stranger is told the same whatever the cause is; the cause says more than that.
        self._log.warning(
            "control.refused", method=method, peer=peer, caller=refused.caller or None, cause=str(refused.cause)
        )


def _anybody(presented: Presented) -> Caller:
    """Without an access file everybody may do everything: in the name of a certificate that was verified, or in any."""
    return ANYBODY if presented.certificate is None else Caller(presented.certificate, Role.OPERATOR)


def acting_name() -> str:
    """Who makes the call that is being answered, for the log; empty where nobody was asked."""
    return _acting.get().name


def check_acting(instance: InstanceId, record: Record) -> None:
    """NotPermitted where the instance with this record is none of the acting caller's business."""
    check_instance(_acting.get(), instance, record)


def check_acting_operator(what: str) -> None:
    """NotPermitted where the acting caller is no operator, and `what` needs one."""
    check_operator(_acting.get(), what)


def limited(planner: Planner) -> Planner:
    """The same plan, for instances that are the acting caller's business; NotPermitted for others.

    Asked of the record that the plan is made from, so that no change of the instance comes in between. An instance that
    is not there is left to the planner.
    """

    def plan(snapshot: Snapshot, now: datetime) -> Plan:
        if snapshot.record is not None:
            check_acting(snapshot.instance, snapshot.record)
        return planner(snapshot, now)

    return plan


def _host(peer: str) -> str:
    """A peer without its port, which is another one for each connection."""
    return peer.rpartition(":")[0] or peer
