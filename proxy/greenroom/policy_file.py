"""The policy as operators write it: a YAML file. What is wrong with it is told by file, line and field.

The rule: one line, about the first thing that is wrong, in words of our own.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from greenroom.core.policy import LARGEST_TIMEOUT_SECONDS, GatePolicy, Policy, Rule, TemplatePolicy
from greenroom.core.selectors import Selector
from greenroom.durations import format_duration, parse_duration

MAX_POLICY_BYTES = 1 << 20
"""A policy is written by hand; a larger file is another file."""
TIMEOUT = "timeout_seconds"
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
    "pattern": ": where the keys lie, as `v1/mdc/{namespace}/{component}/{endpoint}/{instance}`",
}
"""What belongs there, for who left it out."""


class PolicyFileError(ValueError):
    """One line: `line 4: rules[0].hold: …`."""


def load_policy(path: Path) -> Policy:
    """The policy in `path`; PolicyFileError for a file that cannot be read or says something else than a policy."""
    return parse_policy(read_policy_text(path))


def parse_policy(text: str) -> Policy:
    """The policy that a text says; PolicyFileError where it says none."""
    root = _compose(text)
    if root is None:
        raise PolicyFileError("is empty")
    _refuse_odd_keys(root)
    # From the text again: building values out of the nodes would flatten merges in them, and lines be lost.
    said = _loaded(text)
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
    root = _compose(text)
    return f"line {_line(root, list(path))}: {_field(list(path))}" if root and path else ""


def read_policy_text(path: Path) -> str:
    """What stands in a policy file, whether it is a policy or not; PolicyFileError where that cannot be read."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_POLICY_BYTES + 1)
    except OSError as error:
        raise PolicyFileError(f"cannot be read: {error.strerror}") from error
    if len(content) > MAX_POLICY_BYTES:
        raise PolicyFileError(f"is larger than {MAX_POLICY_BYTES} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise PolicyFileError("is not UTF-8 text") from error


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


def _compose(text: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise PolicyFileError(_without_lines(error)) from error
    except RecursionError:
        raise PolicyFileError("is nested too deep") from None


def _loaded(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise PolicyFileError(_without_lines(error)) from error
    except (ValueError, LookupError, AttributeError) as error:
        # The library's own failures, over what looks like a date or a number and is none, or says that it is one.
        raise PolicyFileError(f"a value in it cannot be read ({error}); quote it if it is text") from error


def _without_lines(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return f"is no YAML: {' '.join(str(error).split())}"
    mark = error.problem_mark
    return f"line {mark.line + 1}, column {mark.column + 1}: is no YAML: {error.problem}"


def _refuse_odd_keys(root: yaml.Node) -> None:
    """Keys that are no text, and the second of two equal ones.

    YAML's loader takes the last silently: half a policy would vanish. Each node is looked at once, however often it is
    referred to, by itself too.
    """
    waiting, met = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in met:
            continue
        met.add(id(node))
        if isinstance(node, yaml.MappingNode):
            _refuse_odd_keys_of(node)
            waiting += [value for _, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value


def _refuse_odd_keys_of(mapping: yaml.MappingNode) -> None:
    seen: set[str] = set()
    for key, _ in mapping.value:
        if not isinstance(key, yaml.ScalarNode):
            raise PolicyFileError(f"line {key.start_mark.line + 1}: a field's name is a list or a mapping, and no text")
        if key.value in seen:
            raise PolicyFileError(f"line {key.start_mark.line + 1}: {key.value!r} stands there twice")
        seen.add(key.value)


def _with_seconds(policy: Any) -> Any:
    """Every `timeout_seconds` that is a duration, such as 15m, as a number of seconds; the rest is judged as it is."""
    for gate in _gates(policy):
        timeout = gate.get(TIMEOUT)
        if isinstance(timeout, str):
            with suppress(ValueError):
                gate[TIMEOUT] = parse_duration(timeout)
    return policy


def _gates(policy: Any) -> Iterator[dict[Any, Any]]:
    rules = policy.get("rules") if isinstance(policy, dict) else None
    for rule in rules if isinstance(rules, list) else ():
        gates = rule.get("gates") if isinstance(rule, dict) else None
        yield from (gate for gate in (gates.values() if isinstance(gates, dict) else ()) if isinstance(gate, dict))


def _described(root: yaml.Node, error: ValidationError) -> PolicyFileError:
    # A misspelt field is a missing one too, and its name is what the author must see.
    errors = sorted(error.errors(include_url=False), key=lambda one: one["type"] != "extra_forbidden")
    first: Mapping[str, Any] = errors[0]
    path = [part for part in first["loc"] if part != "[key]"]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return PolicyFileError(f"line {_line(root, path)}: {_field(path)}{_in_words(first, path)}{more}")


def _in_words(error: Mapping[str, Any], path: list[Any]) -> str:
    field = str(path[-1]) if path else ""
    match error["type"]:
        case "extra_forbidden":
            return _unknown(field, list(_model_at(path[:-1]).model_fields))
        case "missing":
            return f"is missing{_MEANINGS.get(field, '')}"
        case "too_short":
            return f"is empty{_MEANINGS.get(field, '')}"
        case "literal_error" | "enum":
            return f"{error['input']!r} is none of: {error['ctx']['expected'].replace(' or ', ', ')}"
        case "greater_than" | "less_than_equal" | "finite_number":
            return f"must be more than 0, and at most {format_duration(LARGEST_TIMEOUT_SECONDS)}"
        case "float_type" | "float_parsing":
            return f"{_shown(error['input'])} is neither a number of seconds nor a duration such as 90s, 15m or 1h30m"
        case kind if kind in _SHAPES:
            meaning = GATE_MEANING if path[-2:-1] == ["gates"] else _MEANINGS.get(field, "")
            return f"{_shown(error['input'])} is no {_SHAPES[kind]}{meaning}"
        case _:
            return str(error["msg"].removeprefix("Value error, "))


def _unknown(field: str, allowed: list[str]) -> str:
    near = get_close_matches(field, allowed, 1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    return f"is not a field that is known here (they are: {', '.join(allowed)}){meant}"


def _model_at(path: list[Any]) -> type[BaseModel]:
    """What the policy has at a path whose last part is a mapping with fixed fields."""
    match path:
        case ["rules", _]:
            return Rule
        case ["rules", _, "selector"]:
            return Selector
        case ["rules", _, "gates", _]:
            return GatePolicy
        case ["templates", _]:
            return TemplatePolicy
        case _:
            return Policy


def _shown(value: object) -> str:
    """What stands there, as long as it is short: a whole mapping would hide the rest of the line."""
    match value:
        case None:
            return "nothing"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return repr(value)


def _line(root: yaml.Node, path: list[Any]) -> int:
    """The line of the deepest part of the path that the file has."""
    line = root.start_mark.line
    node: yaml.Node | None = root
    for part in path:
        found = next((pair for pair in _children(node) if pair[0] == part), None)
        if found is None:
            break
        _, line, node = found
    return line + 1


def _children(node: yaml.Node | None) -> Iterator[tuple[object, int, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        yield from ((key.value, key.start_mark.line, value) for key, value in node.value)
    elif isinstance(node, yaml.SequenceNode):
        yield from ((index, item.start_mark.line, item) for index, item in enumerate(node.value))


def _field(path: list[Any]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    return f"{text}: " if text else ""
