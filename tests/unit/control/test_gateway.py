"""The control API over HTTP, without a port. What it does to etcd is shown in tests/integration."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import grpc
import httpx
import pytest

from greenroom.control.gateway import HTTP_CODES, Gateway
from greenroom.control.health import Health
from greenroom.control.http import Readiness, api_routes, http_app
from greenroom.control.metrics import Metrics
from greenroom.control.service import ControlService
from greenroom.errors import HistoryGone
from greenroom.pb.control.v1 import control_pb2 as pb
from greenroom.store.follower import Follower
from tests.support.control_side import EventLog, MovableClock
from tests.support.mirroring import ONE, TWO, fed_follower, held, unconnected
from tests.support.policies import policy_in_force
from tests.unit.control.test_service import service_of


class Broken(ControlService):
    """A service with bugs."""

    def __init__(self) -> None:
        self.decisions = service_of(fed_follower()).decisions

    async def list_instances(self, request: pb.ListInstancesRequest) -> pb.ListInstancesResponse:
        raise ZeroDivisionError("secret")

    async def watch_instances(
        self, request: pb.WatchInstancesRequest
    ) -> AsyncGenerator[pb.WatchInstancesResponse, None]:
        yield pb.WatchInstancesResponse(resume_token="t")
        raise HistoryGone("start anew")


async def call(
    verb: str, path: str, *, service: ControlService | None = None, log: EventLog | None = None, **more: Any
) -> httpx.Response:
    follower: Follower = fed_follower([*held(ONE), *held(TWO)])
    gateway = Gateway(service or service_of(follower), version="1", log=log or EventLog())
    metrics = Metrics(follower.mirror, clock=MovableClock(), gates=(), methods=(), version="1")
    upstream = unconnected()
    app = http_app(
        Readiness((), upstream, policy_in_force(upstream, log=EventLog())),
        metrics,
        api_routes(gateway, Health(follower)),
    )
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://here") as client:
        return await client.request(verb, path, **more)


async def test_an_answer_is_the_message_as_json() -> None:
    answer = await call("GET", "/v1/instances?pageSize=1")
    assert answer.status_code == 200
    assert [one["id"] for one in answer.json()["instances"]] == [ONE]
    assert answer.json()["nextPageToken"]


async def test_an_error_has_its_code_its_reason_and_what_to_do() -> None:
    answer = await call("POST", "/v1/instances/ABC1:reportVerdict", json={"gate": "smoke"})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["status"]) == (400, 400, "INVALID_ARGUMENT")
    assert "'instances/ABC1' names no instance" in error["message"]
    [detail] = error["details"]
    assert (detail["@type"], detail["reason"]) == ("type.googleapis.com/google.rpc.ErrorInfo", "INVALID_REQUEST")


async def test_there_is_nothing_elsewhere() -> None:
    answer = await call("GET", "/v1/nonsense")
    assert (answer.status_code, answer.json()["error"]["status"]) == (404, "NOT_FOUND")
    assert "/v1/openapi.json says what there is" in answer.json()["error"]["message"]


async def test_another_verb_is_told_which_there_are() -> None:
    answer = await call("DELETE", "/v1/rolloutHolds")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")


async def test_a_body_without_end_is_not_read_to_its_end() -> None:
    answer = await call("POST", "/v1/instances/abc1:reportVerdict", content=b" " * 70_000)
    assert answer.status_code == 400
    assert "larger than 65536 bytes" in answer.json()["error"]["message"]


async def test_a_bug_is_told_in_the_log_alone() -> None:
    log = EventLog()
    answer = await call("GET", "/v1/instances", service=Broken(), log=log)
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert [line["method"] for line in log.named("control.failed")] == ["ListInstances"]


async def test_a_stream_is_lines_and_its_error_the_last() -> None:
    answer = await call("GET", "/v1/instances:watch", service=Broken())
    assert answer.headers["content-type"] == "application/x-ndjson"
    first, last = map(json.loads, answer.text.splitlines())
    assert first["result"]["resumeToken"] == "t"
    assert last["error"]["status"] == "OUT_OF_RANGE"


async def test_a_stream_that_is_refused_has_the_errors_code() -> None:
    answer = await call("GET", "/v1/instances:watch?resumeToken=nonsense")
    assert (answer.status_code, answer.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")


async def test_the_description_is_served() -> None:
    assert (await call("GET", "/v1/openapi.json")).json()["openapi"] == "3.1.0"


@pytest.mark.parametrize("code", grpc.StatusCode)
def test_every_code_has_one_of_https(code: grpc.StatusCode) -> None:
    assert HTTP_CODES[code] >= 200
