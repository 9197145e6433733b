"""Proxies, their workers and reporters, and operators, all racing on one etcd: `python -m tests.faults.races`.

The rule: nobody waits for anybody, a round is one instance's life, and every life is judged from etcd's own log and
from what was acknowledged. The proxies' policies differ, and so do their clocks. Environment: ROUNDS (10000), SEED
(chosen and printed), PROXIES (2,3: how many, one race after the other), LIMITED (1: within a budget). Exit code 1 with
the story of the first lives that broke a guarantee.
"""

import asyncio
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import grpc

from greenroom.core.keyspace import BUDGET
from greenroom.core.policy import ReleasesPolicy
from greenroom.pb.etcd import rpc_pb2
from greenroom.store.upstream import Upstream
from tests.faults.racing import operators, proxy_side
from tests.faults.racing.judge import Life, forgotten, told, verdict_on
from tests.faults.racing.log import Change, RaceLog, flights, records
from tests.faults.racing.process import LEASE_ENDED, Told, messages
from tests.faults.racing.words import SLOW_TTL_SECONDS, TTL_SECONDS, Asks, Done, Ended, Fault, Kind, Round
from tests.guarantees import Flight, never_more_in_flight
from tests.support.etcd import Etcd
from tests.support.story import (
    Dropped,
    LeaseEnded,
    OfInstance,
    Overrode,
    Rejected,
    Retried,
    Withdrew,
    Wrote,
    checked_part,
)

AT_ONCE = 12
"""Instances at a time: enough to keep two cores busy, few enough that each of them is fought over."""
JUDGED_LATER = 64
"""Rounds between the end of a life and its judgement: by then every process has said what it did."""
FORGOTTEN_SECONDS = 60.0
"""A reconciler whose tries came to nothing waits for up to 30 s until the next one; who is forgotten is so for ever."""
STORIES_TOLD = 3
PROGRESS_EVERY = 500
LIMITS = ReleasesPolicy(max_in_flight=2, settle_seconds=0.1)
"""So tight that most releases of a race have to wait for their turn."""
PROXIES = (
    Told("proxy-1", asks=Asks.LATENCY),
    Told("proxy-2", asks=Asks.ACCURACY, clock_ahead=timedelta(seconds=30)),
    Told("proxy-3", asks=Asks.LATENCY, clock_ahead=timedelta(seconds=-30)),
)
"""Each has a policy and a clock of its own. Within a budget all have one clock, for a release settles by a clock."""
OPERATORS = Told("operators")
DECISIONS = Withdrew, Retried, Overrode, Rejected, Dropped
ETCD_ARGUMENTS = ("--auto-compaction-mode=revision", "--auto-compaction-retention=20000", "--snapshot-count=20000")
"""Long races must not fill the memory that etcd's folder lies in."""


@dataclass(slots=True)
class Figures:
    """What a race amounted to. `violations`: each broken life's story."""

    seed: int
    proxies: int
    rounds: int = 0
    txns: int = 0
    lost_fences: int = 0
    releases: int = 0
    withdrawals: int = 0
    rejections: int = 0
    adoptions: int = 0
    later_publications: int = 0
    rollout_holds: int = 0
    decisions: Counter[str] = field(default_factory=Counter)
    """How often people decided what."""
    violations: list[str] = field(default_factory=list)
    keys_left: list[bytes] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    flights: list[Flight] = field(default_factory=list)

    def __str__(self) -> str:
        counted = (
            f"{self.proxies} proxies, {self.rounds} rounds, {self.txns} Txns, {self.lost_fences} lost fences, "
            f"{self.releases} releases, {self.withdrawals} withdrawals, {self.rejections} rejections, "
            f"{self.adoptions} live instances taken on, "
            f"{self.later_publications} publications of later cards, "
            f"{self.rollout_holds} rollout holds: {len(self.violations)} violations, "
            f"{len(self.keys_left)} keys left{''.join(f' {key!r}' for key in self.keys_left)}"
        )
        decisions, refusals = (
            ", ".join(f"{count} x {words}" for words, count in each.most_common()) or "nothing"
            for each in (self.decisions, self.refusals)
        )
        return f"{counted}\ndecided: {decisions}\nrefused: {refusals}\nseed {self.seed}, {self.seconds:.0f} s"

    @property
    def sound(self) -> bool:
        return not self.violations and not self.keys_left


