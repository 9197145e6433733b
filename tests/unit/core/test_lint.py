"""What is odd about a valid policy, and what is not certain enough to be told."""

from typing import Any

import pytest

from greenroom.core.lint import oddities
from greenroom.core.policy import Policy

GATES = {"smoke": {"timeout_seconds": 600}}


def rule(name: str = "", *, gates: Any = GATES, hold: str = "card", **selector: str) -> dict[str, Any]:
    return {"name": name, "gates": gates, "hold": hold, "selector": selector}


def said(*rules: dict[str, Any], **more: object) -> list[str]:
    found = oddities(Policy.model_validate({"rules": rules, **more}))
    return [f"{'.'.join(map(str, oddity.path))}: {oddity.says}" for oddity in found]


def seconds(timeout: float) -> dict[str, Any]:
    return {"smoke": {"timeout_seconds": timeout}}


def test_a_policy_without_rules_holds_nothing() -> None:
    [odd] = said()
    assert "nothing would ever be held" in odd


def test_a_rule_without_a_name() -> None:
    [odd] = said(rule("a", model="x"), rule(model="y"))
    assert odd.startswith("rules.1: has no name")


@pytest.mark.parametrize(
    ("rules", "which"),
    [
        ([rule("wide"), rule("narrow", model="x")], "rules.1: changes nothing: wide matches"),
        ([rule("narrow", model="x"), rule("wide")], "rules.0: changes nothing: wide matches"),
        ([rule("one", model="x"), rule("two", model="x")], "rules.1: changes nothing: one matches"),
        ([rule("strong", component="c"), rule("weak", hold="health", component="c")], "rules.1: changes nothing"),
        ([rule("more", gates={**GATES, "b": GATES["smoke"]}), rule("less")], "rules.1: changes nothing: more matches"),
    ],
)
def test_a_rule_beside_which_another_asks_for_as_much(rules: list[dict[str, Any]], which: str) -> None:
    [odd] = said(*rules)
    assert odd.startswith(which)


@pytest.mark.parametrize(
    "rules",
    [
        [rule("one", model="x"), rule("two", component="c")],
        [rule("glob", model="*"), rule("literal", model="x")],
        [rule("all"), rule("records", hold="card+instance", component="c")],
        [rule("all"), rule("more", gates={"b": GATES["smoke"]}, model="x")],
    ],
)
def test_what_may_change_something_is_not_told(rules: list[dict[str, Any]]) -> None:
    """A glob of `*` matches all that can be read, and so does no glob; that is left to people."""
    assert said(*rules) == []


def test_a_gate_that_two_rules_see_differently() -> None:
    [odd] = said(rule("one", gates=seconds(600), model="x*"), rule("two", gates=seconds(900), component="c"))
    assert odd == (
        "rules.1.gates.smoke: is a gate of one too, with timeout_seconds 600 there: "
        "what both match gets timeout_seconds 900"
    )


def test_rules_that_never_meet_may_see_a_gate_as_they_like() -> None:
    assert said(rule("one", gates=seconds(600), model="x"), rule("two", gates=seconds(900), model="y")) == []


def test_an_attribute_that_no_key_has_selects_nothing() -> None:
    templates = [{"pattern": "svc/{namespace}/{instance}"}]
    [odd] = said(rule("one", component="c", namespace="n"), templates=templates)
    assert odd.startswith("rules.0.selector.component: selects nothing: no template has {component}")


def test_they_come_in_the_order_of_the_file() -> None:
    named = [rule(f"r{number}", model=f"m{number}") for number in range(9)]
    odd = said(*named[:2], rule(model="a"), *named[2:], rule(model="b"))
    assert [one.partition(":")[0] for one in odd] == ["rules.2", "rules.10"]
