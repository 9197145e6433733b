"""Finding out which of etcd's members are of use, by asking each of them again and again.

The rule: only a read that needs a quorum counts. A member that is cut off from its peers takes connections and answers
a status as if nothing were wrong, while every write on it hangs and every lease kept alive through it runs out.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any, NoReturn

import grpc

from greenroom.core.keyspace import ROOT
from greenroom.pb.etcd import rpc_pb2
from greenroom.store.channels import Channels
from greenroom.store.members import Address, Standing, address_text
from greenroom.store.prefix_follower import NEEDS_LEADER
from greenroom.store.upstream import why

# A silent member is known to be bad after 1 + 1.5 + 0.5 + 1.5 s at most, and its clients are sent away within one
# more. So a lease of 10 s that is kept alive each third of that outlives its member, as does Dynamo's: 30 s, each half.
EVERY_SECONDS = 1.0
ANSWER_SECONDS = 1.5
AGAIN_SECONDS = 0.5
"""After a failure, until it is known what to make of it."""

PROOFS = frozenset(
    {
        # With users, etcd looks at who asks only after the members agreed on what there is to be read.
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
    }
)
"""Errors that prove a quorum as well as an answer does, where they are etcd's own."""

ETCDS_WORDS = "etcdserver: "
"""So begins each error that is etcd's, and none of gRPC's own."""

_RANGE = "/etcdserverpb.KV/Range"
QUESTION = rpc_pb2.RangeRequest(key=ROOT, count_only=True)


def is_proof(error: grpc.aio.AioRpcError) -> bool:
    """Whether the error shows that the members agreed before it was given. A web server refuses people as well."""
    return error.code() in PROOFS and (error.details() or "").startswith(ETCDS_WORDS)


class Prober:
    """Asks every member over its channel. `run` ends only by cancellation."""

    def __init__(self, channels: Channels, *, log: Any) -> None:
        self._channels, self._members, self._log = channels, channels.members, log
        self._leavers: list[Callable[[Address], object]] = [channels.leave]
        self._asked: set[Address] = set()
        self._told_bad: set[Address] = set()
        self._was_any_good = False
        self._first_round = asyncio.Event()

        self._time = asyncio.get_running_loop().time

    async def run(self) -> None:
        """Asks until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for address in self._members.addresses:
                tasks.create_task(self._watch(address))

    async def first_round(self) -> None:
        """Returns once a member proved itself, or each was asked in vain."""
        await self._first_round.wait()

    def on_leave(self, leaver: Callable[[Address], object]) -> None:
        """`leaver` is called with each bad member, again and again, for as long as there is a good one to go to."""
        self._leavers.append(leaver)

    async def _watch(self, address: Address) -> NoReturn:
        while True:
            asked = self._time()
            reason = await self._probe(address)
            self._note(address, reason, asked)
            is_doubtful = reason is not None and self._members.standing(address) is not Standing.BAD
            pause = AGAIN_SECONDS if is_doubtful else EVERY_SECONDS
            # Jittered, so that the proxies of one etcd do not ask in step.
            await asyncio.sleep(random.uniform(pause / 2, pause))

    async def _probe(self, address: Address) -> str | None:
        """One read: None where it proves a quorum, else why it does not, for people."""
        try:
            await self._channels.channel(address).unary.call(
                _RANGE, QUESTION.SerializeToString(), NEEDS_LEADER, ANSWER_SECONDS
            )
        except grpc.aio.AioRpcError as error:
            return None if is_proof(error) else why(error, ANSWER_SECONDS)
        return None

    def _note(self, address: Address, reason: str | None, asked: float) -> None:
        if reason is None:
            self._members.answered(address, self._time())
            self._was_any_good = True
        else:
            self._members.failed(address, reason, asked=asked, now=self._time())
        self._tell(address, reason)
        self._asked.add(address)
        if reason is None or len(self._asked) == len(self._members.addresses):
            self._first_round.set()
        # Not only when it becomes bad: a good one may have refused somebody for a moment, who then came here.
        if reason is not None and self._members.is_to_be_left(address, asked):
            for leave in self._leavers:
                leave(address)

    def _tell(self, address: Address, reason: str | None) -> None:
        """Each change once. Before any member was good nothing is told: a start that fails says why by itself."""
        standing = self._members.standing(address)
        if standing is Standing.GOOD and address in self._told_bad:
            self._told_bad.remove(address)
            self._log.info("upstream.member.good", member=address_text(address))
        if standing is Standing.BAD and address not in self._told_bad and self._was_any_good:
            self._told_bad.add(address)
            self._log.warning("upstream.member.bad", member=address_text(address), reason=reason)
