"""The one way in: who is let in, as whom the call goes on, and what is told of those who are not."""

from collections.abc import Callable

import pytest

from greenroom.access.admission import QUIET_SECONDS, acting_name, limited
from greenroom.access.callers import ANYBODY
from greenroom.access.known import Presented
from greenroom.core.keyspace import InstanceId
from greenroom.core.snapshot import Snapshot
from greenroom.core.verdicts import Plan, Unchanged
from greenroom.errors import GreenroomError, NotPermitted, StaleAttempt, Unauthenticated
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.callers import TOKENS, admission, bearer, open_admission
from tests.support.control_side import EventLog
from tests.support.registering import held_record, now

ONE = InstanceId("1a2b")
PEER = "ipv4:10.0.0.7:4242"
VERDICT = pb.ReportVerdictRequest(name=f"instances/{ONE}", gate="smoke")


class Time:
    def __init__(self) -> None:
        self.seconds = 5.0

    def __call__(self) -> float:
        return self.seconds


def presented(name: str, peer: str = PEER) -> Presented:
    return Presented(bearer(name), peer=peer)


def test_a_caller_is_let_in_by_its_role() -> None:
    with admission().call("ReportVerdict", presented("ci")) as admitted:
        assert admitted.caller.name == "ci"
        assert admitted.authorised(VERDICT).reporter == "ci"
    with pytest.raises(NotPermitted), admission().call("CreateRolloutHold", presented("ci")):
        raise AssertionError("it was let in")


def test_without_an_access_file_anybody_is_let_in_as_anybody() -> None:
    with open_admission().call("CreateRolloutHold", Presented()) as admitted:
        assert admitted.caller == ANYBODY
    with pytest.raises(NotPermitted), open_admission().call("NewMethod", Presented()):
        raise AssertionError("it was let in")


def test_without_an_access_file_a_certificate_names_its_owner() -> None:
    """Whoever shows one cannot act as somebody else; the CA says who may come in."""
    shown = Presented(certificate="ann.example.org")
    with open_admission().call("ReportVerdict", shown) as admitted:
        assert admitted.authorised(VERDICT).reporter == "ann.example.org"
        with pytest.raises(NotPermitted, match="reporter: says 'bob'"):
            admitted.authorised(pb.ReportVerdictRequest(name=VERDICT.name, gate="smoke", reporter="bob"))


def test_a_token_that_is_tried_at_a_probes_page_is_told_of() -> None:
    log = EventLog()
    assert not admission(log=log).knows("/v1/health", Presented())
    assert log.named("control.refused") == []
    assert not admission(log=log).knows("/v1/health", Presented("Bearer wrong-token"))
    assert len(log.named("control.refused")) == 1


def test_a_refusal_is_told_with_method_peer_and_cause_and_counted() -> None:
    log, counted = EventLog(), list[str]()
    access = admission(log=log, on_refused=counted.append)
    for name in ("late", "stranger"):
        with pytest.raises(Unauthenticated), access.call("GetInstance", presented(name)):
            raise AssertionError("it was let in")
    with pytest.raises(NotPermitted), access.call("LiftRolloutHold", presented("grafana")):
        raise AssertionError("it was let in")
    told = [(one["event"], one["level"], one["method"], one["peer"], one["caller"], one["cause"]) for one in log.events]
    assert told == [
        ("control.refused", "warning", "GetInstance", PEER, "late", "expired"),
        ("control.refused", "warning", "GetInstance", PEER, None, "unknown"),
        ("control.refused", "warning", "LiftRolloutHold", PEER, "grafana", "role"),
    ]
    assert counted == ["expired", "unknown", "role"]
    assert not any(token in repr(log.events) for token in TOKENS.values())


def test_what_is_refused_within_the_call_is_told_too_and_other_errors_are_not() -> None:
    log = EventLog()
    access = admission(log=log)
    with pytest.raises(NotPermitted), access.call("ReportVerdict", presented("ci")) as admitted:
        admitted.authorised(pb.ReportVerdictRequest(gate="latency"))
    with pytest.raises(StaleAttempt), access.call("ReportVerdict", presented("ci")):
        raise StaleAttempt("attempt 1 is stale")
    assert [(one["cause"], one["caller"]) for one in log.events] == [("gate", "ci")]


def test_who_tries_again_and_again_is_told_of_now_and_then_and_counted_always() -> None:
    log, time, counted = EventLog(), Time(), list[str]()
    access = admission(log=log, on_refused=counted.append, monotonic=time)

    def refuse(peer: str = PEER) -> None:
        with pytest.raises(Unauthenticated), access.call("GetInstance", presented("stranger", peer)):
            raise AssertionError("it was let in")

    for _ in range(5):
        refuse("ipv4:10.0.0.7:1")
        refuse("ipv4:10.0.0.7:2")
        time.seconds += QUIET_SECONDS / 4
    assert [one["peer"] for one in log.events] == ["ipv4:10.0.0.7:1", "ipv4:10.0.0.7:1"]
    refuse("ipv4:10.0.0.8:1")
    assert len(log.events) == 3, "another machine is another story"
    assert len(counted) == 11


def test_what_is_remembered_of_refusals_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("greenroom.access.admission.MAX_KINDS", 10)
    access = admission()
    for number in range(20):
        with pytest.raises(Unauthenticated), access.call("GetInstance", presented("stranger", f"host{number}:1")):
            raise AssertionError("it was let in")
    assert len(access._last_logged) == 10


def snapshot(model: str) -> Snapshot:
    return Snapshot(ONE, 5, held_record(ONE, model=model), 4, {}, {}, frozenset(), (), 0)


def planned(about: Snapshot) -> Plan:
    def plan(_: Snapshot, __: object) -> Plan:
        assert about.record is not None
        return Unchanged(about.record)

    return limited(plan)(about, now())


@pytest.mark.parametrize(
    ("name", "model", "refused"),
    [("tiny-ci", "tiny", False), ("tiny-ci", "large", True), ("ci", "large", False), ("ann", "large", False)],
)
def test_a_plan_is_made_only_of_what_is_the_acting_callers_business(name: str, model: str, refused: bool) -> None:
    def act() -> Plan:
        with admission().call("ReportVerdict", presented(name)):
            return planned(snapshot(model))

    if refused:
        with pytest.raises(NotPermitted, match=r"tiny-ci may not report on 1a2b .*: only on namespace=dynamo,model="):
            act()
        return
    assert isinstance(act(), Unchanged)


def test_an_instance_that_is_not_there_is_left_to_the_planner() -> None:
    """It says so to everybody alike."""
    gone = Snapshot(ONE, 5, None, 0, {}, {}, frozenset(), (), 0)

    def plan(_: Snapshot, __: object) -> Plan:
        raise GreenroomError("no instance")

    with pytest.raises(GreenroomError, match="no instance"), admission().call("ReportVerdict", presented("tiny-ci")):
        limited(plan)(gone, now())


def test_the_acting_caller_has_a_name_for_the_log() -> None:
    assert acting_name() == ""
    with admission().call("LiftRolloutHold", presented("ann")):
        assert acting_name() == "ann"
    with open_admission().call("LiftRolloutHold", presented("ann")):
        assert acting_name() == ""


def test_the_acting_caller_is_the_calls_own_and_gone_with_it() -> None:
    def limits(name: str) -> Callable[[], object]:
        with admission().call("ReportVerdict", presented(name)):
            pass
        return lambda: planned(snapshot("large"))

    assert isinstance(limits("tiny-ci")(), Unchanged)
