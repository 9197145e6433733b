"""Runners at two proxies race for the same attempts: one claim an attempt, and never one too many of a gate.

The rule: what counts is etcd's own log of the claims, revision by revision, beside what the runners were told.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any

from greenroom.core import record as records
from greenroom.core import verdicts
from greenroom.core.keyspace import InstanceId, record_key
from greenroom.core.record import Record
from greenroom.core.transitions import Outcome, retried
from greenroom.errors import GateClaimed, StaleAttempt, TooManyClaims, UnknownClaim
from greenroom.pb.etcd import kv_pb2, rpc_pb2
from greenroom.store.claims import ClaimStore, HeldClaim, NewClaim
from greenroom.store.fenced import carry_out, read_snapshot
from greenroom.store.upstream import Upstream
from tests.support.client import EtcdClient, prefix_end, put
from tests.support.control_side import EventLog, MovableClock
from tests.support.etcd import Etcd
from tests.support.registering import Held, register, stored_record

CLAIMS = b"\x01greenroom/claims/"
BOUNDED, FREE = "smoke", "latency"
"""Of the first no more than AT_ONCE claims may be in force; of the other any number, one an attempt."""
GATES = {BOUNDED: 900.0, FREE: 900.0}
ROUNDS = 200
SEED = 5
INSTANCES = 3
AT_ONCE = 2
RUNNERS = 2
"""At each proxy. Four ask for three attempts, of which two may be had."""
NEW_ATTEMPTS = 0.2
CLOCK = MovableClock()


def bounded(client: EtcdClient, held: Held) -> Held:
    """The instance, whose attempts may be claimed as often as anybody likes."""
    record = stored_record(client, held.instance)
    limits = {BOUNDED: AT_ONCE, FREE: None}
    gates = {
        name: record.gates[name].model_copy(update={"max_concurrent": limit, "claim_limit": 10 * ROUNDS})
        for name, limit in limits.items()
    }
    after = records.encode(record.model_copy(update={"gates": gates}))
    client.txn([], [put(record_key(held.instance), after, held.lease)])
    return held


class RacingProxy:
    """The claims of one proxy, with connections of its own."""

    def __init__(self, etcd: Etcd, name: str) -> None:
        self.name, self.upstream, self.lost_fences = name, Upstream([("127.0.0.1", etcd.port)]), 0
        self.claims = ClaimStore(self.upstream, clock=CLOCK, log=EventLog(), on_lost_fence=self._lost)

    def _lost(self) -> None:
        self.lost_fences += 1

    async def run(self, runner: str, gate: str, fleet: list[InstanceId], rng: random.Random) -> list[HeldClaim]:
        """Tries each instance once, in an order of its own."""
        got = list[HeldClaim]()
        for instance in rng.sample(fleet, len(fleet)):
            record = (await read_snapshot(self.upstream, instance)).record
            assert record is not None
            asked = NewClaim(instance, gate, record.gates[gate].attempt, f"{self.name} {runner}", 60)
            try:
                got.append(await self.claims.claim(asked))
            except (GateClaimed, TooManyClaims, StaleAttempt):
                continue
        return got

    async def end(self, held: HeldClaim, rng: random.Random) -> None:
        """The runner lets go, or dies, or says that it could not tell; or somebody makes its attempt an old one."""
        ends: list[Callable[[], Coroutine[Any, Any, object]]] = [
            lambda: self.claims.release(held.instance, held.gate, held.lease),
            lambda: self.upstream.lease_revoke(rpc_pb2.LeaseRevokeRequest(ID=held.lease)),
            lambda: self._carry_out(
                held.instance,
                verdicts.verdict(held.gate, held.claim.attempt, Outcome.ERROR, reason=str(held.lease), reporter="ci"),
            ),
        ]
        await rng.choice(ends)()

    async def open_another(self, instance: InstanceId, gate: str) -> None:
        def again(record: Record, now: datetime) -> Record:
            return retried(record, (gate,), "somebody", "raced", now)

        await self._carry_out(instance, verdicts.edit(again))

    async def _carry_out(self, instance: InstanceId, planner: verdicts.Planner) -> None:
        await carry_out(self.upstream, instance, planner, clock=CLOCK)


async def _round(proxies: list[RacingProxy], fleet: list[InstanceId], rng: random.Random) -> int:
    """How many claims were made; all of them have ended."""
    gate = rng.choice((BOUNDED, FREE))
    racing = [proxy.run(str(number), gate, fleet, rng) for proxy in proxies for number in range(RUNNERS)]
    if rng.random() < NEW_ATTEMPTS:
        results = await asyncio.gather(*racing, rng.choice(proxies).open_another(rng.choice(fleet), gate))
    else:
        results = await asyncio.gather(*racing)
    got = [held for result in results if result for held in result]
    twice = [one for one, count in Counter((held.instance, held.claim.attempt) for held in got).items() if count > 1]
    assert not twice, f"two runners were given the same attempt: {twice}"
    for held in got:
        proxy = rng.choice(proxies)
        try:
            await proxy.end(held, rng)
        except (StaleAttempt, UnknownClaim):
            # Its attempt is an old one, and maybe whoever claimed the new one has taken its place.
            await proxy.upstream.lease_revoke(rpc_pb2.LeaseRevokeRequest(ID=held.lease))
    return len(got)


def in_force(events: list[kv_pb2.Event]) -> list[tuple[int, int]]:
    """After each revision: how many claims there were of the gate that is bounded."""
    claimed, counts = set[bytes](), dict[int, int]()
    for event in events:
        (claimed.discard if event.type == kv_pb2.Event.DELETE else claimed.add)(event.kv.key)
        counts[event.kv.mod_revision] = sum(key.startswith(CLAIMS + BOUNDED.encode()) for key in claimed)
    return list(counts.items())


async def test_two_proxies_never_give_a_claim_twice_nor_one_too_many(etcd: Etcd, client: EtcdClient) -> None:
    rng = random.Random(SEED)
    fleet = [bounded(client, register(client, GATES)).instance for _ in range(INSTANCES)]
    proxies = [RacingProxy(etcd, name) for name in ("one", "other")]
    try:
        with client.watch(CLAIMS, prefix_end(CLAIMS)) as log:
            made = [await _round(proxies, fleet, rng) for _ in range(ROUNDS)]
            client.put(CLAIMS + b"the/end")
            await asyncio.to_thread(log.wait_revision, client.revision())
            counts = in_force(log.events[:-1])
    finally:
        for proxy in proxies:
            await proxy.upstream.close()
    assert max(count for _, count in counts) == AT_ONCE, "as many as may be at once, and no more"
    assert min(made) > 0, "in each round somebody gets something"
    assert sum(proxy.lost_fences for proxy in proxies) > 0, "they met"
