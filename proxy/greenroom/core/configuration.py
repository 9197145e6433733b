"""What frontends compare of two cards of one model, in one line: whoever has another line is refused by them.

Dynamo's frontends hash these fields of a card, and keep to the first hash that they accepted for a model at an
endpoint, for each type of worker by itself; a worker with another one gets no traffic until those with the first are
gone. Of files only the contents count, wherever they lie. The line is kept in the record, since a released card's value
is not looked at any more. Each field was tried on a frontend of Dynamo 1.6.1 (see `tests/e2e/test_conflicts.py`).

The rule: a field that is not known to be compared is not in it. A difference that no frontend minds would keep a
worker back for nothing; one that is missed is what frontends tell by themselves.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from greenroom.core.cards import Value, read

FILES: Final = ("model_info", "tokenizer", "prompt_formatter", "chat_template_file", "gen_config")
"""Each names a file, with its checksum."""
PLAIN: Final = (
    *("source_path", "kv_cache_block_size", "needs", "aliases", "extra_files", "prompt_context"),
    *("worker_type", "model_type"),
)
USUAL_TYPE: Final = "aggregated"
"""Of a worker whose card says none."""
CONTEXT_LENGTH: Final = "context_length"
"""Of the engine, or else of the architecture."""
FIELDS: Final = (*FILES, *PLAIN, CONTEXT_LENGTH)
NONE: Final = "none"
DIGITS: Final = 12
"""Of a checksum: enough to tell any two that meet apart, and short enough for a record of many cards."""

_AS_IT_IS = re.compile(r"[\w.:/-]{1,40}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in which two cards differ; "none" where a card has none."""

    field: str
    here: str
    there: str

    def __str__(self) -> str:
        return f"{self.field} is {self.here} here and {self.there} there"


def configuration(value: Value) -> str:
    """The fields as `name=value`, in the order of their names; empty for what is no card."""
    fields = read(value).fields or {}
    card = fields.get("card_json")
    if not isinstance(card, dict):
        return ""
    return " ".join(f"{name}={text}" for name, text in sorted(_compared(card)))


def differences(here: str, there: str) -> tuple[Difference, ...]:
    """In which fields two lines differ."""
    mine, its = _fields(here), _fields(there)
    names = sorted(name for name in mine.keys() | its.keys() if mine.get(name) != its.get(name))
    return tuple(Difference(name, mine.get(name, NONE), its.get(name, NONE)) for name in names)


def expected(field: str, text: str) -> str:
    """What a line has in a field whose value a person writes so; ValueError in words.

    A checksum may be whole, and name its kind; lists are JSON; "none" says that a card has no such field.
    """
    if field not in FIELDS:
        raise ValueError(f"is none of the fields that are compared: {', '.join(FIELDS)}")
    if text == NONE:
        return text
    if field not in FILES:
        return _short(_list(text))
    digits = text.rpartition(":")[2]
    if len(digits) < DIGITS:
        raise ValueError(f"has less than the {DIGITS} digits of a checksum that are compared")
    return _short(digits[:DIGITS])


def value_in(line: str, field: str) -> str:
    """What a line has in a field; "none" where it has none."""
    return _fields(line).get(field, NONE)


def set_of(line: str) -> tuple[str, str]:
    """The types of model and of worker: frontends compare only workers in which both are the same."""
    fields = _fields(line)
    return fields.get("model_type", ""), fields.get("worker_type", USUAL_TYPE)


def _fields(line: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in line.split())


def _compared(card: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in FILES:
        if (checksum := _checksum(card.get(name))) is not None:
            yield name, checksum
    for name in PLAIN:
        if card.get(name) not in (None, [], ""):
            yield name, _short(card[name])
    config = card.get("runtime_config")
    engine = config.get(CONTEXT_LENGTH) if isinstance(config, dict) else None
    length = card.get("architectural_max_context_length") if engine is None else engine
    if length is not None:
        yield CONTEXT_LENGTH, _short(length)


def _checksum(named: Any) -> str | None:
    """The checksum of a file that a field names: `{kind: {…, "checksum": …}}`, or one step deeper."""
    for _ in range(3):
        if not isinstance(named, dict):
            return None
        if isinstance(found := named.get("checksum"), str):
            return _short(found.rpartition(":")[2][:DIGITS])
        named = next((inner for inner in named.values() if isinstance(inner, dict)), None)
    return None


def _list(text: str) -> Any:
    """The list that a text is as JSON, else the text."""
    try:
        return json.loads(text) if text.startswith("[") else text
    except ValueError:
        return text


def _short(value: Any) -> str:
    """A value as it is where it is one short word, else a digest of it."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if _AS_IT_IS.fullmatch(text) else hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:DIGITS]
