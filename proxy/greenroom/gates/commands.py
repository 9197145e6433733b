"""Which checks `greenroom check serve` has: of each gate's name a command, from options or a YAML file.

The rule: no shell. A command is a list of words; of one that is text the words are those that a shell would see.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from greenroom.core.policy import GateName, check_gate_name
from greenroom.yaml_files import YamlFileError, field_name, line_of, read_text, read_yaml, shown, unknown_field


def words_of(text: str) -> list[str]:
    """The words of a command; ValueError where there are none, or a quotation does not end."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no command: {str(error).lower()}") from error
    if not words:
        raise ValueError("is an empty command")
    return words


def parse_check(text: str) -> tuple[str, Sequence[str]]:
    """Name and command of `smoke='python smoke.py'`; ValueError in words."""
    name, equals, command = text.partition("=")
    if not equals:
        raise ValueError("is no NAME='COMMAND …'")
    return check_gate_name(name), words_of(command)


def load_checks(path: Path) -> Mapping[str, Sequence[str]]:
    """Those of a file; YamlFileError with line and field where it is no good."""
    root, said = read_yaml(read_text(path))
    try:
        return _File.model_validate(said).checks
    except ValidationError as error:
        raise _described(root, error) from error


def _words(given: object) -> object:
    return words_of(given) if isinstance(given, str) else given


def _not_empty(words: tuple[str, ...]) -> tuple[str, ...]:
    if not words or not words[0]:
        raise ValueError("is an empty command")
    return words


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    checks: Annotated[
        dict[GateName, Annotated[tuple[str, ...], BeforeValidator(_words), AfterValidator(_not_empty)]],
        Field(min_length=1),
    ]


def _described(root: yaml.Node, error: ValidationError) -> YamlFileError:
    # A field that is not known says more than one that is missed, since it may be that one.
    first = min(error.errors(include_url=False), key=lambda one: one["type"] != "extra_forbidden")
    path = [part for part in first["loc"] if part != "[key]"]
    match first["type"]:
        case "extra_forbidden":
            words = unknown_field(str(path[-1]), list(_File.model_fields))
        case "missing":
            words = "is not given"
        case "too_short":
            words = "is empty"
        case "value_error":
            words = str(first["ctx"]["error"])
        case _:
            words = f"{shown(first['input'])} is no command; one is a list of words, or text: {first['msg']}"
    return YamlFileError(f"line {line_of(root, path)}: {field_name(path)}{words}")
