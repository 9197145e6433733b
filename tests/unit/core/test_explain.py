"""Which rules are about an instance, why the others are not, and where its gates come from."""

import pytest

from greenroom.core.cards import Attributes
from greenroom.core.explain import Explanation, Mismatch, explain
from greenroom.core.policy import Hold, Policy
from greenroom.core.templates import KeyKind

GATES = {"smoke": {"timeout_seconds": 600}}


def policy(*rules: dict[str, object]) -> Policy:
    return Policy.model_validate({"rules": [{"gates": GATES, **rule} for rule in rules]})


def explained(policy: Policy, **given: str | None) -> Explanation:
    known: dict[str, str | None] = dict.fromkeys(("namespace", "component", "endpoint", "model"))
    return explain(policy, Attributes(**{**known, "suffix": "", **given}))


def test_a_rule_that_does_not_match_says_by_which_attributes() -> None:
    rules = policy({"selector": {"component": "pre*", "model": "tiny", "namespace": "prod"}})
    [rule] = explained(rules, namespace="prod", component="decode", model="large").rules
    assert not rule.matches
    assert rule.mismatches == (Mismatch("component", "pre*", "decode"), Mismatch("model", "tiny", "large"))


def test_an_attribute_that_is_not_given_counts_as_a_match_and_is_told() -> None:
    [rule] = explained(policy({"selector": {"model": "tiny", "namespace": "prod"}}), namespace="prod").rules
    assert (rule.matches, rule.unknown) == (True, ("model",))


def test_an_adapters_card_is_told_from_the_workers_own_by_its_suffix() -> None:
    rules = policy({"selector": {"suffix": "?*"}})
    assert not explained(rules, namespace="prod").rules[0].matches
    assert explained(rules, namespace="prod", suffix="polite").rules[0].matches


def test_each_gate_says_which_rules_it_is_from_and_what_they_ask_together() -> None:
    both = {"smoke": {"timeout_seconds": 900}, "latency": {"timeout_seconds": 60}}
    rules = policy({"name": "all"}, {"gates": both, "hold": "health"}, {"name": "none", "selector": {"model": "x"}})
    found = explained(rules, namespace="prod", model="tiny")
    assert found.origins == {"latency": ("rules[1]",), "smoke": ("all", "rules[1]")}
    assert found.requirements is not None
    assert found.requirements.hold is Hold.CARD
    assert found.requirements.gates["smoke"].timeout_seconds == 900


def test_without_a_rule_that_matches_nothing_is_held() -> None:
    found = explained(policy({"selector": {"model": "x"}}), namespace="prod", model="tiny")
    assert (found.requirements, found.origins) == (None, {})


@pytest.mark.parametrize(("component", "matched"), [("pyw", (KeyKind.INSTANCE,)), ("other", ())])
def test_an_instance_record_names_no_model_and_so_matches_rules_that_select_by_one(
    component: str, matched: tuple[KeyKind, ...]
) -> None:
    rules = policy({"selector": {"component": "pyw", "model": "tiny"}, "hold": "card+instance"})
    found = explained(rules, namespace="prod", component=component, model="large")
    assert found.rules[0].matched == matched
    assert (found.requirements is not None) == bool(matched)


def test_a_card_that_a_rule_matches_says_so_of_itself() -> None:
    rules = policy({"selector": {"component": "pyw"}, "hold": "card+instance"}, {})
    found = explained(rules, namespace="prod", component="pyw", model="tiny")
    assert [rule.matched for rule in found.rules] == [(KeyKind.CARD, KeyKind.INSTANCE), (KeyKind.CARD,)]
