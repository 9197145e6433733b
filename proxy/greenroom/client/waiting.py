"""Waiting for one instance to come into a state.

The rule: a proxy or an etcd that is away may come back in time, so nothing but the end of the time, or what the
instance became, ends the wait. The instance is read from etcd, again and again: a watch begins with all that there are,
and ten thousand of them cost the proxy seconds for the sake of one.
"""

from time import monotonic, sleep

from greenroom.backoff import Backoff
from greenroom.client.calls import ControlCalls
from greenroom.client.reading import instance_of, name_of
from greenroom.client.values import GateState, Instance, State
from greenroom.errors import ControlError, NoSuchInstanceError, RejectedError, TimedOutError

TELLING_SECONDS = 1.0
"""A call that the end of the time cut shorter than this says nothing about the proxy: what was known before counts."""
LAST_LOOK_SECONDS = 0.1
"""So near the end of the time the last look is: what is then said of the instance should be so still."""


class Wait:
    """For one instance, for so many seconds from now on."""

    def __init__(self, calls: ControlCalls, instance: str, until: State | str, timeout_seconds: float) -> None:
        self._id, self._until, self._timeout_seconds = instance, State(until), timeout_seconds
        self._deadline = monotonic() + timeout_seconds
        self._calls = calls.until(self._deadline)
        self._last: Instance | None = None

    def result(self) -> Instance:
        """The instance in that state; NoSuchInstanceError, RejectedError, or TimedOutError saying why it is not."""
        trouble, backoff = "", Backoff()
        while (asked := monotonic()) < self._deadline:
            try:
                found, trouble = self._read(), ""
                if found.state is self._until:
                    return found
            except ControlError as error:
                if not error.may_pass:
                    raise
                if monotonic() < self._deadline or monotonic() - asked >= TELLING_SECONDS:
                    trouble = str(error)
            self._pause(backoff.next_seconds())
        raise self._out_of_time(trouble)

    def _pause(self, seconds: float) -> None:
        """For so long, or half of what is left: the nearer the end, the more often it is looked at again."""
        left = max(0.0, self._deadline - monotonic())
        sleep(min(seconds, left / 2 if left > LAST_LOOK_SECONDS else left))

    def _read(self) -> Instance:
        """As it is now; raises where it cannot come into the state any more."""
        try:
            self._last = instance_of(self._calls.instance(name_of(self._id)))
        except NoSuchInstanceError as error:
            if self._last is None:
                raise
            said = f"{self._id} expired: its lease ended while it was {self._last.state}"
            raise NoSuchInstanceError(said, error.reason) from error
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
    failed = [
        f"{gate.name} failed{f': {gate.reason}' if gate.reason else ''}"
        for gate in instance.gates
        if gate.state is GateState.FAILED
    ]
    return "; ".join(failed) or instance.waits_for or instance.reason
