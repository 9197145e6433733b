"""One racing process: its connection to etcd, its pipe to the judge, and the rounds that it is told to take part in.

The rule: whatever an actor does is said before its round is said to be done, and an actor that breaks is a fault.
"""

import asyncio
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from typing import Any

import grpc

from greenroom.core.fleet import NOBODY, Fleet, Limits
from greenroom.core.policy import ReleasesPolicy
from greenroom.errors import GreenroomError
from greenroom.pb.etcd import rpc_pb2
from greenroom.store.upstream import Upstream
from tests.faults.racing.words import Done, Ended, Fault, Round
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

    def __init__(
        self, name: str, upstream: CountingUpstream, pipe: Connection, releases: ReleasesPolicy | None
    ) -> None:
        self.name, self.upstream, self._pipe, self._releases = name, upstream, pipe, releases
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
        return Limits(self._releases, self.fleet)

    def clock(self) -> datetime:
        return datetime.now(UTC)

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
    """What a process is started with. `releases`: the limits of the race."""

    name: str
    port: int
    releases: ReleasesPolicy | None = None


def run(pipe: Connection, told: Told, actors: Actors, background: Background) -> None:
    """The process's main: takes rounds from `pipe` until it is told None or the judge is gone."""
    asyncio.run(_run(pipe, told, actors, background))


async def _run(pipe: Connection, told: Told, actors: Actors, background: Background) -> None:
    upstream = CountingUpstream([("127.0.0.1", told.port)])
    racer = Racer(told.name, upstream, pipe, told.releases)
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
