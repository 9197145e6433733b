"""The command line against a running proxy, as operators and scripts use it: output, exit codes, one-line errors."""

import io
import json
import os
import pty
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from greenroom.pb.control.v1 import control_pb2, control_pb2_grpc
from tests.support.endpoints import Proxy
from tests.support.etcd import Etcd
from tests.support.greenroom import PROGRAM, Greenroom
from tests.support.ports import free_port
from tests.support.waiting import wait_for
from tests.support.workers import Worker

ANSI = "\x1b"


def said(greenroom: Greenroom, *arguments: str, code: int = 1) -> str:
    """The one line on standard error of a command that fails."""
    done = greenroom.cli(*arguments)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("greenroom: ")
    return line


def listed(proxy: Proxy, *worker: Worker) -> None:
    """Returns when the lists, which follow etcd by a watch, have come to these."""
    wanted = {one.instance for one in worker}
    wait_for(lambda: {one.id for one in proxy.control.instances()} == wanted, describe=f"listed: {wanted}")


def reconnected(proxy: Proxy) -> None:
    """Returns when the test's own connection has got over a restart, which gRPC tries in its own time."""
    grpc.channel_ready_future(proxy.control.channel).result(60)


def end(worker: Worker) -> str:
    """What an operator types: ids of one etcd differ at their ends."""
    return worker.instance[-6:]


def test_the_list_shows_who_waits_for_what(proxy: Proxy) -> None:
    worker = proxy.held_worker(model="tiny")
    worker.register_instance()
    listed(proxy, worker)
    wait_for(lambda: proxy.control.instance(worker.instance).address, describe="the address is known")
    address = proxy.control.instance(worker.instance).address
    output = proxy.greenroom.must("instances")
    assert output.splitlines()[0].split()[:5] == ["INSTANCE", "MODEL", "ENDPOINT", "ADDRESS", "STATE"]
    row = output.splitlines()[1]
    for cell in (worker.instance, "tiny", "dynamo.backend.generate", address, "HELD", "smoke pending", "latency"):
        assert cell in row
    assert ANSI not in output


def test_the_list_is_filtered_by_state(proxy: Proxy) -> None:
    released, held = proxy.released_worker(), proxy.held_worker()
    listed(proxy, released, held)
    wait_for(lambda: proxy.greenroom.listed("released").count(released.instance) > 0, describe="released is listed")
    only = json.loads(proxy.greenroom.must("instances", "--state", "HELD", "-o", "json"))["instances"]
    assert [one["id"] for one in only] == [held.instance]
    assert only[0]["state"] == "HELD"
    (key,) = only[0]["gated_keys"]
    assert (key["key"], key["live"], key["public"]) == (held.card_key.decode(), True, False)


def test_one_instance_says_why_and_which_command_helps(proxy: Proxy) -> None:
    worker = proxy.held_worker()
    listed(proxy, worker)
    output = proxy.greenroom.must("instance", end(worker))
    assert f"Instance {worker.instance} is HELD" in output
    why = output[output.index("Why it is not released") : output.index("Gates")]
    assert re.findall(r"gate (\S+) has to be decided \(\S+.* left\)", why) == ["latency", "smoke"]
    assert "NotOnHold" not in output
    assert f"greenroom  registered  HELD   {worker.card_key.decode()}" in output
    assert worker.card_key.decode() in output
    verdict = f"greenroom verdict {worker.instance} smoke passed --attempt 1 --reason 'why'"
    assert f"{verdict} --control {proxy.greenroom.control}" in output


