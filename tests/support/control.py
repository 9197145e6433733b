"""A thin client of the control API on its own generated messages, beside the product's own.

The rule: it adds nothing but the lookup of the attempt that is open. Errors come out as grpc.RpcError.
"""

from typing import Any, Self

import grpc
from google.rpc import error_details_pb2  # type: ignore[import-untyped]  # the package has no types
from grpc_status import rpc_status

from greenroom.pb.control.v1 import control_pb2, control_pb2_grpc
from tests.support.client import channel
from tests.support.greenroom import GATES

CALL_SECONDS = 20


class Control:
    """One connection to a proxy's control port."""

    def __init__(self, address: str, credentials: grpc.ChannelCredentials | None = None) -> None:
        self.channel = channel(address, credentials)
        # Whoever shows a certificate is known by it, and may say no other name.
        self.reporter = "" if credentials else "tests"
        self.stub = control_pb2_grpc.ControlStub(self.channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()

    def instances(self, **filters: Any) -> list[control_pb2.Instance]:
        """One page, from the proxy's own view of etcd: it may be a moment behind."""
        request = control_pb2.ListInstancesRequest(**filters)
        return list(self.stub.ListInstances(request, timeout=CALL_SECONDS).instances)

    def instance(self, instance: str) -> control_pb2.Instance:
        request = control_pb2.GetInstanceRequest(name=f"instances/{instance}")
        return self.stub.GetInstance(request, timeout=CALL_SECONDS)

    def state(self, instance: str) -> str:
        """HELD, RELEASED, REJECTED or WITHDRAWN."""
        name = control_pb2.InstanceState.Name(self.instance(instance).state)
        return name.removeprefix("INSTANCE_STATE_")

    def attempt(self, instance: str, gate: str) -> int:
        """The attempt that is open."""
        return next(status.attempt for status in self.instance(instance).gates if status.gate == gate)

    def verdict(self, instance: str, gate: str, outcome: str, attempt: int | None = None) -> str:
        """Reports `passed`, `failed`, `inconclusive` or `error`, on the current attempt unless told; the decision."""
        named = self.attempt(instance, gate) if attempt is None else attempt
        return decision(self.verdict_under_way(instance, gate, outcome, named, CALL_SECONDS))

    def verdict_under_way(
        self, instance: str, gate: str, outcome: str, attempt: int, timeout_seconds: float
    ) -> "grpc.Future[control_pb2.ReportVerdictResponse]":
        """The same without waiting for the answer."""
        request = control_pb2.ReportVerdictRequest(
            name=f"instances/{instance}",
            gate=gate,
            attempt=attempt,
            outcome=control_pb2.Outcome.Value(f"OUTCOME_{outcome.upper()}"),
            reason=f"the test says {outcome}",
            reporter=self.reporter,
        )
        return self.stub.ReportVerdict.future(request, timeout=timeout_seconds)

    def pass_gates(self, instance: str, gates: tuple[str, ...] = GATES) -> str:
        """Every gate passes; what the last verdict led to."""
        return [self.verdict(instance, gate, "passed") for gate in gates][-1]

    def decide(self, rpc: str, instance: str, **fields: Any) -> Any:
        """A person's decision by the name of its rpc, such as `RejectInstance`; the answer."""
        request_type = getattr(control_pb2, f"{rpc}Request")
        said = {"name": f"instances/{instance}", "reason": "the test says so", "actor": "tests", **fields}
        return getattr(self.stub, rpc)(request_type(**said), timeout=CALL_SECONDS)

    def open_preview(self, instance: str = "", **fields: Any) -> control_pb2.Preview:
        """A preview of one instance, or of what the fields say; for an hour unless they say."""
        name = f"instances/{instance}" if instance else ""
        asked = control_pb2.Preview(instance=name, actor=self.reporter, **fields)
        return self.stub.OpenPreview(control_pb2.OpenPreviewRequest(preview=asked), timeout=CALL_SECONDS)

    def previews(self) -> list[control_pb2.Preview]:
        return list(self.stub.ListPreviews(control_pb2.ListPreviewsRequest(), timeout=CALL_SECONDS).previews)

    def close_preview(self, name: str) -> control_pb2.Preview:
        request = control_pb2.ClosePreviewRequest(name=name)
        return self.stub.ClosePreview(request, timeout=CALL_SECONDS).preview

    def hold_rollout(self, hold_id: str) -> None:
        hold = control_pb2.RolloutHold(reason="the test says so", actor="tests")
        request = control_pb2.CreateRolloutHoldRequest(rollout_hold=hold, rollout_hold_id=hold_id)
        self.stub.CreateRolloutHold(request, timeout=CALL_SECONDS)

    def lift_rollout(self, hold_id: str) -> None:
        request = control_pb2.LiftRolloutHoldRequest(name=f"rolloutHolds/{hold_id}")
        self.stub.LiftRolloutHold(request, timeout=CALL_SECONDS)


def decision(call: "grpc.Future[control_pb2.ReportVerdictResponse]") -> str:
    """What a verdict led to, once it is answered; grpc.RpcError where it is refused."""
    return control_pb2.Decision.Name(call.result().decision).removeprefix("DECISION_")


def error_reason(error: grpc.RpcError) -> str:
    """The reason of the one ErrorInfo in an error of the control API."""
    assert isinstance(error, grpc.Call), f"not the error of a call: {error!r}"
    status = rpc_status.from_call(error)
    assert status is not None, f"an error without details: {error}"
    (detail,) = status.details
    info = error_details_pb2.ErrorInfo()
    assert detail.Unpack(info), f"not an ErrorInfo: {detail}"
    return str(info.reason)
