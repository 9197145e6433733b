"""The control API's decisions of people: override, reject, withdraw, retry, drop, end of a lease.

The rule: each is one fenced Txn with the actor and the reason in the record's trail, and is logged and counted by the
proxy that carried it out. Only the end of a lease is a call of another kind, and off unless the proxy was told.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import grpc

from greenroom.control import views
from greenroom.control.announce import Announcer
from greenroom.control.metrics import Metrics
from greenroom.control.requests import DecisionRequest, persons_decision
from greenroom.core import decisions
from greenroom.core.decisions import DecisionKind, PersonsDecision
from greenroom.core.fleet import Limits
from greenroom.core.keyspace import InstanceId, lease_of
from greenroom.core.record import Record
from greenroom.core.verdicts import Unchanged
from greenroom.errors import NoSpaceToWithdraw, RevokeLeaseOff, UnknownInstance
from greenroom.pb.control.v1 import control_pb2
from greenroom.pb.etcd import rpc_pb2
from greenroom.store.fenced import DEADLINE_SECONDS, CarriedOut, Clock, carry_out
from greenroom.store.mirror import Mirror
from greenroom.store.upstream import Upstream

Afterwards = Callable[[InstanceId, CarriedOut | Unchanged], Awaitable[tuple[Record, control_pb2.Instance]]]
"""The instance as a Txn left it, for the answer."""

NO_SPACE = "database space exceeded"
"""What etcd says of a write while its NOSPACE alarm stands; other calls are too large or too many."""


class Decisions:
    """One method for each decision, as functions of a message."""

    def __init__(
        self,
        upstream: Upstream,
        mirror: Mirror,
        afterwards: Afterwards,
        *,
        clock: Clock,
        log: Any,
        announcer: Announcer,
        metrics: Metrics,
        may_revoke_leases: bool,
        limits: Callable[[], Limits],
    ) -> None:
        self._upstream, self._mirror, self._afterwards = upstream, mirror, afterwards
        self._clock, self._log = clock, log
        self._announcer, self._metrics = announcer, metrics
        self._may_revoke_leases, self._limits = may_revoke_leases, limits

    async def release(self, request: control_pb2.ReleaseInstanceRequest) -> control_pb2.ReleaseInstanceResponse:
        """Sets aside every gate that is not through, and releases where nothing else is in the way."""
        record, instance = await self._decided(DecisionKind.OVERRIDE, request)
        decision = views.decision_afterwards(record)
        return control_pb2.ReleaseInstanceResponse(instance=instance, decision=decision)

    async def reject(self, request: control_pb2.RejectInstanceRequest) -> control_pb2.RejectInstanceResponse:
        """Keeps it out, whatever its gates say."""
        record, instance = await self._decided(DecisionKind.REJECT, request)
        decision = views.decision_afterwards(record)
        return control_pb2.RejectInstanceResponse(instance=instance, decision=decision)

    async def withdraw(self, request: control_pb2.WithdrawInstanceRequest) -> control_pb2.WithdrawInstanceResponse:
        """Takes all its cards back. Without space nothing is: a card that is only deleted would be lost."""
        try:
            record, instance = await self._decided(DecisionKind.WITHDRAW, request)
        except grpc.aio.AioRpcError as error:
            if not _lacks_space(error):
                raise
            raise NoSpaceToWithdraw(
                f"etcd has no space and takes no write ({error.details()}), so nothing was withdrawn: make space, or "
                "revoke the instance's lease, which needs none and makes its worker start again",
                etcd_code=error.code().name,
            ) from error
        decision = views.decision_afterwards(record)
        return control_pb2.WithdrawInstanceResponse(instance=instance, decision=decision)

    async def retry(self, request: control_pb2.RetryGatesRequest) -> control_pb2.RetryGatesResponse:
        """Opens new attempts, and ends what a person did against it."""
        record, instance = await self._decided(DecisionKind.RETRY, request)
        return control_pb2.RetryGatesResponse(instance=instance, decision=views.decision_afterwards(record))

    async def drop(self, request: control_pb2.DropCardsRequest) -> control_pb2.DropCardsResponse:
        """Forgets its held cards."""
        _, instance = await self._decided(DecisionKind.DROP, request)
        return control_pb2.DropCardsResponse(instance=instance, decision=control_pb2.DECISION_DROPPED)

    async def revoke_lease(self, request: control_pb2.RevokeLeaseRequest) -> control_pb2.RevokeLeaseResponse:
        """Ends its lease. Whoever follows the instance sees in its last state who did it, and why."""
        if not self._may_revoke_leases:
            raise RevokeLeaseOff(
                "this proxy ends no worker's lease: start it with --allow-revoke-lease to let people do that; "
                "a rejection or a withdrawal keeps the instance out without"
            )
        said = persons_decision(DecisionKind.REVOKE_LEASE, request)
        record, instance = await self._afterwards(said.instance, await self._noted(said))
        await self._end_lease(said.instance)
        self._announcer.decision_taken(said, record)
        return control_pb2.RevokeLeaseResponse(instance=instance, decision=control_pb2.DECISION_LEASE_REVOKED)

    async def _decided(self, kind: DecisionKind, request: DecisionRequest) -> tuple[Record, control_pb2.Instance]:
        said = persons_decision(kind, request)
        done = await self._carried_out(said)
        if isinstance(done, CarriedOut):
            self._announcer.decision_taken(said, done.record, done)
        return await self._afterwards(said.instance, done)

    async def _carried_out(self, said: PersonsDecision) -> CarriedOut | Unchanged:
        return await carry_out(
            self._upstream,
            said.instance,
            decisions.planned(said, self._limits(), partial(self._mirror.conflicts, said.instance)),
            clock=self._clock,
            on_lost_fence=self._metrics.fence_lost,
        )

    async def _noted(self, said: PersonsDecision) -> CarriedOut | Unchanged:
        """Who, and why, in the record. Where etcd has no space for that, the log alone has it."""
        try:
            return await self._carried_out(said)
        except grpc.aio.AioRpcError as error:
            mirrored = self._mirror.instance(said.instance)
            if mirrored is None or not _lacks_space(error):
                raise
            self._log.warning("decision.not_noted", instance=said.instance, reason=error.details())
            return Unchanged(mirrored.record)

    async def _end_lease(self, instance: InstanceId) -> None:
        request = rpc_pb2.LeaseRevokeRequest(ID=lease_of(instance))
        try:
            await self._upstream.lease_revoke(request, timeout_seconds=DEADLINE_SECONDS)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            raise UnknownInstance(f"no instance {instance}: its lease has just ended", instance=instance) from error


def _lacks_space(error: grpc.aio.AioRpcError) -> bool:
    return error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and NO_SPACE in (error.details() or "")
