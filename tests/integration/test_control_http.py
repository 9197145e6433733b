"""The HTTP port and the log lines, with everything running on a real etcd."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from greenroom.control.http import HttpServer, Readiness, http_app
from greenroom.errors import StartError
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.callers import open_admission
from tests.support.client import EtcdClient
from tests.support.control_side import ControlSide, control_side
from tests.support.etcd import Etcd
from tests.support.mirroring import wait_mirrored
from tests.support.policies import policy_in_force
from tests.support.registering import instance_record, instance_record_key, register
from tests.support.waiting import wait_for_async


@pytest.fixture
async def side(etcd: Etcd) -> AsyncIterator[ControlSide]:
    async with control_side(etcd) as side:
        yield side


async def get(side: ControlSide, path: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=f"http://{side.http_address}", trust_env=False) as client:
        return await client.get(path)


async def is_ready(side: ControlSide) -> bool:
    return (await get(side, "/ready")).status_code == 200


async def test_it_is_live_and_ready(side: ControlSide) -> None:
    assert (await get(side, "/live")).status_code == 200
    ready = await get(side, "/ready")
    said = ready.json()
    assert (ready.status_code, said["ready"], said["reasons"]) == (200, True, [])


async def test_without_etcd_it_is_live_and_says_why_it_is_not_ready(own_etcd: Etcd) -> None:
    async with control_side(own_etcd) as side:
        own_etcd.stop()
        await side.log.wait_named("follower.away")
        assert (await get(side, "/live")).status_code == 200
        ready = await get(side, "/ready")
        assert ready.status_code == 503
        said = ready.json()
        assert said["ready"] is False
        assert len(said["reasons"]) == 2
        assert "etcd cannot be followed" in said["reasons"][0]
        assert "etcd does not answer" in said["reasons"][1]
        own_etcd.start()
        await asyncio.wait_for(side.follower.wait_ready(), 10)
        await wait_for_async(lambda: is_ready(side), describe="it is ready again")


async def test_metrics_tell_of_instances_verdicts_and_releases(side: ControlSide, client: EtcdClient) -> None:
    held, waiting = register(client), register(client, {"unheard-of": 60.0})
    await side.stub.ReportVerdict(
        pb.ReportVerdictRequest(name=held.name, gate="smoke", attempt=1, outcome=pb.OUTCOME_PASSED)
    )
    await side.stub.ReportVerdict(
        pb.ReportVerdictRequest(name=waiting.name, gate="unheard-of", attempt=1, outcome=pb.OUTCOME_ERROR)
    )
    await wait_mirrored(side.follower, client.put(b"\x01greenroom/budget", b"").header.revision)
    page = await get(side, "/metrics")
    assert page.headers["content-type"].startswith("text/plain")
    lines = page.text.splitlines()
    for line in (
        'greenroom_instances{state="held"} 1.0',
        'greenroom_instances{state="released"} 1.0',
        'greenroom_verdicts_total{gate="smoke",outcome="passed"} 1.0',
        'greenroom_verdicts_total{gate="other",outcome="error"} 1.0',
        'greenroom_verdicts_total{gate="smoke",outcome="failed"} 0.0',
        'greenroom_rejections_total{cause="deadline"} 0.0',
        "greenroom_ungated_writes_total 0.0",
        "greenroom_releases_total 1.0",
        'greenroom_gate_duration_seconds_count{gate="smoke",outcome="passed"} 1.0',
        "greenroom_hold_duration_seconds_count 1.0",
        'greenroom_build_info{version="test"} 1.0',
    ):
        assert line in lines
    assert "_created" not in page.text
    decided = [(one["gate"], one["outcome"], one["leaves"]) for one in side.log.named("gate.decided")]
    assert decided == [("smoke", "passed", "released"), ("unheard-of", "error", "held, waits for unheard-of")]
    age = next(line for line in lines if line.startswith("greenroom_oldest_held_age_seconds "))
    assert 0 < float(age.split()[1]) < 60


async def test_a_browser_is_not_sent_here_under_a_strangers_name(side: ControlSide) -> None:
    async with httpx.AsyncClient(base_url=f"http://{side.http_address}", trust_env=False) as client:
        for path in ("/metrics", "/v1/instances"):
            assert (await client.get(path, headers={"host": "evil.example"})).status_code == 421
        assert (await client.get("/live", headers={"host": "localhost"})).status_code == 200


async def test_a_taken_http_port_is_a_start_error(side: ControlSide) -> None:
    port = int(side.http_address.rpartition(":")[2])
    policy = policy_in_force(side.upstream, log=side.log)
    app = http_app(Readiness((side.follower,), side.upstream, policy), side.metrics, open_admission())
    with pytest.raises(StartError, match=f"--http-listen '127.0.0.1:{port}': Address already in use"):
        HttpServer(app, host="127.0.0.1", port=port).start()


async def test_a_held_instance_is_told_in_one_line_with_the_command_that_passes_it(
    side: ControlSide, client: EtcdClient
) -> None:
    held = register(client)
    side.announcer.opened(held.instance)
    client.put(instance_record_key(held.instance), instance_record(held.instance, "10.0.0.7:4242"), held.lease)
    [event] = await side.log.wait_named("instance.held")
    assert event["address"] == "10.0.0.7:4242"
    assert event["models"] == "Qwen/Qwen3-0.6B"
    assert event["endpoint"] == "dynamo.backend.generate"
    assert event["command"] == f"greenroom verdict {held.instance} smoke passed --attempt 1 --reason TEXT"
    assert event["waits_for"].startswith("smoke until 20")
    assert event["waits_for"].endswith(" UTC")


async def test_an_instance_without_an_address_is_told_after_a_moment(side: ControlSide, client: EtcdClient) -> None:
    held = register(client)
    side.announcer.opened(held.instance)
    [event] = await side.log.wait_named("instance.held")
    assert (event["instance"], event["address"]) == (held.instance, None)
