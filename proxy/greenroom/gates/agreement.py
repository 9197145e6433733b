"""Whether the proxy's policy and a runner fit together: what it is told to expect, and what it could never do.

Pure: the policy is asked for elsewhere. The rule: what would come out only as a worker that nobody releases is said at
the start, in one line.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from greenroom.core.cards import Attributes
from greenroom.core.policy import Phase, Policy, Rule
from greenroom.core.selectors import Selector
from greenroom.gates.environment import Variable
from greenroom.gates.gate_config import HOLD_VARIABLE, WantedHold

_GLOB: Final = frozenset("*?[")


def why_refused(
    policy: Policy, gates: Collection[str], selector: Selector, hold: WantedHold | None, *, checks_public: bool
) -> str:
    """Why this runner and the policy do not fit; empty where they do.

    `checks_public` says that checks can reach a released instance: False with frontends of one instance each, which end
    with the release, and no other URL.
    """
    rules = list(_rules(policy, gates, selector))
    if hold is not None and rules and not any(hold.agrees_with(rule.hold) for _, rule in rules):
        place, rule = rules[0]
        asked = ", ".join(sorted(set(rule.gates) & set(gates)))
        says = f"rules[{place}] of the proxy's policy, which asks for {asked}, says '{rule.hold}'"
        return f"{HOLD_VARIABLE} '{hold}': {says}"
    if not checks_public and (names := _continuous(rules, gates)):
        return (
            f"--frontend: gate {names[0]!r} is continuous in the proxy's policy, and such a frontend ends with the "
            f"release; {Variable.BASE_URL} must say where a released worker answers"
        )
    return ""


def unasked(policy: Policy, gates: Collection[str]) -> list[str]:
    """The gates that no rule asks for."""
    return sorted(set(gates) - _asked(policy))


def why_unasked(policy: Policy) -> str:
    """What there is to say of such gates: mostly one of the two sides misspells them."""
    there_are = ", ".join(sorted(_asked(policy))) or "none"
    return f"no rule of the proxy's policy asks for them, so they are never run; what its rules ask for: {there_are}"


def _rules(policy: Policy, gates: Collection[str], selector: Selector) -> Iterator[tuple[int, Rule]]:
    """The rules that ask for one of the gates, and may be about instances that the runner is for."""
    known = Attributes(
        namespace=_plain(selector.namespace),
        component=_plain(selector.component),
        endpoint=_plain(selector.endpoint),
        model=_plain(selector.model),
        suffix=None,
    )
    for place, rule in enumerate(policy.rules):
        if set(rule.gates) & set(gates) and rule.selector.matches(known):
            yield place, rule


def _asked(policy: Policy) -> set[str]:
    return {name for rule in policy.rules for name in rule.gates}


def _plain(glob: str | None) -> str | None:
    """A name that a glob stands for; None where it may stand for several."""
    return None if glob is None or set(glob) & _GLOB else glob


def _continuous(rules: Iterable[tuple[int, Rule]], gates: Collection[str]) -> list[str]:
    asked = (entry for _, rule in rules for entry in rule.gates.items())
    return sorted(name for name, gate in asked if name in gates and gate.phase is Phase.CONTINUOUS)
