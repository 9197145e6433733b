"""The frontends of a runner as processes: kept, taken down, and never used again once they have failed."""

import asyncio
import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from greenroom.errors import ControlError
from greenroom.gates.frontend import FrontendFailed, FrontendSettings
from greenroom.gates.frontends import Frontends
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.control_side import EventLog
from tests.support.ports import free_port
from tests.support.shown import NOW, shown

SETTINGS = FrontendSettings(("sleep", "600", "{port}"), start_seconds=60, keep_failed_seconds=10, preview_seconds=60)
ID = shown().id


class SomePreviews:
    """As many as are asked for, all of them at an address where nobody listens."""

    def __init__(self) -> None:
        self.open: list[str] = []

    async def open_preview(self, instance: str, ttl_seconds: float) -> pb.Preview:
        self.open.append(f"previews/{len(self.open)}")
        return pb.Preview(name=self.open[-1], instance=instance, address="127.0.0.1:1")

    async def preview(self, name: str) -> pb.Preview:
        raise ControlError("nobody answers", ControlError.UNREACHABLE)

    async def close_preview(self, name: str) -> None:
        self.open.remove(name)


async def used(frontends: Frontends, instance: pb.Instance | None = None) -> None:
    async with frontends.use(instance or shown()):
        pytest.fail("it lists nothing")


async def up(frontends: Frontends, log: EventLog, group: asyncio.TaskGroup) -> "asyncio.Task[Any]":
    """Somebody uses it, and it was started."""
    using = group.create_task(used(frontends))
    await log.wait_named("frontend.started")
    return using


async def test_with_the_release_it_is_taken_down_and_its_user_told() -> None:
    log, previews = EventLog(), SomePreviews()
    async with asyncio.TaskGroup() as group:
        frontends = Frontends(SETTINGS, previews, group.create_task, log)
        using = asyncio.ensure_future(used(frontends))
        await log.wait_named("frontend.started")
        assert frontends.instances == [ID]
        assert frontends.look_at(ID, shown(), NOW) is None
        assert frontends.look_at(ID, shown(state="RELEASED"), NOW) is None
        assert frontends.instances == []
        with pytest.raises(FrontendFailed, match="the frontend was taken down"):
            await using
    assert previews.open == []


async def test_after_a_failure_it_stays_and_a_retry_keeps_it() -> None:
    log, previews = EventLog(), SomePreviews()
    async with asyncio.TaskGroup() as group:
        frontends = Frontends(SETTINGS, previews, group.create_task, log)
        using = await up(frontends, log, group)
        using.cancel()
        ends = NOW + timedelta(seconds=10)
        assert frontends.look_at(ID, shown(state="REJECTED"), NOW) == ends
        assert frontends.look_at(ID, shown(state="REJECTED"), NOW + timedelta(seconds=9)) == ends
        assert frontends.look_at(ID, shown(), NOW + timedelta(seconds=9)) is None
        assert frontends.look_at(ID, shown(), ends) is None
        assert frontends.instances == [ID]
        assert frontends.look_at(ID, shown(state="REJECTED"), ends) == ends + timedelta(seconds=10)
        frontends.look_at(ID, shown(state="REJECTED"), ends + timedelta(seconds=10))
        assert frontends.instances == []
    assert len(log.named("frontend.kept")) == 2
    assert previews.open == []


async def test_one_that_failed_is_never_used_again() -> None:
    log, previews = EventLog(), SomePreviews()
    settings = FrontendSettings(("sh", "-c", "echo oh >&2; exit 3", "{port}"), 60, 10, 60)
    async with asyncio.TaskGroup() as group:
        frontends = Frontends(settings, previews, group.create_task, log)
        for _ in range(2):
            with pytest.raises(FrontendFailed, match="the frontend ended with 3; last: oh"):
                await used(frontends)
            assert frontends.instances == []
    assert len(log.named("frontend.started")) == 2


async def test_nor_one_that_ended_while_nobody_used_it(tmp_path: Path) -> None:
    log = EventLog()
    script = f"while [ ! -e {tmp_path}/end ]; do sleep 0.01; done; exit 3"
    settings = FrontendSettings(("sh", "-c", script, "{port}"), 60, 10, 60)
    async with asyncio.TaskGroup() as group:
        frontends = Frontends(settings, SomePreviews(), group.create_task, log)
        using = await up(frontends, log, group)
        using.cancel()
        await asyncio.wait([using])
        (tmp_path / "end").touch()
        await log.wait_named("frontend.ended")
        assert frontends.instances == [ID]
        with pytest.raises(FrontendFailed, match="the frontend ended with 3"):
            await used(frontends)
    assert len(log.named("frontend.started")) == 2


async def test_nor_is_it_kept_for_anybody(tmp_path: Path) -> None:
    """There is nothing to look at, at the URL that the log would tell."""
    log = EventLog()
    settings = FrontendSettings(("sh", "-c", f"until [ -e {tmp_path}/end ]; do sleep 0.01; done", "{port}"), 60, 10, 60)
    async with asyncio.TaskGroup() as group:
        frontends = Frontends(settings, SomePreviews(), group.create_task, log)
        (await up(frontends, log, group)).cancel()
        (tmp_path / "end").touch()
        await log.wait_named("frontend.ended")
        assert frontends.look_at(ID, shown(state="REJECTED"), NOW) is None
    assert frontends.instances == []
    assert not log.named("frontend.kept")


async def test_no_two_have_the_same_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two that start at once one listens first; the gates of the other would ask it, and pass what it says."""
    ports = [free_port(), free_port()]
    monkeypatch.setattr(random, "sample", lambda *_: ports)
    log = EventLog()
    async with asyncio.TaskGroup() as group:
        frontends = Frontends(SETTINGS, SomePreviews(), group.create_task, log)
        using = [group.create_task(used(frontends, shown(instance))) for instance in ("1", "2")]
        await log.wait_named("frontend.started", 2)
        assert sorted(one["url"] for one in log.named("frontend.started")) == sorted(
            f"http://127.0.0.1:{port}/v1" for port in ports
        )
        for task in using:
            task.cancel()
        for instance in ("1", "2"):
            frontends.look_at(instance, None, NOW)
