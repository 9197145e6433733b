"""A claim for as long as a block takes: made, renewed meanwhile, given back where no verdict ended it.

The rule: when the claim is lost, or may be, the block is cancelled at once: somebody else may be at the attempt.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final, Protocol

from greenroom.errors import ControlError
from greenroom.gates.given_back import given_back
from greenroom.gates.plan import Job
from greenroom.gates.watched import watched
from greenroom.pb.control.v1.control_pb2 import Claim

TTL_SECONDS: Final = 30.0
"""So long a gate waits after its runner was killed."""
RENEWALS: Final = 3
"""Of its time: after a third of it the whole is asked for again."""
RETRY_SECONDS: Final = 1.0
RELEASE_SECONDS: Final = 2.0
"""A proxy that is away must not hold up a runner's end: the claim ends by itself."""


class ClaimLost(Exception):
    """The claim has ended before the block; in words."""


class Claims(Protocol):
    """Who makes, renews and ends claims."""

    async def claim(self, job: Job, ttl_seconds: float) -> Claim: ...

    async def renew(self, claim: Claim) -> Claim: ...

    async def release(self, claim: Claim) -> None: ...


@dataclass(slots=True)
class Held:
    """A claim that is ours. `is_over`: a verdict has ended it, so there is nothing to give back."""

    is_over: bool = False


@asynccontextmanager
async def claimed(claims: Claims, job: Job, ttl_seconds: float, *, clock: Callable[[], float]) -> AsyncIterator[Held]:
    """The attempt is ours in the block. ControlError where it cannot be had; ClaimLost in the block's place."""
    held, asked = Held(), clock()

    async def give_back(claim: Claim) -> None:
        if not held.is_over:
            await _give_back(claims, claim)

    async with given_back(claims.claim(job, ttl_seconds), give_back, RELEASE_SECONDS) as claim:
        try:
            async with watched(_keep(claims, claim, ttl_seconds, asked, clock)):
                yield held
        except ClaimLost:
            held.is_over = True
            raise


async def _keep(claims: Claims, claim: Claim, ttl_seconds: float, asked: float, clock: Callable[[], float]) -> None:
    """Renews a claim that was `asked` for at that time, until it is lost: ClaimLost says why."""
    until, pause = asked + ttl_seconds, ttl_seconds / RENEWALS
    while True:
        await asyncio.sleep(min(pause, max(0.0, until - clock())))
        asked = clock()
        try:
            async with asyncio.timeout(max(0.0, until - asked)):
                await claims.renew(claim)
            until, pause = asked + ttl_seconds, ttl_seconds / RENEWALS
        except TimeoutError:
            raise ClaimLost("it could not be renewed in time: the proxy does not answer") from None
        except ControlError as error:
            if not error.may_pass or clock() >= until:
                raise ClaimLost(str(error)) from error
            pause = RETRY_SECONDS


async def _give_back(claims: Claims, claim: Claim) -> None:
    """Where a verdict has ended it, it is gone already."""
    with suppress(ControlError, TimeoutError):
        async with asyncio.timeout(RELEASE_SECONDS):
            await claims.release(claim)
