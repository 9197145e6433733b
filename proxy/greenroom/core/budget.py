"""The budget: which releases are in flight, in one key that every release under a limit writes.

The rules: a release is in flight until it has settled, or its instance is gone. Whoever writes the key compares the
revision at which it read it, so releases, and withdrawals, happen one after the other however many proxies there are:
that is what makes `max_in_flight` and `min_released` exact.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Literal

from pydantic import ValidationError

from greenroom.core.keyspace import InstanceId
from greenroom.core.policy import ReleasesPolicy
from greenroom.core.record import Moment, Stored


class InFlight(Stored):
    """One release that may not have settled yet."""

    instance: str
    released: Moment

    def settles(self, settle_seconds: float) -> datetime:
        """When it is over, by the clock of the proxy that released it."""
        return self.released + timedelta(seconds=settle_seconds)


class Budget(Stored):
    """The key's value, in the order of the releases. Some of them may have settled since it was written."""

    schema_version: Literal[1] = 1
    in_flight: tuple[InFlight, ...] = ()

    def has(self, instance: str) -> bool:
        """Whether a release of this instance is named."""
        return any(one.instance == instance for one in self.in_flight)

    def with_release(self, instance: InstanceId, now: datetime) -> "Budget":
        """The budget with one release more."""
        others = self.without(instance).in_flight
        return self.model_copy(update={"in_flight": (*others, InFlight(instance=instance, released=now))})

    def without(self, instance: InstanceId) -> "Budget":
        """The budget with nothing about this instance."""
        return self.model_copy(update={"in_flight": tuple(one for one in self.in_flight if one.instance != instance)})

    def unsettled(
        self, now: datetime, settle_seconds: float, *, exists: Callable[[InstanceId], bool] = lambda _: True
    ) -> "Budget":
        """The budget with only what is in flight at `now`: neither settled, nor of an instance that is gone."""
        left = (one for one in self.in_flight if one.settles(settle_seconds) > now)
        kept = tuple(one for one in left if exists(InstanceId(one.instance)))
        return self.model_copy(update={"in_flight": kept})

    def room_from(self, releases: ReleasesPolicy) -> datetime | None:
        """When the next release fits; None where one does at once. What is settled must have been left out."""
        over = len(self.in_flight) - (releases.max_in_flight or 0)
        if over < 0:
            return None
        return sorted(one.settles(releases.settle_seconds) for one in self.in_flight)[over]


NO_BUDGET = Budget()
"""What an absent key says: nothing is in flight."""


def encode(budget: Budget) -> bytes:
    """The budget as etcd stores it."""
    return budget.model_dump_json().encode()


def decode(value: bytes) -> Budget | None:
    """The budget from etcd; None for what cannot be read, which leaves no room for anything."""
    try:
        return Budget.model_validate_json(value)
    except ValidationError:
        return None
