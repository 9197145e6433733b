"""A call's outermost frame: whatever happens, one answer or one clear Status."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import grpc
import pytest
from google.rpc import status_pb2

from greenroom.access.admission import Admission
from greenroom.control.methods import STATUS_KEY, _Handler, _StreamHandler, stream_methods, unary_methods
from greenroom.control.requests import RequestParser
from greenroom.errors import NotReady, UnknownInstance
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.callers import TOKENS, Known, access_text, admission, bearer, known_callers, open_admission
from tests.support.control_side import EventLog, MovableClock
from tests.support.mirroring import fed_follower
from tests.unit.control.test_service import service_of


class AbortedError(Exception):
    pass


class Context:
    """Keeps what a call was ended with."""

    def __init__(self, authorization: str | None = None) -> None:
        self._authorization = authorization
        self.code: grpc.StatusCode | None = None
        self.status = status_pb2.Status()
        self.written: list[bytes] = []
        self.fails: BaseException | None = None

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return () if self._authorization is None else (("authorization", self._authorization),)

    def auth_context(self) -> dict[str, list[bytes]]:
        return {}

    def peer(self) -> str:
        return "ipv4:127.0.0.1:5"

    async def write(self, message: bytes) -> None:
        if self.fails is not None:
            raise self.fails
        self.written.append(message)

    async def abort(self, code: grpc.StatusCode, details: str, trailing_metadata: Any) -> None:
        self.code = code
        [(key, value)] = trailing_metadata
        assert key == STATUS_KEY
        self.status.ParseFromString(value)
        assert self.status.message == details
        raise AbortedError


def handler(answer: pb.Instance | Exception, log: EventLog | None = None, access: Admission | None = None) -> _Handler:
    async def method(request: pb.GetInstanceRequest) -> pb.Instance:
        if isinstance(answer, Exception):
            raise answer
        return pb.Instance(name=request.name)

    parse = RequestParser(pb.GetInstanceRequest)
    return _Handler("GetInstance", method, parse, log or EventLog(), access or open_admission())


async def test_an_answer_comes_as_bytes() -> None:
    data = pb.GetInstanceRequest(name="instances/a").SerializeToString()
    answer = await handler(pb.Instance()).answer(data, Context())  # type: ignore[arg-type]
    assert pb.Instance.FromString(answer).name == "instances/a"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnknownInstance("gone"), grpc.StatusCode.NOT_FOUND),
        (grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE), grpc.StatusCode.UNAVAILABLE),
        (RuntimeError("a secret"), grpc.StatusCode.INTERNAL),
    ],
)
async def test_every_error_ends_as_a_status(error: Exception, code: grpc.StatusCode) -> None:
    context, log = Context(), EventLog()
    with pytest.raises(AbortedError):
        await handler(error, log).answer(b"", context)  # type: ignore[arg-type]
    assert context.code is code
    assert len(context.status.details) == 1
    assert "a secret" not in context.status.message
    assert [event["event"] for event in log.events] == (["control.failed"] if code is grpc.StatusCode.INTERNAL else [])


async def test_bytes_that_are_no_request_end_as_one_too() -> None:
    context = Context()
    with pytest.raises(AbortedError):
        await handler(pb.Instance()).answer(b"\xff", context)  # type: ignore[arg-type]
    assert context.code is grpc.StatusCode.INVALID_ARGUMENT


async def test_each_method_of_the_proto_is_there() -> None:
    service = service_of(fed_follower([]))
    declared = {method.name: method for method in pb.DESCRIPTOR.services_by_name["Control"].methods}
    assert {name for name, _, _ in (*unary_methods(service), *stream_methods(service))} == set(declared)
    for methods, is_stream in ((unary_methods(service), False), (stream_methods(service), True)):
        for name, _, request_type in methods:
            assert request_type.DESCRIPTOR is declared[name].input_type
            assert declared[name].server_streaming is is_stream


def streaming(
    *answers: pb.WatchInstancesResponse | Exception,
    closed: list[str] | None = None,
    access: Admission | None = None,
) -> _StreamHandler:
    async def method(_: pb.WatchInstancesRequest) -> AsyncGenerator[pb.WatchInstancesResponse, None]:
        try:
            for answer in answers:
                if isinstance(answer, Exception):
                    raise answer
                yield answer
        finally:
            (closed if closed is not None else []).append("closed")

    parse = RequestParser(pb.WatchInstancesRequest)
    return _StreamHandler("WatchInstances", method, parse, EventLog(), access or open_admission())


async def test_a_stream_is_written_until_its_error_which_ends_it_as_a_status() -> None:
    context = Context()
    told = pb.WatchInstancesResponse(resume_token="x")
    with pytest.raises(AbortedError):
        await streaming(told, told, NotReady("gone")).answer(b"", context)  # type: ignore[arg-type]
    assert context.written == [told.SerializeToString()] * 2
    assert context.code is grpc.StatusCode.UNAVAILABLE


async def test_a_reader_that_goes_away_ends_the_method_too() -> None:
    context, closed = Context(), list[str]()
    context.fails = asyncio.CancelledError()
    handler = streaming(pb.WatchInstancesResponse(), closed=closed)
    with pytest.raises(asyncio.CancelledError):
        await handler.answer(b"", context)  # type: ignore[arg-type]
    assert closed == ["closed"]


async def test_bytes_that_are_no_request_begin_no_stream() -> None:
    context = Context()
    with pytest.raises(AbortedError):
        await streaming().answer(b"\xff", context)  # type: ignore[arg-type]
    assert context.code is grpc.StatusCode.INVALID_ARGUMENT


async def test_nothing_of_a_strangers_request_is_read() -> None:
    """What is no request at all is refused as any other call of somebody who is not known: he learns nothing."""
    for authorization in (None, "Bearer x", f"Basic {TOKENS['ann']}", bearer("late"), bearer("stranger")):
        context = Context(authorization)
        with pytest.raises(AbortedError):
            await handler(pb.Instance(), access=admission()).answer(b"\xff", context)  # type: ignore[arg-type]
        assert context.code is grpc.StatusCode.UNAUTHENTICATED
    context = Context(bearer("grafana"))
    data = pb.GetInstanceRequest(name="instances/a").SerializeToString()
    answer = await handler(pb.Instance(), access=admission()).answer(data, context)  # type: ignore[arg-type]
    assert pb.Instance.FromString(answer).name == "instances/a"


async def test_a_stream_ends_when_its_caller_is_no_longer_known() -> None:
    """Streams last for weeks: a token that leaked and was revoked would else be of use as long as one is open."""
    known = Known(known_callers())

    class Revoking(Context):
        async def write(self, message: bytes) -> None:
            await super().write(message)
            known.known = known_callers(access_text("grafana"))

    context = Revoking(bearer("grafana"))
    told = pb.WatchInstancesResponse(resume_token="x")
    access = Admission(known, clock=MovableClock(), log=EventLog())
    with pytest.raises(AbortedError):
        await streaming(told, told, access=access).answer(b"", context)  # type: ignore[arg-type]
    assert context.written == [told.SerializeToString()]
    assert context.code is grpc.StatusCode.UNAUTHENTICATED
