"""Whether a policy and a runner fit together."""

import pytest

from greenroom.core.selectors import Selector
from greenroom.gates.agreement import unasked, why_refused, why_unasked
from greenroom.gates.gate_config import WantedHold
from greenroom.policy_file import parse_policy

POLICY = parse_policy(
    """
    rules:
      - {selector: {component: backend}, hold: health, gates: {smoke: {timeout_seconds: 60}}}
      - {selector: {component: prefill}, hold: card, gates: {latency: {timeout_seconds: 60}}}
      - {selector: {component: watched}, gates: {again: {timeout_seconds: 60, phase: continuous, ttl_seconds: 60}}}
    """
)
ALL = Selector()


@pytest.mark.parametrize(
    ("gates", "selector", "hold", "words"),
    [
        (("smoke",), ALL, None, ""),
        (("smoke",), ALL, WantedHold.HEALTH, ""),
        (("smoke",), ALL, WantedHold.CARD, "rules[0] of the proxy's policy, which asks for smoke, says 'health'"),
        (("latency",), ALL, WantedHold.HEALTH, "rules[1] of the proxy's policy, which asks for latency, says 'card'"),
        (("smoke", "latency"), ALL, WantedHold.CARD, ""),
        (("smoke", "latency"), Selector(component="backend"), WantedHold.CARD, "rules[0] of the proxy's policy"),
        (("smoke", "latency"), Selector(component="back*"), WantedHold.CARD, ""),
        (("smoke",), Selector(component="back*"), WantedHold.CARD, "rules[0] of the proxy's policy"),
        (("other",), ALL, WantedHold.CARD, ""),
    ],
)
def test_a_hold_is_refused_where_every_rule_for_its_gates_says_otherwise(
    gates: tuple[str, ...], selector: Selector, hold: WantedHold | None, words: str
) -> None:
    said = why_refused(POLICY, gates, selector, hold, checks_public=True)
    assert words in said
    assert bool(said) == bool(words)


def test_a_continuous_gate_needs_more_than_a_frontend_that_ends_with_the_release() -> None:
    words = why_refused(POLICY, ("again",), ALL, None, checks_public=False)
    assert words.startswith("--frontend: gate 'again' is continuous in the proxy's policy")
    assert why_refused(POLICY, ("again",), ALL, None, checks_public=True) == ""
    assert why_refused(POLICY, ("smoke",), ALL, None, checks_public=False) == ""


def test_gates_that_no_rule_asks_for_are_named() -> None:
    assert unasked(POLICY, ("smoke", "smok", "golden")) == ["golden", "smok"]


def test_whoever_misspells_a_gate_reads_what_the_rules_ask_for() -> None:
    assert why_unasked(POLICY).endswith("; what its rules ask for: again, latency, smoke")
