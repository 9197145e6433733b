"""Checks for gates of the kind `url`: `POST /validate/<name>` runs a command here, in an image that has what it needs.

200 says that the command ended with 0; anything else is 500 with the end of its standard error, and its exit code in a
header. Whoever hangs up ends the command with all that it started.

The rule: who posts chooses a name and says about which instance, and nothing else: the commands are the operator's, and
of the posted environment only `Variable`s are taken.
"""

import asyncio
import json
import os
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from time import monotonic
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from greenroom.gates.environment import Variable
from greenroom.gates.guarded import INCONCLUSIVE, Ended, guarded

MAX_BODY_BYTES: Final = 64 << 10
"""An environment is some hundred bytes; a reason to read more is nobody's."""
CODE_HEADER: Final = "x-greenroom-exit-code"
JSON: Final = "application/json"
_TOKENS: Final = ("GREENROOM_TOKEN", "GREENROOM_TOKEN_FILE")


class _Refused(Exception):
    def __init__(self, status: HTTPStatus, words: str) -> None:
        super().__init__(words)
        self.status = status


@dataclass(slots=True)
class CheckServer:
    """The checks by their names. At most `concurrency` run at once, each for `timeout_seconds` at most.

    What they print goes to the descriptor `output`.
    """

    checks: Mapping[str, Sequence[str]]
    concurrency: int
    timeout_seconds: float
    log: Any
    output: int = asyncio.subprocess.DEVNULL
    _running: int = field(default=0, init=False)

    def app(self) -> Starlette:
        """What is served."""
        return Starlette(routes=[Route("/validate/{name}", self._validate, methods=["POST"])])

    async def _validate(self, request: Request) -> Response:
        try:
            command, environment = self._command(request), await _environment(request)
            return await self._answered(request, command, environment)
        except _Refused as refused:
            return PlainTextResponse(f"{refused}\n", refused.status)
        except ClientDisconnect:
            return Response()  # Nobody reads it.

    def _command(self, request: Request) -> Sequence[str]:
        name = request.path_params["name"]
        if name not in self.checks:
            raise _Refused(HTTPStatus.NOT_FOUND, f"no check {name!r} here; there are: {', '.join(self.checks)}")
        return self.checks[name]

    async def _answered(self, request: Request, command: Sequence[str], environment: Mapping[str, str]) -> Response:
        if self._running >= self.concurrency:
            words = f"as many checks as may run at once ({self.concurrency}) run already: try again"
            raise _Refused(HTTPStatus.SERVICE_UNAVAILABLE, words)
        name, begun = request.path_params["name"], monotonic()
        self._running += 1
        try:
            ended = await _unless_hung_up(request, self._run(command, environment))
        finally:
            self._running -= 1
        told = {
            "check": name,
            "instance": environment.get(Variable.INSTANCE, ""),
            "seconds": round(monotonic() - begun, 3),
        }
        if ended is None:
            self.log.info("check.given.up", **told)
            return Response()
        self.log.info("check.ended", code=ended.code, **told)
        return _response(ended)

    async def _run(self, command: Sequence[str], environment: Mapping[str, str]) -> Ended:
        async with guarded(command, _all_of(os.environ, environment), stdout=self.output) as run:
            try:
                async with asyncio.timeout(self.timeout_seconds):
                    return await run.ended()
            except TimeoutError:
                words = f"not over after {self.timeout_seconds:g} s, the longest that a check may take here"
                return Ended(INCONCLUSIVE, f"{run.stderr}\n{words}".strip())


def _all_of(ours: Mapping[str, str], posted: Mapping[str, str]) -> dict[str, str]:
    """A command's whole environment. Where we have a token, whoever posts does not choose whom it is shown to."""
    taken = dict(posted)
    if any(name in ours for name in _TOKENS):
        taken.pop(Variable.CONTROL, None)
    return {**ours, **taken}


async def _unless_hung_up(request: Request, work: Coroutine[None, None, Ended]) -> Ended | None:
    """The work's result; None, and the work cancelled, where the caller has gone before."""
    async with asyncio.TaskGroup() as group:
        working, watching = group.create_task(work), group.create_task(_hung_up(request))
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        working.cancel()
        watching.cancel()
    return None if working.cancelled() else working.result()


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _response(ended: Ended) -> Response:
    headers = {CODE_HEADER: f"{ended.code}"}
    if ended.code == 0:
        return PlainTextResponse("passed\n", headers=headers)
    words = ended.stderr or f"it ended with {ended.code}, and said nothing on standard error"
    return PlainTextResponse(f"{words}\n", HTTPStatus.INTERNAL_SERVER_ERROR, headers)


async def _environment(request: Request) -> dict[str, str]:
    """What was posted; _Refused where it is anything but an object of known names and text."""
    # A page in somebody's browser may post anything anywhere, but this type only where it is allowed to.
    if request.headers.get("content-type", "").partition(";")[0].strip() != JSON:
        raise _Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"post the gate's environment as {JSON}")
    try:
        said = json.loads(await _body(request))
    except (ValueError, RecursionError) as error:
        raise _Refused(HTTPStatus.BAD_REQUEST, f"the body is no JSON: {error}") from error
    if not isinstance(said, dict):
        raise _Refused(HTTPStatus.BAD_REQUEST, "the body is no JSON object")
    return {_known(name): _text(name, value) for name, value in said.items()}


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            words = f"the body is larger than {MAX_BODY_BYTES} bytes"
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, words)
    return bytes(body)


def _known(name: str) -> str:
    if name not in list(Variable):
        raise _Refused(HTTPStatus.BAD_REQUEST, f"{name[:64]!r} is none of {', '.join(Variable)}")
    return name


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise _Refused(HTTPStatus.BAD_REQUEST, f"{name} is no text that a variable can have")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _Refused(HTTPStatus.BAD_REQUEST, f"{name} is no text that a variable can have") from error
    return value
