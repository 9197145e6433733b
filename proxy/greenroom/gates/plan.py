"""What a runner is to run, and what it must stop: pure and synchronous, time is an argument.

It is told of instances, and of how its runs ended; `decide` says which to start and which to stop, and when to ask
again. The rules:

* A run is about one attempt of one gate of one instance. It goes on as long as that attempt waits for a verdict:
  whatever decides it, opens another one or ends the wait (a release, a rejection, the end of the lease) stops the run.
* A continuous gate that has passed is run again once half of what its pass holds is over.
* A gate that somebody else has claimed is left alone until that claim ends.
* What ended without a decision is run again, each time after a longer pause, as long as the attempt is open.
* Of what is told twice the newer counts: a verdict's answer is often ahead of the stream.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final

from greenroom.pb.control.v1 import control_pb2
from greenroom.pb.control.v1.control_pb2 import GateStatus, Instance

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 15.0
"""A gate's time is minutes: who finds a free place a quarter of one late has lost little."""
ADDRESS_SECONDS: Final = 2.0
"""A worker says where it listens a moment after its card; a check that is told nothing of it could not ask there."""
AFTER_CLAIM_SECONDS: Final = 1.0
"""etcd ends a claim within about a second of the time that it tells."""

AT_ONCE: Final = datetime.min.replace(tzinfo=UTC)
OPEN: Final = frozenset(
    {control_pb2.GATE_STATE_PENDING, control_pb2.GATE_STATE_INCONCLUSIVE, control_pb2.GATE_STATE_ERROR}
)
_BY_PERSON: Final = ("RejectedByPerson", "WithdrawnByPerson")


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt of one gate of one instance."""

    instance: str
    gate: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Start:
    """Run it, for as long as its gate says and to `deadline` at the longest; the instance is as it is now."""

    job: Job
    instance: Instance
    deadline: datetime | None


@dataclass(frozen=True, slots=True)
class Steps:
    """What to do now; `wake` is when to ask again although nothing was told."""

    start: tuple[Start, ...]
    stop: tuple[Job, ...]
    wake: datetime | None


class Ending(Enum):
    """How a run ended."""

    DECIDED = "decided"
    """There is a verdict, or somebody decided otherwise: what the proxy tells next counts."""
    AGAIN = "again"
    """The attempt is open still."""


@dataclass(slots=True)
class _Pause:
    """When an attempt may be run again, and how often it has ended without a decision."""

    until: datetime
    times: int


@dataclass(slots=True)
class Plan:
    """The state: `gates` are those that this runner has, `selects` says whose they are, at most `limit` run at once.

    `checks_public` False: its checks reach nobody who is public.
    """

    gates: Collection[str]
    selects: Callable[[Instance], bool]
    limit: int
    checks_public: bool = True
    _instances: dict[str, Instance] = field(default_factory=dict)
    _running: dict[tuple[str, str], Job] = field(default_factory=dict)
    _pauses: dict[Job, _Pause] = field(default_factory=dict)
    _looks: dict[str, datetime] = field(default_factory=dict)
    """When each instance is to be looked at again; one that was told of at once."""

    @property
    def instances(self) -> Collection[Instance]:
        """All that there are, as they are known."""
        return self._instances.values()

    @property
    def running(self) -> Collection[Job]:
        """What was started, and has not ended."""
        return self._running.values()

    def instance(self, instance_id: str) -> Instance | None:
        """As it is known; None for one that is gone."""
        return self._instances.get(instance_id)

    def told(self, instance: Instance) -> None:
        """An instance is new, or something about it."""
        known = self._instances.get(instance.id)
        if known is None or known.record_revision <= instance.record_revision:
            self._instances[instance.id] = instance
            self._looks[instance.id] = AT_ONCE

    def gone(self, instance_id: str) -> None:
        """An instance's lease ended."""
        self._instances.pop(instance_id, None)
        self._looks[instance_id] = AT_ONCE
        self._pauses = {job: pause for job, pause in self._pauses.items() if job.instance != instance_id}

    def ended(self, job: Job, how: Ending, now: datetime) -> None:
        """A run is over, and nothing of it is left."""
        if self._running.get((job.instance, job.gate)) == job:
            del self._running[job.instance, job.gate]
        before = self._pauses.pop(job, None)
        if how is Ending.AGAIN and job.instance in self._instances:
            times = before.times + 1 if before else 0
            self._pauses[job] = _Pause(now + timedelta(seconds=pause_seconds(times)), times)
        # Another one may have waited for its end: of this instance, or of any where as many ran as may.
        looked_at = self._instances if len(self._running) == self.limit - 1 else (job.instance,)
        self._looks.update(dict.fromkeys(looked_at, AT_ONCE))

    def decide(self, now: datetime) -> Steps:
        """What is to be started and stopped; what is started counts as running from here on."""
        due = [instance_id for instance_id, look in self._looks.items() if look <= now]
        stop = tuple(job for instance_id in due for job in self._to_stop(instance_id, now))
        start = tuple(one for instance_id in due for one in self._to_start(instance_id, now))
        return Steps(start, stop, min(self._looks.values(), default=None))

    def _to_stop(self, instance_id: str, now: datetime) -> Iterator[Job]:
        wanted = set(self._wanted(instance_id, now))
        yield from (job for job in self._running.values() if job.instance == instance_id and job not in wanted)

    def _to_start(self, instance_id: str, now: datetime) -> Iterator[Start]:
        del self._looks[instance_id]
        for job, due in self._wanted(instance_id, now).items():
            if (instance_id, job.gate) in self._running:
                continue  # Where it is about another attempt it is being stopped, and its end is told.
            if due > now:
                self._looks[instance_id] = min(due, self._looks.get(instance_id, due))
            elif len(self._running) < self.limit:
                self._running[instance_id, job.gate] = job
                instance = self._instances[instance_id]
                yield Start(job, instance, _deadline(_status(instance, job.gate)))

    def _wanted(self, instance_id: str, now: datetime) -> dict[Job, datetime]:
        """What should run of an instance, and from when on."""
        instance = self._instances.get(instance_id)
        if instance is None or not self.selects(instance) or (is_public(instance) and not self.checks_public):
            return {}
        found: dict[Job, datetime] = {}
        for status in instance.gates:
            if status.gate in self.gates and (due := due_time(instance, status)) is not None:
                job = Job(instance_id, status.gate, status.attempt)
                found[job] = max(due, self._pauses[job].until) if job in self._pauses else due
        return found


