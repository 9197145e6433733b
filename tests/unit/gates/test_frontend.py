"""What a frontend needs, and what its list of models is. Processes: tests/integration/gates/test_frontend.py."""

import asyncio

import pytest

from greenroom.errors import ControlError
from greenroom.gates.frontend import Frontend, FrontendFailed, FrontendSettings, models_in
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.control_side import EventLog


class NoPreviews:
    """Of a proxy that opens none for us."""

    async def open_preview(self, instance: str, ttl_seconds: float) -> pb.Preview:
        raise ControlError("you may not")

    async def preview(self, name: str) -> pb.Preview:
        raise AssertionError("there is none")

    async def close_preview(self, name: str) -> None:
        raise AssertionError("there is none")


async def test_without_a_preview_there_is_none() -> None:
    async with asyncio.TaskGroup() as group:
        frontend = Frontend("5", FrontendSettings(("true", "{port}"), 60, 60, 60), NoPreviews(), EventLog())
        group.create_task(frontend.run())
        with pytest.raises(FrontendFailed, match="the preview cannot be opened: you may not"):
            async with frontend.use("tiny"):
                pytest.fail("there is no preview")


def test_only_a_list_of_models_is_one() -> None:
    assert models_in('{"data": [{"id": "a"}, {"id": "b"}]}') == ["a", "b"]
    for text in ("", "[]", "{}", '{"data": 1}', '{"data": [1]}', "[" * 100_000):
        assert models_in(text) == []
