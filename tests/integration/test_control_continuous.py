"""Gates that have to go on passing, on a real etcd: whoever fails, or is not asked any more, leaves the frontends."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest

from greenroom.core import record as records
from greenroom.core.decide import DEADLINE_GRACE_SECONDS
from greenroom.core.keyspace import record_key
from greenroom.core.policy import Phase
from greenroom.core.record import Record, State
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.client import EtcdClient, put
from tests.support.control_errors import error_info
from tests.support.control_side import ControlSide, control_side
from tests.support.etcd import Etcd
from tests.support.registering import Held, card_value, register, stored_record
from tests.support.waiting import wait_for_async

TTL_SECONDS = 600.0


@pytest.fixture
async def side(etcd: Etcd) -> AsyncIterator[ControlSide]:
    async with control_side(etcd) as side:
        yield side


def registered(client: EtcdClient, **settings: object) -> Held:
    """A held instance, whose rules asked for a continuous gate."""
    held = register(client)
    record = stored_record(client, held.instance)
    asked = {"phase": Phase.CONTINUOUS, "ttl_seconds": TTL_SECONDS, **settings}
    gate = record.gates["smoke"].model_copy(update=asked)
    after = records.encode(record.model_copy(update={"gates": {"smoke": gate}}))
    client.txn([], [put(record_key(held.instance), after, held.lease)])
    return held


def said(held: Held, outcome: int = pb.OUTCOME_PASSED, attempt: int = 1) -> pb.ReportVerdictRequest:
    return pb.ReportVerdictRequest(
        name=held.name, gate="smoke", attempt=attempt, outcome=outcome, reason="it says gibberish", reporter="probe"
    )


async def wait_state(client: EtcdClient, held: Held, state: State) -> Record:
    async def reached() -> Record | None:
        record = stored_record(client, held.instance)
        return record if record.state is state else None

    record = await wait_for_async(reached, 20, f"{held.instance} is {state}")
    assert record is not None
    return record


async def test_a_worker_that_goes_bad_is_withdrawn_by_the_verdict_and_comes_back_when_it_passes_again(
    side: ControlSide, client: EtcdClient
) -> None:
    held = registered(client)
    first = await side.stub.ReportVerdict(said(held))
    assert first.decision == pb.DECISION_RELEASED
    [gate] = first.instance.gates
    assert gate.renew_by_time.seconds - gate.decided_time.seconds == TTL_SECONDS
    with client.watch(held.card, b"") as public:
        failed = await side.stub.ReportVerdict(said(held, pb.OUTCOME_FAILED))
        assert failed.decision == pb.DECISION_WITHDRAWN
        assert failed.instance.state == pb.INSTANCE_STATE_WITHDRAWN
        assert client.get(held.card) is None
        again = await side.stub.ReportVerdict(said(held, pb.OUTCOME_FAILED))
        assert again.repeated_verdict, "its answer was lost, and it is said again"
        assert (await side.stub.ReportVerdict(said(held, attempt=2))).decision == pb.DECISION_RELEASED
        await asyncio.to_thread(public.wait_events, 2)
        assert public.changes == [("DELETE", held.card), ("PUT", held.card)]
    assert (client.get(held.card).value, client.get(held.card).lease) == (card_value(), held.lease)
    [told] = side.log.named("instance.withdrawn")
    assert (told["actor"], told["reason"]) == ("greenroom", "gate smoke failed: it says gibberish")


async def test_a_renewal_moves_its_time_on_and_tells_nobody(side: ControlSide, client: EtcdClient) -> None:
    held = registered(client)
    first = await side.stub.ReportVerdict(said(held))
    side.clock.advance(TTL_SECONDS / 2)
    renewed = await side.stub.ReportVerdict(said(held))
    assert (renewed.decision, renewed.repeated_verdict) == (pb.DECISION_RELEASED, False)
    before, after = (answer.instance.gates[0].renew_by_time.seconds for answer in (first, renewed))
    assert after - before >= TTL_SECONDS / 2
    assert len(side.log.named("gate.decided")) == 1
    with pytest.raises(grpc.aio.AioRpcError, match="report passed to renew it, or failed") as refused:
        await side.stub.ReportVerdict(said(held, pb.OUTCOME_ERROR))
    assert error_info(refused.value).reason == "VERDICT_ALREADY_GIVEN"


async def test_one_that_nobody_renews_is_withdrawn_after_its_time(side: ControlSide, client: EtcdClient) -> None:
    """The prober itself died: nothing is known of the worker any more."""
    held = registered(client)
    await side.stub.ReportVerdict(said(held))
    side.clock.advance(TTL_SECONDS + DEADLINE_GRACE_SECONDS)
    client.put(b"\x01greenroom/instances/zz", b"{}")
    record = await wait_state(client, held, State.WITHDRAWN)
    assert record.transitions[-1].reason == "gate smoke was not renewed within 600 s"
    assert client.get(held.card) is None
    assert (await side.stub.ReportVerdict(said(held, attempt=2))).decision == pb.DECISION_RELEASED


async def test_one_that_lapsed_before_its_release_must_pass_again(side: ControlSide, client: EtcdClient) -> None:
    """A rollout hold over the weekend: on Monday nothing is released on Friday's probe."""
    hold = pb.RolloutHold(reason="weekend", actor="ann")
    await side.stub.CreateRolloutHold(pb.CreateRolloutHoldRequest(rollout_hold=hold, rollout_hold_id="weekend"))
    held = registered(client)
    assert (await side.stub.ReportVerdict(said(held))).decision == pb.DECISION_QUEUED
    side.clock.advance(TTL_SECONDS + DEADLINE_GRACE_SECONDS)
    await side.stub.LiftRolloutHold(pb.LiftRolloutHoldRequest(name="rolloutHolds/weekend"))

    async def asked_again() -> bool:
        return stored_record(client, held.instance).gates["smoke"].attempt == 2

    await wait_for_async(asked_again, 20, "its gate is asked for again")
    assert stored_record(client, held.instance).state is State.HELD
    assert client.get(held.card) is None
    assert (await side.stub.ReportVerdict(said(held, attempt=2))).decision == pb.DECISION_RELEASED


async def test_a_failure_that_is_forgiven_leaves_it_in_service(side: ControlSide, client: EtcdClient) -> None:
    held = registered(client, failure_limit=1)
    await side.stub.ReportVerdict(said(held))
    forgiven = await side.stub.ReportVerdict(said(held, pb.OUTCOME_FAILED))
    assert forgiven.decision == pb.DECISION_RELEASED
    [gate] = forgiven.instance.gates
    assert (gate.state, gate.attempt, gate.failures) == (pb.GATE_STATE_PASSED, 2, 1)
    assert client.get(held.card) is not None
    failed = await side.stub.ReportVerdict(said(held, pb.OUTCOME_FAILED, attempt=2))
    assert failed.decision == pb.DECISION_WITHDRAWN
