"""What a gated key's value says: whose it is, which model, and whether an edit touched more than taints.

Frontends route by a card's value, not by its key. So the value must agree with the key and the lease before it is
taken, and everything but taints is part of what gates check. What some other reader could take for an object, and
cannot be read here in one sense, is refused: nobody would know what it says.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from greenroom.core.keyspace import lease_of
from greenroom.core.templates import GatedKey, KeyKind

MAX_MODEL_BYTES = 1024
"""The record repeats a model's name, so one as large as its card would leave no room for the release."""

MAX_SAID_CHARACTERS = 100
"""Of a field's name, in an error: trailers have little room."""

_AGREEING = {"namespace": "namespace", "component": "component", "endpoint": "endpoint", "model_suffix": "suffix"}
"""Field of the value, placeholder of the key."""

_MAY_COME_FIRST = b" \t\r\n\xef\xbb\xbf"

_TAINTS = b"taints"
_PLAIN_TAINTS = re.compile(rb'"taints":\[(?:"[ !#-\[\]-~]*"(?:,"[ !#-\[\]-~]*")*)?\]')
"""As serialisers write them without a space: a list of strings of ASCII, nothing in them escaped."""


@dataclass(frozen=True, slots=True)
class Content:
    """A value that was read once. `parsed` is what it says as JSON, None where it says nothing; `flaw` is why not."""

    value: bytes
    parsed: Any
    flaw: str | None

    @property
    def fields(self) -> Mapping[str, Any] | None:
        """The value as a JSON object; None for anything else, which is held like a card that matches every rule."""
        return self.parsed if isinstance(self.parsed, dict) else None


Value = bytes | Content
"""Whoever asks more than one thing of a value reads it first."""


def read(value: Value) -> Content:
    """The value, read: now, or before."""
    if isinstance(value, Content):
        return value
    try:
        return Content(value, json.loads(value.decode(), object_pairs_hook=_without_repeats), None)
    except RecursionError:
        return Content(value, None, "it is nested too deep")
    except ValueError as why:
        return Content(value, None, str(why))


@dataclass(frozen=True, slots=True)
class Attributes:
    """What rules and rollout holds select by. None: it cannot be read, and counts as a match."""

    namespace: str | None
    component: str | None
    endpoint: str | None
    model: str | None
    suffix: str | None


def attributes(gated: GatedKey, value: Value) -> Attributes:
    """The attributes of one gated key with its value. An instance record names no model."""
    names = gated.names
    model = _model(read(value).fields) if gated.kind is KeyKind.CARD else None
    return Attributes(names.get("namespace"), names.get("component"), names.get("endpoint"), model, gated.suffix)


def parse(value: bytes) -> Mapping[str, Any] | None:
    """The value as a JSON object; None for anything else."""
    return read(value).fields


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of these fields. Of one that comes twice some readers take the first, some the last."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        (repeated, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{repeated[:MAX_SAID_CHARACTERS]!r} comes twice in one object")
    return fields


def _model(value: Mapping[str, Any] | None) -> str | None:
    card = value.get("card_json") if value else None
    name = card.get("display_name") if isinstance(card, dict) else None
    return name if isinstance(name, str) and _can_be_stored(name) else None


def _can_be_stored(name: str) -> bool:
    """Whether it is text, and short: JSON's escapes can spell halves of characters, which are in no UTF-8."""
    try:
        return len(name.encode()) <= MAX_MODEL_BYTES
    except UnicodeEncodeError:
        return False


def disagreement(gated: GatedKey, value: Value) -> str | None:
    """How a value contradicts its key, in words with both sides; None where it agrees or says nothing."""
    content = read(value)
    if content.flaw is not None:
        # Numbers of any length, any depth and bytes that are no text are taken by parsers that skip what they ignore.
        begins = "the value begins like JSON and cannot be read as it"
        return f"{begins}: {content.flaw}" if _may_be_read(content.value) else None
    if isinstance(content.parsed, list):
        # Dynamo takes an array's items for the fields of a card, in their order: it would name any worker unchecked.
        return "the value is a JSON array, whose items some readers take for the fields of an object; write an object"
    parsed = content.fields or {}
    lease = lease_of(gated.instance)
    claimed = parsed.get("instance_id", lease)
    if claimed != lease or isinstance(claimed, bool):
        return f"the value's instance_id is {claimed!r}, the key's is {lease} ({gated.instance})"
    for name, placeholder in _AGREEING.items():
        if name not in parsed or (placeholder not in gated.names and placeholder != "suffix"):
            continue
        expected, said = gated.names.get(placeholder, ""), parsed[name]
        if expected != ("" if said is None else said):
            return f"the value's {name} is {said!r}, the key's {placeholder} is {expected!r}"
    return None


def _may_be_read(value: bytes) -> bool:
    """Whether any reader might find an object or an array: after white space, or the mark that some editors write."""
    return value.lstrip(_MAY_COME_FIRST)[:1] in (b"{", b"[")


def differ_only_in_taints(before: bytes, after: Value) -> bool:
    """Whether an edit left everything but `card_json.runtime_config.taints` as it was (equal values included)."""
    content = read(after)
    if before == content.value or _differ_only_in_plain_taints(before, content):
        return True
    old, new = _without_taints(read(before)), _without_taints(content)
    return old is not None and old == new


def _differ_only_in_plain_taints(before: bytes, after: Content) -> bool:
    """The same, if that can be told without reading the old value; False says nothing.

    The new value spells `taints` once, and in no other way; so if its card has any, they are what is spelled there. The
    old one has the same bytes before and after a list of strings in that place.
    """
    config, value = _config(after), after.value
    if config is None or _TAINTS.decode() not in config or value.count(_TAINTS) != 1 or b"\\u" in value:
        return False
    new, old = _PLAIN_TAINTS.search(value), _PLAIN_TAINTS.search(before)
    if new is None or old is None:
        return False
    return before[: old.start()] == value[: new.start()] and before[old.end() :] == value[new.end() :]


def _config(content: Content) -> Mapping[str, Any] | None:
    """Where a card's taints are."""
    card = content.fields.get("card_json") if content.fields else None
    config = card.get("runtime_config") if isinstance(card, dict) else None
    return config if isinstance(config, dict) else None


def _without_taints(content: Content) -> str | None:
    """The value's canonical text without its taints. Text, since Python holds 1, 1.0 and True to be equal."""
    config, fields = _config(content), content.fields
    if config is None or fields is None:
        return None
    kept = {name: value for name, value in config.items() if name != _TAINTS.decode()}
    card = {**fields["card_json"], "runtime_config": kept}
    try:
        return json.dumps({**fields, "card_json": card}, sort_keys=True)
    except RecursionError:  # It was read with a few calls less on the stack.
        return None


def address(value: bytes) -> str | None:
    """Where an instance record says its worker listens, as `host:port`; None where it does not say."""
    parsed = parse(value) or {}
    transport = parsed.get("transport")
    for said in transport.values() if isinstance(transport, dict) else ():
        if isinstance(said, str):
            return said.split("://")[-1].partition("/")[0]
    return None
