"""Selectors: which instances a rule or a rollout hold is about. Globs over attributes; what is unknown matches."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from pydantic import BaseModel, ConfigDict

from greenroom.core.cards import Attributes


class Selector(BaseModel):
    """Globs (`*`, `?`, `[…]`, case counts) that must all match. One left out matches everything."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    namespace: str | None = None
    component: str | None = None
    endpoint: str | None = None
    model: str | None = None
    suffix: str | None = None

    def matches(self, attributes: Attributes) -> bool:
        """Whether all globs match. An attribute that could not be read counts as a match: rules fail closed."""
        return all(
            glob is None or value is None or fnmatchcase(value, glob)
            for glob, value in (
                (self.namespace, attributes.namespace),
                (self.component, attributes.component),
                (self.endpoint, attributes.endpoint),
                (self.model, attributes.model),
                (self.suffix, attributes.suffix),
            )
        )

    def matches_any(self, candidates: Iterable[Attributes]) -> bool:
        """Whether any of an instance's gated keys matches."""
        return any(self.matches(attributes) for attributes in candidates)

    def __str__(self) -> str:
        given = self.model_dump(exclude_none=True)
        return ",".join(f"{name}={glob}" for name, glob in given.items()) or "everything"
