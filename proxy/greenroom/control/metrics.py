"""What monitoring sees, in a registry of its own.

The rules: no label is unbounded (gates are the policy's, methods the relay's table, the rest "other"), and what a Txn
did is counted by the proxy whose Txn it was, so that replicas add up. Gauges are read from the mirror at each scrape.
"""

from collections import Counter as Counts
from collections.abc import Callable, Collection, Iterable, Set
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from greenroom.control.policy_in_force import PolicyInForce
from greenroom.core.decisions import DecisionKind
from greenroom.core.record import Gate, State
from greenroom.core.transitions import ITSELF, Outcome
from greenroom.core.verdicts import Effect
from greenroom.store.changes import Expired
from greenroom.store.fenced import CarriedOut, Clock
from greenroom.store.members import Members
from greenroom.store.mirror import Mirror

OTHER = "other"
BUCKETS_SECONDS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400)
"""Gates take from a fraction of a second (a card's form) to hours (an accuracy suite)."""

DEADLINE = "deadline"
"""The outcome label of a gate that ran out of time; else it is the reporter's word."""
VERDICT = "verdict"
"""The cause label of a rejection by a reporter; the clock's is DEADLINE."""
PERSON = "person"
"""That of a rejection by a person."""
CONFLICT = "conflict"
"""That of a rejection for a conflict with a released instance."""
INSPECTOR, HANDLER, RELAY = "inspector", "handler", "relay"
"""The part label of a bug."""


