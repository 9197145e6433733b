"""Policies as operators write them: what is refused, and what each instance then needs."""

from typing import Any

import pytest
from pydantic import ValidationError

from greenroom.core.cards import Attributes
from greenroom.core.policy import (
    LARGEST_TIMEOUT_SECONDS,
    GatePolicy,
    Hold,
    Policy,
    Requirements,
    Rule,
    check_gate_name,
    gates_for_everything,
    gates_of,
)
from greenroom.core.templates import DYNAMO_INSTANCES, GatedKey, KeyKind

CARD_ATTRIBUTES = Attributes("dynamo", "backend", "generate", "Qwen", "")
SMOKE = {"smoke": {"timeout_seconds": 900}}


def card() -> GatedKey:
    return gated("v1/mdc/dynamo/backend/generate/ab")


def instance_record() -> GatedKey:
    return gated("v1/instances/dynamo/backend/generate/ab")


def gated(key: str) -> GatedKey:
    everything = Policy.model_validate({"rules": [rule(hold="card+instance", selector={"component": "x"})]})
    found = everything.gated_keys().classify(key.encode())
    assert isinstance(found, GatedKey)
    return found


def rule(**fields: Any) -> dict[str, Any]:
    return {"gates": SMOKE, **fields}


def policy(*rules: dict[str, Any], **fields: Any) -> Policy:
    return Policy.model_validate({"rules": rules, **fields})


def continuous(ttl_seconds: float) -> dict[str, Any]:
    return {"phase": "continuous", "ttl_seconds": ttl_seconds}


@pytest.mark.parametrize("name", ["a", "smoke", "smoke-2", "first_token", "0", "a" * 63])
def test_gate_names(name: str) -> None:
    assert check_gate_name(name) == name


@pytest.mark.parametrize("name", ["", "-a", "a-", "_a", "Smoke", "a.b", "a b", "a" * 64, "smoke\n", "ü"])
def test_gate_names_that_are_no_dns_labels_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a DNS label"):
        check_gate_name(name)


