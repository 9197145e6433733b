"""Who a request to the HTTP port is from, and what is open without that."""

import asyncio

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from uvicorn.server import ServerState

from greenroom.control.certified import IdentifyingProtocol, certified, identity_in


async def who(request: Request) -> JSONResponse:
    return JSONResponse(identity_in(request.scope))


APP = Starlette(routes=[Route(path, who) for path in ("/live", "/v1/instances", "/v1/instances/{instance}/health")])


class Connected(asyncio.Transport):
    """A connection whose client showed this certificate; what is written is kept."""

    def __init__(self, certificate: object) -> None:
        super().__init__({"peercert": certificate, "peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        self.written += b""


async def asked(path: str, certificate: object, *, needs_certificate: bool) -> tuple[int, object]:
    """The answer to one request on a connection."""
    config = uvicorn.Config(certified(APP, needs_certificate=needs_certificate), lifespan="off", log_config=None)
    state, transport = ServerState(), Connected(certificate)
    protocol = IdentifyingProtocol(config, state, {})
    protocol.connection_made(transport)
    protocol.data_received(f"GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".encode())
    await asyncio.gather(*state.tasks)
    head, _, body = transport.written.partition(b"\r\n\r\n")
    status = int(head.split()[1])
    return status, httpx.Response(status, content=body).json()


CERTIFICATE = {"subjectAltName": (("DNS", "probe.fleet"),)}


@pytest.mark.parametrize("needs_certificate", [True, False])
@pytest.mark.parametrize("path", ["/live", "/v1/instances"])
async def test_whoever_shows_a_certificate_is_known_by_it(path: str, needs_certificate: bool) -> None:
    assert await asked(path, CERTIFICATE, needs_certificate=needs_certificate) == (200, "probe.fleet")


async def test_without_a_certificate_only_what_concerns_everybody_is_told() -> None:
    assert await asked("/live", {}, needs_certificate=True) == (200, None)
    assert await asked("/v1/instances/6177a228/health", {}, needs_certificate=True) == (200, None)
    status, said = await asked("/v1/instances", None, needs_certificate=True)
    assert (status, said["error"]["code"], said["error"]["status"]) == (401, 401, "UNAUTHENTICATED")
    assert "a client certificate is needed" in said["error"]["message"]
    assert await asked("/v1/instances", None, needs_certificate=False) == (200, None)


async def test_a_certificate_without_a_name_is_a_certificate() -> None:
    assert await asked("/v1/instances", {"subject": ()}, needs_certificate=True) == (200, None)
