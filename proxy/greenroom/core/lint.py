"""What is odd about a policy that is valid: rules that change nothing, gates that two rules see differently.

The rule: only what is certain, whatever instances there will be. A glob that fits none of today's may fit tomorrow's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from greenroom.core.explain import title_of
from greenroom.core.policy import Policy, Requirements, Rule
from greenroom.core.selectors import Selector

WILDCARDS = frozenset("*?[")
OF_THE_KEY = ("namespace", "component", "endpoint")
"""What only the key tells: where no template has the placeholder, it is unknown, and so matches."""


@dataclass(frozen=True, slots=True)
class Oddity:
    """One warning: the path of what it is about, as `("rules", 1, "gates", "smoke")`, and a sentence."""

    path: tuple[str | int, ...]
    says: str


def oddities(policy: Policy) -> list[Oddity]:
    """All of them, in the order of the file."""
    found = [*_no_rules(policy), *_unnamed(policy), *_without_effect(policy), *_unlike(policy), *_unseen(policy)]
    return sorted(found, key=lambda oddity: [str(part).zfill(9) for part in oddity.path[:2]])


def _no_rules(policy: Policy) -> Iterator[Oddity]:
    if not policy.rules:
        yield Oddity((), "no rule: nothing would ever be held, and `serve` takes it with --allow-ungated only")


def _unnamed(policy: Policy) -> Iterator[Oddity]:
    for number, rule in enumerate(policy.rules):
        if not rule.name:
            yield Oddity(("rules", number), "has no name: whoever asks where a gate is from is told a number")


def _without_effect(policy: Policy) -> Iterator[Oddity]:
    """Rules beside which another one asks for as much of all that they match. Of two equal ones the later."""
    rules = policy.rules
    for number, rule in enumerate(rules):
        for other_number, other in enumerate(rules):
            equal_and_earlier = _covers(rule, other) and number < other_number
            if number != other_number and _covers(other, rule) and not equal_and_earlier:
                title = title_of(other_number, other)
                yield Oddity(
                    ("rules", number), f"changes nothing: {title} matches all that it does, and asks for as much"
                )
                break


def _covers(wide: Rule, narrow: Rule) -> bool:
    """Whether one rule asks of everything that another one matches at least what that one asks."""
    widely, narrowly = wide.selector.model_dump(exclude_none=True), narrow.selector.model_dump(exclude_none=True)
    if any(narrowly.get(name) != glob for name, glob in widely.items()) or _rest(wide) != _rest(narrow):
        return False
    asked: Requirements = wide.requirements
    return narrow.requirements.joined(asked) == asked


def _rest(rule: Rule) -> object:
    """What rules say beside what is judged one by one."""
    return rule.model_dump(exclude={"name", "selector", "hold", "gates"})


def _unlike(policy: Policy) -> Iterator[Oddity]:
    for (number, rule), (later_number, later) in combinations(enumerate(policy.rules), 2):
        if _are_apart(rule.selector, later.selector) or rule.mode is not later.mode:
            continue
        for name in sorted(rule.gates.keys() & later.gates.keys()):
            one, other = rule.gates[name], later.gates[name]
            if one == other:
                continue
            both = one.joined(other)
            fields = [field for field in type(one).model_fields if getattr(one, field) != getattr(other, field)]
            differing = ", ".join(f"{field} {_said(getattr(one, field))} there" for field in fields)
            result = ", ".join(f"{field} {_said(getattr(both, field))}" for field in fields)
            yield Oddity(
                ("rules", later_number, "gates", name),
                f"is a gate of {title_of(number, rule)} too, with {differing}: what both match gets {result}",
            )


def _are_apart(one: Selector, other: Selector) -> bool:
    """Whether no key whose attributes are known matches both: they name one, without a wildcard, differently."""
    globs, others = one.model_dump(exclude_none=True), other.model_dump(exclude_none=True)
    common: Sequence[str] = [name for name in globs if name in others]
    return any(globs[name] != others[name] and not WILDCARDS & {*globs[name], *others[name]} for name in common)


def _said(value: object) -> str:
    return "unlimited" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _unseen(policy: Policy) -> Iterator[Oddity]:
    patterns = [template.pattern for template in policy.gated_keys().templates]
    for number, rule in enumerate(policy.rules):
        for name in OF_THE_KEY:
            if getattr(rule.selector, name) is not None and not any(f"{{{name}}}" in pattern for pattern in patterns):
                yield Oddity(
                    ("rules", number, "selector", name),
                    f"selects nothing: no template has {{{name}}}, and what cannot be known counts as a match",
                )
