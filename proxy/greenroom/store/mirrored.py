"""One instance as the mirror last saw it: its record, and what lies around the record in etcd. A value."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from greenroom.core.claims import Claim
from greenroom.core.keyspace import InstanceId, Key
from greenroom.core.record import Record, State
from greenroom.core.templates import KeyKind


@dataclass(frozen=True, slots=True)
class MirroredInstance:
    """`revision` is the record's mod_revision, `held` are the instance's keys that wait in the reserved area.

    `claims` are those on its gates, by the gates' names; one on an attempt that is over may be among them.
    """

    instance: InstanceId
    record: Record
    revision: int
    held: frozenset[Key]
    address: str | None
    claims: Mapping[str, Claim] = field(default_factory=dict)

    @property
    def claimed(self) -> Mapping[str, Claim]:
        """The claims that are on their gates' current attempts."""
        gates = self.record.gates
        return {
            name: claim for name, claim in self.claims.items() if name in gates and gates[name].attempt == claim.attempt
        }

    @property
    def current(self) -> Record:
        """The record as it stands: later cards that were deleted have no part in anything."""
        return self.record.with_held(self.held)

    @property
    def live_keys(self) -> frozenset[Key]:
        """The keys that exist: held ones, and with an instance whose keys are public all that were ever registered."""
        if not self.record.publishes_at_once:
            return self.held
        gone = {entry.gated_key for entry in self.record.later} - self.held
        return frozenset(self.record.keys) - gone

    @property
    def public_keys(self) -> frozenset[Key]:
        """The keys that everybody sees, as far as the record tells."""
        return self.live_keys - self.held if self.record.publishes_at_once else frozenset()

    @property
    def serves(self) -> bool:
        """Whether it is to have traffic. What a person took back of a dry run is held until its gates have passed."""
        return self.record.serves and (self.record.state is State.RELEASED or not self.held)

    @property
    def live_cards(self) -> int:
        """How many cards wait for publication, or with hold `health` are believed to be public.

        Of a released instance: how many keys wait.
        """
        if self.record.state is State.RELEASED:
            return sum(entry.gated_key in self.held for entry in self.record.cards)
        live = self.live_keys
        return sum(entry.kind is KeyKind.CARD and entry.gated_key in live for entry in self.record.cards)
