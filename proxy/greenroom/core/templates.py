"""Which keys are gated: templates such as `v1/mdc/{namespace}/{component}/{endpoint}/{instance}`.

All that lies under the part before the first placeholder (`v1/mdc/`) is taken for gated. Readers of the registry ask
for a prefix and look into values; they do not mind an id in upper case, or one segment too many. So a write that fits
no template there has no meaning that could be held, and is refused.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from greenroom.core.keyspace import InstanceId, Key, in_range, lease_of, prefix_end

PLACEHOLDERS = ("namespace", "component", "endpoint", "instance", "suffix")
_PLACEHOLDER = re.compile(r"\{([a-z]+)\}")


class KeyKind(StrEnum):
    """What a gated key is to its readers."""

    CARD = "card"
    INSTANCE = "instance"


@dataclass(frozen=True, slots=True)
class GatedKey:
    """A key that fits a template, taken apart. `names` has the placeholders' values, `instance` not among them."""

    key: Key
    kind: KeyKind
    instance: InstanceId
    names: Mapping[str, str]

    @property
    def suffix(self) -> str:
        """The part that tells a LoRA card from its worker's own; empty on the worker's own."""
        return self.names.get("suffix", "")


@dataclass(frozen=True, slots=True)
class UnfitKey:
    """A key under a gated prefix that fits none of its templates."""

    key: Key
    expected: str


@dataclass(frozen=True, slots=True)
class Template:
    """One shape of gated keys, such as `v1/mdc/{namespace}/{component}/{endpoint}/{instance}`.

    ValueError where the pattern has no `{instance}`, an unknown or repeated placeholder, or no literal beginning.
    """

    pattern: str
    kind: KeyKind
    _segments: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found = _PLACEHOLDER.findall(self.pattern)
        unknown = set(found) - set(PLACEHOLDERS)
        if unknown or len(set(found)) != len(found):
            raise ValueError(f"template {self.pattern!r}: unknown or repeated placeholder in {found}")
        if "instance" not in found:
            raise ValueError(f"template {self.pattern!r} has no {{instance}}")
        if not self.pattern.partition("{")[0].endswith("/") or self.pattern[0] < "\x02":
            raise ValueError(f"template {self.pattern!r} must begin with literal segments, such as 'v1/mdc/'")
        segments = tuple(self.pattern.split("/"))
        if any(("{" in segment or "}" in segment) and not _PLACEHOLDER.fullmatch(segment) for segment in segments):
            raise ValueError(f"template {self.pattern!r}: a placeholder must be a whole segment between slashes")
        object.__setattr__(self, "_segments", segments)

    @property
    def prefix(self) -> bytes:
        """The literal beginning, gated as a whole."""
        return self.pattern.partition("{")[0].encode()

    def match(self, key: Key) -> GatedKey | None:
        """The key taken apart, or None where it has another shape."""
        names = self._names(key, self._segments)
        return GatedKey(key, self.kind, InstanceId(names.pop("instance")), names) if names else None

    def owner(self, start: bytes) -> tuple[InstanceId, bytes] | None:
        """The instance whose keys alone begin as `start` does, and that beginning up to and with its id."""
        depth = self._segments.index("{instance}") + 1
        head = b"/".join(start.split(b"/")[:depth])
        names = self._names(head, self._segments[:depth])
        return (InstanceId(names["instance"]), head) if names else None

    def _names(self, key: bytes, patterns: Sequence[str]) -> dict[str, str]:
        """The placeholders' values; empty where the key has another shape or its instance is no lease id."""
        names: dict[str, str] = {}
        try:
            for pattern, segment in zip(patterns, key.decode().split("/"), strict=True):
                if pattern.startswith("{") and segment:
                    names[pattern[1:-1]] = segment
                elif pattern != segment:
                    return {}
            lease_of(InstanceId(names["instance"]))
        except ValueError:
            return {}
        return names

    def key(self, names: Mapping[str, str]) -> Key:
        """The key of this shape with these names; KeyError where one is missing."""
        return Key(_PLACEHOLDER.sub(lambda found: names[found[1]], self.pattern).encode())


DYNAMO_CARDS = (
    Template("v1/mdc/{namespace}/{component}/{endpoint}/{instance}", KeyKind.CARD),
    Template("v1/mdc/{namespace}/{component}/{endpoint}/{instance}/{suffix}", KeyKind.CARD),
)
DYNAMO_INSTANCES = (Template("v1/instances/{namespace}/{component}/{endpoint}/{instance}", KeyKind.INSTANCE),)


@dataclass(frozen=True, slots=True)
class GatedKeys:
    """All templates in force. `instance_records` tells where addresses are read, whether gated or not."""

    templates: Sequence[Template]
    instance_records: Sequence[Template] = DYNAMO_INSTANCES
    prefixes: tuple[bytes, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefixes", tuple(sorted({template.prefix for template in self.templates})))

    def classify(self, key: bytes) -> GatedKey | UnfitKey | None:
        """A gated key taken apart, one under a gated prefix that has another shape, or None: nobody's concern."""
        if not key.startswith(self.prefixes):
            return None
        own = [template for template in self.templates if key.startswith(template.prefix)]
        for template in own:
            if found := template.match(Key(key)):
                return found
        return UnfitKey(Key(key), " or ".join(template.pattern for template in own))

    def overlaps(self, start: bytes, range_end: bytes) -> bool:
        """Whether a range reaches into a gated prefix."""
        if not range_end:
            return start.startswith(self.prefixes)
        return any(
            in_range(prefix, start, range_end) or prefix <= start < prefix_end(prefix) for prefix in self.prefixes
        )

    def within_one_instance(self, start: bytes, range_end: bytes) -> InstanceId | None:
        """The instance whose gated keys are all that a range can hold, or None where it can hold others' too."""
        if not range_end or range_end == b"\0":
            return None
        for template in self.templates:
            if (found := template.owner(start)) and start < range_end <= prefix_end(found[1] + b"/"):
                return found[0]
        return None

    @property
    def digest(self) -> str:
        """A hash of the shapes: proxies that disagree about what is gated must not serve one store."""
        shapes = "\n".join(sorted(f"{template.kind} {template.pattern}" for template in self.templates))
        return hashlib.sha256(shapes.encode()).hexdigest()


def dynamo_gated_keys(*, instances: bool) -> GatedKeys:
    """NVIDIA Dynamo's keys: model cards, and with `instances` the endpoints' instance records too."""
    return GatedKeys(DYNAMO_CARDS + DYNAMO_INSTANCES if instances else DYNAMO_CARDS)