def test_an_instance_record_whose_card_no_rule_holds_says_what_is_missing(
    launch_proxy: Callable[..., Proxy], etcd: Etcd, tmp_path: Path
) -> None:
    """The rule selects by model, which the card has and the instance record has not: only that one is held."""
    policy = tmp_path / "policy.yaml"
    selector = "{component: prefill, model: other}"
    rule = f"{{selector: {selector}, hold: card+instance, gates: {{smoke: {{timeout_seconds: 60}}}}}}"
    policy.write_text(f"rules: [{rule}]")
    proxy = launch_proxy(etcd, arguments=("--policy", str(policy)))
    worker = Worker(proxy.client, component="prefill", model="tiny")
    worker.register()
    worker.register_instance()
    assert proxy.shown(worker) == [worker.card_key]
    listed(proxy, worker)
    verdict = proxy.greenroom.must("verdict", end(worker), "smoke", "pass")
    output = proxy.greenroom.must("instance", end(worker))
    missing = f"no card is held that it could be published with: {worker.card_key.decode()} is public already"
    assert missing in verdict
    why = output[output.index("Why it is not released") : output.index("Gates")]
    assert missing in why
    assert f"{worker.card_key.decode()}  public" in output
    assert f"{worker.instance_key.decode()}  held" in output
    assert "select by component, not by model" in output[output.index("Next") :]


def test_a_verdict_on_what_was_checked_does_not_pass_what_came_since(proxy: Proxy) -> None:
    worker = proxy.held_worker()
    listed(proxy, worker)
    worker.register_lora()
    refused = proxy.greenroom.cli("verdict", end(worker), "smoke", "passed", "--attempt", "1")
    assert refused.returncode == 1
    assert "attempt 1" in refused.stderr
    assert "attempt 2" in refused.stderr
    assert {gate.attempt for gate in proxy.control.instance(worker.instance).gates} == {2}
    proxy.greenroom.must("verdict", end(worker), "smoke", "passed", "--attempt", "2")


def test_verdicts_lead_to_the_release(proxy: Proxy) -> None:
    worker = proxy.held_worker()
    listed(proxy, worker)
    first = proxy.greenroom.must("verdict", end(worker), "smoke", "pass", "--reporter", "ann")
    assert first == f"smoke passed (attempt 1 of {worker.instance}): stored; still to be decided: latency\n"
    second = proxy.greenroom.must("verdict", end(worker), "latency", "passed", "--reason", "41 ms")
    assert second == f"latency passed (attempt 1 of {worker.instance}): RELEASED, its cards are public\n"
    assert proxy.shown(worker) == [worker.card_key]
    trail = proxy.greenroom.must("instance", worker.instance)
    assert "ann" in trail
    assert "HELD -> RELEASED" in trail


def test_a_failed_gate_rejects_and_everybody_can_read_why(proxy: Proxy) -> None:
    worker = proxy.held_worker()
    listed(proxy, worker)
    output = proxy.greenroom.must("verdict", end(worker), "smoke", "fail", "--reason", "gibberish \x1b[2J")
    assert "REJECTED" in output
    shown = proxy.greenroom.must("instance", end(worker))
    assert "gate smoke failed: gibberish" in shown
    assert "latency  not decided" in shown
    assert ANSI not in shown
    late = said(proxy.greenroom, "verdict", end(worker), "smoke", "pass")
    assert "was decided as failed by" in late


def test_verdicts_that_cannot_be(proxy: Proxy) -> None:
    worker = proxy.held_worker()
    listed(proxy, worker)
    assert "its gates are: latency, smoke" in said(proxy.greenroom, "verdict", end(worker), "nope", "pass")
    assert "no instance has id 'zzz'" in said(proxy.greenroom, "verdict", "zzz", "smoke", "pass")
    assert "--reason is not given" in said(proxy.greenroom, "verdict", end(worker), "smoke", "error", code=2)


def test_an_instance_is_found_by_model_and_by_address(proxy: Proxy) -> None:
    worker, other = proxy.held_worker(model="tiny"), proxy.held_worker(model="big", component="other")
    worker.register_instance()
    listed(proxy, worker, other)
    wait_for(lambda: proxy.control.instance(worker.instance).address, describe="the address is known")
    address = proxy.control.instance(worker.instance).address
    assert other.instance in proxy.greenroom.must("verdict", "smoke", "pass", "--model", "big")
    assert worker.instance in proxy.greenroom.must("verdict", "smoke", "pass", "--address", address)


