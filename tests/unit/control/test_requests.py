"""What callers may ask, and how each mistake is named."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from greenroom.control.requests import (
    MAX_PAGE_SIZE,
    ClaimToken,
    RequestParser,
    claim_token,
    instance_of,
    new_claim,
    new_rollout_hold,
    page_size,
    persons_decision,
    rollout_hold_of,
    verdict_report,
)
from greenroom.core.decisions import DecisionKind
from greenroom.core.keyspace import InstanceId
from greenroom.core.selectors import Selector
from greenroom.core.transitions import Outcome
from greenroom.errors import InvalidRequest
from greenroom.pb.control.v1 import control_pb2 as pb
from greenroom.store.claims import NewClaim

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def report(**fields: Any) -> pb.ReportVerdictRequest:
    good = {"name": "instances/abc", "gate": "smoke", "attempt": 2, "outcome": pb.OUTCOME_FAILED}
    return pb.ReportVerdictRequest(**{**good, **fields})


def hold(hold_id: str = "", **fields: Any) -> pb.CreateRolloutHoldRequest:
    return pb.CreateRolloutHoldRequest(
        rollout_hold=pb.RolloutHold(**{"reason": "r", "actor": "a", **fields}), rollout_hold_id=hold_id
    )


def test_a_whole_verdict() -> None:
    said = verdict_report(report(reason="why", reporter=" ci "))
    assert (said.instance, said.gate, said.attempt, said.outcome) == ("abc", "smoke", 2, Outcome.FAILED)
    assert (said.reason, said.reporter) == ("why", "ci")


def test_a_reporter_without_a_name_is_unknown() -> None:
    assert verdict_report(report()).reporter == "unknown"


@pytest.mark.parametrize("name", ["instances/1", "instances/7fffffffffffffff"])
def test_names_of_instances(name: str) -> None:
    assert f"instances/{instance_of(name)}" == name


@pytest.mark.parametrize(
    "name",
    [
        *("", "1", "instances", "instances/", "instances/0", "instances/01", "instances/A", "Instances/1"),
        *("instances/8000000000000000", "instances/-1", "instances/1/2", "instances/1_0", "instances/0x1"),
        *("instances/١", "instances/ 1", "instances/1\n"),
    ],
)
def test_what_names_no_instance(name: str) -> None:
    with pytest.raises(InvalidRequest, match="instances/"):
        instance_of(name)


def test_names_of_rollout_holds() -> None:
    assert rollout_hold_of("rolloutHolds/freeze") == "freeze"
    for name in ("instances/freeze", "rolloutHolds/", "rolloutHolds/A", "rolloutHolds/" + "a" * 64):
        with pytest.raises(InvalidRequest, match="rolloutHolds/"):
            rollout_hold_of(name)


@pytest.mark.parametrize("gate", ["", "Smoke", "smoke\n", "-smoke", "g" * 64])
def test_what_no_policy_can_name_is_no_gate(gate: str) -> None:
    with pytest.raises(InvalidRequest) as wrong:
        verdict_report(report(gate=gate))
    assert wrong.value.metadata == {"field": "gate"}
    assert verdict_report(report(gate="a_b-" + "c" * 59)).gate.startswith("a_b-")


@pytest.mark.parametrize(
    "ask",
    [
        lambda text: instance_of(f"instances/{text}"),
        lambda text: instance_of(text),
        lambda text: rollout_hold_of(f"rolloutHolds/{text}"),
        lambda text: verdict_report(report(gate=text)),
        lambda text: new_rollout_hold(hold(text), NOW),
    ],
)
@pytest.mark.parametrize("character", ["a", "\U0001f6a7", "\0"])
def test_of_a_long_value_an_error_shows_the_beginning(ask: Callable[[str], object], character: str) -> None:
    with pytest.raises(InvalidRequest) as wrong:
        ask(character * 5000)
    assert len(str(wrong.value)) < 600
    assert "…" in str(wrong.value)


DECISIONS: list[tuple[DecisionKind, Any, dict[str, Any]]] = [
    (DecisionKind.OVERRIDE, pb.ReleaseInstanceRequest, {"override": True}),
    (DecisionKind.REJECT, pb.RejectInstanceRequest, {}),
    (DecisionKind.WITHDRAW, pb.WithdrawInstanceRequest, {}),
    (DecisionKind.RETRY, pb.RetryGatesRequest, {"gates": ["smoke", "chat", "smoke"]}),
    (DecisionKind.DROP, pb.DropCardsRequest, {}),
    (DecisionKind.REVOKE_LEASE, pb.RevokeLeaseRequest, {}),
]
GOOD = {"name": "instances/abc", "reason": " because\n", "actor": " ann@host "}


@pytest.mark.parametrize(("kind", "message", "more"), DECISIONS)
def test_a_whole_decision(kind: DecisionKind, message: Any, more: dict[str, Any]) -> None:
    said = persons_decision(kind, message(**GOOD, **more))
    assert (said.kind, said.instance, said.actor, said.reason) == (kind, "abc", "ann@host", " because\n")
    assert said.gates == (("smoke", "chat") if kind is DecisionKind.RETRY else ())


@pytest.mark.parametrize(("kind", "message", "more"), DECISIONS)
@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("name", "instances/XYZ", "lease id in lower-case hexadecimal"),
        ("name", "", "is not of the form"),
        ("reason", "", "is required"),
        ("reason", " \n\t", "is required"),
        ("reason", "é" * 1025, "has 2050 bytes, and may have 2048: shorten it"),
        ("actor", "", "is required: who decides"),
        ("actor", "a\nb", "without line breaks"),
        ("actor", "greenroom", "the proxy's own name"),
    ],
)
def test_what_is_wrong_with_a_decision(
    kind: DecisionKind, message: Any, more: dict[str, Any], field: str, value: str, said: str
) -> None:
    with pytest.raises(InvalidRequest, match=said) as wrong:
        persons_decision(kind, message(**{**GOOD, field: value}, **more))
    assert wrong.value.metadata == {"field": field}


def test_a_reason_of_just_the_limit_is_kept_whole() -> None:
    reason = "é" * 1024
    assert persons_decision(DecisionKind.DROP, pb.DropCardsRequest(**{**GOOD, "reason": reason})).reason == reason


def test_nobody_overrides_by_mistake() -> None:
    with pytest.raises(InvalidRequest, match="override: must be true"):
        persons_decision(DecisionKind.OVERRIDE, pb.ReleaseInstanceRequest(**GOOD))


@pytest.mark.parametrize("gate", ["", "Smoke", "g" * 64])
def test_what_no_policy_can_name_is_not_retried(gate: str) -> None:
    with pytest.raises(InvalidRequest) as wrong:
        persons_decision(DecisionKind.RETRY, pb.RetryGatesRequest(**GOOD, gates=["smoke", gate]))
    assert wrong.value.metadata == {"field": "gates"}


def test_a_rollout_hold_with_everything() -> None:
    selector = pb.Selector(model="Qwen/*", suffix="")
    new = new_rollout_hold(hold("freeze", selector=selector, ttl=timedelta(seconds=90)), NOW)
    assert (new.hold_id, new.reason, new.actor, new.ttl_seconds) == ("freeze", "r", "a", 90)
    assert new.selector == Selector(model="Qwen/*")


def test_a_rollout_hold_without_id_gets_one_of_its_own() -> None:
    ids = {new_rollout_hold(hold(), NOW).hold_id for _ in range(10)}
    assert len(ids) == 10
    assert all(new_rollout_hold(hold(one), NOW).hold_id == one for one in ids)


def test_an_expiry_is_rounded_up() -> None:
    assert new_rollout_hold(hold(ttl=timedelta(milliseconds=1)), NOW).ttl_seconds == 1
    assert new_rollout_hold(hold(expire_time=NOW + timedelta(seconds=1.5)), NOW).ttl_seconds == 2
    assert new_rollout_hold(hold(), NOW).ttl_seconds is None


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (hold(reason=""), "rollout_hold.reason"),
        (hold(actor="x" * 257), "rollout_hold.actor"),
        (hold(actor="\x1b[2J"), "rollout_hold.actor"),
        (hold("-a"), "rollout_hold_id"),
        (hold("a" * 64), "rollout_hold_id"),
        (hold("a/b"), "rollout_hold_id"),
        (hold(ttl=timedelta(seconds=-1)), "rollout_hold.ttl"),
        (hold(expire_time=NOW), "rollout_hold.expire_time"),
        (hold(create_time=NOW), "rollout_hold"),
        (pb.CreateRolloutHoldRequest(), "rollout_hold.reason"),
    ],
)
def test_what_is_wrong_with_a_rollout_hold(request_: pb.CreateRolloutHoldRequest, field: str) -> None:
    with pytest.raises(InvalidRequest) as wrong:
        new_rollout_hold(request_, NOW)
    assert wrong.value.metadata == {"field": field}


def claim(**fields: Any) -> pb.ClaimGateRequest:
    good = {"name": "instances/abc", "gate": "smoke", "attempt": 2, "runner": " r1 ", "ttl": timedelta(seconds=30)}
    return pb.ClaimGateRequest(**{**good, **fields})


def test_a_whole_claim() -> None:
    assert new_claim(claim()) == NewClaim(InstanceId("abc"), "smoke", 2, "r1", 30)
    assert new_claim(claim(ttl=timedelta(seconds=4.1))).ttl_seconds == 5
    assert new_claim(claim(ttl=timedelta(hours=1))).ttl_seconds == 3600


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (claim(name="abc"), "name"),
        (claim(gate="Smoke"), "gate"),
        (claim(attempt=0), "attempt"),
        (claim(runner="  "), "runner"),
        (claim(runner="greenroom"), "runner"),
        (claim(runner="x" * 257), "runner"),
        (claim(ttl=None), "ttl"),
        (claim(ttl=timedelta(seconds=4)), "ttl"),
        (claim(ttl=timedelta(seconds=3600.1)), "ttl"),
        (claim(ttl=timedelta(seconds=-30)), "ttl"),
    ],
)
def test_what_is_wrong_with_a_claim(request_: pb.ClaimGateRequest, field: str) -> None:
    with pytest.raises(InvalidRequest) as wrong:
        new_claim(request_)
    assert wrong.value.metadata == {"field": field}


@pytest.mark.parametrize("kind", [pb.RenewClaimRequest, pb.ReleaseClaimRequest])
def test_a_claims_token(kind: Any) -> None:
    said = kind(name="instances/abc/gates/first_token/claim", lease="7f")
    assert claim_token(said) == ClaimToken(InstanceId("abc"), "first_token", 0x7F)


@pytest.mark.parametrize(
    ("name", "lease", "field"),
    [
        ("instances/abc", "7f", "name"),
        ("instances/abc/gates/smoke", "7f", "name"),
        ("instances/abc/gates/smoke/claim/", "7f", "name"),
        ("instances/abc/gates//claim", "7f", "gate"),
        ("instances/ABC/gates/smoke/claim", "7f", "name"),
        ("instances/abc/gates/smoke/claim", "", "lease"),
        ("instances/abc/gates/smoke/claim", "0x7f", "lease"),
        ("instances/abc/gates/smoke/claim", "0", "lease"),
    ],
)
def test_what_is_no_claims_token(name: str, lease: str, field: str) -> None:
    with pytest.raises(InvalidRequest) as wrong:
        claim_token(pb.RenewClaimRequest(name=name, lease=lease))
    assert wrong.value.metadata == {"field": field}


def test_page_sizes() -> None:
    assert (page_size(0), page_size(7), page_size(10**6)) == (100, 7, MAX_PAGE_SIZE)
    with pytest.raises(InvalidRequest, match="page_size"):
        page_size(-1)


def test_what_a_newer_client_sends_is_refused_by_number() -> None:
    parse = RequestParser(pb.CreateRolloutHoldRequest)
    inner = pb.RolloutHold(reason="r").SerializeToString() + b"\xf8\x07\x01"
    data = b"\x0a" + bytes([len(inner)]) + inner
    with pytest.raises(InvalidRequest, match=r"field 127 of greenroom.control.v1.RolloutHold"):
        parse(data)
    assert parse(hold("a").SerializeToString()) == hold("a")


@pytest.mark.parametrize("data", [b"\x0a", b"\x0a\x05ab", b"\x0a\x01\xff", b"\xff\xff"])
def test_what_is_no_request_is_refused_in_words(data: bytes) -> None:
    with pytest.raises(InvalidRequest, match="GetInstanceRequest"):
        RequestParser(pb.GetInstanceRequest)(data)


@pytest.mark.parametrize(
    "message_type",
    [pb.ListInstancesRequest, pb.ReportVerdictRequest, pb.ListRolloutHoldsRequest, pb.LiftRolloutHoldRequest],
)
def test_an_empty_request_is_one(message_type: Any) -> None:
    assert RequestParser(message_type)(b"") == message_type()


def test_nobody_reports_or_decides_in_the_proxys_own_name() -> None:
    """Its failures count as missed deadlines, and the trail would say that nobody decided."""
    with pytest.raises(InvalidRequest, match="reporter: 'greenroom' is the proxy's own name"):
        verdict_report(report(reporter=" greenroom "))
    with pytest.raises(InvalidRequest, match=r"rollout_hold\.actor: 'greenroom' is the proxy's own name"):
        new_rollout_hold(pb.CreateRolloutHoldRequest(rollout_hold=pb.RolloutHold(reason="r", actor="greenroom")), NOW)