def test_publish_is_not_a_gates_name() -> None:
    with pytest.raises(ValueError, match="'publish' is reserved"):
        check_gate_name("publish")


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ({"rulez": []}, "rulez"),
        ({"rules": [rule(slector={})]}, "slector"),
        ({"rules": [{"gates": {}}]}, "gates"),
        ({"rules": [{"selector": {}}]}, "gates"),
        ({"rules": [rule(gates={"publish": {"timeout_seconds": 1}})]}, "reserved"),
        ({"rules": [rule(gates={"a": {"timeout_seconds": 0}})]}, "timeout_seconds"),
        ({"rules": [rule(gates={"a": {"timeout_seconds": -1}})]}, "timeout_seconds"),
        ({"rules": [rule(gates={"a": {"timeout_seconds": float("inf")}})]}, "timeout_seconds"),
        ({"rules": [rule(gates={"a": {"timeout_seconds": float("nan")}})]}, "timeout_seconds"),
        ({"rules": [rule(gates={"a": {"timeout_seconds": LARGEST_TIMEOUT_SECONDS + 1}})]}, "timeout_seconds"),
        ({"rules": [rule(gates={"a": {}})]}, "timeout_seconds"),
        ({"rules": [rule(gates={"a": {"timeout_seconds": 1, "retries": 2}})]}, "retries"),
        ({"rules": [rule(gates={"a": {"timeout_seconds": 1, "failure_limit": -1}})]}, "failure_limit"),
        ({"rules": [rule(gates={"a": {"timeout_seconds": 1, "failure_limit": 101}})]}, "failure_limit"),
        ({"rules": [rule(gates={"a": {"timeout_seconds": 1, "failure_limit": True}})]}, "failure_limit"),
        ({"rules": [rule(gates={"a": {"timeout_seconds": 1, "inconclusive_limit": -1}})]}, "inconclusive_limit"),
        ({"rules": [rule(gates={"a": {"timeout_seconds": 1, "max_concurrent": 0}})]}, "max_concurrent"),
        ({"rules": [rule(gates={"a": {"timeout_seconds": 1, "claim_limit": 0}})]}, "claim_limit"),
        ({"rules": [rule(gates={"a": {"timeout_seconds": 1, "phase": "continuous"}})]}, "needs ttl_seconds"),
        ({"rules": [rule(gates={"a": {"timeout_seconds": 1, "ttl_seconds": 9}})]}, "is for gates of phase"),
        ({"rules": [rule(gates={"a": {"timeout_seconds": 1, "phase": "later"}})]}, "phase"),
        ({"rules": [rule(gates={"a": {"timeout_seconds": 1, **continuous(4.9)}})]}, "ttl_seconds"),
        ({"rules": [rule(gates={"a": {"timeout_seconds": 1, **continuous(float("inf"))}})]}, "ttl_seconds"),
        ({"rules": [rule(hold="instance")]}, "hold"),
        ({"rules": [rule(hold="card+instance")]}, "needs a component"),
        ({"rules": [rule(hold="card+instance", selector={"component": "*"})]}, "needs a component"),
        ({"rules": [rule(selector={"model": 7})]}, "model"),
        ({"preset": "consul"}, "preset"),
        ({"preset": "dynamo", "templates": [{"pattern": "/s/{instance}"}]}, "not both"),
        (
            {
                "templates": [{"pattern": "/s/{instance}", "kind": "instance"}],
                "rules": [{"gates": {"smoke": {"timeout_seconds": 1}}}],
            },
            "gate nothing",
        ),
        ({"templates": [{"pattern": "/s/{namespace}"}]}, "has no {instance}"),
        ({"templates": [{"pattern": "/s/{instance}", "kind": "lora"}]}, "kind"),
    ],
)
def test_a_wrong_policy_is_refused_and_the_field_named(document: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Policy.model_validate(document)
    assert complaint in str(refused.value)


def test_no_rule_matches_no_requirements() -> None:
    assert policy().requirements(card(), CARD_ATTRIBUTES) is None
    assert policy(rule(selector={"model": "Llama"})).requirements(card(), CARD_ATTRIBUTES) is None


def test_matching_rules_add_up() -> None:
    """Their gates together; of a gate named twice the longer timeout; of two holds the stronger."""
    found = policy(
        rule(hold="health", gates={"smoke": {"timeout_seconds": 60}, "latency": {"timeout_seconds": 5}}),
        rule(selector={"model": "Q*"}, gates={"smoke": {"timeout_seconds": 30}, "accuracy": {"timeout_seconds": 9}}),
        rule(selector={"model": "Llama"}, gates={"never": {"timeout_seconds": 1}}),
    ).requirements(card(), CARD_ATTRIBUTES)
    assert found == Requirements(Hold.CARD, gates_of({"smoke": 60, "latency": 5, "accuracy": 9}))


@pytest.mark.parametrize(
    ("one", "other", "joined"),
    [
        ({}, {"failure_limit": 2}, {"failure_limit": 0}),
        ({"failure_limit": 3}, {"failure_limit": 2}, {"failure_limit": 2}),
        ({}, {"inconclusive_limit": 2}, {"inconclusive_limit": 2}),
        ({"inconclusive_limit": 0}, {"inconclusive_limit": 2}, {"inconclusive_limit": 0}),
        ({}, {}, {"inconclusive_limit": None, "max_concurrent": None, "claim_limit": 3}),
        ({"phase": "continuous", "ttl_seconds": 9}, {}, {"phase": "continuous", "ttl_seconds": 9}),
        (
            *({"phase": "continuous", "ttl_seconds": 9}, {"phase": "continuous", "ttl_seconds": 7}),
            {"phase": "continuous", "ttl_seconds": 7},
        ),
        ({"max_concurrent": 4}, {}, {"max_concurrent": 4}),
        ({"max_concurrent": 4}, {"max_concurrent": 2, "claim_limit": 1}, {"max_concurrent": 2, "claim_limit": 1}),
    ],
)
def test_of_what_two_rules_ask_of_one_gate_the_stricter_counts(
    one: dict[str, Any], other: dict[str, Any], joined: dict[str, Any]
) -> None:
    """Whatever the order of the rules in the file."""
    both = [GatePolicy.model_validate({"timeout_seconds": 1, **asked}) for asked in (one, other)]
    expected = GatePolicy.model_validate({"timeout_seconds": 1, **joined})
    assert both[0].joined(both[1]) == both[1].joined(both[0]) == expected


def test_an_instance_record_concerns_only_rules_that_hold_it() -> None:
    cards_only = policy(rule())
    both = policy(rule(hold="card+instance", selector={"component": "backend"}))
    assert cards_only.requirements(instance_record(), CARD_ATTRIBUTES) is None
    found = both.requirements(instance_record(), CARD_ATTRIBUTES)
    assert found == Requirements(Hold.CARD_AND_INSTANCE, gates_of({"smoke": 900}))


def test_an_unreadable_model_matches_every_rule() -> None:
    unreadable = Attributes("dynamo", "backend", "generate", None, "")
    assert policy(rule(selector={"model": "Llama"})).requirements(card(), unreadable) is not None


@pytest.mark.parametrize("weaker", list(Hold))
@pytest.mark.parametrize("stronger", list(Hold))
def test_the_stronger_hold_wins_whatever_the_order(weaker: Hold, stronger: Hold) -> None:
    order = [Hold.HEALTH, Hold.CARD, Hold.CARD_AND_INSTANCE]
    expected = order[max(order.index(weaker), order.index(stronger))]
    assert weaker.stronger(stronger) is expected


def test_of_what_rules_do_on_a_conflict_the_most_is_done_and_the_default_is_a_warning() -> None:
    one, two = rule(on_conflict="queue"), rule(selector={"model": "Q*"}, on_conflict="reject")
    for rules, expected in (
        ((rule(),), "warn"),
        ((rule(), one), "queue"),
        ((one, two), "reject"),
        ((two, one), "reject"),
    ):
        found = policy(*rules).requirements(card(), CARD_ATTRIBUTES)
        assert found is not None
        assert found.on_conflict == expected


def test_dynamos_keys_are_the_default() -> None:
    gated_keys = policy(rule()).gated_keys()
    assert gated_keys.prefixes == (b"v1/mdc/",)
    assert policy(rule(), preset="dynamo").gated_keys() == gated_keys


def test_instance_records_are_gated_where_one_rule_holds_them() -> None:
    gated_keys = policy(rule(), rule(hold="card+instance", selector={"component": "backend"})).gated_keys()
    assert gated_keys.prefixes == (b"v1/instances/", b"v1/mdc/")


def test_templates_of_ones_own() -> None:
    templates = [{"pattern": "/cards/{instance}"}, {"pattern": "/workers/{instance}", "kind": "instance"}]
    gated_keys = policy(rule(), templates=templates).gated_keys()
    assert gated_keys.prefixes == (b"/cards/",)
    assert [(record.pattern, record.kind) for record in gated_keys.instance_records] == [
        ("/workers/{instance}", KeyKind.INSTANCE)
    ]
    held = policy(rule(hold="card+instance", selector={"component": "x"}), templates=templates).gated_keys()
    assert held.prefixes == (b"/cards/", b"/workers/")


def test_addresses_are_read_from_dynamos_records_without_own_ones() -> None:
    gated_keys = policy(rule(), templates=[{"pattern": "/cards/{instance}"}]).gated_keys()
    assert gated_keys.instance_records == DYNAMO_INSTANCES


def test_gates_from_the_command_line_match_every_instance() -> None:
    found = gates_for_everything({"smoke": 900.0, "latency": 600.0}).requirements(card(), CARD_ATTRIBUTES)
    assert found == Requirements(Hold.CARD, gates_of({"smoke": 900, "latency": 600}))


def test_no_gates_from_the_command_line_are_no_rule() -> None:
    assert gates_for_everything({}).rules == ()


def test_the_digest_follows_the_meaning() -> None:
    """Replicas are warned of when they differ, so the order in which gates are written must not count."""
    gates = {"a": {"timeout_seconds": 1}, "b": {"timeout_seconds": 2}}
    one = policy(rule(gates=gates))
    assert one.digest == policy(rule(gates=dict(reversed(gates.items())), hold="card")).digest
    assert one.digest != policy(rule(gates=gates, hold="health")).digest
    assert one.digest != policy(rule(gates={**gates, "b": {"timeout_seconds": 3}})).digest


def test_two_rules_of_one_name_are_refused() -> None:
    """Whoever asks by which rule an instance has a gate must get one answer. Rules without a name may be many."""
    with pytest.raises(ValidationError, match="two rules are named 'canary'"):
        policy(rule(name="canary"), rule(name="other"), rule(name="canary"))
    assert len(policy(rule(), rule()).rules) == 2


DRY = {"mode": "dry-run", "hold": "card", "gates": {"smoke": {"timeout_seconds": 900}, "chat": {"timeout_seconds": 60}}}
OBEYED = {"gates": {"smoke": {"timeout_seconds": 30}}}


def test_a_rule_in_dry_run_keeps_nothing_back_and_changes_nothing_of_another() -> None:
    alone = Rule.model_validate(DRY).requirements
    assert (alone.hold, alone.dry_gates, alone.dry_run) == (Hold.HEALTH, {"smoke", "chat"}, True)
    obeyed = Rule.model_validate(OBEYED).requirements
    for both in (alone.joined(obeyed), obeyed.joined(alone)):
        assert (both.hold, both.dry_gates, both.dry_run) == (Hold.CARD, {"chat"}, False)
        assert both.gates["smoke"].timeout_seconds == 30
    assert alone.joined(alone) == alone


def test_a_rule_in_dry_run_does_nothing_about_conflicts() -> None:
    assert Rule.model_validate({**DRY, "on_conflict": "reject"}).requirements.on_conflict == "warn"


def test_a_rule_in_dry_run_gates_no_instance_records() -> None:
    rule = Rule.model_validate({**DRY, "hold": "card+instance", "selector": {"component": "backend"}})
    assert not rule.matches(KeyKind.INSTANCE, Attributes("ns", "backend", "generate", None, ""))
    assert all(template.kind is KeyKind.CARD for template in Policy(rules=(rule,)).gated_keys().templates)
