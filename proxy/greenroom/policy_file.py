"""The policy as operators write it: a YAML file. What is wrong with it is told by file, line and field."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from greenroom.core.policy import Policy

MAX_POLICY_BYTES = 1 << 20
"""A policy is written by hand; a larger file is another file."""


class PolicyFileError(ValueError):
    """One line: `line 4: rules[0].hold: …`."""


def load_policy(path: Path) -> Policy:
    """The policy in `path`; PolicyFileError for a file that cannot be read or says something else than a policy."""
    return parse_policy(_read(path))


def parse_policy(text: str) -> Policy:
    """The policy that a text says; PolicyFileError where it says none."""
    root = _compose(text)
    if root is None:
        raise PolicyFileError("is empty")
    _refuse_duplicates(root)
    try:
        # From the text again: building values out of the nodes would flatten merges in them, and lines be lost.
        return Policy.model_validate(yaml.safe_load(text))
    except ValidationError as error:
        raise _described(root, error) from error
    except yaml.YAMLError as error:
        raise PolicyFileError(_without_lines(error)) from error


def _read(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise PolicyFileError(f"cannot be read: {error.strerror}") from error
    if len(content) > MAX_POLICY_BYTES:
        raise PolicyFileError(f"is larger than {MAX_POLICY_BYTES} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise PolicyFileError("is not UTF-8 text") from error


def _compose(text: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise PolicyFileError(_without_lines(error)) from error


def _without_lines(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return f"is no YAML: {' '.join(str(error).split())}"
    mark = error.problem_mark
    return f"line {mark.line + 1}, column {mark.column + 1}: is no YAML: {error.problem}"


def _refuse_duplicates(node: yaml.Node) -> None:
    """YAML's loader takes the last of two equal keys silently: half a policy would vanish."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                raise PolicyFileError(f"line {key.start_mark.line + 1}: {key.value!r} stands there twice")
            seen.add(str(key.value))
            _refuse_duplicates(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _refuse_duplicates(value)


def _described(root: yaml.Node, error: ValidationError) -> PolicyFileError:
    first = error.errors(include_url=False, include_input=False)[0]
    path = [part for part in first["loc"] if part != "[key]"]
    message = first["msg"].removeprefix("Value error, ")
    return PolicyFileError(f"line {_line(root, path)}: {_field(path)}{message}")


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
