"""The log lines about instances and rollout holds, and the counting that goes with them.

The rule: one line for each change of state, by the proxy whose Txn made it, with what a person needs to act on it. A
line never waits on a call's way: it is written when what it tells is known, or after a moment without it.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from itertools import takewhile
from typing import Any

from greenroom.control.metrics import Metrics
from greenroom.control.requests import VerdictReport
from greenroom.core.attempts import is_renewal
from greenroom.core.claims import Claim
from greenroom.core.decisions import DecisionKind, PersonsDecision
from greenroom.core.keyspace import InstanceId
from greenroom.core.record import GatedEntry, Record, State
from greenroom.core.rollout_holds import RolloutHold, matching
from greenroom.core.verdicts import Effect
from greenroom.store.changes import Changes, Subscription
from greenroom.store.claims import HeldClaim
from greenroom.store.fenced import CarriedOut, Clock
from greenroom.store.follower import Follower
from greenroom.store.mirrored import MirroredInstance

ADDRESS_WAIT_SECONDS = 3.0
"""A worker writes its instance record within milliseconds of its card; some have none."""
MAX_REMEMBERED_UNGATED = 10_000
"""Instances that were warned of already. One that comes back after so many others is warned of again."""
EXPIRY_SLACK = timedelta(seconds=2)
"""How far replicas' clocks may be apart when they tell a rollout hold that expired from one that was lifted."""