def test_an_ambiguous_id_lists_the_candidates(proxy: Proxy) -> None:
    first, second = proxy.held_worker(model="tiny"), proxy.held_worker(model="big")
    listed(proxy, first, second)
    line = said(proxy.greenroom, "instance", first.instance[0])
    assert "is ambiguous" in line
    assert f"{first.instance} (tiny, HELD)" in line
    assert f"{second.instance} (big, HELD)" in line


def test_a_rollout_hold_from_its_creation_to_its_lift(proxy: Proxy) -> None:
    worker = proxy.held_worker(model="tiny")
    listed(proxy, worker)
    create = ("rollout-hold", "create", "--reason", "incident 4711", "--for", "2h", "--selector", "model=ti*")
    created = proxy.greenroom.must(*create, "--actor", "ann", "--id", "night")
    first, second, _ = created.splitlines()
    assert first.startswith("rollout hold night stops releases of model=ti* until ")
    assert second == f"it stops 1 instance that is known now: {worker.instance} (tiny, HELD)"
    passed = proxy.greenroom.must("verdict", end(worker), "smoke", "pass")
    assert passed.endswith("stored; still to be decided: latency; and to be lifted: rollout hold night\n")
    waiting = ("wait", end(worker), "--timeout", "1s")
    assert "it waits for latency" in (line := said(proxy.greenroom, *waiting, code=124))
    assert line.endswith("and rollout hold night to be lifted")
    queued = proxy.greenroom.must("verdict", end(worker), "latency", "pass")
    assert "every gate passed, and it waits: rollout hold night by ann: incident 4711" in queued
    assert proxy.shown(worker) == []
    details = proxy.greenroom.must("instance", end(worker))
    assert f"greenroom rollout-hold lift night --control {proxy.greenroom.control}" in details
    (row,) = proxy.greenroom.must("rollout-hold", "list").splitlines()[1:]
    assert row.split()[:2] == ["night", "model=ti*"]
    assert json.loads(proxy.greenroom.must("rollout-hold", "list", "-o", "json"))["rollout_holds"][0]["actor"] == "ann"
    assert proxy.greenroom.must("rollout-hold", "lift", "nig") == "lifted rollout hold night (incident 4711, by ann)\n"
    assert "RELEASED" in proxy.greenroom.must("wait", end(worker), "--timeout", "10s")
    assert proxy.shown(worker) == [worker.card_key]
    assert proxy.greenroom.must("rollout-hold", "list") == "no rollout holds\n"


def test_a_rollout_hold_that_stops_nobody_says_so(proxy: Proxy) -> None:
    """A typing error in the selector looks like a stop and is none."""
    worker = proxy.held_worker(model="tiny")
    listed(proxy, worker)
    created = proxy.greenroom.must("rollout-hold", "create", "--reason", "x", "--selector", "model=tinny*")
    assert created.splitlines()[1] == "no instance that waits now matches it; later ones that match will wait"
    wrong = said(
        proxy.greenroom, "rollout-hold", "create", "--reason", "x", "--selector", "model=a, component=b", code=2
    )
    assert "' component=b' has a space in it" in wrong


def test_waiting_starts_before_the_instance_is_there(proxy: Proxy) -> None:
    """A deployment script starts the worker and the wait at once; the worker takes its time to register."""
    command = [*PROGRAM, "wait", "--model", "late", "--timeout", "60s", "--control", proxy.greenroom.control]
    with subprocess.Popen(command, env=proxy.greenroom.environment, stdout=subprocess.PIPE, text=True) as waiting:
        worker = proxy.held_worker(model="late")
        proxy.control.pass_gates(worker.instance)
        output, _ = waiting.communicate(timeout=90)
    assert (waiting.returncode, output) == (0, f"{worker.instance} is RELEASED\n")


def test_waiting_ends_with_what_the_instance_became(proxy: Proxy) -> None:
    worker = proxy.held_worker()
    proxy.control.verdict(worker.instance, "smoke", "failed")
    listed(proxy, worker)
    assert proxy.greenroom.cli("wait", end(worker), "--for", "rejected").returncode == 0
    done = proxy.greenroom.cli("wait", end(worker), "--for", "released")
    assert (done.returncode, "is REJECTED" in done.stdout) == (1, True)


