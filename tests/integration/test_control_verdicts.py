"""Verdicts through the control API on a real etcd: what they do to the public keys, and what is refused."""

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import Any

import grpc
import pytest

from greenroom.core.policy import Hold
from greenroom.pb.control.v1 import control_pb2 as pb
from greenroom.pb.etcd import rpc_pb2 as pb_etcd
from tests.support.client import EtcdClient
from tests.support.control_errors import error_info
from tests.support.control_side import ControlSide, control_side
from tests.support.etcd import Etcd
from tests.support.registering import Held, card_value, register, stored_record

TWO_GATES = {"smoke": 900.0, "latency": 600.0}


@pytest.fixture
async def side(etcd: Etcd) -> AsyncIterator[ControlSide]:
    async with control_side(etcd) as side:
        yield side


def verdict(
    held: Held, outcome: int = pb.OUTCOME_PASSED, gate: str = "smoke", **fields: object
) -> pb.ReportVerdictRequest:
    return pb.ReportVerdictRequest(name=held.name, gate=gate, outcome=outcome, **{"attempt": 1, **fields})


async def test_the_last_verdict_publishes_the_card_under_its_own_lease(side: ControlSide, client: EtcdClient) -> None:
    held = register(client, TWO_GATES)
    with client.watch(b"v1/", b"v10") as public:
        first = await side.stub.ReportVerdict(verdict(held, gate="latency"))
        assert first.decision == pb.DECISION_RECORDED
        assert public.changes == []
        second = await side.stub.ReportVerdict(verdict(held, reporter="ci", reason="fine"))
        assert second.decision == pb.DECISION_RELEASED
        await asyncio.to_thread(public.wait_events, 1)
        assert public.changes == [("PUT", held.card)]
    card = client.get(held.card)
    assert (card.value, card.lease) == (card_value(), held.lease)
    assert second.instance.state == pb.INSTANCE_STATE_RELEASED
    assert {gate.gate: gate.reporter for gate in second.instance.gates} == {"smoke": "ci", "latency": "unknown"}
    assert second.instance.HasField("release_time")


async def test_a_failed_verdict_rejects_and_publishes_nothing(side: ControlSide, client: EtcdClient) -> None:
    held = register(client)
    answer = await side.stub.ReportVerdict(verdict(held, pb.OUTCOME_FAILED, reason="no answer"))
    assert answer.decision == pb.DECISION_REJECTED
    assert answer.instance.state == pb.INSTANCE_STATE_REJECTED
    condition = next(one for one in answer.instance.conditions if one.type == "GatesPassed")
    assert (condition.status, condition.reason) == (False, "GateFailed")
    assert "no answer" in condition.message
    assert client.get(held.card) is None


@pytest.mark.parametrize("outcome", [pb.OUTCOME_INCONCLUSIVE, pb.OUTCOME_ERROR])
async def test_an_undecided_verdict_leaves_the_attempt_open(
    side: ControlSide, client: EtcdClient, outcome: int
) -> None:
    held = register(client)
    assert (await side.stub.ReportVerdict(verdict(held, outcome))).decision == pb.DECISION_RECORDED
    assert (await side.stub.ReportVerdict(verdict(held))).decision == pb.DECISION_RELEASED


async def test_an_equal_verdict_is_taken_as_the_same_one_and_another_is_refused(
    side: ControlSide, client: EtcdClient
) -> None:
    held = register(client)
    await side.stub.ReportVerdict(verdict(held))
    before = client.revision()
    again = await side.stub.ReportVerdict(verdict(held))
    assert (again.decision, again.repeated_verdict) == (pb.DECISION_RELEASED, True)
    assert client.revision() == before
    with pytest.raises(grpc.aio.AioRpcError) as other:
        await side.stub.ReportVerdict(verdict(held, pb.OUTCOME_FAILED))
    assert other.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert error_info(other.value).reason == "VERDICT_ALREADY_GIVEN"
    assert side.sample("verdicts_total", gate="smoke", outcome="passed") == 1


def lose_answers(side: ControlSide, monkeypatch: pytest.MonkeyPatch, lost: Callable[[int], bool]) -> None:
    """etcd carries out what the control side sends, and the answer to each call that `lost` names is lost."""
    send, sent = side.upstream.txn, count()

    async def txn(request: pb_etcd.TxnRequest, **options: Any) -> pb_etcd.TxnResponse:
        answer = await send(request, **options)
        if lost(next(sent)):
            raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, details="connection reset")
        return answer

    monkeypatch.setattr(side.upstream, "txn", txn)