class Announcer:
    """Logs and counts. `control` is the address that the printed command must name, None where the default does."""

    def __init__(
        self, follower: Follower, *, clock: Clock, log: Any, metrics: Metrics, control: str | None = None
    ) -> None:
        self._follower, self._mirror = follower, follower.mirror
        self._clock, self._log, self._metrics = clock, log, metrics
        self._control = f" --control {control}" if control else ""
        self._opened: dict[InstanceId, float] = {}
        """Opened and not told yet, with the loop's time at which they are told in any case; the earliest first."""
        self._subscription: Subscription | None = None
        self._warned_of: dict[InstanceId, None] = {}

    def opened(self, instance: InstanceId) -> None:
        """A Txn of this proxy opened the instance's record. Returns at once."""
        self._opened.setdefault(instance, asyncio.get_running_loop().time() + ADDRESS_WAIT_SECONDS)
        if self._subscription is not None:
            self._subscription.add(Changes(frozenset({instance})))

    def held_later(self, instance: InstanceId, record: Record) -> None:
        """A Txn of this proxy held a later card of a released instance, and left this record."""
        self._log.info("later_cards.held", keys=_later(record), **self._held(instance, record))

    def ungated(self, instance: InstanceId, entry: GatedEntry) -> None:
        """A card went through to its public place because no rule matches it: told once an instance, counted always."""
        self._metrics.ungated_write()
        if instance in self._warned_of:
            return
        if len(self._warned_of) >= MAX_REMEMBERED_UNGATED:
            del self._warned_of[next(iter(self._warned_of))]
        self._warned_of[instance] = None
        names = {name: getattr(entry, name) for name in ("namespace", "component", "endpoint", "model")}
        self._log.warning("instance.ungated", instance=instance, key=entry.key, **names, why="no rule matches")

    def verdict_stored(self, said: VerdictReport, done: CarriedOut) -> None:
        """A Txn of this proxy stored a reporter's verdict: that, and what followed in the same Txn."""
        self._metrics.verdict_given(said.gate, said.outcome)
        if is_renewal(done.before.gates[said.gate], done.record.gates[said.gate]):
            # Nothing is different: a line for each would be one a minute for each worker of a fleet.
            return
        self._log.info(
            "gate.decided",
            instance=said.instance,
            gate=said.gate,
            attempt=said.attempt,
            outcome=said.outcome.value,
            reason=said.reason,
            reporter=said.reporter,
            leaves=_left(done.record, self._holds_of(done.record)),
        )
        self.carried_out(done)

    def decision_taken(self, said: PersonsDecision, left: Record, done: CarriedOut | None = None) -> None:
        """A person's decision was carried out by this proxy: that, and what a Txn (`done`) did of it."""
        self._metrics.decision_taken(said.kind)
        self._log.info(
            "decision.taken",
            instance=said.instance,
            kind=said.kind.value,
            **({"gates": ", ".join(said.gates)} if said.gates else {}),
            actor=said.actor,
            reason=said.reason,
            leaves="nothing" if said.kind is DecisionKind.REVOKE_LEASE else _left(left, self._holds_of(left)),
        )
        if done is not None:
            self.carried_out(done)

    def carried_out(self, done: CarriedOut) -> None:
        """A Txn of this proxy changed an instance: called by whoever sent it."""
        self._metrics.carried_out(done)
        if done.record.state is not State.HELD:
            # The mirror may still show what was before.
            self._opened.pop(done.instance, None)
        match done.effect:
            case Effect.RELEASED:
                self._log.info("instance.released", **_of(done.instance, done.record), revision=done.revision)
            case Effect.REJECTED:
                line = done.record.transitions[-1]
                why = {"reason": line.reason, "actor": line.actor}
                if not done.record.rejected_by:
                    why = {"gate": line.event, **why}
                self._log.info("instance.rejected", **_of(done.instance, done.record), **why, revision=done.revision)
            case Effect.WITHDRAWN:
                line = done.record.transitions[-1]
                why = {"reason": line.reason, "actor": line.actor}
                self._log.info("instance.withdrawn", **_of(done.instance, done.record), **why, revision=done.revision)
                if done.stop is not None:
                    self.rollout_hold_created(done.stop)
            case Effect.PUBLISHED:
                keys = done.record.transitions[-1].reason
                self._log.info(
                    "later_cards.published", **_of(done.instance, done.record), keys=keys, revision=done.revision
                )
            case Effect.KEPT_BACK:
                line = done.record.transitions[-1]
                why = {"keys": _later(done.record), "gate": line.event, "reason": line.reason, "actor": line.actor}
                self._log.info("later_cards.rejected", **_of(done.instance, done.record), **why, revision=done.revision)
            case Effect.STORED:
                return

    def gate_claimed(self, held: HeldClaim) -> None:
        """A runner has claimed a gate's attempt here."""
        self._log.info("gate.claimed", **_of_claim(held.instance, held.gate, held.claim))

    def claim_released(self, held: HeldClaim) -> None:
        """It gave the attempt back."""
        self._log.info("gate.claim_released", **_of_claim(held.instance, held.gate, held.claim))

    def rollout_hold_created(self, hold: RolloutHold) -> None:
        """Releases are stopped."""
        self._log.info(
            "rollout_hold.created", **_of_hold(hold), until=hold.expires.isoformat() if hold.expires else None
        )

    def rollout_hold_lifted(self, hold: RolloutHold, *, by: str = "") -> None:
        """Releases go on. `by`: who lifted it, where that is known; the hold itself says who created it."""
        self._log.info("rollout_hold.lifted", **_of_hold(hold), **({"lifted_by": by} if by else {}))

    def _holds_of(self, record: Record) -> Sequence[RolloutHold]:
        return matching(self._mirror.rollout_holds, record)

    async def run(self) -> None:
        """Writes the lines that have to wait, until cancelled."""
        with self._follower.subscribe() as self._subscription:
            changes = Changes(everything=True)
            while True:
                self._tell_of_ended(changes)
                self._tell_of_opened(changes)
                changes = await self._next_changes(self._subscription)

    async def _next_changes(self, subscription: Subscription) -> Changes:
        """What changed, or nothing when somebody's wait is over."""
        try:
            async with asyncio.timeout_at(next(iter(self._opened.values()), None)):
                return await subscription.next()
        except TimeoutError:
            return Changes()

    def _tell_of_ended(self, changes: Changes) -> None:
        for expired in changes.expired:
            self._opened.pop(expired.instance, None)
            self._metrics.expired(expired)
            state = expired.record.state.lower()
            self._log.info("instance.expired", **_of(expired.instance, expired.record), state=state)
        for hold in changes.ended_holds:
            self._tell_if_expired(hold)
        for ended in changes.expired_claims:
            self._metrics.claim_expired(ended.gate)
            self._log.warning("gate.claim_expired", **_of_claim(ended.instance, ended.gate, ended.claim))

    def _tell_if_expired(self, hold: RolloutHold) -> None:
        """One that ended before its time was lifted, and told by the proxy that did it."""
        if hold.expires is not None and self._clock() >= hold.expires - EXPIRY_SLACK:
            self._log.info("rollout_hold.expired", **_of_hold(hold))

    def _tell_of_opened(self, changes: Changes) -> None:
        """Looks only at those that changed: while a fleet starts, hundreds wait and each of them changes."""
        touched = tuple(self._opened) if changes.everything else changes.instances & self._opened.keys()
        for instance in touched:
            mirrored = self._mirror.instance(instance)
            if mirrored is not None and (mirrored.address or not self._waits_for_address(mirrored)):
                self._tell(instance, mirrored)
        now = asyncio.get_running_loop().time()
        for instance, _ in list(takewhile(lambda waiting: waiting[1] <= now, self._opened.items())):
            self._tell(instance, self._mirror.instance(instance))

    def _waits_for_address(self, mirrored: MirroredInstance) -> bool:
        is_settled = mirrored.record.state is not State.HELD and mirrored.record.first_held is not None
        return self._mirror.knows_addresses and not is_settled

    def _tell(self, instance: InstanceId, mirrored: MirroredInstance | None) -> None:
        """The line about one that was opened; of one that is no longer held other lines tell already."""
        del self._opened[instance]
        if mirrored is None:
            # The mirror is behind; that it was opened is known all the same.
            self._log.info("instance.held", instance=instance)
        elif mirrored.record.first_held is None:
            self._log.info("instance.adopted", **_of(instance, mirrored.record), address=mirrored.address)
        elif mirrored.record.state is State.HELD:
            self._log.info("instance.held", **self._held(instance, mirrored.record))

    def _held(self, instance: InstanceId, record: Record) -> dict[str, Any]:
        gates = {name: gate for name, gate in record.waited_for.items() if not gate.state.is_through}
        waits = ", ".join(f"{name} until {gate.deadline:%Y-%m-%d %H:%M:%S} UTC" for name, gate in gates.items())
        commands = (
            f"greenroom verdict {instance} {name} passed --attempt {gate.attempt} --reason TEXT{self._control}"
            for name, gate in gates.items()
        )
        return {
            **_of(instance, record),
            "address": self._mirror.address(instance),
            "waits_for": waits,
            "command": next(commands, None),
        }