def test_waiting_ends_with_the_lease(proxy: Proxy) -> None:
    """What expires before the command has seen it has simply not appeared; so this one says when it has."""
    worker = proxy.held_worker()
    listed(proxy, worker)
    program = (
        "import sys\n"
        "from greenroom.cli.following import KnownInstances\n"
        "take = KnownInstances.take\n"
        "def told(self, response):\n"
        "    changes = take(self, response)\n"
        "    if self.complete: print('seen', flush=True)\n"
        "    return changes\n"
        "KnownInstances.take = told\n"
        "from greenroom.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    command = [PROGRAM[0], "-c", program, "wait", end(worker), "--timeout", "90s", "--control", proxy.greenroom.control]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=proxy.greenroom.environment, stdout=pipe, stderr=pipe, text=True) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "seen\n"
        worker.client.revoke(worker.lease)
        _, errors = waiting.communicate(timeout=90)
    assert waiting.returncode == 1
    assert errors == f"{worker.instance} expired: its lease ended while it was HELD\n"


def _asked(proxy: Proxy, pid: int) -> bool:
    """Whether a process holds a connection to the control port."""
    port = f":{int(proxy.greenroom.control.rpartition(':')[2]):04X}"
    sockets = set(_open_files(pid))
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]  # gRPC dials IPv4 by sockets of both kinds.
    rows = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    return any(row[2].endswith(port) and f"socket:[{row[9]}]" in sockets for row in rows)


def _open_files(pid: int) -> Iterator[str]:
    """What its descriptors lead to, without those that it closes meanwhile."""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            yield str(link.readlink())


def test_waiting_in_vain_is_124(proxy: Proxy) -> None:
    worker = proxy.held_worker()
    listed(proxy, worker)
    line = said(proxy.greenroom, "wait", end(worker), "--timeout", "1s", code=124)
    assert re.search(r"it waits for latency \(.* left\), smoke \(.* left\)$", line.strip())
    assert "did not appear within 0.5s" in said(proxy.greenroom, "wait", "zzz", "--timeout", "500ms", code=124)


def test_waiting_for_a_proxy_that_hangs_is_124(proxy: Proxy) -> None:
    """Connections are taken and nobody says anything on them."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        control = f"127.0.0.1:{server.getsockname()[1]}"
        command = [*PROGRAM, "wait", "--model", "tiny", "--timeout", "500ms", "--control", control]
        done = subprocess.run(
            command, env=proxy.greenroom.environment, capture_output=True, text=True, check=False, timeout=90
        )
    assert done.returncode == 124
    assert done.stderr.startswith(
        f"greenroom: model 'tiny' did not appear within 0.5s: no control API answers at {control}"
    )


def test_waiting_outlasts_a_restart_of_the_proxy(own_etcd: Etcd, launch_proxy: Callable[..., Proxy]) -> None:
    proxy = launch_proxy(own_etcd)
    worker = proxy.held_worker()
    listed(proxy, worker)
    command = [*PROGRAM, "wait", end(worker), "--timeout", "60s", "--control", proxy.greenroom.control]
    with subprocess.Popen(command, env=proxy.greenroom.environment, stdout=subprocess.PIPE, text=True) as waiting:
        wait_for(lambda: _asked(proxy, waiting.pid), 30, "the command has connected")
        proxy.greenroom.kill()
        proxy.greenroom.start()
        reconnected(proxy)
        proxy.control.pass_gates(worker.instance)
        output, _ = waiting.communicate(timeout=90)
    assert (waiting.returncode, output) == (0, f"{worker.instance} is RELEASED\n")


def test_waiting_for_a_proxy_that_stays_away_is_124(proxy: Proxy) -> None:
    environment = {**proxy.greenroom.environment, "GREENROOM_CONTROL": f"127.0.0.1:{free_port()}"}
    command = [*PROGRAM, "wait", "--model", "tiny", "--timeout", "1s"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=90)
    assert done.returncode == 124
    assert done.stderr.startswith("greenroom: model 'tiny' did not appear within 1s: no control API answers at ")


@contextmanager
def running(command: list[str], environment: dict[str, str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A command that a failed test does not wait for."""
    with subprocess.Popen(command, env=environment, **options) as child:
        try:
            yield child
        except BaseException:
            child.kill()
            raise


