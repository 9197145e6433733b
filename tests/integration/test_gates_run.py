"""The gate runner on a real proxy and etcd: what it runs, when and how often, and what is left of it: nothing."""

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.callers import TOKENS, access_text
from tests.support.descendants import DAEMON, gone, runs, wait_pid
from tests.support.endpoints import Proxy
from tests.support.etcd import Etcd
from tests.support.odd_server import OddServer, response
from tests.support.runners import GateRunner, shell
from tests.support.waiting import wait_for
from tests.support.workers import Worker

SECONDS = 30
SLEEPS = "while :; do sleep 60; done"


def worker_before(proxy: Proxy) -> Worker:
    """A held one that has said where it listens."""
    worker = proxy.held_worker()
    worker.register_instance()
    return worker


def becomes(proxy: Proxy, worker: Worker, state: str) -> None:
    wait_for(lambda: proxy.control.state(worker.instance) == state, SECONDS, f"{worker.instance} is {state}")


def reason(proxy: Proxy, worker: Worker, gate: str = "smoke") -> str:
    return next(one.reason for one in proxy.control.instance(worker.instance).gates if one.gate == gate)


def written(path: Path, count: int = 1) -> list[str]:
    """The lines of a file, once there are so many."""

    def lines() -> list[str]:
        return path.read_text().split("\n")[:-1] if path.exists() else []

    wait_for(lambda: len(lines()) >= count, SECONDS, f"{count} lines in {path.name}")
    return lines()


def daemon(folder: Path) -> dict[str, Any]:
    """A gate whose command stays, and has left a process in another session."""
    return {"exec": [sys.executable, "-c", DAEMON, str(folder), "stay"], "timeout_secs": 600}


def test_gates_of_a_held_worker_are_run_and_reported(proxy: Proxy, tmp_path: Path) -> None:
    gates = {"smoke": shell(f"env > {tmp_path}/told"), "latency": shell("echo 12 ms >&2")}
    with GateRunner(proxy.greenroom.control, gates, tmp_path) as runner:
        assert (runner.health().status, runner.health().json["validation"]["state"]) == (503, "NONE")
        worker = worker_before(proxy)
        becomes(proxy, worker, "RELEASED")
        wait_for(lambda: runner.health().status == 200, SECONDS, "healthy")
        said = runner.health().json["validation"]
        assert said == {"state": "RELEASED", "gates": {"latency": "PASSED", "smoke": "PASSED"}, "reasons": []}
        assert f'greenroom_runner_gate_state{{gate="smoke",instance="{worker.instance}"}} 1.0' in runner.metrics()
        assert 'greenroom_runner_gate_seconds_count{gate="latency",outcome="passed"} 1.0' in runner.metrics()
        assert runner.stop() == 0
    assert reason(proxy, worker, "latency") == "12 ms"
    told = dict(line.partition("=")[::2] for line in (tmp_path / "told").read_text().splitlines())
    assert {name: value for name, value in told.items() if name.startswith(("GREENROOM", "DYN_VALIDATION_M"))} == {
        "DYN_VALIDATION_MODEL": "tiny",
        "GREENROOM_INSTANCE": worker.instance,
        "GREENROOM_GATE": "smoke",
        "GREENROOM_ATTEMPT": "1",
        "GREENROOM_NAMESPACE": "dynamo",
        "GREENROOM_COMPONENT": "backend",
        "GREENROOM_ENDPOINT": "generate",
        "GREENROOM_CARD_DIGEST": told["GREENROOM_CARD_DIGEST"],
        "GREENROOM_ADDRESS": proxy.control.instance(worker.instance).address,
        "GREENROOM_CONTROL": proxy.greenroom.control,
    }
    assert [
        (one["gate"], one["outcome"]) for one in sorted(runner.events("gate.ended"), key=lambda one: one["gate"])
    ] == [
        ("latency", "passed"),
        ("smoke", "passed"),
    ]