class Metrics:
    """Counts what happens. `gates` and `methods` (paths without the leading slash) bound the labels of these names.

    Also the relay's Observer, as far as that is about counting.
    """

    def __init__(
        self, mirror: Mirror, *, clock: Clock, gates: Collection[str], methods: Collection[str], version: str
    ) -> None:
        # A second series for each one, of when it began, is of no use to anyone here. The library knows no other way.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry(auto_describe=True)
        self._gates: Set[str] = frozenset(gates)
        self._methods = frozenset(methods)
        self.registry.register(_FromMirror(mirror, clock, lambda: self._gates))
        Gauge("greenroom_build_info", "1, with the version.", ["version"], registry=self.registry).labels(version).set(
            1
        )
        self._of_instances()
        self._of_calls()
        self._start_at_zero()

    def _of_instances(self) -> None:
        verdicts = "Verdicts that this proxy stored."
        self._verdicts = self._counter("verdicts", verdicts, "gate", "outcome")
        self._decisions = self._counter("decisions", "People's decisions that this proxy carried out.", "kind")
        self._releases = self._counter("releases", "Instances that this proxy released.")
        self._rejections = self._counter("rejections", "Instances that this proxy rejected.", "cause")
        expired = (
            "Instances whose lease this proxy saw end, by their last state. "
            "Every proxy sees every one: take the maximum over replicas, not the sum."
        )
        self._expired = self._counter("expired", expired, "state")
        claims_expired = (
            "Claims that this proxy saw end without a verdict, unreleased: their runners went away. "
            "Every proxy sees every one: take the maximum over replicas, not the sum."
        )
        self._claims_expired = self._counter("claims_expired", claims_expired, "gate")
        gate_seconds = "From the opening of a gate's attempt to its decision."
        self._gate_seconds = self._histogram("gate_duration_seconds", gate_seconds, "gate", "outcome")
        hold_seconds = "From an instance's first hold to its release."
        self._hold_seconds = self._histogram("hold_duration_seconds", hold_seconds)
        dry_run = "From the registration of an instance that only rules in dry run match to when it would be released."
        self._dry_run_seconds = self._histogram("dry_run_hold_duration_seconds", dry_run)
        self._ungated_writes = self._counter(
            "ungated_writes", "Cards that this proxy let through to everybody because no rule matches them."
        )
        self._lost_fences = self._counter(
            "lost_fences", "Txns of this proxy that came too late, and were planned anew."
        )

    def _of_calls(self) -> None:
        relayed = _CallsRelayed(self._methods)
        self.registry.register(relayed)
        self.call_relayed = relayed.count
        handed_over = self._counter("calls_handed_over", "Clients' calls answered by Greenroom.", "method")
        # Looking a label up costs more than counting.
        self._handed_over, self._other_handed_over = self._by_path(handed_over), handed_over.labels(OTHER)
        self._refused = self._counter("calls_refused", "Clients' calls refused, by gRPC code.", "method", "code")
        self._connections = Gauge("greenroom_connections", "Clients' open connections.", registry=self.registry)
        self._watchers = Gauge("greenroom_instance_watchers", "Open streams of WatchInstances.", registry=self.registry)
        self._opened = self._counter("connections_opened", "Clients' connections since the start.")
        self._upstream_failures = self._counter(
            "upstream_failures", "Connections to etcd that failed or were given up."
        )
        self._bugs = self._counter("call_bugs", "Clients' calls answered INTERNAL for a bug of Greenroom's.", "part")

    def _start_at_zero(self) -> None:
        """A rate over a counter that appears with its first event misses that event, which may be the only one."""
        for outcome in Outcome:
            for gate in self._gates:
                self._verdicts.labels(gate, outcome)
        for kind in DecisionKind:
            self._decisions.labels(kind)
        for gate in self._gates:
            self._claims_expired.labels(gate)
        for cause in (VERDICT, DEADLINE, PERSON, CONFLICT):
            self._rejections.labels(cause)
        for state in State:
            self._expired.labels(state.lower())
        for part in (INSPECTOR, HANDLER, RELAY):
            self._bugs.labels(part)

    def show_members(self, members: Members) -> None:
        """From here on the members of etcd are shown, as of each scrape."""
        self.registry.register(_FromMembers(members))

    def show_policy(self, policy: PolicyInForce) -> None:
        """From here on it is shown whether the policy in force is the file's, and the other proxies'."""
        self.registry.register(_FromPolicy(policy))

    def know_gates(self, gates: Set[str]) -> None:
        """A new policy names these. The gates of the one before stay known: there are instances that have them."""
        self._gates |= gates
        self._start_at_zero()

    def ungated_write(self) -> None:
        """A card was written publicly, as it came, since no rule matches it."""
        self._ungated_writes.inc()

    def fence_lost(self) -> None:
        """A Txn of ours compared something that had changed."""
        self._lost_fences.inc()

    def verdict_given(self, gate: str, outcome: str) -> None:
        """A reporter's verdict was stored by this proxy."""
        self._verdicts.labels(self._gate(gate), outcome).inc()

    def decision_taken(self, kind: DecisionKind) -> None:
        """A person's decision was carried out by this proxy."""
        self._decisions.labels(kind).inc()

    def carried_out(self, done: CarriedOut) -> None:
        """What a Txn of ours did to an instance."""
        for name, gate in done.record.gates.items():
            before = done.before.gates.get(name)
            if before is not None and before.decided is None and gate.decided is not None:
                seconds = (gate.decided - gate.started).total_seconds()
                self._gate_seconds.labels(self._gate(name), _outcome(gate)).observe(max(seconds, 0))
        if done.effect is Effect.RELEASED:
            self._releases.inc()
            histogram = self._dry_run_seconds if done.record.dry_run else self._hold_seconds
            _held_for(histogram, done.record.first_held, done.record.released)
        elif done.effect is Effect.REJECTED:
            self._rejections.labels(_cause(done)).inc()

    def expired(self, expired: Expired) -> None:
        """An instance's lease ended."""
        self._expired.labels(expired.record.state.lower()).inc()

    def claim_expired(self, gate: str) -> None:
        """A claim ended by itself."""
        self._claims_expired.labels(self._gate(gate)).inc()

    def watcher_opened(self) -> None:
        """A stream of WatchInstances began."""
        self._watchers.inc()

    def watcher_closed(self) -> None:
        """It ended."""
        self._watchers.dec()

    def connection_opened(self) -> None:
        """A client connected."""
        self._opened.inc()
        self._connections.inc()

    def connection_closed(self, reason: str) -> None:
        """A client's connection ended; the reason is for logs, there are too many to label by."""
        self._connections.dec()

    def call_handed_over(self, path: bytes) -> None:
        """A call was answered by us."""
        self._handed_over.get(path, self._other_handed_over).inc()

    def call_refused(self, path: bytes, code: int) -> None:
        """A call was refused; `code` is gRPC's number."""
        self._refused.labels(self._method(path), str(code)).inc()

    def upstream_failed(self, address: str, reason: str) -> None:
        """The relay could not reach an address of etcd's."""
        self._upstream_failures.inc()

    def inspector_failed(self, path: bytes, error: Exception) -> None:
        """A bug met while looking into a call."""
        self._bugs.labels(INSPECTOR).inc()

    def handler_failed(self, path: bytes, error: Exception) -> None:
        """A bug met while answering a call."""
        self._bugs.labels(HANDLER).inc()

    def connection_failed(self, error: Exception) -> None:
        """A bug met by the relay itself."""
        self._bugs.labels(RELAY).inc()

    def _gate(self, name: str) -> str:
        return name if name in self._gates else OTHER

    def _method(self, path: bytes) -> str:
        name = path.removeprefix(b"/").decode("latin-1")
        return name if name in self._methods else OTHER

    def _by_path(self, counter: Counter) -> dict[bytes, Counter]:
        return {f"/{method}".encode(): counter.labels(method) for method in self._methods}

    def _counter(self, name: str, help_text: str, *labels: str) -> Counter:
        return Counter(f"greenroom_{name}", help_text, labels, registry=self.registry)

    def _histogram(self, name: str, help_text: str, *labels: str) -> Histogram:
        return Histogram(f"greenroom_{name}", help_text, labels, buckets=BUCKETS_SECONDS, registry=self.registry)


