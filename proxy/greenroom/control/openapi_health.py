"""The part of the API's OpenAPI description that no proto has: the health answers, which only HTTP gives.

The rule: what is said here is what `health` answers; a test holds the two together.
"""

from collections.abc import Mapping
from typing import Any, Final

from greenroom.core.record import GateState, State

Json = dict[str, Any]

SCHEMA: Final = "Health"
_TEXTS: Final[Json] = {"type": "array", "items": {"type": "string"}}
_TOLD: Final[Json] = {
    "type": "object",
    "required": ["instance", "state", "models", "gates", "reasons"],
    "properties": {
        "instance": {"type": "string", "description": "its id"},
        "state": {"type": "string", "enum": [state.value for state in State]},
        "models": _TEXTS,
        "gates": {
            "type": "object",
            "description": "the state of each gate, by its name",
            "additionalProperties": {"type": "string", "enum": [state.value for state in GateState]},
        },
        "reasons": {**_TEXTS, "description": "why it is not released"},
    },
}
SCHEMAS: Final[Mapping[str, Json]] = {
    SCHEMA: {
        "type": "object",
        "required": ["healthy", "reasons", "instances"],
        "properties": {
            "healthy": {"type": "boolean"},
            "reasons": {**_TEXTS, "description": "why not"},
            "instances": {"type": "array", "items": _TOLD, "description": "those that were asked for"},
        },
    }
}


def _answer(words: str) -> Json:
    return {
        "description": words,
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{SCHEMA}"}}},
    }


def _probe(operation: str, summary: str, parameter: Json) -> Json:
    return {
        "get": {
            "operationId": operation,
            "summary": summary,
            "parameters": [{**parameter, "schema": {"type": "string"}}],
            "responses": {
                "200": _answer("every instance that was asked for is released, or in dry run"),
                "400": _answer("the id or the address is none"),
                "503": _answer("one of them is not, or there is none"),
            },
        }
    }


PATHS: Final[Mapping[str, Json]] = {
    "/v1/health": _probe(
        "HealthAtAddress",
        "Whether what listens at an address is released: a readiness probe.",
        {
            "name": "address",
            "in": "query",
            "required": False,
            "description": "HOST or HOST:PORT; left out: the caller's own host",
        },
    ),
    "/v1/instances/{instance}/health": _probe(
        "HealthOfInstance",
        "Whether an instance is released.",
        {"name": "instance", "in": "path", "required": True, "description": "its id"},
    ),
}
