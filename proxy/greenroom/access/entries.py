"""The callers as the access file has them: YAML, read strictly, each mistake told by line and field.

The rule: no error shows what stands where a hash should be, since it may well be the token itself.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Self

import yaml
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from greenroom.access.callers import EVERY_GATE, Caller, InstanceSelector
from greenroom.access.roles import Role
from greenroom.access.tokens import is_digest
from greenroom.core.policy import GATE_NAME, NO_GATE_NAME
from greenroom.core.transitions import ITSELF
from greenroom.yaml_files import YamlFileError, field_name, line_of, read_yaml, shown, unknown_field

MAX_CALLERS: Final = 1000
"""A token is compared with every hash; these are people, checks and machines, no crowd."""
MAX_TOKENS: Final = 8
"""Of one caller: the one in use, the next one, and some for those who share a name."""
MAX_NAME_BYTES: Final = 256
"""As the control API takes names."""
_WILD: Final = frozenset("*?[")
_SHAPES: Final = {"model_type": "mapping", "tuple_type": "list", "string_type": "text"}
_MEANINGS: Final = {
    "callers": ": a list, of which each caller begins with '- name: '",
    "name": ": who it is, as records and logs are to say it",
    "role": ": viewer, reporter or operator",
    "gates": ": a list of gates, as [smoke, 'latency-*']",
    "selector": ": globs over namespace, component, endpoint and model",
}
_SECRET: Final = "token_sha256"
_NO_DIGEST: Final = (
    "is not the SHA-256 of a token in lower-case hexadecimal (64 digits): `greenroom access new-token` prints one"
)


def _name(name: str) -> str:
    if not name.strip() or name != name.strip() or not name.isprintable() or len(name.encode()) > MAX_NAME_BYTES:
        raise ValueError(f"is a name of at most {MAX_NAME_BYTES} bytes, in one line and without spaces around it")
    if name == ITSELF:
        raise ValueError(f"{name!r} is the proxy's own name in the trail")
    return name


def _blank_of(given: object, within: str = "") -> str:
    """The first field that says nothing; empty where each says something."""
    said = given if isinstance(given, dict) else {}
    return next((f"{within}{name}" for name, value in said.items() if value is None or value == {}), "")


def _digest(text: str) -> str:
    if not is_digest(text):
        raise ValueError(_NO_DIGEST)
    return text


def _gate_glob(glob: str) -> str:
    if not _WILD & set(glob) and not GATE_NAME.fullmatch(glob):
        raise ValueError(f"{glob!r} {NO_GATE_NAME}: no gate has that name")
    return glob


def _listed(given: object) -> object:
    """One hash may stand without a list around it."""
    return (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list) else given


def _moment(given: object) -> object:
    if not isinstance(given, datetime) or given.tzinfo is None:
        raise ValueError("is no time with its zone, such as 2030-12-31T00:00:00Z")
    return given


Digest = Annotated[str, AfterValidator(_digest)]
Digests = Annotated[tuple[Digest, ...], BeforeValidator(_listed), Field(max_length=MAX_TOKENS)]


class Entry(BaseModel):
    """One caller of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    name: Annotated[str, AfterValidator(_name)]
    role: Role
    token_sha256: Digests = ()
    certificate: Annotated[str, Field(min_length=1)] | None = None
    expires: Annotated[AwareDatetime, BeforeValidator(_moment)] | None = None
    gates: tuple[Annotated[str, AfterValidator(_gate_glob)], ...] | None = None
    selector: InstanceSelector | None = None

    @model_validator(mode="before")
    @classmethod
    def _nothing_is_left_blank(cls, given: object) -> object:
        """A limit that was begun and says nothing would be none: that is said by leaving it out."""
        if isinstance(given, dict) and (blank := _blank_of(given) or _blank_of(given.get("selector"), "selector.")):
            raise ValueError(f"{blank} is empty: fill it in, or leave it out")
        return given

    @model_validator(mode="after")
    def _known_by_something(self) -> Self:
        if not self.token_sha256 and self.certificate is None:
            raise ValueError("has neither token_sha256 nor certificate: nobody could be known by it")
        return self

    @model_validator(mode="after")
    def _limits_are_reporters(self) -> Self:
        if self.role is Role.REPORTER and not self.gates:
            raise ValueError("gates: is missing: a reporter has gates, as [smoke, 'latency-*'], or ['*'] for all")
        for field in ("gates", "selector"):
            if self.role is not Role.REPORTER and getattr(self, field) is not None:
                raise ValueError(f"{field}: is for reporters; a caller of the role {self.role} is not limited")
        return self

    @property
    def caller(self) -> Caller:
        """Who it is, and what that one may do."""
        return Caller(self.name, self.role, self.gates or EVERY_GATE, self.selector)


