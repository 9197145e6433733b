"""Refusals are counted by cause, from zero on; and monitoring sees when a newer access file is not in force."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from greenroom.access.known import Presented
from greenroom.access.refusals import Refusal
from greenroom.access.reloading import AccessInForce
from greenroom.control.access_metrics import AccessMetrics, counted_admission
from greenroom.errors import Unauthenticated
from tests.support.control_side import EventLog, MovableClock


class EndOfTestError(Exception):
    """Ends what goes on in the background."""


@dataclass
class File:
    failures: int = 0
    is_newest: bool = True


def test_refusals_are_counted_by_their_cause() -> None:
    registry = CollectorRegistry()
    metrics = AccessMetrics(registry)

    def counted(cause: str) -> float | None:
        return registry.get_sample_value("greenroom_control_refused_total", {"cause": cause})

    assert {counted(cause) for cause in Refusal} == {0}
    metrics.refused(Refusal.EXPIRED)
    assert (counted("expired"), counted("unknown")) == (1, 0)


def test_the_file_is_shown_as_of_each_scrape() -> None:
    registry, file = CollectorRegistry(), File()
    AccessMetrics(registry).show(file)
    assert registry.get_sample_value("greenroom_access_loaded") == 1
    assert registry.get_sample_value("greenroom_access_reload_failures_total") == 0
    file.failures, file.is_newest = 2, False
    assert registry.get_sample_value("greenroom_access_loaded") == 0
    assert registry.get_sample_value("greenroom_access_reload_failures_total") == 2


async def test_what_an_admission_refuses_is_counted_and_its_file_is_followed(tmp_path: Path) -> None:
    path, registry, log = tmp_path / "access.yaml", CollectorRegistry(), EventLog()
    path.write_text("callers: []\n")

    async def refused_and_followed() -> None:
        async with asyncio.TaskGroup() as background:
            access = AccessInForce(path, log=log)
            admission = counted_admission(access, registry, background, clock=MovableClock(), log=log)
            with pytest.raises(Unauthenticated), admission.call("GetInstance", Presented()):
                raise AssertionError("it was let in")
            await log.wait_named("access.loaded")
            raise EndOfTestError

    with pytest.raises(ExceptionGroup) as ended:
        await refused_and_followed()
    assert ended.group_contains(EndOfTestError)
    assert registry.get_sample_value("greenroom_control_refused_total", {"cause": "missing"}) == 1
    assert registry.get_sample_value("greenroom_access_loaded") == 1


async def test_without_a_file_nothing_is_refused_nor_followed() -> None:
    async with asyncio.TaskGroup() as background:
        everybody = counted_admission(None, CollectorRegistry(), background, clock=MovableClock(), log=EventLog())
        with everybody.call("GetInstance", Presented()):
            pass
