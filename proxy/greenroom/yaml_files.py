"""YAML files as operators write them: read whole, odd ones refused, and each mistake told by its line and field.

The rule: one line, in words of our own, and nothing that YAML's loader would take silently.
"""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

MAX_FILE_BYTES = 1 << 20
"""They are written by hand; a larger file is another file."""


class YamlFileError(ValueError):
    """One line: `line 4: rules[0].hold: …`. `each` has a line for every mistake that was found, in the file's order."""

    def __init__(self, said: str, each: Sequence[str] = ()) -> None:
        super().__init__(said)
        self.each = tuple(each) or (said,)


def read_text(path: Path) -> str:
    """The text of a file; YamlFileError where it cannot be read, is too large or no UTF-8."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise YamlFileError(f"cannot be read: {error.strerror}") from error
    if len(content) > MAX_FILE_BYTES:
        raise YamlFileError(f"is larger than {MAX_FILE_BYTES} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise YamlFileError("is not UTF-8 text") from error


def read_yaml(text: str) -> tuple[yaml.Node, Any]:
    """A text's nodes, which know their lines, and what it says; YamlFileError for none, and for odd keys."""
    root = _compose(text)
    if root is None:
        raise YamlFileError("is empty")
    _refuse_odd_keys(root)
    # From the text again: building values out of the nodes would flatten merges in them, and lines be lost.
    return root, _loaded(text)


def unknown_field(field: str, allowed: list[str]) -> str:
    """What is said of a field that is not among those that are allowed."""
    near = get_close_matches(field, allowed, 1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    return f"is not a field that is known here (they are: {', '.join(allowed)}){meant}"


def shown(value: object) -> str:
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


def line_of(root: yaml.Node, path: Sequence[Any]) -> int:
    """The line of the deepest part of the path that the file has."""
    line = root.start_mark.line
    node: yaml.Node | None = root
    for part in path:
        found = next((pair for pair in _children(node) if pair[0] == part), None)
        if found is None:
            break
        _, line, node = found
    return line + 1


def field_name(path: Sequence[Any]) -> str:
    """`rules[0].hold: `, empty for the whole."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    return f"{text}: " if text else ""


def _compose(text: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise YamlFileError(_without_lines(error)) from error
    except RecursionError:
        raise YamlFileError("is nested too deep") from None


def _loaded(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise YamlFileError(_without_lines(error)) from error
    except RecursionError:
        raise YamlFileError("is nested too deep") from None
    except (ValueError, LookupError, AttributeError, ArithmeticError) as error:
        # The library's own failures, over what looks like a date or a number and is none, or says that it is one.
        raise YamlFileError(f"a value in it cannot be read ({error}); quote it if it is text") from error


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
            raise YamlFileError(f"line {key.start_mark.line + 1}: a field's name is a list or a mapping, and no text")
        if key.value in seen:
            raise YamlFileError(f"line {key.start_mark.line + 1}: {key.value!r} stands there twice")
        seen.add(key.value)


def _children(node: yaml.Node | None) -> Iterator[tuple[object, int, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        yield from ((key.value, key.start_mark.line, value) for key, value in node.value)
    elif isinstance(node, yaml.SequenceNode):
        yield from ((index, item.start_mark.line, item) for index, item in enumerate(node.value))
