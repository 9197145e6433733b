"""The attempts of one gate: how they are opened, decided, forgiven and counted. Of the instance they know nothing.

The rules:

* A gate keeps in the record what its rules asked of it. An attempt follows the settings of its gate, whatever policy
  file a proxy has read since.
* A failed verdict within `failure_limit` is forgiven: it opens the next attempt by itself, and is counted. Who lost the
  answer and says it again gets the same answer, so the gate remembers which attempt that was.
* `inconclusive_limit` is about one attempt. The verdict past it counts as a failed one.
* A continuous gate's pass has a deadline of its own, which each further `passed` on the same attempt moves on. While
  its instance is released a forgiven failure opens the next attempt too, and the pass holds until that deadline.
* A deadline is forgiven to nobody: there was no verdict.
* Claims of an attempt are counted until a verdict on it: so many runners went away without a word (see `claims`).
"""

from datetime import datetime, timedelta

from greenroom.core.policy import GatePolicy
from greenroom.core.record import Gate, GateState, bounded_reason
from greenroom.errors import StaleAttempt


def first_attempt(asked: GatePolicy, now: datetime, *, dry_run: bool = False) -> Gate:
    """A gate with its first attempt, which opens now."""
    deadline = now + timedelta(seconds=asked.timeout_seconds)
    return Gate(started=now, deadline=deadline, dry_run=dry_run, **asked.model_dump())


def next_attempt(gate: Gate, now: datetime) -> Gate:
    """A fresh attempt, of which nothing is known yet. What a newer proxy keeps with the gate stays with it."""
    again: dict[str, object] = {
        "state": GateState.PENDING,
        "attempt": gate.attempt + 1,
        "started": now,
        "deadline": now + timedelta(seconds=gate.timeout_seconds),
        "decided": None,
        "passed": None,
        "reason": "",
        "reporter": "",
        "failures": 0,
        "inconclusives": 0,
        "claims": 0,
    }
    return gate.model_copy(update=again)


def after_failure(gate: Gate, now: datetime) -> Gate:
    """The attempt that follows a failed one by itself. The failed verdict said again is known by its number."""
    return next_attempt(gate, now).model_copy(update={"forgiven": gate.attempt})


def after_verdict(gate: Gate, said: GateState, *, reason: str, reporter: str, now: datetime) -> Gate:
    """The gate after a verdict on its attempt; the gate itself for one that changes nothing.

    It is open, or has a pass that `passed` renews and `failed` ends.
    """
    assert gate.state.is_open or not said.is_open, f"{said} says nothing of a pass"
    judged = _judged(with_claims(gate, 0), said, reason, reporter, now)
    return gate if judged == gate else judged


def still_passed(before: Gate, after: Gate) -> Gate:
    """The attempt after a forgiven failure of a gate whose pass holds on: it ends when it would have ended."""
    kept = {name: getattr(before, name) for name in ("state", "deadline", "decided", "passed", "reason", "reporter")}
    return after.model_copy(update=kept)


def noted(gate: Gate, said: GateState, reason: str, reporter: str) -> Gate:
    """The gate with what was said of its attempt."""
    return gate.model_copy(update={"state": said, "reason": bounded_reason(reason), "reporter": reporter})


def with_claims(gate: Gate, count: int) -> Gate:
    """The gate with another count of claims that were made of its attempt since the last verdict on it."""
    return gate.model_copy(update={"claims": count})


def was_forgiven(gate: Gate, attempt: int, said: GateState) -> bool:
    """Whether a verdict only repeats the failed one that opened the current attempt."""
    return said is GateState.FAILED and attempt == gate.forgiven


def is_renewal(before: Gate, after: Gate) -> bool:
    """Whether all that happened to a gate is that its pass was renewed."""
    return before.must_be_renewed and after.must_be_renewed and before.attempt == after.attempt


def stale_attempt(name: str, gate: Gate, what: str) -> StaleAttempt:
    """The error for whoever names another attempt than the gate's; `what` says what is about which."""
    return StaleAttempt(
        f"gate {name!r} is at attempt {gate.attempt}, {what}: "
        "check the instance as it is now, and report for its current attempt",
        gate=name,
        current_attempt=str(gate.attempt),
    )


def _judged(gate: Gate, said: GateState, reason: str, reporter: str, now: datetime) -> Gate:
    if said is GateState.INCONCLUSIVE and gate.inconclusive_limit is not None:
        counted = gate.model_copy(update={"inconclusives": gate.inconclusives + 1})
        if counted.inconclusives > gate.inconclusive_limit:
            return _failed(counted, _too_often(counted, reason), reporter, now)
        return noted(counted, said, reason, reporter)
    if said.is_open:
        return noted(gate, said, reason, reporter)
    if said is GateState.FAILED:
        return _failed(gate, reason, reporter, now)
    passed = _decided(gate, said, reason, reporter, now).model_copy(update={"failures": 0})
    if gate.ttl_seconds is None:
        return passed
    until = now + timedelta(seconds=gate.ttl_seconds)
    return passed.model_copy(update={"deadline": until, "passed": gate.passed or now})


def _failed(gate: Gate, reason: str, reporter: str, now: datetime) -> Gate:
    failures = gate.failures + 1
    if failures > gate.failure_limit:
        return _decided(gate, GateState.FAILED, reason, reporter, now).model_copy(update={"failures": failures})
    return after_failure(gate, now).model_copy(update={"failures": failures})


def _decided(gate: Gate, said: GateState, reason: str, reporter: str, now: datetime) -> Gate:
    return noted(gate, said, reason, reporter).model_copy(update={"decided": now})


def _too_often(gate: Gate, reason: str) -> str:
    last = f"; last: {reason}" if reason else ""
    return f"inconclusive {gate.inconclusives} times, {gate.inconclusive_limit} may be{last}"