async def race(rounds: int, seed: int, port: int, proxies: int, releases: ReleasesPolicy | None = None) -> Figures:
    """Runs a race on an empty etcd and judges every life in it, and the limits over all of them."""
    started = time.monotonic()
    upstream = Upstream([("127.0.0.1", port)])
    try:
        async with _Race(Figures(seed, proxies), upstream, _told(port, proxies, releases)).running() as running:
            await running.rounds(rounds)
        if releases is not None and releases.max_in_flight is not None:
            settle = timedelta(seconds=releases.settle_seconds)
            running.figures.violations += never_more_in_flight(running.figures.flights, releases.max_in_flight, settle)
            await upstream.delete_range(rpc_pb2.DeleteRangeRequest(key=BUDGET))
        everything = rpc_pb2.RangeRequest(key=b"\0", range_end=b"\0", keys_only=True)
        running.figures.keys_left = [kv.key for kv in (await upstream.range(everything)).kvs]
    finally:
        await upstream.close()
    running.figures.seconds = time.monotonic() - started
    return running.figures


def _told(port: int, proxies: int, releases: ReleasesPolicy | None) -> list[Told]:
    racing = [replace(told, port=port, releases=releases) for told in (*PROXIES[:proxies], OPERATORS)]
    return racing if releases is None else [replace(told, clock_ahead=timedelta()) for told in racing]


class _Race:
    """The parent of the racing processes, and the judge."""

    def __init__(self, figures: Figures, upstream: Upstream, racing: list[Told]) -> None:
        self.figures, self.upstream, self.racing = figures, upstream, racing
        self.log = RaceLog()
        self.lives: dict[str, Life] = {}
        self.over: list[Life] = []
        self._missing: dict[int, int] = {}
        self._done: dict[int, asyncio.Event] = {}
        self._pipes: list[Connection] = []
        self._ended = asyncio.Semaphore(0)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["_Race"]:
        """With the processes and the watch; at the end everything is judged."""
        context = multiprocessing.get_context("spawn")
        async with asyncio.TaskGroup() as tasks:
            listening = [tasks.create_task(self.log.follow(self.upstream))]
            children = []
            for told in self.racing:
                ours, theirs = context.Pipe()
                main = operators.main if told.name == OPERATORS.name else proxy_side.main
                children.append(context.Process(target=main, args=(theirs, told), name=told.name, daemon=True))
                children[-1].start()
                theirs.close()
                self._pipes.append(ours)
                listening.append(tasks.create_task(self._listen(told.name, ours)))
            try:
                yield self
                await self._end()
            finally:
                for child in children:
                    child.kill()
                    child.join()
                for task in listening:
                    task.cancel()

    async def rounds(self, count: int) -> None:
        slots = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            for number in range(count):
                await slots.acquire()
                tasks.create_task(self._round(Round(self.figures.seed, number))).add_done_callback(
                    lambda _: slots.release()
                )

    async def _round(self, this: Round) -> None:
        life = self.lives[this.instance] = Life(this)
        self._missing[this.number], self._done[this.number] = len(self._pipes), asyncio.Event()
        ttl_seconds = SLOW_TTL_SECONDS if this.kind is Kind.EXPIRING else TTL_SECONDS
        await self.upstream.lease_grant(rpc_pb2.LeaseGrantRequest(ID=this.lease, TTL=ttl_seconds))
        if this.kind is Kind.LIVE:
            await self._serve_already(life)
        for pipe in self._pipes:
            pipe.send(this)
        await self._done[this.number].wait()
        del self._done[this.number]
        await self._settle(life)
        await self._end_lease(life)
        self.over.append(life)
        if len(self.over) > JUDGED_LATER:
            self._judge(self.over.pop(0))

    async def _serve_already(self, life: Life) -> None:
        """It registered before there was a proxy."""
        key = life.round.card_key
        value = life.round.value(key, "live", [])
        answer = await self.upstream.put(rpc_pb2.PutRequest(key=key, value=value, lease=life.round.lease))
        life.said.append(Wrote(answer.header.revision, life.instance, key, value, kept_back=False))

    async def _settle(self, life: Life) -> None:
        """When everybody is done, who is ready must be released, whoever died or lost a race on the way."""
        await self.log.wait(life.last_revision())
        try:
            async with asyncio.timeout(FORGOTTEN_SECONDS):
                while forgotten(life, self.log):
                    await self.log.wait_more()
        except TimeoutError:
            stops = ", ".join(hold.hold_id for hold in self.log.holds if hold.lifted is None)
            for text in forgotten(life, self.log):
                text += f" (rollout holds in force by now: {stops or 'none'})"
                life.said.append(Fault(self.log.revision, life.instance, text))
        except KeyError:
            # The judgement will say what makes no sense.
            return

    async def _end_lease(self, life: Life) -> None:
        try:
            answer = await self.upstream.lease_revoke(rpc_pb2.LeaseRevokeRequest(ID=life.round.lease))
        except grpc.aio.AioRpcError as error:
            if error.details() != LEASE_ENDED:
                raise
            return
        life.said.append(LeaseEnded(answer.header.revision, life.instance))

    async def _listen(self, name: str, pipe: Connection) -> None:
        async for message in messages(pipe):
            match message:
                case OfInstance():
                    self.lives[message.instance].said.append(message)
                case Done(number):
                    self._missing[number] -= 1
                    if not self._missing[number]:
                        del self._missing[number]
                        self._done[number].set()
                case Ended():
                    self._count(message)
                    self._ended.release()
                    return
        raise AssertionError(f"{name} ended in the middle of the race")

    def _count(self, ended: Ended) -> None:
        self.figures.txns += ended.txns
        self.figures.lost_fences += ended.lost_fences
        self.figures.refusals.update(ended.refusals)

    async def _end(self) -> None:
        for pipe in self._pipes:
            pipe.send(None)
        for _ in self._pipes:
            await self._ended.acquire()
        last = await self.upstream.put(rpc_pb2.PutRequest(key=b"other/end", value=b""))
        await self.log.wait(last.header.revision)
        await self.upstream.delete_range(rpc_pb2.DeleteRangeRequest(key=b"other/end"))
        for life in self.over:
            self._judge(life)
        self.figures.rollout_holds = self.log.hold_count

    def _judge(self, life: Life) -> None:
        faults = verdict_on(life, self.log)
        self.figures.rounds += 1
        self._count_states(life)
        self.figures.decisions.update(type(op).__name__.lower() for op in life.said if isinstance(op, DECISIONS))
        self.figures.flights += flights(life.instance, self.log.changes[life.instance])
        if faults:
            self.figures.violations.append("\n".join([*faults, *_story(life, self.log)]))
        oldest = min((change[0].revision for change in self.log.changes.values() if change), default=0)
        self.log.forget(life.instance, oldest)
        del self.lives[life.instance]
        if self.figures.rounds % PROGRESS_EVERY == 0:
            checked_part.cache_clear()
            print(f"{self.figures.rounds} rounds, {len(self.figures.violations)} violations", flush=True)

    def _count_states(self, life: Life) -> None:
        before, waited = "", False
        for _, record in records(self.log.changes[life.instance]):
            state = record["state"]
            waits = any(card["later_gates"] for card in record["cards"])
            self.figures.later_publications += waited and record["transitions"][-1]["event"] == "published"
            waited = waits
            if state != before:
                self.figures.releases += state == "RELEASED" and before != ""
                self.figures.adoptions += state == "RELEASED" and before == ""
                self.figures.withdrawals += state == "WITHDRAWN"
                self.figures.rejections += state == "REJECTED"
            before = state


