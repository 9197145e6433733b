"""Two workers under limits of releases: the actors, each of which looks at its mirror before it reads and plans.

The rule: a mirror is one read of the whole fleet, so by the time of the plan it is as old as the interleaving has it.
No time passes: nothing that is in flight settles.
"""

from collections.abc import Callable, Generator
from typing import Any

from greenroom.core import record as records
from greenroom.core.fleet import Limits, groups_of
from greenroom.core.keyspace import RECORDS, InstanceId, Key, prefix_end
from greenroom.core.policy import ReleasesPolicy
from greenroom.core.record import Record, State
from greenroom.core.transitions import Outcome, overridden
from greenroom.core.verdicts import Effect, Planned, Planner, edit, reconcile, verdict, withdrawal
from greenroom.pb.etcd import kv_pb2, rpc_pb2
from tests.support import story as told
from tests.support.known_fleet import KnownFleet
from tests.support.model_actors import _planned
from tests.support.model_explore import Ask, Call, Program

L, M = InstanceId("7f"), InstanceId("80")
CARDS = {instance: Key(f"v1/mdc/ns/backend/generate/{instance}".encode()) for instance in (L, M)}
PlannerWithin = Callable[[Limits], Planner]
Did = Callable[[int, Planned], tuple[told.Operation, ...]]


def classify(key: bytes) -> str | None:
    return next((instance for instance, card in CARDS.items() if card == key), None)


def passes(instance: InstanceId, releases: ReleasesPolicy, attempt: int = 1) -> Call:
    """The last verdict."""

    def within(limits: Limits) -> Planner:
        return verdict("smoke", attempt, Outcome.PASSED, reason="because", reporter="a test", limits=limits)

    def did(at: int, _: Planned) -> tuple[told.Operation, ...]:
        return (told.Decided(at, instance, "smoke", True, at),)

    return _within(instance, releases, within, "verdict", did)


def override(instance: InstanceId, releases: ReleasesPolicy) -> Call:
    def within(limits: Limits) -> Planner:
        return edit(lambda record, now: overridden(record, "somebody", "because", now), limits)

    return _within(instance, releases, within, "override", lambda at, _: (told.Overrode(at, instance),))


def reconciles(instance: InstanceId, releases: ReleasesPolicy) -> Call:
    return _within(instance, releases, lambda limits: reconcile(None, limits=limits), "reconcile", lambda *_: ())


def withdraws(instance: InstanceId, releases: ReleasesPolicy, *, by_person: bool) -> Call:
    """Where that stops what is like it, the story knows of the stop."""

    def within(limits: Limits) -> Planner:
        return withdrawal("somebody", "because", by_person=by_person, limits=limits)

    def did(at: int, planned: Planned) -> tuple[told.Operation, ...]:
        withdrew = told.Withdrew(at, instance, by_person)
        stop = planned.stop
        return (withdrew, told.RolloutHeld(at, stop.hold_id)) if stop else (withdrew,)

    return _within(instance, releases, within, "withdraw", did)


def _within(instance: InstanceId, releases: ReleasesPolicy, within: PlannerWithin, kind: str, did: Did) -> Call:
    def call(_: Any) -> Program:
        limits = Limits(releases, (yield from _mirror(instance)))

        def done(at: int, _: Record, planned: Planned) -> tuple[told.Operation, ...]:
            assert planned.effect is not Effect.REJECTED
            return did(at, planned)

        return (yield from _planned(instance, within(limits), kind, done))

    return call


def _mirror(instance: InstanceId) -> Generator[Ask, Any, KnownFleet]:
    """Everybody's records at one revision, and what follows from them for the plan of one instance."""
    request = rpc_pb2.TxnRequest()
    request.success.add().request_range.CopyFrom(rpc_pb2.RangeRequest(key=RECORDS, range_end=prefix_end(RECORDS)))
    answer = yield Ask("mirror", request)
    kvs: list[kv_pb2.KeyValue] = list(answer.responses[0].response_range.kvs)
    known = {kv.key.removeprefix(RECORDS).decode(): records.decode(kv.value, "R") for kv in kvs}
    released = [record for name, record in known.items() if record.state is State.RELEASED and name != instance]
    groups = [group for record in released for group in groups_of(record)]
    return KnownFleet(
        revision=answer.header.revision,
        released={group: groups.count(group) for group in groups},
        gone=frozenset({L, M} - known.keys()),
    )
