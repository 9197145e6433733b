"""The policy as operators write it: a YAML file. What is wrong with it is told by file, line and field.

The rule: one line, about the first thing that is wrong, in words of our own. Whoever can show more lines has them all.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from greenroom.core.policy import (
    LARGEST_CONCURRENCY,
    LARGEST_FLOOR,
    LARGEST_IN_FLIGHT,
    LARGEST_LIMIT,
    LARGEST_SETTLE_SECONDS,
    LARGEST_TIMEOUT_SECONDS,
    SHORTEST_TTL_SECONDS,
    GatePolicy,
    Policy,
    ReleasesPolicy,
    Rule,
    TemplatePolicy,
)
from greenroom.core.selectors import Selector
from greenroom.durations import format_duration, parse_duration
from greenroom.yaml_files import YamlFileError, field_name, line_of, read_text, read_yaml, shown, unknown_field

TIMEOUT, TTL, SETTLE = "timeout_seconds", "ttl_seconds", "settle_seconds"
_SHAPES = {
    "model_type": "mapping",
    "mapping_type": "mapping",
    "dict_type": "mapping",
    "tuple_type": "list",
    "string_type": "text",
}
GATE_MEANING = ": a gate says how long its attempts may take, as `{timeout_seconds: 900}`"
_MEANINGS = {
    "gates": ": a rule names at least one gate, as `gates: {smoke: {timeout_seconds: 900}}`",
    TIMEOUT: ": how long each attempt may take, as 900 (seconds) or 15m",
    "rules": ": a list, of which each rule begins with '- '",
    "releases": ": the limits of releases, as `{max_in_flight: 4, min_released: 2}`",
    "pattern": ": where the keys lie, as `v1/mdc/{namespace}/{component}/{endpoint}/{instance}`",
}
"""What belongs there, for who left it out."""
_BOUNDS = {
    TIMEOUT: f"more than 0, and at most {format_duration(LARGEST_TIMEOUT_SECONDS)}",
    TTL: f"at least {SHORTEST_TTL_SECONDS} s, and at most {format_duration(LARGEST_TIMEOUT_SECONDS)}",
    "failure_limit": f"from 0 to {LARGEST_LIMIT}: how many failed attempts are forgiven",
    "max_concurrent": f"from 1 to {LARGEST_CONCURRENCY}: how many runners may have a claim on this gate at once",
    "claim_limit": f"from 1 to {LARGEST_LIMIT}: how many claims of an attempt may end without a verdict",
    "inconclusive_limit": f"from 0 to {LARGEST_LIMIT}: how many inconclusive verdicts an attempt may have",
    "max_in_flight": f"from 1 to {LARGEST_IN_FLIGHT}: how many releases may be in flight at once",
    "min_released": f"from 1 to {LARGEST_FLOOR}: how many of a model automation leaves released",
    SETTLE: f"more than 0, and at most {format_duration(LARGEST_SETTLE_SECONDS)}",
}
"""What a number must be, for who wrote another."""


PolicyFileError = YamlFileError
"""One line, and all that can be told: what rules are to each other, only where each is right by itself."""


def load_policy(path: Path) -> Policy:
    """The policy in `path`; PolicyFileError for a file that cannot be read or says something else than a policy."""
    return parse_policy(read_text(path))


def parse_policy(text: str) -> Policy:
    """The policy that a text says; PolicyFileError where it says none."""
    root, said = read_yaml(text)
    try:
        return Policy.model_validate(_with_seconds(said))
    except ValidationError as error:
        raise _described(root, error) from error


def policy_text(policy: Policy) -> str:
    """A file that says what a policy says: whatever is not the default, in YAML."""
    said = policy.model_dump(mode="json", exclude_defaults=True)
    return str(yaml.safe_dump(_short(said), sort_keys=False, allow_unicode=True)) if said else "rules: []\n"


def located(text: str, path: Sequence[str | int]) -> str:
    """Where in a policy's text a path leads, as `line 4: rules[0].hold: `; nothing for the whole of it."""
    root, _ = read_yaml(text)
    return f"line {line_of(root, list(path))}: {field_name(list(path))}" if path else ""