class AccessFile(BaseModel):
    """The file as a whole."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    callers: tuple[Entry, ...] = Field(max_length=MAX_CALLERS)

    @model_validator(mode="after")
    def _all_differ(self) -> Self:
        _refuse_repeated("name", [(entry.name, entry) for entry in self.callers])
        _refuse_nested({entry.name for entry in self.callers})
        _refuse_repeated("certificate", [(one.certificate, one) for one in self.callers if one.certificate])
        _refuse_repeated(_SECRET, [(digest, one) for one in self.callers for digest in one.token_sha256])
        return self


def parse_entries(text: str) -> tuple[Entry, ...]:
    """The callers that a text says; YamlFileError where it says none, which is the safe side of a mistake."""
    root, said = read_yaml(text)
    try:
        return AccessFile.model_validate(said).callers
    except ValidationError as error:
        raise _described(root, error) from None


def _refuse_repeated(field: str, values: list[tuple[str, Entry]]) -> None:
    seen: dict[str, Entry] = {}
    for value, entry in values:
        if value in seen:
            what = "a token" if field == _SECRET else f"{field} {value!r}"
            other = "" if field == "name" else f" (of {seen[value].name!r} and {entry.name!r})"
            raise PydanticCustomError("repeated", "{what} stands there twice{other}", {"what": what, "other": other})
        seen[value] = entry


def _refuse_nested(names: set[str]) -> None:
    """Runners call themselves by their caller's name and what follows a `/`, which must be nobody else's name."""
    for name in names:
        if within := next((other for other in names if name.startswith(f"{other}/")), None):
            raise ValueError(f"{name!r} is a name that runners of {within!r} may use; choose another")


def _described(root: yaml.Node, error: ValidationError) -> YamlFileError:
    # A misspelt field is a missing one too, and its name is what the author must see.
    errors = sorted(error.errors(include_url=False), key=lambda one: one["type"] != "extra_forbidden")
    first: Mapping[str, Any] = errors[0]
    path = list(first["loc"])
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return YamlFileError(f"line {line_of(root, path)}: {field_name(path)}{_in_words(first, path)}{more}")


def _in_words(error: Mapping[str, Any], path: list[Any]) -> str:
    field = str(path[-1]) if path else ""
    if _SECRET in path and error["type"] != "too_long":
        return _NO_DIGEST
    match error["type"]:
        case "extra_forbidden":
            return unknown_field(field, list(_model_at(path[:-1]).model_fields))
        case "missing":
            return f"is missing{_MEANINGS.get(field, '')}"
        case "too_long":
            return f"has more than {error['ctx']['max_length']}"
        case "string_too_short":
            return "is empty"
        case "enum":
            return f"{shown(error['input'])} is none of: {error['ctx']['expected'].replace(' or ', ', ')}"
        case kind if kind in _SHAPES:
            return f"{shown(error['input'])} is no {_SHAPES[kind]}{_MEANINGS.get(field, '')}"
        case _:
            return str(error["msg"].removeprefix("Value error, "))


def _model_at(path: list[Any]) -> type[BaseModel]:
    """What the file has at a path whose last part is a mapping."""
    match path:
        case ["callers", _]:
            return Entry
        case ["callers", _, "selector"]:
            return InstanceSelector
        case _:
            return AccessFile
