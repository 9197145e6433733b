"""Why an instance gets the gates that it gets: each rule of a policy with what it says to one hypothetical instance.

The rule: what is explained is what the proxy itself asks for. Whether a rule matches, and what follows from all that
do, is asked of the policy, never worked out a second time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from greenroom.core.cards import Attributes
from greenroom.core.policy import Policy, Requirements, Rule
from greenroom.core.selectors import Selector
from greenroom.core.templates import KeyKind


@dataclass(frozen=True, slots=True)
class Mismatch:
    """An attribute by which a rule does not match: its glob, and what the instance has."""

    attribute: str
    glob: str
    given: str


@dataclass(frozen=True, slots=True)
class RuleExplained:
    """One rule. `matched` has the instance's keys that it is about, `unknown` the selected attributes not given."""

    title: str
    rule: Rule
    matched: tuple[KeyKind, ...]
    mismatches: tuple[Mismatch, ...]
    unknown: tuple[str, ...]

    @property
    def matches(self) -> bool:
        """Whether it is about the instance at all."""
        return bool(self.matched)


@dataclass(frozen=True, slots=True)
class Explanation:
    """All rules in their order, what follows (None: nothing is held), and which rules each gate is from."""

    rules: tuple[RuleExplained, ...]
    requirements: Requirements | None
    origins: Mapping[str, tuple[str, ...]]


def explain(policy: Policy, attributes: Attributes) -> Explanation:
    """What a policy says to an instance with a card of these attributes. None: not known, which counts as a match.

    Where instance records are gated, the instance is taken to have one; that names no model, so it has every rule that
    selects by one match.
    """
    keys = dict(_keys(policy, attributes))
    explained = tuple(
        RuleExplained(
            title_of(number, rule),
            rule,
            matched=tuple(kind for kind, known in keys.items() if rule.matches(kind, known)),
            mismatches=tuple(_mismatches(rule.selector, attributes)),
            unknown=tuple(name for name in _globs(rule.selector) if getattr(attributes, name) is None),
        )
        for number, rule in enumerate(policy.rules)
    )
    return Explanation(explained, _requirements(policy, keys), _origins(explained))


def title_of(number: int, rule: Rule) -> str:
    """What to call a rule: its name, or its place in the file where it has none."""
    return rule.name or f"rules[{number}]"


def _keys(policy: Policy, attributes: Attributes) -> Iterator[tuple[KeyKind, Attributes]]:
    yield KeyKind.CARD, attributes
    if any(template.kind is KeyKind.INSTANCE for template in policy.gated_keys().templates):
        place = (attributes.namespace, attributes.component, attributes.endpoint)
        yield KeyKind.INSTANCE, Attributes(*place, model=None, suffix="")


def _requirements(policy: Policy, keys: Mapping[KeyKind, Attributes]) -> Requirements | None:
    joined: Requirements | None = None
    for kind, attributes in keys.items():
        if needs := policy.requirements_of(kind, attributes):
            joined = needs.joined(joined)
    return joined


def _mismatches(selector: Selector, attributes: Attributes) -> Iterator[Mismatch]:
    for name, glob in _globs(selector).items():
        if not Selector.model_validate({name: glob}).matches(attributes):
            yield Mismatch(name, glob, getattr(attributes, name))


def _globs(selector: Selector) -> Mapping[str, str]:
    """The selector's globs by attribute, those that are given."""
    globs: Mapping[str, str] = selector.model_dump(exclude_none=True)
    return globs


def _origins(explained: Sequence[RuleExplained]) -> Mapping[str, tuple[str, ...]]:
    matching = [one for one in explained if one.matches]
    gates = sorted({gate for one in matching for gate in one.rule.gates})
    return {gate: tuple(one.title for one in matching if gate in one.rule.gates) for gate in gates}
