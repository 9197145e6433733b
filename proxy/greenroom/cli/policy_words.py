"""A policy and what it says to one instance, as lines for people and as JSON.

The rule: fields are those of the policy's own models, whatever they are; none is named here but those with a place.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from typing import Any

from pydantic import BaseModel

from greenroom.cli.layout import indented, table
from greenroom.cli.words import as_json
from greenroom.core.cards import Attributes
from greenroom.core.explain import Explanation, RuleExplained
from greenroom.core.policy import Policy, Requirements
from greenroom.core.templates import KeyKind
from greenroom.pb.control.v1 import control_pb2

RULE_HEADINGS = ("RULE", "MATCHES", "WHY")
GATE_HEADINGS = ("GATE", "FROM", "SETTINGS")
UNHELD = "no rule matches: such an instance is public at once, without any gate"


def refusals(message: control_pb2.Policy) -> Iterator[str]:
    """What an operator has to know of the policy in force: it is not the file's, or not everybody's."""
    if message.HasField("refusal"):
        yield f"warning: the file says something else, which was refused: {message.refusal.reason}"
    for peer in message.peers:
        if peer.differs:
            place = f"{peer.proxy} at {peer.address} on {peer.host}"
            yield f"warning: another policy is in force at the proxy {place}: digest {peer.digest or 'unknown'}"


def policy_json(message: control_pb2.Policy, policy: Policy) -> dict[str, Any]:
    """The message's fields, and beside its text what that says."""
    return {**as_json(message), "policy": policy.model_dump(mode="json", exclude_none=True)}


def explanation_lines(attributes: Attributes, explanation: Explanation) -> list[str]:
    """The rules, what follows, and each gate with whom it is from."""
    about = ", ".join(f"{name} {value!r}" for name, value in asdict(attributes).items() if value)
    rules = [(rule.title, "yes" if rule.matches else "no", _why(rule)) for rule in explanation.rules]
    return [f"An instance with {about}", "", *table(RULE_HEADINGS, rules), "", *_what_follows(explanation)]


def explanation_json(attributes: Attributes, explanation: Explanation) -> dict[str, Any]:
    """The same for programs. `hold` and the like are missing where no rule matches."""
    needs = explanation.requirements
    gates = {
        name: {
            **gate.model_dump(mode="json"),
            **_dry_run(needs, name),
            "from": list(explanation.origins[name]),
        }
        for name, gate in sorted(needs.gates.items() if needs else ())
    }
    rules = [_rule_json(rule) for rule in explanation.rules]
    return {
        "attributes": asdict(attributes),
        "rules": rules,
        **(dict(_settings(needs)) if needs else {}),
        "gates": gates,
    }


def _what_follows(explanation: Explanation) -> list[str]:
    needs = explanation.requirements
    if needs is None:
        return [UNHELD]
    gates = [
        (name, ", ".join(explanation.origins[name]), _said({**_given(gate), **_dry_run(needs, name)}))
        for name, gate in sorted(needs.gates.items())
    ]
    return [*(f"{name}: {value}" for name, value in _settings(needs)), "gates:", *indented(table(GATE_HEADINGS, gates))]


def _why(rule: RuleExplained) -> str:
    if not rule.matches:
        return _unlike(rule)
    reasons = [f"{name} is not given, and counts as a match" for name in rule.unknown]
    if rule.matched == (KeyKind.INSTANCE,):
        reasons = [
            f"its instance record does, which names no model or suffix: not its card ({_unlike(rule)})",
            *reasons,
        ]
    return "; ".join(reasons)


def _unlike(rule: RuleExplained) -> str:
    return ", ".join(f"{one.attribute} {one.given!r} is not {one.glob!r}" for one in rule.mismatches)


def _rule_json(rule: RuleExplained) -> dict[str, Any]:
    return {
        "rule": rule.title,
        "matches": rule.matches,
        "matched": [kind.value for kind in rule.matched],
        "mismatches": [asdict(one) for one in rule.mismatches],
        "not_given": list(rule.unknown),
    }


def _settings(needs: Requirements) -> Iterator[tuple[str, Any]]:
    """What rules ask of the whole instance: all but the gates, which have lines of their own, and the usual."""
    for field in fields(needs):
        if field.name not in ("gates", "dry_gates") and getattr(needs, field.name) != field.default:
            yield field.name, getattr(needs, field.name)


def _dry_run(needs: Requirements | None, gate: str) -> Mapping[str, Any]:
    return {"dry_run": True} if needs and gate in needs.dry_gates else {}


def _given(model: BaseModel) -> Mapping[str, Any]:
    return model.model_dump(mode="json", exclude_defaults=True)


def _said(settings: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in settings.items()
    )
