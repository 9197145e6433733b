"""The control API's methods: from a valid request to an answer, or to an error that says what to do.

The rule: lists come from the mirror; what somebody decides by is read from etcd, and what they decide is written under
the fence. Methods take the request message and return the answer; GreenroomError and etcd's own errors come out raised.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any

import grpc

from greenroom.access.admission import acting_name, check_acting, limited
from greenroom.control import views
from greenroom.control.announce import Announcer
from greenroom.control.decisions import Decisions
from greenroom.control.filters import first_seen, instance_filter
from greenroom.control.hold_store import HoldStore
from greenroom.control.metrics import Metrics
from greenroom.control.paging import Place, page_after, page_of
from greenroom.control.policy_in_force import PolicyInForce
from greenroom.control.previews import PreviewCalls
from greenroom.control.requests import (
    claim_token,
    instance_of,
    new_claim,
    new_rollout_hold,
    page_size,
    rollout_hold_of,
    verdict_report,
)
from greenroom.control.watch import Watches
from greenroom.core import verdicts
from greenroom.core.decide import why_in_service
from greenroom.core.fleet import UNLIMITED, Limits
from greenroom.core.keyspace import InstanceId
from greenroom.core.record import Record
from greenroom.core.rollout_holds import RolloutHold
from greenroom.core.snapshot import Snapshot
from greenroom.core.verdicts import Effect, Unchanged
from greenroom.errors import GreenroomError, NotReady, UnknownInstance
from greenroom.pb.control.v1 import control_pb2
from greenroom.preview.previews import Previews
from greenroom.store.claims import ClaimStore
from greenroom.store.fenced import DEADLINE_SECONDS, CarriedOut, Clock, carry_out, read_whole_snapshot
from greenroom.store.follower import Follower
from greenroom.store.upstream import Upstream, why

MIRRORED_SECONDS = 1.0
"""The mirror is some milliseconds behind. Where it is more, the answer that is known already should not wait for it."""


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
        policy: PolicyInForce,
        previews: Previews,
        may_revoke_leases: bool = False,
        limits: Callable[[], Limits] = lambda: UNLIMITED,
    ) -> None:
        self._upstream, self._follower, self._mirror = upstream, follower, follower.mirror
        self._clock, self._log = clock, log
        self._announcer, self._metrics, self._policy = announcer, metrics, policy
        self._holds = HoldStore(upstream, log=log)
        self._claims = ClaimStore(upstream, clock=clock, log=log, check=check_acting, on_lost_fence=metrics.fence_lost)
        self._limits = limits
        self._watches = Watches(upstream, follower, metrics, limits)
        self.decisions = Decisions(
            upstream,
            follower.mirror,
            self._afterwards,
            clock=clock,
            log=log,
            announcer=announcer,
            metrics=metrics,
            may_revoke_leases=may_revoke_leases,
            limits=limits,
        )
        """People's, beside what reporters and rollout holds are asked for here."""
        self.previews = PreviewCalls(upstream, follower.mirror, previews)
        """For those who check what is held."""

    async def list_instances(self, request: control_pb2.ListInstancesRequest) -> control_pb2.ListInstancesResponse:
        """Those that all filters leave, the longest known first."""
        if (reason := self._follower.why_not_ready) is not None:
            raise NotReady(f"instances are not known at the moment: {reason}; try again")
        wanted = instance_filter(request)
        holds, limits, now = self._mirror.rollout_holds, self._limits(), self._clock()
        standing = limits.standings(now)
        page, token = page_after(
            lambda after: self._mirror.in_order(after, matching=wanted.matches),
            first_seen,
            lambda one: views.mirrored_instance(
                one,
                holds,
                standing(one.instance),
                self._mirror.conflicts(one.instance, one.record, one.held),
                why_in_service(one.instance, one.record, limits, now),
            ),
            size=page_size(request.page_size),
            token=request.page_token,
            filters=str(wanted),
        )
        return control_pb2.ListInstancesResponse(instances=page, next_page_token=token)

    def watch_instances(
        self, request: control_pb2.WatchInstancesRequest
    ) -> AsyncGenerator[control_pb2.WatchInstancesResponse, None]:
        """Instances as they are, and then what changes about them."""
        return self._watches.watch(request)

    def stop_watches(self) -> None:
        """Ends every stream, and begins no more."""
        self._watches.stop()

    async def get_instance(self, request: control_pb2.GetInstanceRequest) -> control_pb2.Instance:
        """One instance, as etcd has it now."""
        instance = instance_of(request.name)
        snapshot = await self._read(instance)
        if snapshot.record is None:
            raise UnknownInstance(
                f"no instance {instance}: it never registered through a proxy, or its lease ended", instance=instance
            )
        return self._shown(snapshot, snapshot.record, snapshot.record_revision)

    async def report_verdict(self, request: control_pb2.ReportVerdictRequest) -> control_pb2.ReportVerdictResponse:
        """Stores a verdict and does in the same Txn what follows from it."""
        said = verdict_report(request)
        planner = verdicts.verdict(
            *(said.gate, said.attempt, said.outcome),
            reason=said.reason,
            reporter=said.reporter,
            limits=self._limits(),
            conflicts=partial(self._mirror.conflicts, said.instance),
        )
        done = await carry_out(
            self._upstream,
            said.instance,
            limited(planner),
            clock=self._clock,
            on_lost_fence=self._metrics.fence_lost,
        )
        if isinstance(done, CarriedOut):
            self._announcer.verdict_stored(said, done)
        record, instance = await self._afterwards(said.instance, done)
        withdrawn = isinstance(done, CarriedOut) and done.effect is Effect.WITHDRAWN
        return control_pb2.ReportVerdictResponse(
            instance=instance,
            decision=control_pb2.DECISION_WITHDRAWN if withdrawn else views.decision_of(record),
            repeated_verdict=not isinstance(done, CarriedOut),
        )

    async def claim_gate(self, request: control_pb2.ClaimGateRequest) -> control_pb2.Claim:
        """Lets one runner run an attempt, and nobody else meanwhile."""
        held = await self._claims.claim(new_claim(request))
        self._announcer.gate_claimed(held)
        return views.claim_message(held)

    async def renew_claim(self, request: control_pb2.RenewClaimRequest) -> control_pb2.Claim:
        """Gives a claim its whole time again."""
        token = claim_token(request)
        return views.claim_message(await self._claims.renew(token.instance, token.gate, token.lease))

    async def release_claim(self, request: control_pb2.ReleaseClaimRequest) -> control_pb2.ReleaseClaimResponse:
        """Ends a claim: its attempt is free again."""
        token = claim_token(request)
        held = await self._claims.release(token.instance, token.gate, token.lease)
        self._announcer.claim_released(held)
        return control_pb2.ReleaseClaimResponse(claim=views.claim_message(held))

    async def create_rollout_hold(self, request: control_pb2.CreateRolloutHoldRequest) -> control_pb2.RolloutHold:
        """Stops releases from its revision on. Lists that are asked for afterwards show what it stops."""
        now = self._clock()
        hold = await self._holds.create(new_rollout_hold(request, now), now)
        self._announcer.rollout_hold_created(hold)
        await self._mirrored(hold)
        return views.rollout_hold_message(hold)

    async def list_rollout_holds(
        self, request: control_pb2.ListRolloutHoldsRequest
    ) -> control_pb2.ListRolloutHoldsResponse:
        """All in force, as etcd has them now."""
        holds = await self._holds.all()
        size, message = page_size(request.page_size), views.rollout_hold_message
        page, token = page_of(holds, _hold_place, message, size=size, token=request.page_token)
        return control_pb2.ListRolloutHoldsResponse(rollout_holds=page, next_page_token=token)

    async def lift_rollout_hold(
        self, request: control_pb2.LiftRolloutHoldRequest
    ) -> control_pb2.LiftRolloutHoldResponse:
        """Lets releases go on; every proxy's reconciler looks at what became ready meanwhile."""
        hold = await self._holds.lift(rollout_hold_of(request.name))
        self._announcer.rollout_hold_lifted(hold, by=acting_name())
        return control_pb2.LiftRolloutHoldResponse(rollout_hold=views.rollout_hold_message(hold))

    async def get_policy(self, _: control_pb2.GetPolicyRequest) -> control_pb2.Policy:
        """What this proxy goes by."""
        return self._policy.message()

    async def _mirrored(self, hold: RolloutHold) -> None:
        """Returns when the mirror shows the hold; or after a moment without it, since it stands all the same."""
        with contextlib.suppress(TimeoutError), self._follower.subscribe() as changes:
            async with asyncio.timeout(MIRRORED_SECONDS):
                while all(known.hold_id != hold.hold_id for known in self._mirror.rollout_holds):
                    await changes.next()

    async def _read(self, instance: InstanceId) -> Snapshot:
        """One read where the mirror knows the instance's cards, else two."""
        mirrored = self._mirror.instance(instance)
        keys = mirrored.record.keys if mirrored else ()
        return await read_whole_snapshot(self._upstream, instance, keys, timeout_seconds=DEADLINE_SECONDS)

    async def _afterwards(
        self, instance: InstanceId, done: CarriedOut | Unchanged
    ) -> tuple[Record, control_pb2.Instance]:
        """The instance as a Txn left it; after a repeated verdict as it is now, or was if its lease has ended.

        What was decided stands. Where etcd does not answer again, the rest is told as the mirror has it.
        """
        try:
            snapshot = await self._read(instance)
        except (GreenroomError, grpc.aio.AioRpcError) as error:
            self._log.warning("control.not_read_again", instance=instance, reason=why(error, DEADLINE_SECONDS))
            return done.record, self._as_mirrored(instance, done)
        if isinstance(done, CarriedOut):
            record, revision = done.record, done.revision
        else:
            record, revision = snapshot.record or done.record, snapshot.record_revision
        return record, self._shown(snapshot, record, revision)

    def _shown(self, snapshot: Snapshot, record: Record, revision: int) -> control_pb2.Instance:
        """As it was read, with what only the mirror knows."""
        instance, limits, now = snapshot.instance, self._limits(), self._clock()
        return views.read_instance(
            snapshot,
            record,
            self._mirror.address(instance),
            limits.standing(instance, now),
            revision=revision,
            claims=self._mirror.claims(instance),
            conflicts=self._mirror.conflicts(instance, record, snapshot.shadows.keys()),
            in_service=why_in_service(instance, record, limits, now),
        )

    def _as_mirrored(self, instance: InstanceId, done: CarriedOut | Unchanged) -> control_pb2.Instance:
        mirrored, limits, now = self._mirror.instance(instance), self._limits(), self._clock()
        held = mirrored.held if mirrored else frozenset()
        return views.instance_message(
            instance,
            done.record,
            revision=done.revision if isinstance(done, CarriedOut) else mirrored.revision if mirrored else 0,
            live=mirrored.live_keys if mirrored else done.record.keys,
            public=mirrored.public_keys if mirrored else None,
            rollout_holds=self._mirror.rollout_holds,
            conflicts=self._mirror.conflicts(instance, done.record, held),
            address=self._mirror.address(instance),
            claims=self._mirror.claims(instance),
            standing=limits.standing(instance, now),
            in_service=why_in_service(instance, done.record, limits, now),
        )


def _hold_place(hold: RolloutHold) -> Place:
    return (hold.hold_id,)
