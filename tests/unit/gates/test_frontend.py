"""What a frontend needs, and what its list of models is. Processes: tests/integration/gates/test_frontend.py."""

import asyncio

import pytest

from greenroom.errors import ControlError
from greenroom.gates.frontend import Frontend, FrontendFailed, FrontendSettings, models_in
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.control_side import EventLog

SETTINGS = FrontendSettings(("true", "{port}"), 60, 60, 60)


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
        frontend = Frontend("5", SETTINGS, NoPreviews(), EventLog())
        group.create_task(frontend.run())
        with pytest.raises(FrontendFailed, match="the preview cannot be opened: you may not"):
            async with frontend.use("tiny"):
                pytest.fail("there is no preview")


class SlowPreview:
    """One that is open before its answer comes."""

    def __init__(self) -> None:
        self.open, self.may_answer = asyncio.Event(), asyncio.Event()

    async def open_preview(self, instance: str, ttl_seconds: float) -> pb.Preview:
        self.open.set()
        await self.may_answer.wait()
        return pb.Preview(name="previews/1", address="127.0.0.1:7")

    async def preview(self, name: str) -> pb.Preview:
        raise AssertionError("nobody has it yet")

    async def close_preview(self, name: str) -> None:
        self.open.clear()


async def test_a_preview_whose_answer_nobody_waits_for_any_more_is_closed() -> None:
    preview = SlowPreview()
    task = asyncio.ensure_future(Frontend("5", SETTINGS, preview, EventLog()).run())
    await preview.open.wait()
    task.cancel()
    preview.may_answer.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not preview.open.is_set()


def test_only_a_list_of_models_is_one() -> None:
    assert models_in('{"data": [{"id": "a"}, {"id": "b"}]}') == ["a", "b"]
    for text in ("", "[]", "{}", '{"data": 1}', '{"data": [1]}', "[" * 100_000):
        assert models_in(text) == []
