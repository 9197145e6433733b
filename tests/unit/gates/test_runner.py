"""The runner: it follows, starts and stops, and goes on whatever breaks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from greenroom.errors import ControlError
from greenroom.gates import runner as runners
from greenroom.gates.plan import Ending, Plan, Start
from greenroom.gates.runner import Runner
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.claims import AWAY
from tests.support.control_side import EventLog
from tests.support.shown import NOW, shown
from tests.support.told import event, response, snapshot


class Streams:
    """One stream after another, each of what the test says: responses, and the error that ends it."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.said: asyncio.Queue[pb.WatchInstancesResponse | ControlError] = asyncio.Queue()

    async def watch(self, token: str) -> AsyncIterator[pb.WatchInstancesResponse]:
        self.tokens.append(token)
        while True:
            said = await self.said.get()
            if isinstance(said, ControlError):
                raise said
            yield said


class Runs:
    """Runs that end when the test says how; one without a word is cancelled."""

    def __init__(self) -> None:
        self.started: asyncio.Queue[Start] = asyncio.Queue()
        self.endings: asyncio.Queue[Ending | Exception] = asyncio.Queue()
        self.cancelled = asyncio.Event()

    async def run(self, start: Start) -> Ending:
        await self.started.put(start)
        try:
            ending = await self.endings.get()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        if isinstance(ending, Exception):
            raise ending
        return ending


class Story:
    """A runner with its stream and its runs; `async with` runs it."""

    def __init__(self) -> None:
        self.streams, self.runs, self.log = Streams(), Runs(), EventLog()
        self.plan = Plan(("smoke",), lambda _: True, 10)

    def tell(self, *said: pb.WatchInstancesResponse | ControlError) -> None:
        for one in said:
            self.streams.said.put_nowait(one)

    async def run(self) -> None:
        runs: Any = self.runs
        async with asyncio.TaskGroup() as group:
            self.runner = Runner(self.plan, runs, None, self.streams, group, lambda: NOW, self.log)
            await self.runner.run()


@asynccontextmanager
async def story(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Story]:
    monkeypatch.setattr(runners, "RETRY_SECONDS", 0.001)
    told = Story()
    running = asyncio.ensure_future(told.run())
    async with asyncio.timeout(20):
        yield told
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def inconclusive() -> pb.Instance:
    return shown(gates={"smoke": "INCONCLUSIVE"})


def at_revision(instance: pb.Instance, revision: int) -> pb.Instance:
    instance.record_revision = revision
    return instance


async def test_what_the_stream_tells_is_run_and_told_again_of(monkeypatch: pytest.MonkeyPatch) -> None:
    async with story(monkeypatch) as told:
        told.tell(snapshot(shown()))
        start = await told.runs.started.get()
        assert start.job.instance == shown().id
        told.runs.endings.put_nowait(Ending.DECIDED)
        # The plan still knows it as open, so it is run again; a verdict's answer would have told.
        await told.runs.started.get()
        assert told.runner.away == ""


async def test_a_run_that_is_to_stop_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    async with story(monkeypatch) as told:
        told.tell(snapshot(shown()))
        await told.runs.started.get()
        told.tell(response(event("REMOVED", shown(), "EXPIRED"), token="t2"))
        await told.runs.cancelled.wait()


async def test_what_is_told_beside_the_stream_counts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with story(monkeypatch) as told:
        told.tell(snapshot(shown()))
        await told.runs.started.get()
        passed = shown(gates={"smoke": "PASSED"})
        passed.record_revision = 100
        told.runner.told(passed)
        await told.runs.cancelled.wait()


async def test_of_the_same_record_what_the_stream_told_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A verdict's answer was on its way while the stream told that the claim has ended, and still shows it."""
    async with story(monkeypatch) as told:
        told.tell(snapshot(at_revision(inconclusive(), 7)))
        await told.runs.started.get()
        late = at_revision(inconclusive(), 7)
        late.gates[0].claim.expire_time.FromDatetime(NOW + timedelta(hours=1))
        told.runner.told(late)
        told.runs.endings.put_nowait(Ending.DECIDED)
        await told.runs.started.get()


async def test_a_stream_that_breaks_is_resumed_and_runs_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async with story(monkeypatch) as told:
        told.tell(snapshot(shown(), token="t1"), AWAY, AWAY, response(event("BOOKMARK"), token="t2"))
        await told.runs.started.get()
        await told.log.wait_named("proxy.answers", 2)
        assert told.streams.tokens == ["", "t1", "t1"]
        assert not told.runs.cancelled.is_set()
        assert len(told.log.named("proxy.away")) == 1


async def test_what_breaks_between_here_and_a_proxy_that_has_answered_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A balancer that resets a stream, say; no run ends for that."""
    async with story(monkeypatch) as told:
        told.tell(snapshot(shown()), ControlError("failed: INTERNAL: RST_STREAM"), response(event("BOOKMARK")))
        await told.runs.started.get()
        await told.log.wait_named("proxy.answers", 2)
        assert not told.runs.cancelled.is_set()


async def test_a_token_that_is_of_no_use_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = ControlError("compacted", ControlError.HISTORY_GONE)
    async with story(monkeypatch) as told:
        told.tell(snapshot(shown("1"), token="t1"))
        await told.runs.started.get()
        told.tell(gone, snapshot(shown("2"), token="t9"))
        await told.runs.cancelled.wait()
        assert (await told.runs.started.get()).job.instance == "2"
        assert told.streams.tokens == ["", ""]


@pytest.mark.parametrize(
    "said",
    [
        (snapshot(shown()), ControlError("you may not", "NOT_PERMITTED")),
        (ControlError("you may not"),),
    ],
)
async def test_a_proxy_that_refuses_ends_the_runner(said: tuple[pb.WatchInstancesResponse | ControlError, ...]) -> None:
    """So does whatever is wrong before anything was told: another program at that port, or TLS."""
    told = Story()
    told.tell(*said)
    with pytest.raises(ExceptionGroup) as refused:
        await told.run()
    assert str(refused.value.exceptions[0]) == "you may not"


async def test_a_run_that_breaks_ends_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async with story(monkeypatch) as told:
        told.tell(snapshot(shown("1"), shown("2")))
        await told.runs.started.get()
        await told.runs.started.get()
        told.runs.endings.put_nowait(ValueError("a mistake of ours"))
        await told.log.wait_named("gate.broke")
        assert not told.runs.cancelled.is_set()
        assert len(told.plan.running) == 1
