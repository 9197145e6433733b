"""The control API over HTTP, without a port. What it does to etcd is shown in tests/integration."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import grpc
import httpx
import pytest
from starlette.requests import Request

from greenroom.access.admission import Admission
from greenroom.control.gateway import HTTP_CODES, Gateway
from greenroom.control.health import Health
from greenroom.control.http import Readiness, api_routes, http_app
from greenroom.control.metrics import Metrics
from greenroom.control.service import ControlService
from greenroom.errors import HistoryGone
from greenroom.pb.control.v1 import control_pb2 as pb
from greenroom.store.follower import Follower
from tests.support.callers import Known, access_text, admission, bearer, known_callers, open_admission
from tests.support.control_side import EventLog, MovableClock
from tests.support.mirroring import ONE, TWO, fed_follower, held, unconnected
from tests.support.policies import policy_in_force
from tests.unit.control.test_service import service_of


class Broken(ControlService):
    """A service with bugs."""

    def __init__(self) -> None:
        whole = service_of(fed_follower())
        self.decisions, self.previews = whole.decisions, whole.previews

    async def list_instances(self, request: pb.ListInstancesRequest) -> pb.ListInstancesResponse:
        raise ZeroDivisionError("secret")

    async def watch_instances(
        self, request: pb.WatchInstancesRequest
    ) -> AsyncGenerator[pb.WatchInstancesResponse, None]:
        yield pb.WatchInstancesResponse(resume_token="t")
        raise HistoryGone("start anew")


async def call(
    verb: str,
    path: str,
    *,
    service: ControlService | None = None,
    log: EventLog | None = None,
    access: Admission | None = None,
    **more: Any,
) -> httpx.Response:
    follower: Follower = fed_follower([*held(ONE), *held(TWO)])
    access = access or open_admission()
    gateway = Gateway(service or service_of(follower), access, version="1", log=log or EventLog())
    metrics = Metrics(follower.mirror, clock=MovableClock(), gates=(), methods=(), version="1")
    upstream = unconnected()
    readiness = Readiness((), upstream, policy_in_force(upstream, log=EventLog()))
    app = http_app(readiness, metrics, access, api_routes(gateway, Health(follower, clock=MovableClock()), access))
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
    answer = await call("POST", "/v1/instances/abc1:reportVerdict", content=b" " * 270_000)
    assert answer.status_code == 400
    assert "larger than 262144 bytes" in answer.json()["error"]["message"]


async def test_who_goes_away_amid_a_request_is_no_error_of_ours() -> None:
    """It was logged as one, with a traceback: whoever could connect could fill the log with calls for help."""
    log = EventLog()
    scope = {"type": "http", "method": "POST", "path": "/v1/rolloutHolds", "query_string": b"", "headers": []}

    async def gone() -> dict[str, str]:
        return {"type": "http.disconnect"}

    gateway = Gateway(service_of(fed_follower()), open_admission(), version="1", log=log)
    answer = await gateway.answer(Request(scope, gone))
    assert b"ended before the body did" in bytes(answer.body)
    assert not log.events


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


@pytest.mark.parametrize("token", [None, "stranger", "late"])
async def test_nothing_of_a_strangers_request_is_read(token: str | None) -> None:
    headers = {"authorization": bearer(token)} if token else {}
    for path in ("/v1/instances/ABC1:reportVerdict", f"/v1/instances/{ONE}:reject"):
        answer = await call("POST", path, content=b"no json", headers=headers, access=admission())
        assert (answer.status_code, answer.json()["error"]["status"]) == (401, "UNAUTHENTICATED")
        assert answer.headers["www-authenticate"] == "Bearer"
    assert (await call("GET", "/v1/openapi.json", headers=headers, access=admission())).status_code == 401


async def test_who_may_not_is_told_what_he_may() -> None:
    headers = {"authorization": bearer("ci")}
    verdict = {"gate": "latency", "attempt": 1, "outcome": "OUTCOME_PASSED"}
    path = f"/v1/instances/{ONE}:reportVerdict"
    denied = await call("POST", path, json=verdict, headers=headers, access=admission())
    assert (denied.status_code, denied.json()["error"]["details"][0]["reason"]) == (403, "NOT_PERMITTED")
    assert "www-authenticate" not in denied.headers
    assert (await call("GET", "/v1/instances", headers=headers, access=admission())).status_code == 200
    assert (await call("GET", "/v1/openapi.json", headers=headers, access=admission())).status_code == 200


async def test_a_probe_is_told_the_code_and_those_who_are_known_the_rest() -> None:
    """A kubelet has no token; and who waits, and why, is nobody else's business."""
    path, log = f"/v1/instances/{ONE}/health", EventLog()
    probed = await call("GET", path, access=admission(log=log))
    known = await call("GET", path, access=admission(), headers={"authorization": bearer("grafana")})
    assert (probed.status_code, known.status_code) == (503, 503)
    assert (probed.json()["instances"], probed.json()["healthy"]) == ([], False)
    assert [one["instance"] for one in known.json()["instances"]] == [ONE]
    assert log.events == [], "probes come each second"


async def test_a_stream_ends_when_its_caller_is_no_longer_known() -> None:
    known, log = Known(known_callers()), EventLog()

    class Revoking(Broken):
        async def watch_instances(
            self, request: pb.WatchInstancesRequest
        ) -> AsyncGenerator[pb.WatchInstancesResponse, None]:
            yield pb.WatchInstancesResponse(resume_token="first")
            known.known = known_callers(access_text("grafana"))
            yield pb.WatchInstancesResponse(resume_token="second")

    access = Admission(known, clock=MovableClock(), log=log)
    headers = {"authorization": bearer("grafana")}
    answer = await call("GET", "/v1/instances:watch", service=Revoking(), access=access, headers=headers)
    first, last = map(json.loads, answer.text.splitlines())
    assert first["result"]["resumeToken"] == "first"
    assert last["error"]["status"] == "UNAUTHENTICATED"
    assert [event["cause"] for event in log.events] == ["unknown"]