def _short(value: Any) -> Any:
    """The same, whole numbers without a point."""
    match value:
        case dict():
            return {key: _short(one) for key, one in value.items()}
        case list():
            return [_short(one) for one in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value


def _with_seconds(policy: Any) -> Any:
    """Every time that is a duration, such as 15m, as a number of seconds; the rest is judged as it is."""
    for gate in _gates(policy):
        for field in (TIMEOUT, TTL):
            _parse_duration_of(gate, field)
    releases = policy.get("releases") if isinstance(policy, dict) else None
    if isinstance(releases, dict):
        _parse_duration_of(releases, SETTLE)
    return policy


def _parse_duration_of(mapping: dict[Any, Any], field: str) -> None:
    if isinstance(said := mapping.get(field), str):
        with suppress(ValueError):
            mapping[field] = parse_duration(said)


def _gates(policy: Any) -> Iterator[dict[Any, Any]]:
    rules = policy.get("rules") if isinstance(policy, dict) else None
    for rule in rules if isinstance(rules, list) else ():
        gates = rule.get("gates") if isinstance(rule, dict) else None
        yield from (gate for gate in (gates.values() if isinstance(gates, dict) else ()) if isinstance(gate, dict))


def _described(root: yaml.Node, error: ValidationError) -> PolicyFileError:
    found = [_located(root, one) for one in error.errors(include_url=False)]
    # A misspelt field is a missing one too, and its name is what the author must see.
    first, *others = sorted(found, key=lambda one: not one.is_misspelling)
    more = f" (and {len(others)} more)" if others else ""
    return PolicyFileError(f"{first}{more}", [str(one) for one in sorted(found, key=lambda one: one.line)])


@dataclass(frozen=True, slots=True)
class _Mistake:
    line: int
    words: str
    is_misspelling: bool

    def __str__(self) -> str:
        return f"line {self.line}: {self.words}"


def _located(root: yaml.Node, error: Mapping[str, Any]) -> _Mistake:
    path = [part for part in error["loc"] if part != "[key]"]
    words = f"{field_name(path)}{_in_words(error, path)}"
    return _Mistake(line_of(root, path), words, is_misspelling=error["type"] == "extra_forbidden")


def _in_words(error: Mapping[str, Any], path: list[Any]) -> str:
    field = str(path[-1]) if path else ""
    match error["type"]:
        case "extra_forbidden":
            return unknown_field(field, list(_model_at(path[:-1]).model_fields))
        case "missing":
            return f"is missing{_MEANINGS.get(field, '')}"
        case "too_short":
            return f"is empty{_MEANINGS.get(field, '')}"
        case "literal_error" | "enum":
            return f"{error['input']!r} is none of: {error['ctx']['expected'].replace(' or ', ', ')}"
        case "greater_than" | "greater_than_equal" | "less_than_equal" | "finite_number":
            return f"must be {_BOUNDS[field]}"
        case "int_type" | "int_parsing" | "int_from_float":
            return f"{shown(error['input'])} is no whole number: it must be {_BOUNDS[field]}"
        case "float_type" | "float_parsing":
            return f"{shown(error['input'])} is neither a number of seconds nor a duration such as 90s, 15m or 1h30m"
        case kind if kind in _SHAPES:
            meaning = GATE_MEANING if path[-2:-1] == ["gates"] else _MEANINGS.get(field, "")
            return f"{shown(error['input'])} is no {_SHAPES[kind]}{meaning}"
        case _:
            return str(error["msg"].removeprefix("Value error, "))


def _model_at(path: list[Any]) -> type[BaseModel]:
    """What the policy has at a path whose last part is a mapping with fixed fields."""
    match path:
        case ["rules", _]:
            return Rule
        case ["rules", _, "selector"]:
            return Selector
        case ["rules", _, "gates", _]:
            return GatePolicy
        case ["releases"]:
            return ReleasesPolicy
        case ["templates", _]:
            return TemplatePolicy
        case _:
            return Policy
