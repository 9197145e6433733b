"""The control API over HTTP/JSON, on a running proxy and a real etcd: what curl would see."""

import json
import urllib.request

from tests.support.endpoints import Proxy
from tests.support.http import Answer, ask
from tests.support.waiting import wait_for
from tests.support.workers import Worker


def call(proxy: Proxy, path: str, body: object = None) -> Answer:
    return ask(f"{proxy.greenroom.http_url}{path}", body)


def report(proxy: Proxy, worker: Worker, gate: str, outcome: str = "OUTCOME_PASSED", attempt: int = 1) -> Answer:
    body = {"gate": gate, "attempt": attempt, "outcome": outcome, "reason": "tried", "reporter": "curl"}
    return call(proxy, f"/v1/instances/{worker.instance}:reportVerdict", body)


def listed(proxy: Proxy) -> list[str]:
    return [one["id"] for one in call(proxy, "/v1/instances").json["instances"]]


def test_a_worker_is_checked_and_released(proxy: Proxy) -> None:
    """A check that knows nothing but HTTP: it finds who waits, reports, and sees it released."""
    worker = proxy.held_worker()
    wait_for(lambda: listed(proxy) == [worker.instance], 10, "the list has the worker")
    assert report(proxy, worker, "smoke").json["decision"] == "DECISION_RECORDED"
    answer = report(proxy, worker, "latency").json
    assert (answer["decision"], answer["instance"]["state"]) == ("DECISION_RELEASED", "INSTANCE_STATE_RELEASED")
    assert proxy.shown(worker) == [worker.card_key]
    read = call(proxy, f"/v1/instances/{worker.instance}").json
    assert [gate["reporter"] for gate in read["gates"]] == ["curl", "curl"]


def test_health_is_ok_once_released(proxy: Proxy) -> None:
    """A readiness probe of a pod that knows its own address only."""
    worker = proxy.held_worker()
    worker.register_instance()
    health = f"/v1/instances/{worker.instance}/health"
    wait_for(lambda: call(proxy, health).json["instances"], 10, "the proxy knows the worker")
    answer = call(proxy, health)
    assert (answer.status, answer.json["instances"][0]["state"]) == (503, "HELD")
    address = call(proxy, f"/v1/instances/{worker.instance}").json["address"]
    wait_for(lambda: call(proxy, f"/v1/health?address={address}").json["instances"], 10, "its address is known")
    assert call(proxy, f"/v1/health?address={address}").status == 503
    for gate in ("smoke", "latency"):
        report(proxy, worker, gate)
    for path in (health, f"/v1/health?address={address}"):
        wait_for(lambda path=path: call(proxy, path).status == 200, 10, f"{path} says that it is released")


def test_rollout_holds_are_created_listed_and_lifted(proxy: Proxy) -> None:
    hold = {"reason": "incident", "actor": "ann", "selector": {"model": "tiny"}, "ttl": "600s"}
    created = call(proxy, "/v1/rolloutHolds?rolloutHoldId=freeze", hold)
    assert (created.status, created.json["name"]) == (200, "rolloutHolds/freeze")
    assert call(proxy, "/v1/rolloutHolds?rolloutHoldId=freeze", hold).status == 409
    assert [one["name"] for one in call(proxy, "/v1/rolloutHolds").json["rolloutHolds"]] == ["rolloutHolds/freeze"]
    assert call(proxy, "/v1/rolloutHolds/freeze:lift", {}).status == 200
    assert call(proxy, "/v1/rolloutHolds/freeze:lift", {}).json["error"]["details"][0]["reason"] == (
        "UNKNOWN_ROLLOUT_HOLD"
    )


def test_mistakes_change_nothing_and_say_what_to_do(proxy: Proxy) -> None:
    worker = proxy.held_worker()
    before = proxy.control.instance(worker.instance)
    stale = report(proxy, worker, "smoke", attempt=7)
    assert (stale.status, stale.json["error"]["status"]) == (400, "FAILED_PRECONDITION")
    assert "is at attempt 1, the verdict is for attempt 7" in stale.json["error"]["message"]
    assert report(proxy, worker, "nonsense").status == 404
    assert report(proxy, worker, "smoke", outcome="OUTCOME_GREAT").status == 400
    assert call(proxy, "/v1/instances/7fffffffffffffff").status == 404
    assert proxy.control.instance(worker.instance) == before


def test_a_stream_tells_what_changes(proxy: Proxy) -> None:
    worker = proxy.held_worker()
    wait_for(lambda: listed(proxy) == [worker.instance], 10, "the list has the worker")
    with urllib.request.urlopen(f"{proxy.greenroom.http_url}/v1/instances:watch", timeout=20) as lines:
        first = json.loads(lines.readline())["result"]["events"]
        assert (first[0]["type"], first[0]["instance"]["id"]) == ("INSTANCE_EVENT_TYPE_EXISTING", worker.instance)
        report(proxy, worker, "smoke", outcome="OUTCOME_FAILED")
        states = (
            event["instance"]["state"]
            for line in lines
            for event in json.loads(line)["result"]["events"]
            if event.get("instance")
        )
        assert "INSTANCE_STATE_REJECTED" in states
