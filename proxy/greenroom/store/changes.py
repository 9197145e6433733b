"""What changed in the mirror, and who wants to know.

The rule: nobody can be late. A subscriber that is slow gets several changes as one, and the mirror never waits for it.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from greenroom.core.claims import Claim
from greenroom.core.keyspace import InstanceId
from greenroom.core.record import Record
from greenroom.core.rollout_holds import RolloutHold
from greenroom.store.mirrored import MirroredInstance


@dataclass(frozen=True, slots=True)
class Expired:
    """An instance whose record vanished: etcd removed it with its lease. `last` is how it was last seen."""

    last: MirroredInstance

    @property
    def instance(self) -> InstanceId:
        """Which."""
        return self.last.instance

    @property
    def record(self) -> Record:
        """Its last record."""
        return self.last.record


@dataclass(frozen=True, slots=True)
class ClaimExpired:
    """A claim that ended by itself: its runner neither renewed it nor gave it back, nor came to a verdict."""

    instance: InstanceId
    gate: str
    claim: Claim


@dataclass(frozen=True, slots=True)
class Changes:
    """What is different now. `everything`: look at each instance again, since the connection or the holds changed."""

    instances: frozenset[InstanceId] = frozenset()
    expired: tuple[Expired, ...] = ()
    everything: bool = False
    ended_holds: tuple[RolloutHold, ...] = ()
    """Rollout holds that vanished, lifted or expired."""
    expired_claims: tuple[ClaimExpired, ...] = ()
    budget: bool = False
    """The budget was written: there may be room for releases."""

    def __or__(self, later: "Changes") -> "Changes":
        return Changes(
            self.instances | later.instances,
            self.expired + later.expired,
            self.everything or later.everything,
            self.ended_holds + later.ended_holds,
            self.expired_claims + later.expired_claims,
            self.budget or later.budget,
        )


NOTHING = Changes()


class Listener(Protocol):
    """Whoever is told of each change, at once and in order."""

    def add(self, changes: Changes) -> None:
        """Must not wait, and must keep no more than it can say why."""


class Subscription:
    """One subscriber's changes since it last asked."""

    def __init__(self) -> None:
        self._waiting = Changes()
        self._some = asyncio.Event()

    def add(self, changes: Changes) -> None:
        """More to tell, when the subscriber asks. That only etcd's revision went on is nothing to be told."""
        if changes != NOTHING:
            self._waiting |= changes
            self._some.set()

    def wake(self) -> None:
        """Makes `next` return, with nothing if nothing changed."""
        self._some.set()

    async def next(self) -> Changes:
        """Everything since the last call, as one."""
        await self._some.wait()
        self._some.clear()
        changes, self._waiting = self._waiting, Changes()
        return changes


class Feed:
    """Hands each change to all who subscribed."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()

    def publish(self, changes: Changes) -> None:
        """Tells everybody, without waiting for anybody."""
        for listener in self._listeners:
            listener.add(changes)

    @contextmanager
    def subscribe(self) -> Iterator[Subscription]:
        """Changes from here on, for as long as the block lasts."""
        subscription = Subscription()
        with self.told(subscription):
            yield subscription

    @contextmanager
    def told(self, listener: Listener) -> Iterator[None]:
        """As `subscribe`, for one that keeps changes in a way of its own."""
        self._listeners.add(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)
