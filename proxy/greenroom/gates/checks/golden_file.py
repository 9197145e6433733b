"""The file of `check golden`: prompts, and what must be answered to each. YAML, of which JSON is a part.

The rule: one line, about the first thing that is wrong, with its line and field; and nothing in it that is not obeyed.
"""

import json
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator, model_validator

from greenroom.gates.checks.asking import excerpt
from greenroom.gates.checks.chats import user
from greenroom.yaml_files import YamlFileError, field_name, line_of, read_text, read_yaml, shown, unknown_field

LARGEST_TOKENS: Final = 4096
MAX_PROMPTS: Final = 1000
DEFAULT_TOKENS: Final = 64
OURS: Final = frozenset({"model", "messages", "stream", "temperature", "seed", "max_tokens"})
"""What a request says anyway."""

Text = Annotated[str, StringConstraints(min_length=1, strict=True)]
Whole = Annotated[int, Field(strict=True)]
Tokens = Annotated[Whole, Field(ge=1, le=LARGEST_TOKENS)]


class TokenIdsFrom(StrEnum):
    """Who is asked for token ids: each server has its own way, and refuses that of the other, or passes over it."""

    DYNAMO = "dynamo"
    VLLM = "vllm"

    @property
    def asking(self) -> dict[str, Any]:
        """What a request says for them."""
        match self:
            case TokenIdsFrom.DYNAMO:
                return {"nvext": {"extra_fields": ["completion_token_ids"]}}
            case TokenIdsFrom.VLLM:
                return {"return_token_ids": True}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Message(_Strict):
    """One message of a chat."""

    role: Text
    content: Text


class Prompt(_Strict):
    """One chat, and what must be answered: exactly one of `text`, `regex` and `token_ids`."""

    name: Text | None = None
    prompt: Text | None = None
    messages: Annotated[tuple[Message, ...], Field(min_length=1)] | None = None
    text: Text | None = None
    regex: Text | None = None
    token_ids: Annotated[tuple[Whole, ...], Field(min_length=1)] | None = None
    max_tokens: Tokens | None = None

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("needs prompt or messages, and only one of them")
        expected = [name for name in ("text", "regex", "token_ids") if getattr(self, name) is not None]
        if len(expected) != 1:
            told = " and ".join(expected) or "none"
            raise ValueError(f"needs one of text, regex and token_ids, and has {told}")
        try:
            re.compile(self.regex or "")
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"has a regex that is none: {error}") from error
        return self

    @property
    def chat(self) -> list[dict[str, str]]:
        """Its messages."""
        return [message.model_dump() for message in self.messages] if self.messages else user(self.prompt or "")


class GoldenFile(_Strict):
    """All prompts, and what counts for each request."""

    prompts: Annotated[tuple[Prompt, ...], Field(min_length=1, max_length=MAX_PROMPTS)]
    seed: Whole = 0
    max_tokens: Tokens = DEFAULT_TOKENS
    token_ids_from: TokenIdsFrom = TokenIdsFrom.DYNAMO
    extra: dict[str, Any] = Field(default_factory=dict)

    @field_validator("extra")
    @classmethod
    def _is_json(cls, extra: dict[str, Any]) -> dict[str, Any]:
        # YAML knows dates, bytes, sets and mappings within themselves too.
        try:
            json.dumps(extra, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"cannot be said in JSON: {error}") from error
        return extra

    @model_validator(mode="after")
    def _says_nothing_twice(self) -> Self:
        if twice := sorted(OURS & self.extra.keys()):
            raise ValueError(f"has extra.{twice[0]}, which each request says by itself")
        return self

    def named(self) -> Iterator[tuple[str, Prompt]]:
        """The prompts, each with what it is called."""
        for number, prompt in enumerate(self.prompts, 1):
            yield prompt.name or f"{number}", prompt


def load_golden(path: Path) -> GoldenFile:
    """The file; YamlFileError with line and field where it is no good."""
    root, said = read_yaml(read_text(path))
    try:
        return GoldenFile.model_validate(said)
    except ValidationError as error:
        raise _described(root, error) from error


def _described(root: yaml.Node, error: ValidationError) -> YamlFileError:
    # A field that is not known says more than one that is missed, since it may be that one.
    first = min(error.errors(include_url=False), key=lambda one: one["type"] != "extra_forbidden")
    path = first["loc"]
    return YamlFileError(f"line {line_of(root, path)}: {field_name(path)}{_words(first)}")


def _words(first: Any) -> str:
    match first["type"]:
        case "extra_forbidden":
            model = Prompt if first["loc"][0] == "prompts" else GoldenFile
            fields = Message if "messages" in first["loc"] else model
            return unknown_field(str(first["loc"][-1]), list(fields.model_fields))
        case "value_error":
            return str(first["ctx"]["error"])
        case "missing":
            return "is not given"
        case "too_short":
            return "is empty"
        case _:
            return f"{excerpt(shown(first['input']))}: {first['msg']}"