def test_of_a_failed_check_the_end_of_its_standard_error_is_the_reason(proxy: Proxy, tmp_path: Path) -> None:
    gates = {"smoke": shell("seq 2000 >&2; echo 'the answer was 5' >&2; exit 3")}
    with GateRunner(proxy.greenroom.control, gates, tmp_path) as runner:
        worker = worker_before(proxy)
        becomes(proxy, worker, "REJECTED")
        told = reason(proxy, worker)
        assert told.endswith("1999\n2000\nthe answer was 5")
        assert 2000 < len(told) <= 2048
        wait_for(lambda: runner.health().json["validation"]["state"] == "REJECTED", SECONDS, "told")
        said = runner.health()
        assert said.status == 503
        assert "the answer was 5" in " ".join(said.json["validation"]["reasons"])
        assert said.json["validation"]["gates"] == {"latency": "PENDING", "smoke": "FAILED"}


def test_an_inconclusive_check_is_reported_and_tried_again(proxy: Proxy, tmp_path: Path) -> None:
    twice = f"echo ran >> {tmp_path}/runs; [ $(wc -l < {tmp_path}/runs) -gt 2 ] || {{ echo noisy >&2; exit 75; }}"
    gates = {"smoke": shell(twice)}
    with GateRunner(proxy.greenroom.control, gates, tmp_path) as runner:
        worker = worker_before(proxy)
        written(tmp_path / "runs", 2)
        wait_for(lambda: reason(proxy, worker) == "noisy", SECONDS, "the reason is told")
        wait_for(lambda: len(runner.events("gate.ended")) == 3, SECONDS, "it ended three times")
    assert [one["outcome"] for one in runner.events("gate.ended")] == ["inconclusive", "inconclusive", "passed"]
    assert {one["attempt"] for one in runner.events("gate.ended")} == {1}


def test_a_check_that_cannot_be_started_is_an_error_in_words(proxy: Proxy, tmp_path: Path) -> None:
    gates = {"smoke": {"exec": ["/no/such/check"], "timeout_secs": 60}}
    with GateRunner(proxy.greenroom.control, gates, tmp_path) as runner:
        worker = worker_before(proxy)
        wait_for(lambda: "cannot run '/no/such/check'" in reason(proxy, worker), SECONDS, "the reason is told")
        wait_for(lambda: len(runner.events("gate.ended")) > 1, SECONDS, "it is tried again")
    assert proxy.control.state(worker.instance) == "HELD"


def test_at_its_time_a_check_ends_with_all_that_it_started(proxy: Proxy, tmp_path: Path) -> None:
    gates = {"smoke": daemon(tmp_path) | {"timeout_secs": 6}}
    with GateRunner(proxy.greenroom.control, gates, tmp_path):
        worker = worker_before(proxy)
        process = wait_pid(tmp_path / "daemon")
        becomes(proxy, worker, "REJECTED")
        assert not runs(process)
    assert reason(proxy, worker) == "not over after 6 s"


def test_several_runners_run_each_attempt_once(proxy: Proxy, tmp_path: Path) -> None:
    gates = {gate: shell(f"echo $GREENROOM_INSTANCE {gate} >> {tmp_path}/runs") for gate in ("smoke", "latency")}
    one = GateRunner(proxy.greenroom.control, gates, tmp_path, name="one")
    other = GateRunner(proxy.greenroom.control, gates, tmp_path, name="other")
    with one, other:
        workers = [worker_before(proxy) for _ in range(6)]
        for worker in workers:
            becomes(proxy, worker, "RELEASED")
    ran = written(tmp_path / "runs", 12)
    assert sorted(ran) == sorted(f"{worker.instance} {gate}" for worker in workers for gate in gates)


