"""Conflicts: cards of one model at one endpoint that frontends would not serve side by side.

Each frontend keeps to the configuration of a model that it accepted first, and gives workers with another one no
traffic. Released into that, a worker passes its gates and stands idle; and when the others leave, every frontend turns
to it at once. So a waiting instance is compared with the others before it is released.

The rule: it is a hint. Who else is there is known from the mirror, some milliseconds late, and the Txn of a release
compares nothing of it. Guaranteed is that an instance of which a conflict is known is not released by this proxy while
`on_conflict` is `queue` or `reject`. Not guaranteed is that no two ever meet: two that become ready within the same
moment, or at two proxies, are both released; an edit of a public card is not compared at all.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from greenroom.core.configuration import Difference
from greenroom.core.keyspace import InstanceId, Key
from greenroom.core.record import Record, bounded_reason

MAX_TOLD = 3
"""Conflicts that are told of one instance, and fields of each: the first says what to look at."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """One other instance, for all that are like it. `is_public`: its card is, so frontends may have chosen it."""

    model: str
    instance: InstanceId
    is_public: bool
    differences: tuple[Difference, ...]

    def __str__(self) -> str:
        told = "; ".join(map(str, self.differences[:MAX_TOLD]))
        more = f" and {len(self.differences) - MAX_TOLD} more" if len(self.differences) > MAX_TOLD else ""
        who = "released" if self.is_public else "held"
        return f"model {self.model!r} is not configured as that of {self.instance} ({who}): {told}{more}"


Conflicts = Callable[[Record, Collection[Key]], Sequence[Conflict]]
"""Those of an instance's record, of whose keys these are held. The ones with public cards come first."""


def none_known(record: Record, held: Collection[Key]) -> Sequence[Conflict]:
    """For who has nobody to compare with."""
    return ()


def in_words(conflicts: Sequence[Conflict]) -> str:
    """All of them, as far as they help and a record has room for them."""
    more = f"; and {len(conflicts) - MAX_TOLD} more" if len(conflicts) > MAX_TOLD else ""
    return bounded_reason("; ".join(map(str, conflicts[:MAX_TOLD])) + more)
