"""What a preview shows: which held keys look released, and in a preview of one instance alone what else there is.

The rule: a preview adds to what is public, and with `only` takes away; it never shows a reserved key. A held key and
its public self never exist together (see the protocol's places), so each key has one value to show at any revision.
"""

from collections.abc import Container, Iterable, Set
from dataclasses import dataclass, field

from greenroom.core import record as records
from greenroom.core.keyspace import (
    RECORDS,
    SHADOWS,
    InstanceId,
    Key,
    holder,
    lease_of,
    prefix_end,
    shadow_key,
    shadow_prefix,
)
from greenroom.core.selectors import Selector
from greenroom.core.templates import GatedKey, GatedKeys, Template
from greenroom.errors import UnreadableRecord
from greenroom.pb.etcd import kv_pb2

Range = tuple[bytes, bytes]
"""A range as etcd has it: its start and its end, which is empty for one key."""

ALL_SHADOWS: Range = (SHADOWS, prefix_end(SHADOWS))
ALL_RECORDS: Range = (RECORDS, prefix_end(RECORDS))
NO_INSTANCES: frozenset[InstanceId] = frozenset()


@dataclass(frozen=True, slots=True)
class View:
    """One preview's rule: all held keys, those of one instance, or those of the instances that a selector matches.

    `only` is for one instance: nothing of another one is shown. `own_leases` were granted through the preview: what
    lies on them is its clients' own, and shown to them.
    """

    gated_keys: GatedKeys
    instance: InstanceId | None = None
    selector: Selector | None = None
    only: bool = False
    own_leases: Container[int] = field(default=frozenset(), compare=False)

    @property
    def by_records(self) -> bool:
        """Whether records decide whose held keys are shown."""
        return self.selector is not None

    def shows_held(self, instance: InstanceId, matching: Set[InstanceId]) -> bool:
        """Whether an instance's held keys are shown; `matching` are those that `matches` says yes to."""
        if self.selector is not None:
            return instance in matching
        return self.instance is None or instance == self.instance

    def matches(self, record: bytes) -> bool:
        """Whether the selector matches what waits of the instance with this record; not where it cannot be read."""
        assert self.selector is not None, "only a selector is asked"
        try:
            return self.selector.matches_any(records.decode(record, "record").attributes_to_publish)
        except UnreadableRecord:
            return False

    def matching(self, found: Iterable[kv_pb2.KeyValue]) -> frozenset[InstanceId]:
        """The instances whose held keys are shown, by all records of one revision."""
        return frozenset(holder(kv.key) for kv in found if self.matches(kv.value))

    def shows_public(self, kv: kv_pb2.KeyValue) -> bool:
        """Whether a key that everybody sees is shown here too; by its lease where its name does not tell."""
        if not self.only:
            return True
        owned = self.is_its_own(kv.key)
        return owned if owned is not None else self._shows_lease(kv.lease)

    def is_its_own(self, key: bytes) -> bool | None:
        """Whether a card or an instance record is of the one instance; None for a key that is neither.

        What lies beside them under the same beginning might make another worker routable, and is nobody's.
        """
        own = [template for template in self._templates if key.startswith(template.prefix)]
        if not own:
            return None
        if str(self.instance).encode() not in key:
            return False  # Most are another's: taking ten thousand apart would hold up everybody's keepalives.
        matched = (template.match(Key(key)) for template in own)
        return any(gated is not None and gated.instance == self.instance for gated in matched)

    def shadows(self, start: bytes, range_end: bytes) -> Range | None:
        """Where the held keys of a client's range lie, and perhaps others; None where there are none to be shown."""
        if not range_end:
            gated = self.gated_keys.classify(start)
            if not isinstance(gated, GatedKey) or self.instance not in (None, gated.instance):
                return None
            return shadow_key(gated.instance, gated.key), b""
        if is_empty(start, range_end) or not self.gated_keys.overlaps(start, range_end):
            return None
        if self.instance is None:
            return ALL_SHADOWS
        prefix = shadow_prefix(self.instance)
        end = prefix_end(prefix) if range_end == b"\0" else shadow_key(self.instance, Key(range_end))
        return shadow_key(self.instance, Key(start)), end

    def _shows_lease(self, lease: int) -> bool:
        return not lease or lease == self._lease or lease in self.own_leases

    @property
    def _lease(self) -> int:
        assert self.instance is not None, "only one instance can be shown alone"
        return lease_of(self.instance)

    @property
    def _templates(self) -> tuple[Template, ...]:
        return (*self.gated_keys.templates, *self.gated_keys.instance_records)


def is_empty(start: bytes, range_end: bytes) -> bool:
    """Whether a range can hold no key."""
    return range_end not in (b"", b"\0") and start >= range_end
