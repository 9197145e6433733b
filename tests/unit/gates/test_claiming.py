"""A claim for as long as a check takes: renewed, given back, and what its loss means."""

import asyncio

import pytest

from greenroom.errors import ControlError, UnknownClaim
from greenroom.gates.claiming import ClaimLost, claimed
from greenroom.gates.plan import Job
from greenroom.pb.control.v1.control_pb2 import Claim
from tests.support.claims import AWAY, ScriptedClaims, reached

JOB = Job("5", "smoke", 1)
TTL_SECONDS = 0.03
GONE = ControlError("it has ended", UnknownClaim.reason)


def stands_still() -> float:
    """A clock of a machine on which nothing takes any time: a claim that is renewed stands for ever."""
    return 0.0


def held(claims: ScriptedClaims, ttl_seconds: float = TTL_SECONDS):  # type: ignore[no-untyped-def]
    return claimed(claims, JOB, ttl_seconds, clock=asyncio.get_running_loop().time)


async def test_it_is_given_back_where_no_verdict_ended_it() -> None:
    claims = ScriptedClaims()
    async with held(claims, 60):
        pass
    async with held(claims, 60) as claim:
        claim.is_over = True
    assert claims.calls == ["claim", "release", "claim"]


async def test_a_claim_that_cannot_be_had_runs_nothing() -> None:
    claims = ScriptedClaims({"claim": [GONE]})
    with pytest.raises(ControlError, match="it has ended"):
        async with held(claims):
            pytest.fail("nothing may run")
    assert claims.calls == ["claim"]


async def test_it_is_renewed_as_long_as_the_block_takes() -> None:
    claims = ScriptedClaims()
    async with claimed(claims, JOB, TTL_SECONDS, clock=stands_still):
        await reached(claims.calls, "claim", "renew", "renew")
    assert claims.calls[-1] == "release"


class Slow(ScriptedClaims):
    """Each renewal takes a third of the time that the claim stands."""

    now = 0.0

    async def renew(self, claim: Claim) -> Claim:
        self.now += 0.3 * TTL_SECONDS
        return await super().renew(claim)


async def test_each_renewal_gives_it_its_whole_time_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that is away long after the first claim would have ended costs no more than at first."""
    monkeypatch.setattr("greenroom.gates.claiming.RETRY_SECONDS", 0.001)
    claims = Slow({"renew": [None, None, None, None, AWAY, None]})
    async with claimed(claims, JOB, TTL_SECONDS, clock=lambda: claims.now):
        await reached(claims.calls, "claim", *["renew"] * 6)


async def test_a_lost_claim_cancels_the_block() -> None:
    claims = ScriptedClaims({"renew": [GONE]})
    with pytest.raises(ClaimLost, match="it has ended"):
        async with held(claims):
            await asyncio.sleep(600)
    assert claims.calls == ["claim", "renew"]


async def test_a_proxy_that_is_away_for_a_moment_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("greenroom.gates.claiming.RETRY_SECONDS", 0.001)
    claims = ScriptedClaims({"renew": [AWAY, AWAY, None]})
    async with claimed(claims, JOB, TTL_SECONDS, clock=stands_still):
        await reached(claims.calls, "claim", "renew", "renew", "renew")


async def test_a_proxy_that_is_away_for_longer_than_the_claim_stands_does() -> None:
    claims = ScriptedClaims({"renew": [AWAY] * 1000})
    with pytest.raises(ClaimLost, match=r"in time|nobody answers"):
        async with held(claims):
            await asyncio.sleep(600)


async def test_what_the_block_raises_comes_out_as_it_is() -> None:
    claims = ScriptedClaims()
    with pytest.raises(ControlError, match="nobody answers"):
        async with held(claims, 60):
            raise AWAY
    assert claims.calls == ["claim", "release"]


async def test_a_cancellation_from_outside_stays_one() -> None:
    claims = ScriptedClaims()

    async def block() -> None:
        async with held(claims, 60):
            await asyncio.sleep(600)

    task = asyncio.ensure_future(block())
    await reached(claims.calls, "claim")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert claims.calls == ["claim", "release"]


class SlowAnswer(ScriptedClaims):
    """Claims are there before their answer is."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()

    async def claim(self, job: Job, ttl_seconds: float) -> Claim:
        claim = await super().claim(job, ttl_seconds)
        await self.may_answer.wait()
        return claim


async def test_one_whose_answer_nobody_waits_for_any_more_is_given_back() -> None:
    claims = SlowAnswer()
    task = asyncio.ensure_future(held(claims, 60).__aenter__())
    await reached(claims.calls, "claim")
    task.cancel()
    await asyncio.sleep(0)
    claims.may_answer.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert claims.calls == ["claim", "release"]