def test_watching_outlasts_a_restart_and_tells_it_once(own_etcd: Etcd, launch_proxy: Callable[..., Proxy]) -> None:
    """What happened meanwhile is told, and what did not is not told again."""
    proxy = launch_proxy(own_etcd)
    worker, ended = proxy.held_worker(), proxy.held_worker()
    listed(proxy, worker, ended)
    command = [*PROGRAM, "instances", "--watch", "--control", proxy.greenroom.control]
    pipe = subprocess.PIPE
    with running(command, proxy.greenroom.environment, stdout=pipe, stderr=pipe, text=True) as watching:
        assert watching.stdout is not None
        assert watching.stderr is not None
        assert [watching.stdout.readline().split()[1] for _ in range(2)] == ["seen", "seen"]
        proxy.greenroom.kill()
        proxy.public.revoke(ended.lease)
        away = watching.stderr.readline()
        assert away.startswith("greenroom: no control API answers at ")
        assert away.endswith("asking again until it answers\n")
        proxy.greenroom.start()
        assert watching.stderr.readline() == "greenroom: it answers again\n"
        assert watching.stdout.readline().split()[1:3] == ["gone", ended.instance]
        reconnected(proxy)
        proxy.control.pass_gates(worker.instance)
        while "RELEASED" not in (line := watching.stdout.readline()):
            assert line.split()[1:4] == ["changed", worker.instance, "HELD"]
        watching.send_signal(signal.SIGINT)
        assert watching.stderr.read() == ""
    assert watching.returncode == 130


def test_an_interrupted_wait_is_130_without_a_word(proxy: Proxy) -> None:
    command = [*PROGRAM, "wait", "--model", "late", "--timeout", "60s", "--control", proxy.greenroom.control]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=proxy.greenroom.environment, stdout=pipe, stderr=pipe, text=True) as waiting:
        wait_for(lambda: _asked(proxy, waiting.pid), 30, "the command has connected")
        waiting.send_signal(signal.SIGINT)
        assert waiting.communicate(timeout=30) == ("", "")
    assert waiting.returncode == 130