def due_time(instance: Instance, status: GateStatus) -> datetime | None:
    """From when on a gate's attempt should run; None where no verdict on it is waited for."""
    if not any(key.live for key in instance.gated_keys) or waits_for_a_person(instance):
        return None
    if status.state == control_pb2.GATE_STATE_PASSED:
        due = _renewal_time(instance, status)
    else:
        due = _opening_time(instance, status)
    if due is None or not status.HasField("claim"):
        return due
    return max(due, _time(status.claim.expire_time) + timedelta(seconds=AFTER_CLAIM_SECONDS))


def is_renewal(instance: Instance, gate: str) -> bool:
    """Whether a run of the gate would only renew its pass."""
    return _status(instance, gate).state == control_pb2.GATE_STATE_PASSED


def is_public(instance: Instance) -> bool:
    """Whether it is released with all that it has: everybody's frontends show it, and it can have no preview."""
    is_released = instance.state == control_pb2.INSTANCE_STATE_RELEASED
    return is_released and not any(key.live and not key.public for key in instance.gated_keys)


def waits_for_a_person(instance: Instance) -> bool:
    """Whether a person rejected or withdrew it, so that no gate brings it back."""
    return any(one.reason in _BY_PERSON for one in instance.conditions)


def pause_seconds(times: int) -> float:
    """How long an attempt rests that has ended without a decision, and so often before."""
    return float(min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(times, 16)))


def _opening_time(instance: Instance, status: GateStatus) -> datetime | None:
    if status.state not in OPEN or instance.state == control_pb2.INSTANCE_STATE_REJECTED:
        return None
    # Of a released one somebody waits where a deadline counts; a rule in dry run is curious all the same.
    is_released = instance.state == control_pb2.INSTANCE_STATE_RELEASED
    if is_released and not (status.HasField("deadline_time") or status.dry_run):
        return None
    # Not from its opening on: by a clock that is behind the proxy's that is still to come.
    return AT_ONCE if instance.address else _time(status.opened_time) + timedelta(seconds=ADDRESS_SECONDS)


def _renewal_time(instance: Instance, status: GateStatus) -> datetime | None:
    if not status.HasField("renew_by_time") or instance.state == control_pb2.INSTANCE_STATE_REJECTED:
        return None
    return _time(status.renew_by_time) - status.pass_ttl.ToTimedelta() / 2


def _deadline(status: GateStatus) -> datetime | None:
    """The attempt's own end, or that of the pass that is to be renewed."""
    if status.state == control_pb2.GATE_STATE_PASSED:
        return _time(status.renew_by_time) if status.HasField("renew_by_time") else None
    return _time(status.deadline_time) if status.HasField("deadline_time") else None


def _status(instance: Instance, gate: str) -> GateStatus:
    return next(status for status in instance.gates if status.gate == gate)


def _time(stamp: object) -> datetime:
    return stamp.ToDatetime(UTC)  # type: ignore[attr-defined, no-any-return]