def test_a_killed_runner_leaves_no_process_and_another_takes_over(proxy: Proxy, tmp_path: Path) -> None:
    """Once the claim of the killed one has ended, and not before."""
    first = GateRunner(
        proxy.greenroom.control, {"smoke": daemon(tmp_path)}, tmp_path, "--claim-ttl", "5s", name="first"
    )
    with first:
        worker = worker_before(proxy)
        process = wait_pid(tmp_path / "daemon")
        second = GateRunner(proxy.greenroom.control, {"smoke": shell("true")}, tmp_path, name="second")
        with second:
            wait_for(lambda: second.health().json["instances"], SECONDS, "the second one knows of it")
            assert not second.events("gate.started")
            first.kill()
            assert gone(process)
            assert gone(wait_pid(tmp_path / "command"))
            (ended,) = wait_for(lambda: second.events("gate.ended"), SECONDS, "the second one ran it")
    assert (ended["attempt"], ended["outcome"]) == (1, "passed")
    assert not first.events("gate.ended")
    assert proxy.control.state(worker.instance) == "HELD"


def test_a_runner_that_is_stopped_gives_its_claims_back(proxy: Proxy, tmp_path: Path) -> None:
    """With an hour's claim: nobody waits for its end."""
    first = GateRunner(
        proxy.greenroom.control, {"smoke": daemon(tmp_path)}, tmp_path, "--claim-ttl", "1h", name="first"
    )
    with first:
        worker_before(proxy)
        process = wait_pid(tmp_path / "daemon")
        assert first.stop() == 0
        assert not runs(process)
    with GateRunner(proxy.greenroom.control, {"smoke": shell("true")}, tmp_path, name="second") as second:
        wait_for(lambda: second.events("gate.ended"), SECONDS, "the second one ran it")
    assert [one["outcome"] for one in first.events("gate.ended")] == ["stopped"]


def test_a_card_that_changes_ends_the_run_and_the_new_one_is_checked(proxy: Proxy, tmp_path: Path) -> None:
    script = f"echo $$ $GREENROOM_ATTEMPT >> {tmp_path}/runs; [ $GREENROOM_ATTEMPT -gt 1 ] || {SLEEPS}"
    with GateRunner(proxy.greenroom.control, {"smoke": shell(script)}, tmp_path) as runner:
        worker = worker_before(proxy)
        (first,) = written(tmp_path / "runs")
        assert worker.swap(worker.card(context_length=4096), worker.read().mod_revision).succeeded
        assert written(tmp_path / "runs", 2)[1].split()[1] == "2"
        assert gone(int(first.split()[0]))
        wait_for(lambda: len(runner.events("gate.ended")) == 2, SECONDS, "both ended")
    assert [(one["attempt"], one["outcome"]) for one in runner.events("gate.ended")] == [(1, "stopped"), (2, "passed")]


@pytest.mark.parametrize("way", ["ReleaseInstance", "RejectInstance", "revoke"])
def test_what_nobody_waits_for_any_more_is_ended(proxy: Proxy, tmp_path: Path, way: str) -> None:
    with GateRunner(proxy.greenroom.control, {"smoke": daemon(tmp_path)}, tmp_path) as runner:
        worker = worker_before(proxy)
        process = wait_pid(tmp_path / "daemon")
        if way == "revoke":
            worker.client.revoke(worker.lease)
        else:
            proxy.control.decide(way, worker.instance, **({"override": True} if way == "ReleaseInstance" else {}))
        wait_for(lambda: runner.events("gate.ended"), SECONDS, "the run ended")
        assert gone(process)


def test_a_url_is_asked_until_it_says_200(proxy: Proxy, tmp_path: Path) -> None:
    answers = iter([response("not yet", "503 Not Yet"), response("", "302 Found", location="/x"), response("fine")])
    with OddServer(lambda _: next(answers)) as server:
        gates = {"smoke": {"url": f"{server.url}/validate", "timeout_secs": 60}}
        with GateRunner(proxy.greenroom.control, gates, tmp_path):
            worker = worker_before(proxy)
            wait_for(lambda: reason(proxy, worker) == "fine", SECONDS, "passed")
    assert [asked.line.split()[1] for asked in server.asked] == ["/v1/validate"] * 3
    assert {body["GREENROOM_INSTANCE"] for body in server.bodies} == {worker.instance}


