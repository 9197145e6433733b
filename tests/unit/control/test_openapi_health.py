"""The description of the health answers is held against the answers."""

import pytest

from greenroom.control.openapi_health import SCHEMA, SCHEMAS
from tests.support.mirroring import ONE, TWO
from tests.unit.control.test_health import ask

TOLD = SCHEMAS[SCHEMA]["properties"]["instances"]["items"]


@pytest.mark.parametrize("path", [f"/{ONE}/health", f"/{TWO}/health", "/health?address=10.0.0.7", "/health?address=:"])
async def test_every_field_of_an_answer_is_described(path: str) -> None:
    said = (await ask(path)).json()
    assert list(said) == SCHEMAS[SCHEMA]["required"] == list(SCHEMAS[SCHEMA]["properties"])
    for instance in said["instances"]:
        assert list(instance) == TOLD["required"] == list(TOLD["properties"])
        assert instance["state"] in TOLD["properties"]["state"]["enum"]
        assert set(instance["gates"].values()) <= {*TOLD["properties"]["gates"]["additionalProperties"]["enum"]}
