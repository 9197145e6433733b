"""What a gated key's value says: whose it is, which model, and whether an edit touched more than taints.

Frontends route by a card's value, not by its key. So the value must agree with the key and the lease before it is
taken, and everything but taints is part of what gates check. What some other reader could take for an object, and
cannot be read here in one sense, is refused: nobody would know what it says.
"""

import json
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


@dataclass(frozen=True, slots=True)
class Attributes:
    """What rules and rollout holds select by. None: it cannot be read, and counts as a match."""

    namespace: str | None
    component: str | None
    endpoint: str | None
    model: str | None
    suffix: str | None


def attributes(gated: GatedKey, value: bytes) -> Attributes:
    """The attributes of one gated key with its value. An instance record names no model."""
    names = gated.names
    model = _model(parse(value)) if gated.kind is KeyKind.CARD else None
    return Attributes(names.get("namespace"), names.get("component"), names.get("endpoint"), model, gated.suffix)


def parse(value: bytes) -> Mapping[str, Any] | None:
    """The value as a JSON object; None for anything else, which is held like a card that matches every rule."""
    try:
        read = _read(value)
    except ValueError:
        return None
    return read if isinstance(read, dict) else None


def _read(value: bytes) -> Any:
    """What the value says as JSON. ValueError where it is none, or says one thing twice."""
    try:
        return json.loads(value.decode(), object_pairs_hook=_without_repeats)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


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


def disagreement(gated: GatedKey, value: bytes) -> str | None:
    """How a value contradicts its key, in words with both sides; None where it agrees or says nothing."""
    try:
        read = _read(value)
    except ValueError as why:
        # Numbers of any length, any depth and bytes that are no text are taken by parsers that skip what they ignore.
        return f"the value begins like JSON and cannot be read as it: {why}" if _may_be_read(value) else None
    if isinstance(read, list):
        # Dynamo takes an array's items for the fields of a card, in their order: it would name any worker unchecked.
        return "the value is a JSON array, whose items some readers take for the fields of an object; write an object"
    parsed = read if isinstance(read, dict) else {}
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


def differ_only_in_taints(before: bytes, after: bytes) -> bool:
    """Whether an edit left everything but `card_json.runtime_config.taints` as it was (equal values included)."""
    if before == after:
        return True
    old, new = _without_taints(before), _without_taints(after)
    return old is not None and old == new


def _without_taints(value: bytes) -> str | None:
    """The value's canonical text without its taints. Text, since Python holds 1, 1.0 and True to be equal."""
    parsed = parse(value)
    card = parsed.get("card_json") if parsed else None
    config = card.get("runtime_config") if isinstance(card, dict) else None
    if not isinstance(config, dict):
        return None
    config.pop("taints", None)
    try:
        return json.dumps(parsed, sort_keys=True)
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
