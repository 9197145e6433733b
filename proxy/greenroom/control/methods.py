"""The control API's methods on the wire: bytes to request, and whatever happens to an answer or one clear Status.

The rule: this is the outermost frame of a call. A mistake of the caller's, an error of etcd's and a bug of ours all
end here as a Status with one ErrorInfo; only a bug is logged as an error. Nothing of a request is read before its
caller is let in.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, NoReturn

import grpc
from google.protobuf.message import Message

from greenroom.access.admission import Admission
from greenroom.control.presented import presented_by
from greenroom.control.requests import RequestParser
from greenroom.control.service import ControlService
from greenroom.control.status import grpc_code, internal_error, status_of
from greenroom.errors import GreenroomError
from greenroom.pb.control.v1 import control_pb2

SERVICE = control_pb2.DESCRIPTOR.services_by_name["Control"]
SERVICE_NAME = SERVICE.full_name
STATUS_KEY = "grpc-status-details-bin"

Method = Callable[[Any], Awaitable[Message]]
StreamMethod = Callable[[Any], AsyncGenerator[Message, None]]
Context = grpc.aio.ServicerContext[bytes, bytes]


def generic_handler(service: ControlService, log: Any, admission: Admission) -> grpc.GenericRpcHandler:
    """All methods, for grpc.aio's server. Requests stay bytes until they are read strictly."""
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        name: grpc.unary_unary_rpc_method_handler(
            _Handler(name, method, RequestParser(request_type), log, admission).answer
        )
        for name, method, request_type in unary_methods(service)
    }
    for name, stream_method, request_type in stream_methods(service):
        stream = _StreamHandler(name, stream_method, RequestParser(request_type), log, admission)
        handlers[name] = grpc.unary_stream_rpc_method_handler(stream.answer)
    return grpc.method_handlers_generic_handler(SERVICE_NAME, handlers)


def unary_methods(service: ControlService) -> tuple[tuple[str, Method, type[Message]], ...]:
    """Each method with one answer: its name, the function, its request."""
    return (
        ("ListInstances", service.list_instances, control_pb2.ListInstancesRequest),
        ("GetInstance", service.get_instance, control_pb2.GetInstanceRequest),
        ("ReportVerdict", service.report_verdict, control_pb2.ReportVerdictRequest),
        ("ClaimGate", service.claim_gate, control_pb2.ClaimGateRequest),
        ("RenewClaim", service.renew_claim, control_pb2.RenewClaimRequest),
        ("ReleaseClaim", service.release_claim, control_pb2.ReleaseClaimRequest),
        ("CreateRolloutHold", service.create_rollout_hold, control_pb2.CreateRolloutHoldRequest),
        ("ListRolloutHolds", service.list_rollout_holds, control_pb2.ListRolloutHoldsRequest),
        ("LiftRolloutHold", service.lift_rollout_hold, control_pb2.LiftRolloutHoldRequest),
        ("ReleaseInstance", service.decisions.release, control_pb2.ReleaseInstanceRequest),
        ("RejectInstance", service.decisions.reject, control_pb2.RejectInstanceRequest),
        ("WithdrawInstance", service.decisions.withdraw, control_pb2.WithdrawInstanceRequest),
        ("RetryGates", service.decisions.retry, control_pb2.RetryGatesRequest),
        ("DropCards", service.decisions.drop, control_pb2.DropCardsRequest),
        ("RevokeLease", service.decisions.revoke_lease, control_pb2.RevokeLeaseRequest),
        ("GetPolicy", service.get_policy, control_pb2.GetPolicyRequest),
        ("OpenPreview", service.previews.open, control_pb2.OpenPreviewRequest),
        ("ListPreviews", service.previews.list, control_pb2.ListPreviewsRequest),
        ("GetPreview", service.previews.get, control_pb2.GetPreviewRequest),
        ("ClosePreview", service.previews.close, control_pb2.ClosePreviewRequest),
    )


def stream_methods(service: ControlService) -> tuple[tuple[str, StreamMethod, type[Message]], ...]:
    """Each method whose answer is a stream."""
    return (("WatchInstances", service.watch_instances, control_pb2.WatchInstancesRequest),)


class _Handler:
    """One method."""

    def __init__(self, name: str, method: Method, parse: RequestParser, log: Any, admission: Admission) -> None:
        self._name, self._method, self._parse, self._log = name, method, parse, log
        self._admission = admission

    async def answer(self, data: bytes, context: Context) -> bytes:
        """A method by name: grpc.aio takes an object with an async call for a synchronous function."""
        try:
            with self._admission.call(self._name, presented_by(context)) as admitted:
                answer = await self._method(admitted.authorised(self._parse(data)))
            return answer.SerializeToString()
        except Exception as error:
            await _abort(context, error, self._name, self._log)


class _StreamHandler:
    """One method whose answer is a stream."""

    def __init__(self, name: str, method: StreamMethod, parse: RequestParser, log: Any, admission: Admission) -> None:
        self._name, self._method, self._parse, self._log = name, method, parse, log
        self._admission = admission

    async def answer(self, data: bytes, context: Context) -> None:
        """Writes until the caller has gone, which comes as a cancellation, or the method ends with an error.

        A stream can last for weeks: its caller is asked for again before each answer, of which there is one at least
        every half minute.
        """
        try:
            with self._admission.call(self._name, presented_by(context)) as admitted:
                async with aclosing(self._method(admitted.authorised(self._parse(data)))) as answers:
                    async for answer in answers:
                        admitted.check_again()
                        await context.write(answer.SerializeToString())
        except Exception as error:
            await _abort(context, error, self._name, self._log)


async def _abort(context: Context, error: Exception, name: str, log: Any) -> NoReturn:
    """Ends a call with the Status of its error; of a bug the log has the details."""
    if isinstance(error, GreenroomError | grpc.aio.AioRpcError):
        status = status_of(error)
    else:
        log.exception("control.failed", method=name, exc_info=error)
        status = internal_error()
    details = ((STATUS_KEY, status.SerializeToString()),)
    await context.abort(grpc_code(status), status.message, trailing_metadata=details)
