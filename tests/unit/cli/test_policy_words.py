"""A policy, and what it says to one instance, in words and as JSON."""

from greenroom.cli.policy_words import UNHELD, explanation_json, explanation_lines, policy_json, refusals
from greenroom.core.cards import Attributes
from greenroom.core.explain import explain
from greenroom.core.policy import GatePolicy, Policy
from greenroom.pb.control.v1 import control_pb2

RULES = Policy.model_validate(
    {
        "rules": [
            {"name": "all", "gates": {"smoke": {"timeout_seconds": 600}}},
            {
                "name": "records",
                "selector": {"component": "pyw", "model": "tiny"},
                "hold": "card+instance",
                "gates": {"smoke": {"timeout_seconds": 900}, "latency": {"timeout_seconds": 0.5}},
            },
        ]
    }
)
PYW = Attributes("prod", "pyw", None, "large", "")
OTHER = Attributes("prod", "other", None, None, "")


def test_each_rule_says_why_it_does_or_does_not() -> None:
    lines = explanation_lines(OTHER, explain(RULES, OTHER))
    assert lines[:5] == [
        "An instance with namespace 'prod', component 'other'",
        "",
        "RULE     MATCHES  WHY",
        "all      yes",
        "records  no       component 'other' is not 'pyw'",
    ]
    assert lines[6:] == ["hold: card", "gates:", "  GATE   FROM  SETTINGS", "  smoke  all   timeout_seconds 600"]


def test_what_is_not_known_is_said_where_it_counts_as_a_match() -> None:
    unknown = Attributes("prod", "pyw", None, None, "")
    assert "records  yes      model is not given, and counts as a match" in explanation_lines(
        unknown, explain(RULES, unknown)
    )


def test_a_rule_that_matches_by_the_instance_record_alone_says_so() -> None:
    lines = explanation_lines(PYW, explain(RULES, PYW))
    [row] = [line for line in lines if line.startswith("records")]
    assert "its instance record does" in row
    assert "model 'large' is not 'tiny'" in row
    assert lines[6:] == [
        "hold: card+instance",
        "gates:",
        "  GATE     FROM          SETTINGS",
        "  latency  records       timeout_seconds 0.5",
        "  smoke    all, records  timeout_seconds 900",
    ]


def test_an_instance_that_no_rule_matches_is_public() -> None:
    assert explanation_lines(OTHER, explain(Policy(), OTHER))[-1] == UNHELD
    explained = explanation_json(OTHER, explain(Policy(), OTHER))
    assert (explained["gates"], explained.keys() & {"hold"}) == ({}, set())


def test_json_has_every_setting_of_a_gate_and_of_the_whole() -> None:
    explained = explanation_json(PYW, explain(RULES, PYW))
    assert explained["hold"] == "card+instance"
    assert explained["gates"]["smoke"].keys() == {*GatePolicy.model_fields, "from"}
    assert explained["rules"][1] == {
        "rule": "records",
        "matches": True,
        "matched": ["instance"],
        "mismatches": [{"attribute": "model", "glob": "tiny", "given": "large"}],
        "not_given": [],
    }


def test_what_an_operator_has_to_know_of_the_policy_in_force() -> None:
    message = control_pb2.Policy(digest="a")
    assert list(refusals(message)) == []
    message.refusal.reason = "line 1: is wrong"
    message.peers.add(proxy="one", address="b:1", host="node1", digest="a")
    message.peers.add(proxy="two", address="c:1", host="node2", digest="b", differs=True)
    assert list(refusals(message)) == [
        "warning: the file says something else, which was refused: line 1: is wrong",
        "warning: another policy is in force at the proxy two at c:1 on node2: digest b",
    ]


def test_a_policy_as_json_has_its_text_and_what_that_says() -> None:
    said = policy_json(control_pb2.Policy(text="rules: …", digest="a"), RULES)
    assert (said["text"], said["digest"], said["policy"]["rules"][0]["name"]) == ("rules: …", "a", "all")