def _left(record: Record, rollout_holds: Sequence[RolloutHold]) -> str:
    """What a verdict left: what is still waited for, else the state."""
    if record.state is not State.HELD and not record.later:
        return record.state.lower()
    gates = [name for name, gate in record.waited_for.items() if not gate.state.is_through]
    waiting = gates + [f"rollout hold {hold.hold_id}" for hold in rollout_holds]
    left = f"held, waits for {', '.join(waiting)}" if waiting else "held, every gate passed"
    return f"released, a later card {left}" if record.later else left


def _later(record: Record) -> str:
    return ", ".join(entry.key for entry in record.later)


def _of(instance: InstanceId, record: Record) -> dict[str, Any]:
    names = (record.distinct("namespace"), record.distinct("component"), record.distinct("endpoint"))
    return {
        "instance": instance,
        "models": ", ".join(record.distinct("model")),
        "endpoint": ".".join(",".join(name) for name in names if name),
        **({"dry_run": True} if record.dry_run else {}),
    }


def _of_claim(instance: InstanceId, gate: str, claim: Claim) -> dict[str, Any]:
    until = claim.expires.isoformat(timespec="seconds")
    return {"instance": instance, "gate": gate, "attempt": claim.attempt, "runner": claim.runner, "until": until}


def _of_hold(hold: RolloutHold) -> dict[str, Any]:
    return {"id": hold.hold_id, "actor": hold.actor, "reason": hold.reason, "selector": str(hold.selector)}
