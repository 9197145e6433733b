"""The control API's OpenAPI description, made of the protos' descriptors, with `openapi_health` beside them. Pure.

The rule: it says what the gateway does, and is made of what the gateway is made of, so that neither can be forgotten.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from google.api import field_behavior_pb2  # type: ignore[import-untyped]  # the package has no types
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from greenroom.control import openapi_health
from greenroom.control.routes import WHOLE_BODY, Route

OPENAPI = "3.1.0"
Json = dict[str, Any]

_F = FieldDescriptor
_SCALARS: Mapping[int, Json] = {
    _F.TYPE_BOOL: {"type": "boolean"},
    _F.TYPE_STRING: {"type": "string"},
    _F.TYPE_BYTES: {"type": "string", "contentEncoding": "base64"},
    _F.TYPE_INT32: {"type": "integer", "format": "int32"},
    _F.TYPE_UINT32: {"type": "integer", "format": "int64", "minimum": 0},
    # JSON's numbers are floating-point for many readers, so protobuf writes these as text.
    _F.TYPE_INT64: {"type": "string", "format": "int64", "pattern": "^-?[0-9]+$"},
    _F.TYPE_DOUBLE: {"type": "number", "format": "double"},
}
_WELL_KNOWN: Mapping[str, Json] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Duration": {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]{1,9})?s$"},
}
_ERROR: Json = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "status", "message", "details"],
            "properties": {
                "code": {"type": "integer", "description": "HTTP's code"},
                "status": {"type": "string", "description": "gRPC's code by name"},
                "message": {"type": "string", "description": "what was wrong, and what to do"},
                "details": {
                    "type": "array",
                    "items": {"type": "object"},
                    "description": "one google.rpc.ErrorInfo, whose reason names the case",
                },
            },
        }
    },
}


def description(routes: Iterable[Route], version: str) -> Json:
    """The whole document."""
    known = tuple(routes)
    paths: dict[str, Json] = {}
    for route in known:
        paths.setdefault(_path(route), {})[route.verb.lower()] = _operation(route)
    schemas = {name: _schema(kind) for name, kind in sorted(_named(known).items())}
    return {
        "openapi": OPENAPI,
        "info": {"title": "Greenroom control API", "version": version},
        "paths": {**paths, **openapi_health.PATHS},
        "components": {"schemas": {**schemas, "Error": _ERROR, **openapi_health.SCHEMAS}},
    }


def _path(route: Route) -> str:
    """OpenAPI's paths have a variable for one part: `{name=instances/*}` is `instances/{instance}` there."""
    path = route.path
    for field, pattern in route.variables.items():
        names = _part_names(pattern)
        shown = pattern
        for name in names:
            shown = shown.replace("*", f"{{{name}}}", 1)
        path = path.replace(f"{{{field}={pattern}}}", shown)
    return path


def _part_names(pattern: str) -> Sequence[str]:
    """Each star by the collection before it, in the singular."""
    parts = pattern.split("/")
    return [parts[at - 1].removesuffix("s") for at, part in enumerate(parts) if part == "*"]


def _operation(route: Route) -> Json:
    operation: Json = {
        "operationId": route.method.name,
        "parameters": [*_path_parameters(route), *_query_parameters(route)],
        "responses": {"200": _answer(route), "default": _content("an error", {"$ref": _reference("Error")})},
    }
    if route.body:
        fields = route.method.input_type.fields_by_name
        kind = route.method.input_type if route.body == WHOLE_BODY else fields[route.body].message_type
        assert kind is not None, f"{route.path}: a body that is one field is a message"
        leave_out = frozenset(route.variables) if route.body == WHOLE_BODY else frozenset[str]()
        operation["requestBody"] = {"required": True, **_content(None, _object(kind, leave_out))}
    return operation


def _path_parameters(route: Route) -> Iterator[Json]:
    for pattern in route.variables.values():
        for name in _part_names(pattern):
            yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _query_parameters(route: Route) -> Iterator[Json]:
    if route.body == WHOLE_BODY:
        return
    for field in route.method.input_type.fields:
        if field.name not in route.variables and field.name != route.body and field.message_type is None:
            yield {"name": field.json_name, "in": "query", "required": False, "schema": _field(field)}


def _answer(route: Route) -> Json:
    message = {"$ref": _reference(route.method.output_type.name)}
    if not route.is_stream:
        return _content("the answer", message)
    line = {"type": "object", "properties": {"result": message, "error": _ERROR["properties"]["error"]}}
    return {"description": "a line of JSON for each message", "content": {"application/x-ndjson": {"schema": line}}}


def _content(words: str | None, schema: Json) -> Json:
    content: Json = {"content": {"application/json": {"schema": schema}}}
    return content if words is None else {"description": words, **content}


def _named(routes: Iterable[Route]) -> dict[str, Descriptor | EnumDescriptor]:
    """Every message and enum that some route needs, with those inside them."""
    found: dict[str, Descriptor | EnumDescriptor] = {}
    waiting = [kind for route in routes for kind in (route.method.input_type, route.method.output_type)]
    while waiting:
        kind = waiting.pop()
        if kind.name in found or kind.full_name in _WELL_KNOWN:
            continue
        found[kind.name] = kind
        for field in kind.fields:
            if field.enum_type is not None:
                found[field.enum_type.name] = field.enum_type
            elif field.message_type is not None:
                waiting.append(field.message_type)
    return found


def _schema(kind: Descriptor | EnumDescriptor) -> Json:
    if isinstance(kind, EnumDescriptor):
        return {"type": "string", "enum": [value.name for value in kind.values]}
    return _object(kind, frozenset())


def _object(kind: Descriptor, leave_out: frozenset[str]) -> Json:
    fields = [field for field in kind.fields if field.name not in leave_out]
    schema: Json = {
        "type": "object",
        "additionalProperties": False,
        "properties": {field.json_name: _field(field) for field in fields},
    }
    required = [field.json_name for field in fields if field_behavior_pb2.REQUIRED in _behaviour(field)]
    return schema | ({"required": required} if required else {})


def _field(field: FieldDescriptor) -> Json:
    schema = _value(field)
    if field.is_repeated:
        return {"type": "array", "items": schema}
    behaviour = _behaviour(field)
    if field_behavior_pb2.OUTPUT_ONLY in behaviour:
        return schema | {"readOnly": True}
    return schema | ({"writeOnly": True} if field_behavior_pb2.INPUT_ONLY in behaviour else {})


def _value(field: FieldDescriptor) -> Json:
    if field.enum_type is not None:
        return {"$ref": _reference(field.enum_type.name)}
    if field.message_type is None:
        return dict(_SCALARS[field.type])
    known = _WELL_KNOWN.get(field.message_type.full_name)
    return dict(known) if known else {"$ref": _reference(field.message_type.name)}


def _behaviour(field: FieldDescriptor) -> Sequence[int]:
    behaviour: Sequence[int] = field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
    return behaviour


def _reference(name: str) -> str:
    return f"#/components/schemas/{name}"
