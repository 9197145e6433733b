"""The control API over HTTP/JSON: each method of it under the route that its proto gives it.

The rule: nothing is decided here. A request becomes the same message that gRPC would bring, the same function answers
it, and whatever happens becomes the same google.rpc.Status, as JSON with HTTP's code for it. Nothing of a request but
its route is read before its caller is let in.

A stream is a line of JSON for each message, `{"result": …}`, and where it breaks off a last one, `{"error": …}`.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import status_pb2  # type: ignore[import-untyped]  # the package has no types
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from greenroom.access.admission import Admission, Admitted
from greenroom.access.known import Presented
from greenroom.access.roles import OPENAPI
from greenroom.control.json_requests import MAX_BODY_BYTES, message_of
from greenroom.control.methods import SERVICE, Method, StreamMethod, stream_methods, unary_methods
from greenroom.control.openapi import description
from greenroom.control.presented import presented_in
from greenroom.control.routes import Found, find, routes_of
from greenroom.control.service import ControlService
from greenroom.control.status import grpc_code, internal_error, status_of
from greenroom.errors import AccessRefused, GreenroomError, InvalidRequest

LINES = "application/x-ndjson"
HTTP_CODES: Mapping[grpc.StatusCode, int] = {
    grpc.StatusCode.OK: 200,
    grpc.StatusCode.CANCELLED: 499,
    grpc.StatusCode.UNKNOWN: 500,
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.ABORTED: 409,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.INTERNAL: 500,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DATA_LOSS: 500,
}
"""As google.rpc.Code gives them."""
BY_TOKEN: Mapping[str, str] = {"www-authenticate": "Bearer"}
"""What whoever is not known is told that there is."""


class Gateway:
    """Answers whatever is under /v1."""

    def __init__(self, service: ControlService, admission: Admission, *, version: str, log: Any) -> None:
        self._admission, self._log = admission, log
        self._routes = routes_of(SERVICE)
        self._unary: Mapping[str, Method] = {name: method for name, method, _ in unary_methods(service)}
        self._streams: Mapping[str, StreamMethod] = {name: method for name, method, _ in stream_methods(service)}
        self._description = description(self._routes, version)

    async def openapi(self, request: Request) -> Response:
        """What there is, for programs that write clients."""
        try:
            with self._admission.call(OPENAPI, presented_in(request)):
                return JSONResponse(self._description)
        except AccessRefused as refused:
            return failure(status_of(refused))

    async def answer(self, request: Request) -> Response:
        """One request of any route."""
        found = find(self._routes, request.method, request.url.path)
        if not isinstance(found, Found):
            return _nowhere(request, found)
        name, presented = found.route.method.name, presented_in(request)
        try:
            with self._admission.call(name, presented) as admitted:
                message = admitted.authorised(await _message(found, request))
                if found.route.is_stream:
                    return await self._stream(name, message, admitted, presented)
                return _json(await self._unary[name](message))
        except Exception as error:
            return failure(self._status(error, name))

    async def _stream(self, name: str, message: Message, admitted: Admitted, presented: Presented) -> Response:
        """The first answer is waited for: a stream that is refused has no lines, but an error's code."""
        answers = self._streams[name](message)
        try:
            first = await anext(answers, None)
        except BaseException:
            await answers.aclose()
            raise
        checked = self._checked(answers, name, admitted, presented)
        return StreamingResponse(self._lines(first, checked, name), media_type=LINES)

    async def _checked(
        self, answers: AsyncGenerator[Message, None], name: str, admitted: Admitted, presented: Presented
    ) -> AsyncGenerator[Message, None]:
        """As long as the caller would still be let in."""
        with self._admission.telling(name, presented):
            async with aclosing(answers):
                async for answer in answers:
                    admitted.check_again()
                    yield answer

    async def _lines(
        self, first: Message | None, answers: AsyncGenerator[Message, None], name: str
    ) -> AsyncIterator[bytes]:
        async with aclosing(answers):
            if first is not None:
                yield _line("result", _dict(first))
            try:
                async for answer in answers:
                    yield _line("result", _dict(answer))
            except Exception as error:
                yield _line("error", _error(self._status(error, name)))

    def _status(self, error: Exception, name: str) -> status_pb2.Status:
        if isinstance(error, GreenroomError | grpc.aio.AioRpcError):
            return status_of(error)
        self._log.exception("control.failed", method=name, exc_info=error)
        return internal_error()


async def _message(found: Found, request: Request) -> Message:
    empty = GetMessageClass(found.route.method.input_type)()
    query = request.query_params.multi_items()
    return message_of(found, empty, query, await _body(request), request.headers.get("content-type", ""))


async def _body(request: Request) -> bytes:
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                raise InvalidRequest(f"the body is larger than {MAX_BODY_BYTES} bytes")
    except ClientDisconnect:
        # Nobody is left to read it, and nothing of ours went wrong.
        raise InvalidRequest("the connection ended before the body did") from None
    return bytes(body)


def _nowhere(request: Request, verbs: frozenset[str]) -> Response:
    if verbs:
        words = f"{request.url.path} takes {', '.join(sorted(verbs))}, not {request.method}"
        return failure(_plain(grpc.StatusCode.UNIMPLEMENTED, words), 405, {"allow": ", ".join(sorted(verbs))})
    words = f"there is nothing at {request.url.path}; /v1/openapi.json says what there is"
    return failure(_plain(grpc.StatusCode.NOT_FOUND, words))


def _plain(code: grpc.StatusCode, words: str) -> status_pb2.Status:
    return status_pb2.Status(code=code.value[0], message=words)


def failure(status: status_pb2.Status, code: int = 0, headers: Mapping[str, str] | None = None) -> Response:
    """The answer that tells of an error, by default with HTTP's code for it."""
    code = code or HTTP_CODES[grpc_code(status)]
    headers = BY_TOKEN if code == HTTP_CODES[grpc.StatusCode.UNAUTHENTICATED] else headers
    return JSONResponse({"error": {**_error(status), "code": code}}, status_code=code, headers=headers)


def _error(status: status_pb2.Status) -> dict[str, Any]:
    """A Status as the APIs that use it give it in JSON."""
    code = grpc_code(status)
    return {
        "code": HTTP_CODES[code],
        "status": code.name,
        "message": status.message,
        "details": [json_format.MessageToDict(detail) for detail in status.details],
    }


def _json(message: Message) -> Response:
    return JSONResponse(_dict(message))


def _dict(message: Message) -> dict[str, Any]:
    """Everything that has a value or a default: whoever reads it by eye sees what there could be."""
    return json_format.MessageToDict(message, always_print_fields_with_no_presence=True)


def _line(kind: str, said: dict[str, Any]) -> bytes:
    return json.dumps({kind: said}, separators=(",", ":")).encode() + b"\n"
