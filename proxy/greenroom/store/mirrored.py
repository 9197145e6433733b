"""One instance as the mirror last saw it: its record, and what lies around the record in etcd. A value."""

from dataclasses import dataclass

from greenroom.core.keyspace import InstanceId, Key
from greenroom.core.record import Record
from greenroom.core.templates import KeyKind


@dataclass(frozen=True, slots=True)
class MirroredInstance:
    """`revision` is the record's mod_revision, `held` are the instance's keys that wait in the reserved area."""

    instance: InstanceId
    record: Record
    revision: int
    held: frozenset[Key]
    address: str | None

    @property
    def live_keys(self) -> frozenset[Key]:
        """The keys that exist: held ones, and with an instance whose keys are public all that were ever registered."""
        return frozenset(self.record.keys) if self.record.publishes_at_once else self.held

    @property
    def live_cards(self) -> int:
        """How many cards wait for publication, or with hold `health` are believed to be public."""
        live = self.live_keys
        return sum(entry.kind is KeyKind.CARD and entry.gated_key in live for entry in self.record.cards)
