"""Rollout holds: somebody says that nothing, or nothing that a selector matches, is to be released for now.

Gates go on meanwhile; an instance that is through with them waits for the hold to be lifted or to expire.
"""

from collections.abc import Container, Iterable
from datetime import datetime
from glob import escape
from itertools import chain, count
from typing import Literal

from pydantic import Field, ValidationError

from greenroom.core.keyspace import ROLLOUT_HOLDS, InstanceId
from greenroom.core.record import Moment, Record, Stored, bounded_reason
from greenroom.core.selectors import Selector
from greenroom.core.transitions import ITSELF


class RolloutHold(Stored):
    """A rollout hold as stored. `expires` is told, not obeyed: the etcd lease that it lies on ends it."""

    schema_version: Literal[1] = 1
    hold_id: str
    reason: str = Field(min_length=1)
    actor: str = Field(min_length=1)
    selector: Selector = Selector()
    created: Moment | None = None
    expires: Moment | None = None

    def stops(self, record: Record) -> bool:
        """Whether it keeps this instance from being released."""
        return self.selector.matches_any(record.attributes_to_publish)


def encode(hold: RolloutHold) -> bytes:
    """The hold as etcd stores it."""
    return hold.model_dump_json().encode()


def decode(key: bytes, value: bytes) -> RolloutHold:
    """The hold from etcd. What cannot be read stops everything: somebody meant to stop something."""
    hold_id = key.removeprefix(ROLLOUT_HOLDS).decode("utf-8", "replace")
    try:
        return RolloutHold.model_validate_json(value).model_copy(update={"hold_id": hold_id})
    except ValidationError:
        return RolloutHold(hold_id=hold_id, reason="this rollout hold cannot be read", actor="unknown")


def stop_after(
    instance: InstanceId, record: Record, actor: str, reason: str, now: datetime, in_force: Iterable[RolloutHold] = ()
) -> RolloutHold:
    """The hold on all that is like an instance which was withdrawn before its release had settled.

    It takes the place of none that is `in_force`, which may be a person's, or about what the instance was before. An
    attribute of which the instance has several values, or none, selects nothing: rather too much is stopped.
    """
    said = f"{actor} withdrew {instance} right after its release: {reason}"
    names = {name: _only(record.distinct(name)) for name in ("namespace", "component", "model")}
    return RolloutHold(
        hold_id=_free(f"stopped-{instance}", {hold.hold_id for hold in in_force}),
        reason=bounded_reason(said),
        actor=ITSELF,
        selector=Selector(**names),
        created=now,
    )


def _free(wanted: str, taken: Container[str]) -> str:
    others = (f"{wanted}-{number}" for number in count(2))
    return next(name for name in chain((wanted,), others) if name not in taken)


def _only(values: tuple[str, ...]) -> str | None:
    return escape(values[0]) if len(values) == 1 else None


def matching(holds: Iterable[RolloutHold], record: Record) -> tuple[RolloutHold, ...]:
    """The holds that stop this instance."""
    return tuple(hold for hold in holds if hold.stops(record))
