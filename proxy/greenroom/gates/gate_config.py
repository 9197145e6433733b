"""Which gates a runner runs, and how: a YAML file, or the variable DYN_WORKER_VALIDATION_GATES, which is JSON.

Both have the same fields, and one model. The rule: what is wrong is said in one line that names gate and field, before
anything runs.
"""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, StrictStr, ValidationError, model_validator

from greenroom.core.policy import LARGEST_TIMEOUT_SECONDS, GateName, Hold
from greenroom.durations import format_duration
from greenroom.errors import SettingsError
from greenroom.gates.url_place import UrlPlace
from greenroom.yaml_files import YamlFileError, line_of, read_text, read_yaml, shown, unknown_field

GATES_VARIABLE: Final = "DYN_WORKER_VALIDATION_GATES"
HOLD_VARIABLE: Final = "DYN_WORKER_VALIDATION_HOLD"
OPTION: Final = "--config"
_TIMEOUT: Final = f"a number of seconds, more than 0 and at most {format_duration(LARGEST_TIMEOUT_SECONDS)}"
_SHAPES: Final = {
    "exec": 'a list of words, as ["python", "/checks/smoke.py"]',
    "url": "text, as http://127.0.0.1:9100/validate",
    "timeout_secs": _TIMEOUT,
}


class WantedHold(StrEnum):
    """What the variable of that name asks the proxy to keep back."""

    CARD = "card"
    HEALTH = "health"

    def agrees_with(self, hold: Hold) -> bool:
        """Whether a rule's hold is what is asked for: one that keeps more back than the card keeps that back too."""
        return (hold is Hold.HEALTH) == (self is WantedHold.HEALTH)


class GateCheck(BaseModel):
    """How one gate is checked: a command to run, or a URL to post to; and how long one run may take."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    exec: tuple[StrictStr, ...] | None = None
    url: StrictStr | None = None
    timeout_secs: Annotated[float, Field(strict=True, gt=0, le=LARGEST_TIMEOUT_SECONDS, allow_inf_nan=False)]

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.exec is not None and self.url is not None:
            raise ValueError("exec, url: both are given; a gate has one of them")
        if self.exec is None and self.url is None:
            raise ValueError("exec, url: neither is given; a gate has one of them")
        if self.exec is not None and (not self.exec or not self.exec[0]):
            raise ValueError("exec: is an empty command")
        if self.exec is not None and any("\0" in word for word in self.exec):
            raise ValueError("exec: has a character that no command can have (NUL)")
        if self.exec is not None and any("\ud800" <= character <= "\udfff" for character in "".join(self.exec)):
            raise ValueError("exec: has half a character (a lone surrogate), which no command can have")
        return self


Gates = Mapping[str, GateCheck]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    gates: dict[GateName, GateCheck]


def gates_of(config: Path | None, variable: str, *, allow_remote: bool = False) -> Gates:
    """The gates of the file or of the variable's text, whichever there is; SettingsError for both, and for neither."""
    if config is not None and variable:
        raise SettingsError(f"{OPTION} '{config}': {GATES_VARIABLE} says what to run too; give one of the two")
    if config is not None:
        gates, source = _from_file(config), f"{OPTION} '{config}'"
    elif variable:
        gates, source = _from_json(variable), GATES_VARIABLE
    else:
        raise SettingsError(f"no gate is given: {OPTION} FILE, or {GATES_VARIABLE}")
    if not gates:
        raise SettingsError(f"{source}: names no gate")
    for name, gate in gates.items():
        if gate.url is not None:
            _check_url(source, name, gate.url, allow_remote=allow_remote)
    return gates


def hold_of(text: str, *, has_gates: bool) -> WantedHold | None:
    """What the variable asks for, None where it is not set; SettingsError."""
    if not text:
        return None
    if text not in list(WantedHold):
        raise SettingsError(f"{HOLD_VARIABLE} '{text}': is neither {' nor '.join(WantedHold)}")
    if not has_gates:
        raise SettingsError(
            f"{HOLD_VARIABLE} '{text}': there is no gate to wait for: {OPTION} FILE, or {GATES_VARIABLE}"
        )
    return WantedHold(text)


def _check_url(source: str, name: str, url: str, *, allow_remote: bool) -> None:
    try:
        UrlPlace.of(url, allow_remote=allow_remote)
    except ValueError as error:
        raise SettingsError(f"{source}: gate {name!r}: url: '{url}' {error}") from error


def _from_json(text: str) -> Gates:
    try:
        said = json.loads(text, object_pairs_hook=_once_each)
    except RecursionError:
        raise SettingsError(f"{GATES_VARIABLE}: is nested too deep") from None
    except ValueError as error:
        raise SettingsError(f"{GATES_VARIABLE}: is no JSON: {error}") from error
    try:
        return _File.model_validate({"gates": said}).gates
    except ValidationError as error:
        _, words = _first(error)
        raise SettingsError(f"{GATES_VARIABLE}: {words}") from error


def _once_each(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """JSON's own reader takes the last of two silently: a gate would vanish."""
    names = [name for name, _ in pairs]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{twice[0]!r} stands there twice")
    return dict(pairs)


def _from_file(path: Path) -> Gates:
    try:
        root, said = read_yaml(read_text(path))
        return _File.model_validate(said).gates
    except YamlFileError as error:
        raise SettingsError(f"{OPTION} '{path}': {error}") from error
    except ValidationError as error:
        where, words = _first(error)
        raise SettingsError(f"{OPTION} '{path}': line {line_of(root, where)}: {words}") from error


def _first(error: ValidationError) -> tuple[list[Any], str]:
    """Where the first mistake is, and what. A field that is not known may be one that is missed: it goes before."""
    one = min(error.errors(include_url=False), key=lambda each: each["type"] != "extra_forbidden")
    path = [part for part in one["loc"] if part != "[key]"]
    gate = f"gate {path[1]!r}: " if len(path) > 1 else ""
    field = str(path[2]) if len(path) > 2 else ""
    return path, f"{gate}{field}{': ' if field else ''}{_in_words(one, path, field)}"


def _in_words(error: Mapping[str, Any], path: Sequence[Any], field: str) -> str:
    match error["type"]:
        case "value_error":
            return str(error["ctx"]["error"])
        case "extra_forbidden" if field:
            return unknown_field(field, list(GateCheck.model_fields))
        case "extra_forbidden":
            return f"{path[0]}: {unknown_field(str(path[0]), list(_File.model_fields))}"
        case "missing" if field:
            return f"is missing: {_SHAPES[field]}"
        case "missing":
            return "gates: is missing: of each gate's name how it is checked"
        case _ if field:
            return f"{shown(error['input'])} is not {_SHAPES[field]}"
        case _ if len(path) > 1:
            return f"{shown(error['input'])} is no mapping with exec or url, and timeout_secs"
        case _:
            return f"{shown(error['input'])} is no mapping of gates' names"
