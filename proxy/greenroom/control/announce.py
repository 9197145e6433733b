"""The log lines about instances and rollout holds, and the counting that goes with them.

The rule: one line for each change of state, by the proxy whose Txn made it, with what a person needs to act on it. A
line never waits on a call's way: it is written when what it tells is known, or after a moment without it.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from greenroom.control.metrics import Metrics
from greenroom.core.keyspace import InstanceId
from greenroom.core.record import Record
from greenroom.core.rollout_holds import RolloutHold
from greenroom.core.verdicts import Effect
from greenroom.store.changes import Changes, Subscription
from greenroom.store.fenced import CarriedOut, Clock
from greenroom.store.follower import Follower
from greenroom.store.mirror import MirroredInstance

ADDRESS_WAIT_SECONDS = 3.0
"""A worker writes its instance record within milliseconds of its card; some have none."""


class Announcer:
    """Logs and counts. `control` is the address that the printed command must name, None where the default does."""

    def __init__(
        self, follower: Follower, *, clock: Clock, log: Any, metrics: Metrics, control: str | None = None
    ) -> None:
        self._follower, self._mirror = follower, follower.mirror
        self._clock, self._log, self._metrics = clock, log, metrics
        self._control = f" --control {control}" if control else ""
        self._opened: asyncio.Queue[InstanceId] = asyncio.Queue()

    def opened(self, instance: InstanceId) -> None:
        """A Txn of this proxy opened the instance's record. Returns at once."""
        self._opened.put_nowait(instance)

    def carried_out(self, done: CarriedOut) -> None:
        """A Txn of this proxy changed an instance: called by whoever sent it."""
        self._metrics.carried_out(done)
        match done.effect:
            case Effect.RELEASED:
                self._log.info("instance.released", **_of(done.instance, done.record), revision=done.revision)
            case Effect.REJECTED:
                line = done.record.transitions[-1]
                why = {"gate": line.event, "reason": line.reason, "actor": line.actor}
                self._log.info("instance.rejected", **_of(done.instance, done.record), **why, revision=done.revision)
            case Effect.WITHDRAWN:
                self._log.info("instance.withdrawn", **_of(done.instance, done.record), revision=done.revision)
            case Effect.STORED:
                return

    def rollout_hold_created(self, hold: RolloutHold) -> None:
        """Releases are stopped."""
        self._log.info(
            "rollout_hold.created", **_of_hold(hold), until=hold.expires.isoformat() if hold.expires else None
        )

    def rollout_hold_lifted(self, hold: RolloutHold) -> None:
        """Releases go on."""
        self._log.info("rollout_hold.lifted", **_of_hold(hold))

    async def run(self) -> None:
        """Writes the lines that have to wait, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tell_of_expired())
            while True:
                instance = await self._opened.get()
                tasks.create_task(self._tell_of_opened(instance))

    async def _tell_of_expired(self) -> None:
        with self._follower.subscribe() as subscription:
            while True:
                changes: Changes = await subscription.next()
                for expired in changes.expired:
                    self._metrics.expired(expired)
                    state = expired.record.state.lower()
                    self._log.info("instance.expired", **_of(expired.instance, expired.record), state=state)

    async def _tell_of_opened(self, instance: InstanceId) -> None:
        mirrored = await self._wait_for_address(instance)
        if mirrored is None:
            # The mirror is behind, or the instance is gone already; that it was opened is known all the same.
            self._log.info("instance.held", instance=instance)
        elif mirrored.record.first_held is None:
            self._log.info("instance.adopted", **_of(instance, mirrored.record), address=mirrored.address)
        else:
            self._log.info("instance.held", **self._held(mirrored))

    async def _wait_for_address(self, instance: InstanceId) -> MirroredInstance | None:
        with self._follower.subscribe() as subscription:
            try:
                async with asyncio.timeout(ADDRESS_WAIT_SECONDS):
                    return await _until(subscription, lambda: self._with_address(instance))
            except TimeoutError:
                return self._mirror.instance(instance)

    def _with_address(self, instance: InstanceId) -> MirroredInstance | None:
        mirrored = self._mirror.instance(instance)
        return mirrored if mirrored and mirrored.address else None

    def _held(self, mirrored: MirroredInstance) -> dict[str, Any]:
        gates = {name: gate for name, gate in mirrored.record.gates.items() if not gate.state.is_through}
        waits = ", ".join(f"{name} until {gate.deadline:%Y-%m-%d %H:%M:%S} UTC" for name, gate in gates.items())
        first = next(iter(gates), None)
        command = f"greenroom verdict {mirrored.instance} {first} passed --reason TEXT{self._control}"
        return {
            **_of(mirrored.instance, mirrored.record),
            "address": mirrored.address,
            "waits_for": waits,
            "command": command if first else None,
        }


async def _until(subscription: Subscription, find: Callable[[], MirroredInstance | None]) -> MirroredInstance:
    while (found := find()) is None:
        await subscription.next()
    return found


def _of(instance: InstanceId, record: Record) -> dict[str, Any]:
    names = (record.distinct("namespace"), record.distinct("component"), record.distinct("endpoint"))
    return {
        "instance": instance,
        "models": ", ".join(record.distinct("model")),
        "endpoint": ".".join(",".join(name) for name in names if name),
    }


def _of_hold(hold: RolloutHold) -> dict[str, Any]:
    return {"id": hold.hold_id, "actor": hold.actor, "reason": hold.reason, "selector": str(hold.selector)}
