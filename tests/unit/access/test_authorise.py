"""What a caller may ask for, method by method; and whose name a request goes on with."""

import pytest

from greenroom.access.authorise import authorise, check_instance, check_operator, check_role, gates_of
from greenroom.access.callers import ANYBODY, Caller, InstanceSelector
from greenroom.access.refusals import Refusal
from greenroom.access.roles import METHODS, Role
from greenroom.core.keyspace import InstanceId
from greenroom.core.record import State
from greenroom.errors import NotPermitted
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.registering import held_record

ANN = Caller("ann", Role.OPERATOR)
CI = Caller("ci", Role.REPORTER, ("smoke", "latency-*"))
GRAFANA = Caller("grafana", Role.VIEWER)
ONE = InstanceId("1a2b")


def verdict(gate: str = "smoke", reporter: str = "") -> pb.ReportVerdictRequest:
    return pb.ReportVerdictRequest(name=f"instances/{ONE}", gate=gate, attempt=1, reporter=reporter)


def rollout_hold(actor: str = "") -> pb.CreateRolloutHoldRequest:
    return pb.CreateRolloutHoldRequest(rollout_hold=pb.RolloutHold(reason="incident", actor=actor))


@pytest.mark.parametrize("method", METHODS)
def test_a_role_may_what_its_table_says(method: str) -> None:
    for caller in (ANN, CI, GRAFANA):
        if caller.role.covers(METHODS[method]):
            check_role(caller, method)
            continue
        with pytest.raises(NotPermitted, match=f"{caller.name} is a {caller.role}: {method} needs the role") as raised:
            check_role(caller, method)
        assert (raised.value.cause, raised.value.caller) == (Refusal.ROLE, caller.name)


@pytest.mark.parametrize("caller", [ANN, ANYBODY])
def test_a_method_that_is_in_no_table_is_open_to_nobody(caller: Caller) -> None:
    with pytest.raises(NotPermitted, match="DeleteEverything is open to nobody"):
        check_role(caller, "DeleteEverything")


def test_a_reporter_keeps_to_its_gates() -> None:
    assert authorise(CI, "ReportVerdict", verdict("latency-p99")).gate == "latency-p99"
    with pytest.raises(NotPermitted) as raised:
        authorise(CI, "ReportVerdict", verdict("accuracy"))
    assert str(raised.value) == "ci may not report for the gate 'accuracy': only for smoke, latency-*"
    assert raised.value.cause == Refusal.GATE


def test_a_preview_is_about_no_gate() -> None:
    """Whoever reports for one gate alone looks at the same worker as the others."""
    asked = authorise(CI, "OpenPreview", pb.OpenPreviewRequest(preview=pb.Preview(instance=f"instances/{ONE}")))
    assert asked.preview.actor == "ci"
    assert authorise(CI, "ListPreviews", pb.ListPreviewsRequest()) == pb.ListPreviewsRequest()


def test_what_a_method_does_for_operators_only() -> None:
    for caller in (ANN, ANYBODY):
        check_operator(caller, "a preview of everything")
    with pytest.raises(NotPermitted, match="ci is a reporter: a preview of everything needs the role operator"):
        check_operator(CI, "a preview of everything")


def test_an_operator_has_every_gate() -> None:
    assert authorise(ANN, "ReportVerdict", verdict("accuracy")).reporter == "ann"


def test_the_callers_name_goes_on_in_the_request() -> None:
    asked = verdict()
    assert authorise(CI, "ReportVerdict", asked).reporter == "ci"
    assert asked.reporter == "", "what was given is left as it is"
    assert authorise(CI, "ReportVerdict", verdict(reporter="ci")).reporter == "ci"
    assert authorise(ANN, "CreateRolloutHold", rollout_hold()).rollout_hold.actor == "ann"
    assert not authorise(ANN, "CreateRolloutHold", pb.CreateRolloutHoldRequest()).HasField("rollout_hold")


@pytest.mark.parametrize(
    ("caller", "method", "request_", "field"),
    [
        (CI, "ReportVerdict", verdict(reporter="ann"), "reporter"),
        (ANN, "ReportVerdict", verdict(reporter="ci"), "reporter"),
        (ANN, "CreateRolloutHold", rollout_hold("ci"), "actor"),
    ],
)
def test_nobody_is_another(
    caller: Caller, method: str, request_: pb.ReportVerdictRequest | pb.CreateRolloutHoldRequest, field: str
) -> None:
    other = "ann" if caller == CI else "ci"
    with pytest.raises(NotPermitted) as raised:
        authorise(caller, method, request_)
    assert str(raised.value) == (
        f"{field}: says '{other}', and the call is {caller.name}'s: leave it out, or call with that one's own token or "
        "certificate"
    )


def test_without_an_access_file_a_request_goes_on_as_it_is() -> None:
    assert authorise(ANYBODY, "ReportVerdict", verdict(reporter="whoever")).reporter == "whoever"
    assert authorise(ANYBODY, "CreateRolloutHold", rollout_hold("whoever")).rollout_hold.actor == "whoever"


def test_reads_go_on_as_they_are() -> None:
    asked = pb.GetInstanceRequest(name="instances/a")
    assert authorise(GRAFANA, "GetInstance", asked) is asked


@pytest.mark.parametrize(
    ("request_", "gates"),
    [
        (verdict("smoke"), ("smoke",)),
        (pb.GetInstanceRequest(name="instances/a/gates/smoke/claim"), ("smoke",)),
        (pb.ReportVerdictRequest(name="instances/a/gates/other/claim", gate="smoke"), ("smoke", "other")),
        (pb.GetInstanceRequest(name="instances/a"), ("",)),
        (pb.GetInstanceRequest(name="instances/a/gates/"), ("",)),
    ],
)
def test_the_gate_is_the_requests_own_and_part_of_its_name(
    request_: pb.ReportVerdictRequest | pb.GetInstanceRequest, gates: tuple[str, ...]
) -> None:
    """Both, where both are there: one of them would be checked and the other one served."""
    assert gates_of(request_) == gates


def test_a_reporter_keeps_to_its_instances() -> None:
    record = held_record(ONE, model="large")
    limited = Caller("tiny-ci", Role.REPORTER, ("*",), InstanceSelector(model="tiny*"))
    with pytest.raises(NotPermitted) as raised:
        check_instance(limited, ONE, record)
    assert str(raised.value) == ("tiny-ci may not report on 1a2b (dynamo.backend.generate large): only on model=tiny*")
    check_instance(limited, ONE, held_record(ONE, model="tiny"))
    for caller in (CI, ANN, ANYBODY):
        check_instance(caller, ONE, record)


def test_an_instance_stays_a_reporters_when_it_registers_another_model_later() -> None:
    """What is public has to go on passing, and its reporter has to be able to say that it does."""
    released = held_record(ONE, model="tiny").model_copy(update={"state": State.RELEASED})
    later = held_record(ONE, model="large").cards[0].model_copy(update={"key": "later", "later_gates": ("smoke",)})
    limited = Caller("tiny-ci", Role.REPORTER, ("*",), InstanceSelector(model="tiny*"))
    check_instance(limited, ONE, released.model_copy(update={"cards": (*released.cards, later)}))
