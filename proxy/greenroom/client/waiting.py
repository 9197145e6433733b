"""Waiting for one instance to come into a state.

The rule: a proxy or an etcd that is away may come back in time, so nothing but the end of the time, or what the
instance became, ends the wait. The instance is read from etcd first: a list may be a moment behind, and a moment is
enough to take one that has just registered for one that is gone.
"""

from collections.abc import Generator
from contextlib import closing
from time import monotonic, sleep

from greenroom.backoff import Backoff
from greenroom.client.calls import ControlCalls
from greenroom.client.following import streamed
from greenroom.client.reading import instance_of, name_of
from greenroom.client.values import Change, ChangeKind, GateState, Instance, RemovalReason, State
from greenroom.client.watching import Told
from greenroom.errors import ControlError, NoSuchInstanceError, RejectedError, TimedOutError, UnknownInstance

TELLING_SECONDS = 1.0
"""A call that the end of the time cut shorter than this says nothing about the proxy: what was known before counts."""


class Wait:
    """For one instance, for so many seconds from now on."""

    def __init__(self, calls: ControlCalls, instance: str, until: State, timeout_seconds: float) -> None:
        self._id, self._until, self._timeout_seconds = instance, until, timeout_seconds
        self._deadline = monotonic() + timeout_seconds
        self._calls = calls.until(self._deadline)
        self._last: Instance | None = None
        self._is_told = False
        """Whether a stream has told of it, and so will tell when it goes."""

    def result(self) -> Instance:
        """The instance in that state; NoSuchInstanceError, RejectedError, or TimedOutError saying why it is not."""
        trouble, backoff, told = "", Backoff(), Told()
        while (asked := monotonic()) < self._deadline:
            try:
                with closing(self._looks(told)) as looks:
                    for found in looks:
                        trouble = ""
                        backoff.reset()
                        if found.state is self._until:
                            return found
            except ControlError as error:
                if not error.may_pass:
                    raise
                if monotonic() < self._deadline or monotonic() - asked >= TELLING_SECONDS:
                    trouble = str(error)
            sleep(min(backoff.next_seconds(), max(0.0, self._deadline - monotonic())))
        raise self._out_of_time(trouble)

    def _looks(self, told: Told) -> Generator[Instance, None, None]:
        """The instance as often as something is heard; raises where it cannot come into the state any more."""
        yield self._checked(self._read())
        for changes in streamed(self._calls, told):
            mine = [change for change in changes if change.instance.id == self._id]
            for change in mine:
                yield self._checked(self._of(change))
            if not (mine or self._is_told):
                yield self._checked(self._read())

    def _of(self, change: Change) -> Instance:
        self._is_told = True
        if change.kind is not ChangeKind.REMOVED:
            return change.instance
        if change.removal_reason is RemovalReason.EXPIRED:
            state = (self._last or change.instance).state
            said = f"{self._id} expired: its lease ended while it was {state}"
            raise NoSuchInstanceError(said, UnknownInstance.reason)
        return self._read()

    def _read(self) -> Instance:
        return instance_of(self._calls.instance(name_of(self._id)))

    def _checked(self, found: Instance) -> Instance:
        """The newest that is known: a stream may be behind what was read."""
        if self._last is None or found.record_revision >= self._last.record_revision:
            self._last = found
        if self._until is State.RELEASED and self._last.state is State.REJECTED:
            raise RejectedError(f"{self._id} is rejected: {_why_rejected(self._last)}", RejectedError.REJECTED)
        return self._last

    def _out_of_time(self, trouble: str) -> TimedOutError:
        after = f"after {self._timeout_seconds:g}s"
        if self._last is None:
            said = f"nothing is known of {self._id} {after}{f': {trouble}' if trouble else ''}"
        elif trouble:
            said = f"{self._id} was {self._last.state} when last seen, and {after} {trouble}"
        else:
            said = f"{self._id} is still {self._last.state} {after}{self._missing(self._last)}"
        return TimedOutError(said, TimedOutError.TIMED_OUT)

    def _missing(self, last: Instance) -> str:
        if self._until is not State.RELEASED:
            return f", not {self._until}"
        return f"; it waits for {last.waits_for}" if last.waits_for else ""


def _why_rejected(instance: Instance) -> str:
    failed = [f"{gate.name} failed: {gate.reason}" for gate in instance.gates if gate.state is GateState.FAILED]
    return "; ".join(failed) or instance.waits_for or instance.reason