def test_watching_tells_changes_as_lines(proxy: Proxy) -> None:
    worker = proxy.held_worker()
    listed(proxy, worker)
    command = [*PROGRAM, "instances", "--watch", "--control", proxy.greenroom.control]
    with subprocess.Popen(command, env=proxy.greenroom.environment, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        try:
            assert watching.stdout.readline().split()[1:4] == ["seen", worker.instance, "HELD"]
            proxy.control.pass_gates(worker.instance)
            while "RELEASED" not in (line := watching.stdout.readline()):
                assert line
            assert line.split()[1:3] == ["changed", worker.instance]
            worker.client.revoke(worker.lease)
            assert watching.stdout.readline().split()[1:3] == ["gone", worker.instance]
        finally:
            watching.kill()


def test_watching_for_programs_is_an_object_a_line(proxy: Proxy) -> None:
    worker = proxy.held_worker()
    listed(proxy, worker)
    command = [*PROGRAM, "instances", "--watch", "-o", "json", "--control", proxy.greenroom.control]
    with subprocess.Popen(command, env=proxy.greenroom.environment, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        try:
            seen = json.loads(watching.stdout.readline())
            assert (seen["change"], seen["instance"]["id"]) == ("seen", worker.instance)
            proxy.control.hold_rollout("night")
            changed = json.loads(watching.stdout.readline())
            assert (changed["change"], changed["instance"]["rollout_holds"]) == ("changed", ["night"])
        finally:
            watching.kill()


def test_on_a_terminal_the_table_is_redrawn(proxy: Proxy) -> None:
    worker = proxy.held_worker()
    listed(proxy, worker)
    command = [*PROGRAM, "instances", "--watch", "--control", proxy.greenroom.control]
    ours, theirs = pty.openpty()
    environment = {**proxy.greenroom.environment, "TERM": "xterm"}
    with os.fdopen(ours, "rb", buffering=0) as screen:
        with running(command, environment, stdin=theirs, stdout=theirs, stderr=theirs) as watching:
            os.close(theirs)
            until_shown(screen, worker.instance, "HELD")
            proxy.control.pass_gates(worker.instance)
            until_shown(screen, "RELEASED")
            watching.send_signal(signal.SIGINT)
        assert watching.returncode == 130


def until_shown(screen: io.FileIO, *words: str) -> None:
    """Reads a terminal until all of that was written to it."""
    shown = ""
    while not all(word in shown for word in words):
        shown += screen.read(4096).decode(errors="replace")


def test_watching_one_state_tells_what_became_of_those_that_left_it(proxy: Proxy) -> None:
    released, ended = proxy.held_worker(), proxy.held_worker()
    listed(proxy, released, ended)
    command = [*PROGRAM, "instances", "--watch", "--state", "held", "--control", proxy.greenroom.control]
    with subprocess.Popen(command, env=proxy.greenroom.environment, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        try:
            assert {watching.stdout.readline().split()[2] for _ in range(2)} == {released.instance, ended.instance}
            for gate in ("smoke", "latency"):
                proxy.control.verdict(released.instance, gate, "passed")
            while "smoke passed, " in (line := watching.stdout.readline()) and "HELD" in line:
                assert line.split()[1:4] == ["changed", released.instance, "HELD"]
            assert line.split()[1:4] == ["changed", released.instance, "RELEASED"]
            ended.client.revoke(ended.lease)
            assert watching.stdout.readline().split()[1:4] == ["gone", ended.instance, "HELD"]
        finally:
            watching.kill()


class Verbose(control_pb2_grpc.ControlServicer):
    """A control API whose reporters have much to say."""

    def ListInstances(self, request: object, context: object) -> control_pb2.ListInstancesResponse:  # noqa: N802
        gates = [control_pb2.GateStatus(gate=f"gate-{number}", reason="x" * 2048) for number in range(8)]
        ids = [f"{number:x}" for number in range(1, 501)]
        instances = [control_pb2.Instance(name=f"instances/{name}", id=name, gates=gates) for name in ids]
        return control_pb2.ListInstancesResponse(instances=instances)


@pytest.fixture
def verbose_control() -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(1))
    control_pb2_grpc.add_ControlServicer_to_server(Verbose(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(0).wait()


def test_a_page_of_more_than_4_mib_is_read(verbose_control: str, proxy: Proxy) -> None:
    command = [*PROGRAM, "instances", "--control", verbose_control]
    done = subprocess.run(
        command, env=proxy.greenroom.environment, capture_output=True, text=True, check=False, timeout=90
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 501


def test_other_ports_of_the_proxy_are_not_mistaken_for_the_control_port(proxy: Proxy) -> None:
    for port in (proxy.greenroom.address, proxy.greenroom.http_url.removeprefix("http://")):
        command = [*PROGRAM, "instances", "--control", port]
        done = subprocess.run(
            command, env=proxy.greenroom.environment, capture_output=True, text=True, check=False, timeout=90
        )
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert "control" in line


def test_the_control_port_can_be_given_once_for_all(proxy: Proxy) -> None:
    worker = proxy.held_worker()
    listed(proxy, worker)
    environment = {**proxy.greenroom.environment, "GREENROOM_CONTROL": proxy.greenroom.control}
    command = [*PROGRAM, "instance", end(worker)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=90)
    assert "--control" not in done.stdout


def test_the_only_rollout_hold_is_not_lifted_by_an_empty_text(proxy: Proxy) -> None:
    proxy.control.hold_rollout("night")
    assert "ID '': is empty" in said(proxy.greenroom, "rollout-hold", "lift", "", code=2)
    assert "night" in proxy.greenroom.must("rollout-hold", "list")
    proxy.control.lift_rollout("night")
