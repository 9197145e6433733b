"""The control API's methods: from a valid request to an answer, or to an error that says what to do.

The rule: lists come from the mirror; what somebody decides by is read from etcd, and what they decide is written under
the fence. Methods take the request message and return the answer; GreenroomError and etcd's own errors come out raised.
"""

from typing import Any

from greenroom.control import views
from greenroom.control.announce import Announcer
from greenroom.control.hold_store import HoldStore
from greenroom.control.metrics import Metrics
from greenroom.control.paging import Place, page_of
from greenroom.control.requests import (
    instance_of,
    new_rollout_hold,
    page_size,
    rollout_hold_of,
    verdict_report,
)
from greenroom.core import verdicts
from greenroom.core.keyspace import InstanceId
from greenroom.core.record import Record
from greenroom.core.rollout_holds import RolloutHold
from greenroom.core.snapshot import Snapshot
from greenroom.errors import InvalidRequest, NotReady, UnknownInstance
from greenroom.pb.control.v1 import control_pb2
from greenroom.store.fenced import DEADLINE_SECONDS, CarriedOut, Clock, carry_out, read_whole_snapshot
from greenroom.store.follower import Follower
from greenroom.store.mirror import MirroredInstance
from greenroom.store.upstream import Upstream


class ControlService:
    """All methods of greenroom.control.v1.Control, as functions of a message."""

    def __init__(
        self,
        upstream: Upstream,
        follower: Follower,
        *,
        clock: Clock,
        log: Any,
        announcer: Announcer,
        metrics: Metrics,
    ) -> None:
        self._upstream, self._follower, self._mirror = upstream, follower, follower.mirror
        self._clock, self._log = clock, log
        self._announcer, self._metrics = announcer, metrics
        self._holds = HoldStore(upstream, log=log)

    async def list_instances(self, request: control_pb2.ListInstancesRequest) -> control_pb2.ListInstancesResponse:
        """Those that all filters leave, the longest known first."""
        if (reason := self._follower.why_not_ready) is not None:
            raise NotReady(f"instances are not known at the moment: {reason}; try again")
        if request.state not in (control_pb2.INSTANCE_STATE_UNSPECIFIED, *views.STATES.values()):
            raise InvalidRequest(f"state: {request.state} is not known to this version", field="state")
        matching = (mirrored for mirrored in self._mirror.instances() if _matches(mirrored, request))
        filters = repr((request.state, request.namespace, request.component, request.model))
        page, token = page_of(
            matching, _place, size=page_size(request.page_size), token=request.page_token, filters=filters
        )
        holds = self._mirror.rollout_holds
        return control_pb2.ListInstancesResponse(
            instances=[views.mirrored_instance(mirrored, holds) for mirrored in page], next_page_token=token
        )

    async def get_instance(self, request: control_pb2.GetInstanceRequest) -> control_pb2.Instance:
        """One instance, as etcd has it now."""
        instance = instance_of(request.name)
        snapshot = await self._read(instance)
        if snapshot.record is None:
            raise UnknownInstance(
                f"no instance {instance}: it never registered through a proxy, or its lease ended", instance=instance
            )
        return views.read_instance(snapshot, snapshot.record, self._mirror.address(instance))

    async def report_verdict(self, request: control_pb2.ReportVerdictRequest) -> control_pb2.ReportVerdictResponse:
        """Stores a verdict and does in the same Txn what follows from it."""
        said = verdict_report(request)
        done = await carry_out(
            self._upstream,
            said.instance,
            verdicts.verdict(said.gate, said.attempt, said.outcome, reason=said.reason, reporter=said.reporter),
            clock=self._clock,
            on_lost_fence=self._metrics.fence_lost,
        )
        if isinstance(done, CarriedOut):
            self._metrics.verdict_given(said.gate, said.outcome)
            self._announcer.carried_out(done)
        return control_pb2.ReportVerdictResponse(
            instance=await self._afterwards(said.instance, done.record),
            decision=views.decision_of(done.record),
            repeated_verdict=not isinstance(done, CarriedOut),
        )

    async def create_rollout_hold(self, request: control_pb2.CreateRolloutHoldRequest) -> control_pb2.RolloutHold:
        """Stops releases from its revision on."""
        now = self._clock()
        hold = await self._holds.create(new_rollout_hold(request, now), now)
        self._announcer.rollout_hold_created(hold)
        return views.rollout_hold_message(hold)

    async def list_rollout_holds(
        self, request: control_pb2.ListRolloutHoldsRequest
    ) -> control_pb2.ListRolloutHoldsResponse:
        """All in force, as etcd has them now."""
        holds = await self._holds.all()
        page, token = page_of(holds, _hold_place, size=page_size(request.page_size), token=request.page_token)
        return control_pb2.ListRolloutHoldsResponse(
            rollout_holds=[views.rollout_hold_message(hold) for hold in page], next_page_token=token
        )

    async def lift_rollout_hold(
        self, request: control_pb2.LiftRolloutHoldRequest
    ) -> control_pb2.LiftRolloutHoldResponse:
        """Lets releases go on; every proxy's reconciler looks at what became ready meanwhile."""
        hold = await self._holds.lift(rollout_hold_of(request.name))
        self._announcer.rollout_hold_lifted(hold)
        return control_pb2.LiftRolloutHoldResponse(rollout_hold=views.rollout_hold_message(hold))

    async def _read(self, instance: InstanceId) -> Snapshot:
        """One read where the mirror knows the instance's cards, else two."""
        mirrored = self._mirror.instance(instance)
        keys = mirrored.record.keys if mirrored else ()
        return await read_whole_snapshot(self._upstream, instance, keys, timeout_seconds=DEADLINE_SECONDS)

    async def _afterwards(self, instance: InstanceId, record: Record) -> control_pb2.Instance:
        """The instance after a verdict; as the verdict left it where its lease has ended since."""
        snapshot = await self._read(instance)
        return views.read_instance(snapshot, snapshot.record or record, self._mirror.address(instance))


def _matches(mirrored: MirroredInstance, request: control_pb2.ListInstancesRequest) -> bool:
    record = mirrored.record
    return (
        (not request.state or views.STATES[record.state] == request.state)
        and (not request.namespace or request.namespace in record.distinct("namespace"))
        and (not request.component or request.component in record.distinct("component"))
        and (not request.model or request.model in record.distinct("model"))
    )


def _place(mirrored: MirroredInstance) -> Place:
    """By when it was first seen, which never changes, and then by name."""
    trail = mirrored.record.transitions
    return (trail[0].time.isoformat() if trail else "", mirrored.instance)


def _hold_place(hold: RolloutHold) -> Place:
    return (hold.hold_id,)
