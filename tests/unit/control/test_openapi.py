"""The description is of what there is: held against the protos, and against OpenAPI's own rules."""

from google.protobuf.descriptor import Descriptor
from openapi_spec_validator import validate

from greenroom.control import openapi_health
from greenroom.control.methods import SERVICE
from greenroom.control.openapi import description
from greenroom.control.routes import routes_of
from greenroom.pb.control.v1 import control_pb2 as pb

DESCRIPTION = description(routes_of(SERVICE), "1.2.3")
SCHEMAS = DESCRIPTION["components"]["schemas"]


def test_it_keeps_openapis_rules() -> None:
    validate(DESCRIPTION)
    assert DESCRIPTION["info"]["version"] == "1.2.3"


def test_every_method_is_there_once() -> None:
    operations = [one["operationId"] for path in DESCRIPTION["paths"].values() for one in path.values()]
    of_health = [one["get"]["operationId"] for one in openapi_health.PATHS.values()]
    assert sorted(operations) == sorted([*(method.name for method in SERVICE.methods), *of_health])


def test_every_field_of_every_message_is_there() -> None:
    for name, schema in SCHEMAS.items():
        kind = pb.DESCRIPTOR.message_types_by_name.get(name)
        if kind is not None:
            assert set(schema["properties"]) == {field.json_name for field in kind.fields}, name


def test_what_is_required_and_what_is_only_read_is_said() -> None:
    report = DESCRIPTION["paths"]["/v1/instances/{instance}:reportVerdict"]["post"]
    body = report["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["gate", "attempt", "outcome"]
    assert "name" not in body["properties"]
    assert SCHEMAS["Instance"]["properties"]["id"] == {"type": "string", "readOnly": True}
    assert SCHEMAS["RolloutHold"]["properties"]["ttl"]["writeOnly"] is True


def test_every_enum_has_its_values() -> None:
    for name, kind in pb.DESCRIPTOR.enum_types_by_name.items():
        assert SCHEMAS[name]["enum"] == [value.name for value in kind.values]


def test_nothing_is_referred_to_that_is_not_there() -> None:
    def references(part: object) -> set[str]:
        if isinstance(part, dict):
            own = {part["$ref"]} if isinstance(part.get("$ref"), str) else set()
            return own.union(*(references(value) for value in part.values()))
        return set().union(*(references(item) for item in part)) if isinstance(part, list) else set()

    assert {name.removeprefix("#/components/schemas/") for name in references(DESCRIPTION)} <= set(SCHEMAS)
    assert all(isinstance(method.output_type, Descriptor) for method in SERVICE.methods)