async def test_a_verdict_whose_answer_from_etcd_was_lost_is_a_first_one_and_counted(
    etcd: Etcd, client: EtcdClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with control_side(etcd, reconciles=False) as side:
        held = register(client)
        lose_answers(side, monkeypatch, lambda number: number == 1)
        answer = await side.stub.ReportVerdict(verdict(held))
        assert (answer.decision, answer.repeated_verdict) == (pb.DECISION_RELEASED, False)
        assert side.sample("verdicts_total", gate="smoke", outcome="passed") == 1
        assert side.sample("releases_total") == 1
        assert [event["event"] for event in side.log.events][-2:] == ["gate.decided", "instance.released"]


async def test_a_verdict_that_is_stored_is_answered_though_etcd_goes_away_just_after(
    etcd: Etcd, client: EtcdClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with control_side(etcd, reconciles=False) as side:
        held = register(client, TWO_GATES)
        lose_answers(side, monkeypatch, lambda number: number > 1)
        answer = await side.stub.ReportVerdict(verdict(held, reason="fine"))
        assert (answer.decision, answer.repeated_verdict) == (pb.DECISION_RECORDED, False)
        told = {gate.gate: gate.reason for gate in answer.instance.gates}
        assert told == {"smoke": "fine", "latency": ""}
        stored = client.get(b"\x01greenroom/instances/" + held.instance.encode())
        assert answer.instance.record_revision == stored.mod_revision
        assert answer.instance.id == held.instance
        await side.log.wait_named("control.not_read_again")


async def test_a_verdict_for_another_attempt_is_stale_and_names_the_current_one(
    side: ControlSide, client: EtcdClient
) -> None:
    held = register(client)
    with pytest.raises(grpc.aio.AioRpcError) as stale:
        await side.stub.ReportVerdict(verdict(held, attempt=2))
    info = error_info(stale.value)
    assert (info.reason, info.metadata["current_attempt"]) == ("STALE_ATTEMPT", "1")
    assert client.get(held.card) is None


@pytest.mark.parametrize(
    ("fields", "code", "reason", "says"),
    [
        ({"attempt": 0}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST", "attempt"),
        ({"attempt": -1}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST", "attempt"),
        ({"outcome": 0}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST", "outcome"),
        ({"outcome": 99}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST", "outcome"),
        ({"gate": ""}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST", "gate"),
        ({"gate": "\U0001f6a7" * 50_000}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST", "is not a DNS label"),
        ({"name": "instances/" + "é" * 100_000}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST", "lease id"),
        ({"gate": "accuracy"}, grpc.StatusCode.NOT_FOUND, "UNKNOWN_GATE", "its gates are: smoke"),
        ({"reporter": "x" * 300}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST", "reporter"),
    ],
)
async def test_a_verdict_with_a_wrong_field_names_it(
    side: ControlSide, client: EtcdClient, fields: dict[str, object], code: grpc.StatusCode, reason: str, says: str
) -> None:
    request = verdict(register(client))
    for name, value in fields.items():
        setattr(request, name, value)
    with pytest.raises(grpc.aio.AioRpcError) as wrong:
        await side.stub.ReportVerdict(request)
    assert (wrong.value.code(), error_info(wrong.value).reason) == (code, reason)
    assert says in wrong.value.details()


async def test_of_a_reason_that_is_too_long_the_last_2_kib_are_kept(side: ControlSide, client: EtcdClient) -> None:
    held = register(client)
    said = "beginning" + "é" * 2000 + "end"
    answer = await side.stub.ReportVerdict(verdict(held, pb.OUTCOME_FAILED, reason=said))
    kept = answer.instance.gates[0].reason
    assert said.endswith(kept)
    assert 2046 <= len(kept.encode()) <= 2048
    assert stored_record(client, held.instance).gates["smoke"].reason == kept


async def test_an_instance_whose_lease_ended_is_unknown(side: ControlSide, client: EtcdClient) -> None:
    held = register(client)
    client.revoke(held.lease)
    with pytest.raises(grpc.aio.AioRpcError) as gone:
        await side.stub.ReportVerdict(verdict(held))
    assert gone.value.code() is grpc.StatusCode.NOT_FOUND
    assert error_info(gone.value).reason == "UNKNOWN_INSTANCE"
    assert client.prefix(b"v1/").count == 0


async def test_a_record_of_a_newer_version_is_refused_and_left_alone(side: ControlSide, client: EtcdClient) -> None:
    held = register(client)
    key = b"\x01greenroom/instances/" + held.instance.encode()
    client.put(key, b'{"schema_version": 2}', held.lease)
    with pytest.raises(grpc.aio.AioRpcError) as unreadable:
        await side.stub.ReportVerdict(verdict(held))
    assert error_info(unreadable.value).reason == "UNREADABLE_RECORD"
    assert client.get(key).value == b'{"schema_version": 2}'
    assert client.get(held.card) is None


async def test_with_hold_health_the_public_card_is_left_as_it_is(side: ControlSide, client: EtcdClient) -> None:
    held = register(client, hold=Hold.HEALTH)
    before = client.get(held.card).mod_revision
    answer = await side.stub.ReportVerdict(verdict(held))
    assert answer.decision == pb.DECISION_RELEASED
    assert client.get(held.card).mod_revision == before


async def test_two_proxies_given_the_same_verdicts_release_once(etcd: Etcd, client: EtcdClient) -> None:
    async with control_side(etcd) as one, control_side(etcd) as other:
        for _ in range(10):
            held = register(client, TWO_GATES)
            with client.watch(held.card, b"") as public:
                answers = await _both(one, other, held)
                assert pb.DECISION_RELEASED in {answer.decision for answer in answers}
                await asyncio.to_thread(public.wait_events, 1)
                assert public.changes == [("PUT", held.card)]
        assert one.sample("releases_total") + other.sample("releases_total") == 10


async def _both(one: ControlSide, other: ControlSide, held: Held) -> list[pb.ReportVerdictResponse]:
    return list(
        await asyncio.gather(
            one.stub.ReportVerdict(verdict(held)),
            other.stub.ReportVerdict(verdict(held, gate="latency")),
        )
    )
