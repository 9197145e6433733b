"""One racing process: its connection to etcd, its pipe to the judge, and the rounds that it is told to take part in.

The rule: whatever an actor does is said before its round is said to be done, and an actor that breaks is a fault.
"""

import asyncio
import random
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from typing import Any

import grpc

from greenroom.core.fleet import NOBODY, Fleet, Limits
from greenroom.core.keyspace import rollout_hold_key
from greenroom.core.policy import ReleasesPolicy
from greenroom.core.rollout_holds import RolloutHold
from greenroom.errors import GreenroomError
from greenroom.pb.etcd import rpc_pb2
from greenroom.store.upstream import Upstream
from tests.faults.racing.words import Asks, Done, Ended, Fault, Round
from tests.support.story import Operation

LEASE_ENDED = "etcdserver: requested lease not found"
FREED_BY_A_LEASE = "etcdserver: key not found"
CALL_SECONDS = 10.0


class Refused(Exception):
    """A call was answered with an error that an actor has to live with."""


class CountingUpstream(Upstream):
    """Counts the Txns that it sends."""

    txns = 0

    async def txn(self, request: rpc_pb2.TxnRequest, *, timeout_seconds: float | None = None) -> rpc_pb2.TxnResponse:
        self.txns += 1
        return await super().txn(request, timeout_seconds=timeout_seconds)


class Racer:
    """What the actors of one process share."""

    def __init__(self, told: "Told", upstream: CountingUpstream, pipe: Connection) -> None:
        self.name, self.asks, self.upstream = told.name, told.asks, upstream
        self._told, self._pipe = told, pipe
        self.fleet: Fleet = NOBODY
        """What this process knows of others, if it has a mirror."""
        self.lost_fences = 0
        self.refusals: Counter[str] = Counter()

    def say(self, told: Operation | Done | Ended) -> None:
        self._pipe.send(told)

    def fence_lost(self) -> None:
        self.lost_fences += 1

    def refused(self, words: str) -> None:
        self.refusals[words] += 1

    def limits(self) -> Limits:
        """Those of the race."""
        return Limits(self._told.releases, self.fleet)

    def clock(self) -> datetime:
        """This process's own."""
        return datetime.now(UTC) + self._told.clock_ahead

    async def go_on(self, stop: RolloutHold | None, within_seconds: float) -> None:
        """Lifts what a withdrawal in flight stopped: somebody has looked."""
        if stop is None:
            return
        await asyncio.sleep(random.uniform(0, within_seconds))
        request = rpc_pb2.DeleteRangeRequest(key=rollout_hold_key(stop.hold_id))
        await self.upstream.delete_range(request, timeout_seconds=CALL_SECONDS)

    async def tolerate(self, doing: Coroutine[Any, Any, None]) -> None:
        """Does it; being told no by a rule, or that the lease has ended, is part of the race."""
        try:
            await doing
        except GreenroomError as error:
            self.refused(type(error).__name__)
        except Refused as error:
            self.refused(str(error))
        except grpc.aio.AioRpcError as error:
            if error.details() not in (LEASE_ENDED, FREED_BY_A_LEASE):
                raise
            self.refused(str(error.details()))


Actors = Callable[[Racer, Round], list[Coroutine[Any, Any, None]]]
Background = Callable[[Racer], AbstractAsyncContextManager[None]]


@dataclass(frozen=True, slots=True)
class Told:
    """What a process is started with. `releases`: the limits of the race; `clock_ahead`: of everybody else's."""

    name: str
    port: int = 0
    releases: ReleasesPolicy | None = None
    asks: Asks = Asks.LATENCY
    clock_ahead: timedelta = timedelta()


def run(pipe: Connection, told: Told, actors: Actors, background: Background) -> None:
    """The process's main: takes rounds from `pipe` until it is told None or the judge is gone."""
    asyncio.run(_run(pipe, told, actors, background))


async def _run(pipe: Connection, told: Told, actors: Actors, background: Background) -> None:
    upstream = CountingUpstream([("127.0.0.1", told.port)])
    racer = Racer(told, upstream, pipe)
    try:
        async with background(racer), asyncio.TaskGroup() as rounds:
            async for message in messages(pipe):
                if message is None:
                    break
                rounds.create_task(_take_part(racer, message, actors))
    finally:
        await upstream.close()
    racer.say(Ended(upstream.txns, racer.lost_fences, dict(racer.refusals)))


async def _take_part(racer: Racer, told: Round, actors: Actors) -> None:
    results = await asyncio.gather(*actors(racer, told), return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            text = "".join(traceback.format_exception(result))
            racer.say(Fault(0, told.instance, f"an actor of {racer.name} broke:\n{text}"))
    racer.say(Done(told.number))


async def messages(pipe: Connection) -> AsyncIterator[Any]:
    """What comes through a pipe; ends when the other side is gone."""
    loop, found = asyncio.get_running_loop(), asyncio.Queue[Any]()

    def take() -> None:
        try:
            while pipe.poll():
                found.put_nowait((pipe.recv(),))
        except (EOFError, ConnectionResetError):
            loop.remove_reader(pipe.fileno())
            found.put_nowait(())

    loop.add_reader(pipe.fileno(), take)
    try:
        while message := await found.get():
            yield message[0]
    finally:
        loop.remove_reader(pipe.fileno())