def _story(life: Life, log: RaceLog) -> list[str]:
    """Everything that happened to an instance, in order: what was done, and what etcd shows of it."""
    happened: list[tuple[int, str, Any]] = [(op.revision, "said", op) for op in [*told(life, log), *life.said]]
    happened += [(change.revision, "etcd", _short(change)) for change in log.changes[life.instance]]
    lines = dict.fromkeys(
        f"  {revision:>8} {who} {what}" for revision, who, what in sorted(happened, key=lambda h: h[:2])
    )
    return [f"the life of {life.round}, {life.round.kind}:", *lines]


def _short(change: Change) -> str:
    return f"{change.where} {change.key.decode(errors='replace')} = {change.value!r} on {change.lease:x}"


def run(rounds: int, seed: int, proxies: int, releases: ReleasesPolicy | None = None) -> Figures:
    """A race on an etcd of its own."""
    with Etcd.launch(arguments=ETCD_ARGUMENTS) as etcd:
        return asyncio.run(race(rounds, seed, etcd.port, proxies, releases))


def main() -> int:
    rounds = int(os.environ.get("ROUNDS") or 10_000)
    seed = int(os.environ.get("SEED") or random.randrange(1_000_000))
    releases = LIMITS if os.environ.get("LIMITED") else None
    counts = (os.environ.get("PROXIES") or "2,3").split(",")
    return 0 if all(_raced(rounds, seed, int(proxies), releases) for proxies in counts) else 1


def _raced(rounds: int, seed: int, proxies: int, releases: ReleasesPolicy | None) -> bool:
    """Whether all was well; else it has been told."""
    print(f"{proxies} proxies, {rounds} rounds with seed {seed}", flush=True)
    figures = run(rounds, seed, proxies, releases)
    for story in figures.violations[:STORIES_TOLD]:
        print(f"VIOLATION\n{story}\n")
    print(figures, flush=True)
    return figures.sound


if __name__ == "__main__":
    sys.exit(main())
