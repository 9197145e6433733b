"""What browsers must not do here, and what everybody else still may."""

import socket

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from greenroom.control.browsers import guarded, is_own_name

METHODS = ["GET", "POST", "DELETE"]


async def done(_: Request) -> PlainTextResponse:
    return PlainTextResponse("done")


APP = Starlette(routes=[Route("/", done, methods=METHODS)])


async def asked(method: str = "GET", *, own_names_only: bool = True, **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(app=guarded(APP, own_names_only=own_names_only))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:2391") as client:
        return await client.request(method, "/", headers=headers)


@pytest.mark.parametrize(
    "name", ["evil.example", "evil.example:2391", "localhost.evil.example", "127.0.0.1.evil", "[::"]
)
async def test_a_name_that_a_stranger_can_point_here_is_refused(name: str) -> None:
    """DNS rebinding: a page's own name is made to lead to this machine once the page is there."""
    answer = await asked(host=name)
    assert answer.status_code == 421
    said = answer.json()["error"]
    assert (said["code"], said["status"]) == (421, "FAILED_PRECONDITION")
    assert "localhost" in said["message"]
    assert "--access" in said["message"]


@pytest.mark.parametrize(
    "name",
    ["localhost", "LocalHost:2391", "localhost.", "127.0.0.1:2391", "10.1.2.3", "[::1]:2391", "[fd00::7]", ""],
)
async def test_addresses_and_this_machines_names_are_not_a_strangers(name: str) -> None:
    assert (await asked(host=name)).status_code == 200


def test_this_machine_goes_by_its_own_name() -> None:
    assert is_own_name(f"{socket.gethostname()}:2391")
    assert is_own_name(socket.gethostname().upper())
    assert not is_own_name(f"{socket.gethostname()}.example")


async def test_a_port_that_others_reach_goes_by_any_name() -> None:
    assert (await asked(own_names_only=False, host="greenroom.fleet.svc:2391")).status_code == 200


@pytest.mark.parametrize("method", METHODS[1:])
@pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1:9", "null"])
async def test_a_page_of_another_origin_changes_nothing(method: str, origin: str) -> None:
    answer = await asked(method, own_names_only=False, origin=origin)
    assert (answer.status_code, answer.json()["error"]["status"]) == (403, "PERMISSION_DENIED")
    assert origin in answer.json()["error"]["message"]


async def test_who_is_of_this_origin_or_has_a_token_may() -> None:
    assert (await asked("POST", origin="http://127.0.0.1:2391")).status_code == 200
    assert (await asked("POST", origin="https://console.example", authorization="Bearer x")).status_code == 200
    assert (await asked("POST")).status_code == 200
    assert (await asked("GET", origin="https://evil.example")).status_code == 200
