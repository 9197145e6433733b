"""Callers: who makes a call, as what, and to which gates and instances it is limited. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from pydantic import BaseModel, ConfigDict

from greenroom.access.roles import Role
from greenroom.core.cards import Attributes


class InstanceSelector(BaseModel):
    """Globs (`*`, `?`, `[…]`, case counts) that must all match one of an instance's cards, as a rollout hold's.

    With one difference: what could not be read of a card matches no glob. A worker writes its card itself, and must not
    get by that under anybody's verdict.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    namespace: str | None = None
    component: str | None = None
    endpoint: str | None = None
    model: str | None = None

    def matches_any(self, candidates: Iterable[Attributes]) -> bool:
        """Whether one of an instance's cards has all that is asked for."""
        given = self.model_dump(exclude_none=True)
        return any(
            all(_matches(getattr(attributes, name), glob) for name, glob in given.items()) for attributes in candidates
        )

    def __str__(self) -> str:
        return ",".join(f"{name}={glob}" for name, glob in self.model_dump(exclude_none=True).items())


EVERY_GATE: Final = ("*",)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls. `gates` are globs; with a selector only instances that it matches are the caller's business.

    Both limit reporters, and nobody else. A caller without a name is one that nobody was asked to name: the request
    says who it is.
    """

    name: str
    role: Role
    gates: tuple[str, ...] = EVERY_GATE
    selector: InstanceSelector | None = None

    def may_report_for(self, gate: str) -> bool:
        """Whether one of the globs matches the gate."""
        return any(fnmatchcase(gate, glob) for glob in self.gates)

    def may_report_on(self, cards: Iterable[Attributes]) -> bool:
        """Whether an instance with these cards is the caller's business."""
        return self.selector is None or self.selector.matches_any(cards)


ANYBODY: Final = Caller("", Role.OPERATOR)
"""Where there is no access file: whoever reaches the port may do everything, in whatever name."""


def _matches(value: str | None, glob: str) -> bool:
    return value is not None and fnmatchcase(value, glob)
