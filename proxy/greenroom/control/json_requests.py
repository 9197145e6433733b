"""Requests of the control API as HTTP has them: path, query and JSON body to a message. Pure.

The rule: as strict as the gRPC side. What is not understood is refused and named, and so is what is said twice in two
places.
"""

import json
from collections.abc import Iterable, Mapping
from typing import cast

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from greenroom.control.requests import MAX_SHOWN_CHARACTERS
from greenroom.control.routes import WHOLE_BODY, Found
from greenroom.errors import InvalidRequest

MAX_BODY_BYTES = 256 * 1024
"""The longest request there is has some names and a reason, which may be all that a check printed."""
JSON = "application/json"
_TRUTH = {"true": True, "false": False}


def message_of(
    found: Found, message: Message, query: Iterable[tuple[str, str]], body: bytes, content_type: str
) -> Message:
    """Fills the empty `message` of a route's request, and returns it; InvalidRequest says what is wrong and where."""
    route = found.route
    if route.body:
        _fill_from_body(message, route.body, _text(body, content_type))
    elif body:
        raise InvalidRequest(f"{route.verb} {route.path} takes no body: its fields belong into the query")
    in_query = () if route.body == WHOLE_BODY else _query_fields(route.method.input_type, found)
    fields = {field.name: field for field in in_query}
    _fill_from_query(message, _from_query(query, fields, route.path), fields)
    for name, value in found.given.items():
        if getattr(message, name) not in ("", value):
            raise InvalidRequest(f"{name}: {getattr(message, name)!r} is not what the path says: {value!r}", field=name)
        setattr(message, name, value)
    return message


def _text(body: bytes, content_type: str) -> str:
    """The body as text. A page of another origin can make browsers post anything but JSON unasked."""
    if content_type.partition(";")[0].strip().lower() != JSON:
        raise InvalidRequest(f"content-type: {content_type or 'none'!r}; the body is JSON, so say {JSON!r}")
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise InvalidRequest("the body is not UTF-8") from None


def _fill_from_body(message: Message, body: str, text: str) -> None:
    target = message if body == WHOLE_BODY else getattr(message, body)
    if text.strip() and not text.lstrip().startswith("{"):
        raise InvalidRequest(f"the body is no {target.DESCRIPTOR.full_name}: that is a JSON object")
    try:
        json_format.Parse(text or "{}", target)
    except json_format.ParseError as error:
        for name, value in _said_in(text).items():
            _check_word(_named(cast(Descriptor, target.DESCRIPTOR), name), value)
        raise InvalidRequest(f"the body is no {target.DESCRIPTOR.full_name}: {_one_line(error)}") from None
    except RecursionError:
        raise InvalidRequest("the body is nested too deep") from None
    if body != WHOLE_BODY:
        target.SetInParent()


def _said_in(text: str) -> Mapping[str, object]:
    """What a body says by its fields, as far as it is JSON."""
    try:
        said = json.loads(text)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _named(kind: Descriptor, name: str) -> FieldDescriptor | None:
    return next((field for field in kind.fields if name in (field.name, field.json_name)), None)


def _check_word(field: FieldDescriptor | None, value: object) -> None:
    """InvalidRequest for a word that is none of a field's enum: protobuf does not say which there are."""
    if field is None or field.enum_type is None or not isinstance(value, str):
        return
    if value not in field.enum_type.values_by_name:
        known = ", ".join(word.name for word in field.enum_type.values if word.number)
        raise InvalidRequest(f"{field.name}: {value[:MAX_SHOWN_CHARACTERS]!r} is none of: {known}", field=field.name)


def _query_fields(request: Descriptor, found: Found) -> list[FieldDescriptor]:
    """What the query may say: everything simple that neither path nor body says."""
    elsewhere = {found.route.body, *found.given}
    simple = (field for field in request.fields if field.message_type is None and not field.is_repeated)
    return [field for field in simple if field.name not in elsewhere]


def _from_query(
    query: Iterable[tuple[str, str]], fields: Mapping[str, FieldDescriptor], path: str
) -> Mapping[str, object]:
    by_name = {**fields, **{field.json_name: field for field in fields.values()}}
    said: dict[str, object] = {}
    for name, value in query:
        field = by_name.get(name)
        if field is None:
            known = ", ".join(fields) or "none"
            raise InvalidRequest(f"{name!r} is no parameter of {path} (they are: {known})", field=name)
        if field.name in said:
            raise InvalidRequest(f"{field.name}: is given twice", field=field.name)
        said[field.name] = _TRUTH.get(value, value) if field.type == FieldDescriptor.TYPE_BOOL else value
    return said


def _fill_from_query(message: Message, said: Mapping[str, object], fields: Mapping[str, FieldDescriptor]) -> None:
    for name, value in said.items():
        _check_word(fields[name], value)
        try:
            json_format.ParseDict({name: value}, message)
        except json_format.ParseError as error:
            raise InvalidRequest(f"{name}: {_one_line(error)} (in the query)", field=name) from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