class _CallsRelayed(Collector):
    """Calls passed on, by method, in plain numbers: a counter of the library takes as long as a tenth of relaying."""

    def __init__(self, methods: Iterable[str]) -> None:
        self._counts = dict.fromkeys((f"/{method}".encode() for method in methods), 0)
        self._others = 0

    def count(self, path: bytes) -> None:
        """A call went on to etcd."""
        if path in self._counts:
            self._counts[path] += 1
        else:
            self._others += 1

    def collect(self) -> Iterable[Metric]:
        """The counter as of now."""
        relayed = CounterMetricFamily("greenroom_calls_relayed", "Clients' calls passed on to etcd.", labels=["method"])
        for path, count in self._counts.items():
            relayed.add_metric([path.decode().removeprefix("/")], count)
        relayed.add_metric([OTHER], self._others)
        yield relayed


class _FromMirror(Collector):
    """What can be read off the mirror at any time, and so is never counted up and down."""

    def __init__(self, mirror: Mirror, clock: Clock, gates: Callable[[], Set[str]]) -> None:
        self._mirror, self._clock, self._gates = mirror, clock, gates

    def collect(self) -> Iterable[Metric]:
        """The gauges as of now."""
        records = list(self._mirror.records())
        states = Counts(record.state for record in records)
        by_state = GaugeMetricFamily("greenroom_instances", "Instances by state.", labels=["state"])
        for state in State:
            by_state.add_metric([state.lower()], states[state])
        yield by_state
        held = [record.first_held for record in records if record.state is State.HELD and record.first_held]
        age = (self._clock() - min(held)).total_seconds() if held else 0.0
        oldest = "Since when the longest held instance has been held; 0 with none."
        yield GaugeMetricFamily("greenroom_oldest_held_age_seconds", oldest, value=max(age, 0.0))
        holds = len(self._mirror.rollout_holds)
        yield GaugeMetricFamily("greenroom_rollout_holds", "Rollout holds in force.", value=holds)
        yield self._claims()
        unreadable = "Instances whose record this version cannot read; someone must look."
        yield GaugeMetricFamily("greenroom_unreadable_records", unreadable, value=len(self._mirror.unreadable))

    def _claims(self) -> Metric:
        """Counted by gate over all instances, those that have ended among them: their claims last a little longer."""
        known = self._gates()
        claimed = Counts(gate if gate in known else OTHER for gate in self._mirror.claimed_gates())
        claims = GaugeMetricFamily("greenroom_claims", "Claims in force, by gate.", labels=["gate"])
        for gate in sorted({*known, *claimed}):
            claims.add_metric([gate], claimed[gate])
        return claims


class _FromMembers(Collector):
    """Which members of etcd are of use. The addresses are the settings', and so bounded."""

    def __init__(self, members: Members) -> None:
        self._members = members

    def collect(self) -> Iterable[Metric]:
        """The gauge as of now."""
        says = "1 for a member of etcd that answers reads which need a quorum, else 0."
        up = GaugeMetricFamily("greenroom_upstream_member_up", says, labels=["member"])
        for member, is_up in self._members.up().items():
            up.add_metric([member], is_up)
        yield up


class _FromPolicy(Collector):
    """Whether the policy in force is what it should be."""

    def __init__(self, policy: PolicyInForce) -> None:
        self._policy = policy

    def collect(self) -> Iterable[Metric]:
        """The figures as of now."""
        loaded = "1 while the policy in force is what its file says, 0 while that is refused."
        yield GaugeMetricFamily("greenroom_policy_loaded", loaded, value=self._policy.source.refused is None)
        failures = "Times that the policy file was read again and refused."
        yield CounterMetricFamily("greenroom_policy_reload_failures", failures, value=self._policy.source.failures)
        differing = "Other proxies of this etcd whose policy is another one."
        yield GaugeMetricFamily(
            "greenroom_policy_differing_proxies", differing, value=len(self._policy.presence.differing)
        )


def _held_for(histogram: Histogram, since: datetime | None, until: datetime | None) -> None:
    if since is not None and until is not None:
        histogram.observe(max((until - since).total_seconds(), 0))


def _outcome(gate: Gate) -> str:
    return DEADLINE if gate.state == "FAILED" and gate.reporter == ITSELF else gate.state.lower()


def _cause(done: CarriedOut) -> str:
    """Whether a person, a reporter, the clock or a conflict rejected."""
    if done.record.rejected_by:
        return PERSON
    if done.record.conflict:
        return CONFLICT
    newly = (gate for name, gate in done.record.gates.items() if gate != done.before.gates.get(name))
    return DEADLINE if any(_outcome(gate) == DEADLINE for gate in newly) else VERDICT
