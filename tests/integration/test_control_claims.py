"""Claims on a real etcd: one runner an attempt, by leases that end when nobody renews them."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import grpc
import pytest

from greenroom.core import record as records
from greenroom.core.keyspace import record_key
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.client import EtcdClient, put
from tests.support.control_errors import error_info
from tests.support.control_side import ControlSide, control_side
from tests.support.etcd import Etcd
from tests.support.registering import Held, register, stored_record
from tests.support.waiting import wait_for_async

CLAIMS = b"\x01greenroom/claims/"
SHORTEST = timedelta(seconds=5)


@pytest.fixture
async def side(etcd: Etcd) -> AsyncIterator[ControlSide]:
    async with control_side(etcd) as side:
        yield side


def asked(held: Held, runner: str = "runner-1", **fields: object) -> pb.ClaimGateRequest:
    said = {"gate": "smoke", "attempt": 1, "runner": runner, "ttl": timedelta(seconds=60), **fields}
    return pb.ClaimGateRequest(name=held.name, **said)


def passed(held: Held, **fields: object) -> pb.ReportVerdictRequest:
    said = {"gate": "smoke", "attempt": 1, "outcome": pb.OUTCOME_PASSED, **fields}
    return pb.ReportVerdictRequest(name=held.name, **said)


def token(claim: pb.Claim) -> dict[str, str]:
    return {"name": claim.name, "lease": claim.lease}


def with_settings(client: EtcdClient, held: Held, **settings: object) -> Held:
    """The instance, whose rules asked for these settings of its gate."""
    record = stored_record(client, held.instance)
    gate = record.gates["smoke"].model_copy(update=settings)
    after = records.encode(record.model_copy(update={"gates": {"smoke": gate}}))
    client.txn([], [put(record_key(held.instance), after, held.lease)])
    return held


async def refused(call: object) -> tuple[str, str]:
    """Code and reason of the error, whose words the caller of the API sees."""
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call  # type: ignore[misc]
    return error.value.code().name, error_info(error.value).reason


async def claimed(side: ControlSide, held: Held, runner: str) -> pb.GateStatus:
    """The gate once lists show who claims it; empty: nobody."""

    async def shown() -> pb.GateStatus | None:
        instance = await side.stub.GetInstance(pb.GetInstanceRequest(name=held.name))
        return instance.gates[0] if instance.gates[0].claim.runner == runner else None

    found = await wait_for_async(shown, 20, f"{held.name} is claimed by {runner or 'nobody'}")
    assert found is not None
    return found


async def test_one_runner_has_the_attempt_and_the_other_is_told_who_and_until_when(
    side: ControlSide, client: EtcdClient
) -> None:
    held = register(client)
    claim = await side.stub.ClaimGate(asked(held))
    assert (claim.name, claim.attempt, claim.runner) == (f"{held.name}/gates/smoke/claim", 1, "runner-1")
    left = claim.expire_time.ToDatetime(UTC) - datetime.now(UTC)
    assert timedelta(seconds=50) < left <= timedelta(seconds=61)
    [stored] = client.prefix(CLAIMS).kvs
    assert (stored.key, f"{stored.lease:x}") == (CLAIMS + b"smoke/" + held.instance.encode(), claim.lease)
    with pytest.raises(grpc.aio.AioRpcError, match=r"is claimed by runner-1 until .* UTC") as other:
        await side.stub.ClaimGate(asked(held, "runner-2"))
    assert other.value.code() is grpc.StatusCode.ALREADY_EXISTS
    assert error_info(other.value).metadata["runner"] == "runner-1"
    shown = await claimed(side, held, "runner-1")
    assert shown.claim.expire_time == claim.expire_time
    assert side.sample("claims", gate="smoke") == 1


async def test_a_verdict_ends_the_claim_and_needs_none(side: ControlSide, client: EtcdClient) -> None:
    held = register(client)
    claim = await side.stub.ClaimGate(asked(held))
    assert (await side.stub.ReportVerdict(passed(held))).decision == pb.DECISION_RELEASED
    assert client.prefix(CLAIMS).count == 0
    assert await refused(side.stub.RenewClaim(pb.RenewClaimRequest(**token(claim)))) == ("NOT_FOUND", "UNKNOWN_CLAIM")
    assert await refused(side.stub.ClaimGate(asked(held))) == ("FAILED_PRECONDITION", "VERDICT_ALREADY_GIVEN")


async def test_a_claim_that_is_renewed_lives_on_and_one_that_is_not_frees_the_attempt(
    side: ControlSide, client: EtcdClient
) -> None:
    """The runner's machine dies: within the claim's time another one may have the attempt."""
    held, other = register(client), register(client)
    left_alone, claim = [
        await side.stub.ClaimGate(asked(one, f"runner-{number}", ttl=SHORTEST))
        for number, one in enumerate((held, other))
    ]

    async def renewed_until_the_other_is_gone() -> bool:
        renewed = await side.stub.RenewClaim(pb.RenewClaimRequest(**token(claim)))
        assert renewed.expire_time.ToDatetime(UTC) > datetime.now(UTC)
        return client.prefix(CLAIMS).count == 1

    await wait_for_async(renewed_until_the_other_is_gone, 30, "the claim that nobody renews ends")
    assert await refused(side.stub.ReleaseClaim(pb.ReleaseClaimRequest(**token(left_alone)))) == (
        "NOT_FOUND",
        "UNKNOWN_CLAIM",
    )
    again = await side.stub.ClaimGate(asked(held, "runner-2"))
    assert again.runner == "runner-2"
    [told] = await side.log.wait_named("gate.claim_expired")
    assert (told["instance"], told["runner"]) == (held.instance, "runner-0")
    assert side.sample("claims_expired_total", gate="smoke") == 1
    assert stored_record(client, held.instance).gates["smoke"].claims == 2


async def test_a_claim_that_is_given_back_is_free_at_once_and_leaves_no_lease(
    side: ControlSide, client: EtcdClient
) -> None:
    held = register(client)
    claim = await side.stub.ClaimGate(asked(held))
    answer = await side.stub.ReleaseClaim(pb.ReleaseClaimRequest(**token(claim)))
    assert answer.claim == claim
    assert client.prefix(CLAIMS).count == 0
    assert client.time_to_live(int(claim.lease, 16)).TTL == -1
    await claimed(side, held, "")
    assert stored_record(client, held.instance).gates["smoke"].claims == 0
    assert [one["event"] for one in side.log.events if "claim" in one["event"]] == [
        "gate.claimed",
        "gate.claim_released",
    ]


async def test_an_attempt_whose_runners_all_went_away_is_an_error_and_still_takes_a_verdict(
    side: ControlSide, client: EtcdClient
) -> None:
    held = with_settings(client, register(client), claim_limit=1)
    claim = await side.stub.ClaimGate(asked(held))
    client.revoke(int(claim.lease, 16))

    async def given_up() -> bool:
        return stored_record(client, held.instance).gates["smoke"].state == "ERROR"

    await wait_for_async(given_up, 20, "the gate is an error")
    assert stored_record(client, held.instance).gates["smoke"].reason == "1 claims ended without a verdict"
    assert await refused(side.stub.ClaimGate(asked(held))) == ("FAILED_PRECONDITION", "CLAIM_LIMIT_REACHED")
    assert (await side.stub.ReportVerdict(passed(held))).decision == pb.DECISION_RELEASED


async def test_no_more_claims_of_a_gate_than_it_may_have_at_once(side: ControlSide, client: EtcdClient) -> None:
    """Two GPUs are there for the accuracy suite, however many workers wait for it."""
    fleet = [with_settings(client, register(client), max_concurrent=2) for _ in range(3)]
    claims = [await side.stub.ClaimGate(asked(held)) for held in fleet[:2]]
    assert await refused(side.stub.ClaimGate(asked(fleet[2]))) == ("RESOURCE_EXHAUSTED", "TOO_MANY_CLAIMS")
    await side.stub.ReleaseClaim(pb.ReleaseClaimRequest(**token(claims[0])))
    await side.stub.ClaimGate(asked(fleet[2]))


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"name": "instances/7f"}, ("NOT_FOUND", "UNKNOWN_INSTANCE")),
        ({"name": "instances/7F"}, ("INVALID_ARGUMENT", "INVALID_REQUEST")),
        ({"gate": "accuracy"}, ("NOT_FOUND", "UNKNOWN_GATE")),
        ({"attempt": 2}, ("FAILED_PRECONDITION", "STALE_ATTEMPT")),
        ({"ttl": timedelta(seconds=1)}, ("INVALID_ARGUMENT", "INVALID_REQUEST")),
        ({"runner": ""}, ("INVALID_ARGUMENT", "INVALID_REQUEST")),
    ],
)
async def test_who_asks_for_what_cannot_be_had_is_told_so_and_changes_nothing(
    side: ControlSide, client: EtcdClient, fields: dict[str, object], error: tuple[str, str]
) -> None:
    held = register(client)
    before = client.revision()
    request = asked(held)
    for name, value in fields.items():
        if name == "ttl":
            request.ttl.FromTimedelta(value)  # type: ignore[arg-type]
        else:
            setattr(request, name, value)
    assert await refused(side.stub.ClaimGate(request)) == error
    assert client.revision() == before


async def test_a_worker_that_leaves_takes_nothing_of_the_claim_and_its_runner_can_let_go(
    side: ControlSide, client: EtcdClient
) -> None:
    held = register(client)
    claim = await side.stub.ClaimGate(asked(held))
    client.revoke(held.lease)
    assert await refused(side.stub.RenewClaim(pb.RenewClaimRequest(**token(claim)))) == (
        "NOT_FOUND",
        "UNKNOWN_INSTANCE",
    )
    await side.stub.ReleaseClaim(pb.ReleaseClaimRequest(**token(claim)))
    assert client.prefix(b"\x01greenroom/").count == 0


async def test_a_reader_who_was_away_learns_that_a_claim_ended_meanwhile(side: ControlSide, client: EtcdClient) -> None:
    """Its end writes no record: he would show a runner for ever that is long gone."""
    held = register(client)
    claim = await side.stub.ClaimGate(asked(held))
    await claimed(side, held, "runner-1")
    resume = await _synced(side)
    client.revoke(int(claim.lease, 16))
    await claimed(side, held, "")
    watch = side.stub.WatchInstances(pb.WatchInstancesRequest(resume_token=resume))
    event = (await watch.read()).events[0]
    assert (event.type, event.instance.id) == (pb.INSTANCE_EVENT_TYPE_CHANGED, held.instance)
    assert not event.instance.gates[0].HasField("claim")
    watch.cancel()


async def _synced(side: ControlSide) -> str:
    """A token as of now."""
    watch = side.stub.WatchInstances(pb.WatchInstancesRequest())
    try:
        async for answer in watch:
            if answer.resume_token:
                return str(answer.resume_token)
        raise AssertionError("the stream ended before it was in step")
    finally:
        watch.cancel()