def test_a_run_goes_on_over_a_restart_of_the_proxy(
    own_etcd: Etcd, launch_proxy: Callable[..., Proxy], tmp_path: Path
) -> None:
    proxy = launch_proxy(own_etcd, arguments=("--gate", "smoke=900s"))
    script = f"echo $$ >> {tmp_path}/runs; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done"
    with GateRunner(proxy.greenroom.control, {"smoke": shell(script)}, tmp_path) as runner:
        worker = worker_before(proxy)
        written(tmp_path / "runs")
        proxy.greenroom.send_signal(signal.SIGKILL)
        (tmp_path / "go").touch()
        wait_for(lambda: runner.events("gate.ended"), SECONDS, "the check is over")
        proxy.greenroom.kill()
        proxy.greenroom.start()
        becomes(proxy, worker, "RELEASED")
        assert len(written(tmp_path / "runs")) == 1
        wait_for(lambda: runner.health().status == 200, SECONDS, "it follows again")


def test_a_continuous_gate_is_run_again_before_its_pass_ends(
    own_etcd: Etcd, launch_proxy: Callable[..., Proxy], tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("rules: [{gates: {smoke: {timeout_seconds: 60, phase: continuous, ttl_seconds: 8}}}]")
    proxy = launch_proxy(own_etcd, arguments=("--policy", str(policy)))
    with GateRunner(proxy.greenroom.control, {"smoke": shell(f"echo ran >> {tmp_path}/runs")}, tmp_path):
        worker = worker_before(proxy)
        written(tmp_path / "runs", 3)
        told = proxy.control.instance(worker.instance)
    assert proxy.control.state(worker.instance) == "RELEASED"
    assert [line.event for line in told.transitions].count("released") == 1


def test_no_more_run_at_once_than_the_policy_allows(
    own_etcd: Etcd, launch_proxy: Callable[..., Proxy], tmp_path: Path
) -> None:
    """Nor than the access file: the runner's token is for this gate, and says whose verdicts they are.

    It shares the token with others, so that its claims say which one of them it is.
    """
    policy, access, token = tmp_path / "policy.yaml", tmp_path / "access.yaml", tmp_path / "token"
    policy.write_text("rules: [{gates: {smoke: {timeout_seconds: 60, max_concurrent: 1}}}]")
    access.write_text(access_text(), "utf-8")
    token.write_text(TOKENS["ci"])
    proxy = launch_proxy(own_etcd, arguments=("--policy", str(policy), "--access", str(access)))
    once = f"[ ! -e {tmp_path}/now ] && touch {tmp_path}/now && sleep 0.2 && rm {tmp_path}/now"
    given = ("--token-file", str(token), "--runner", "ci/gpu-7")
    with GateRunner(proxy.greenroom.control, {"smoke": shell(once)}, tmp_path, *given) as runner:
        for _ in range(3):
            worker_before(proxy)
        wait_for(lambda: len(runner.events("gate.ended")) == 3, SECONDS, "all ran")
        wait_for(lambda: runner.health().status == 200, SECONDS, "all are released")
    assert {one["outcome"] for one in runner.events("gate.ended")} == {"passed"}
    listed = proxy.greenroom.cli("instances", "-o", "json", "--token-file", str(token)).stdout
    assert {gate["reporter"] for one in json.loads(listed)["instances"] for gate in one["gates"]} == {"ci"}


def test_a_runner_is_refused_where_the_policy_holds_otherwise(
    own_etcd: Etcd, launch_proxy: Callable[..., Proxy], tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("rules: [{hold: health, gates: {smoke: {timeout_seconds: 60}}}]")
    proxy = launch_proxy(own_etcd, arguments=("--policy", str(policy)))
    runner = GateRunner(proxy.greenroom.control, {"smoke": shell("true")}, tmp_path, DYN_WORKER_VALIDATION_HOLD="card")
    runner.spawn()
    assert runner.child is not None
    assert runner.child.wait(SECONDS) == 2
    words = "DYN_WORKER_VALIDATION_HOLD 'card': rules[0] of the proxy's policy, which asks for smoke, says 'health'"
    assert runner.log().splitlines()[-1] == f"greenroom: {words}"
