"""Access on a running proxy: who is not known, or may not, is refused at every method, and changes nothing.

The rule: one proxy for the whole file. When it ends no token is in its log, nor anything of one in etcd.
"""

import queue
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from greenroom.access.roles import METHODS, WITHOUT_GATES, Role
from greenroom.core.keyspace import InstanceId
from greenroom.core.record import Record
from greenroom.pb.control.v1 import control_pb2 as pb
from greenroom.pb.control.v1 import control_pb2_grpc
from tests.support.callers import TOKENS, access_text, bearer
from tests.support.control import CALL_SECONDS, error_reason
from tests.support.endpoints import PROXIES, Proxy, launched_proxy, wipe_beside_proxies
from tests.support.etcd import Etcd
from tests.support.greenroom import GATE_ARGUMENTS
from tests.support.registering import stored_record
from tests.support.waiting import wait_for
from tests.support.workers import Worker

SERVICE = pb.DESCRIPTOR.services_by_name["Control"]
DECLARED = {method.name: method for method in SERVICE.methods}
STRANGERS = {
    "no token": None,
    "an empty one": "",
    "another scheme": f"Basic {TOKENS['ann']}",
    "a wrong one": bearer("stranger"),
    "half of one": bearer("ann")[:-8],
    "one that has expired": bearer("late"),
}
ROLES = {
    "grafana": (Role.VIEWER, {Role.VIEWER}),
    "ci": (Role.REPORTER, {Role.VIEWER, Role.REPORTER}),
    "ann": (Role.OPERATOR, set(Role)),
}
"""Callers of the access file, with whose methods they may call."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """A proxy with an access file, and what the file says."""

    proxy: Proxy
    path: Path

    def say(self, text: str) -> None:
        """Returns when the proxy has looked at a file that says something else."""
        if self.path.read_text() == text:
            return
        before = self._looks()
        self.path.write_text(text)
        wait_for(lambda: self._looks() > before, describe="the access file was looked at")

    def _looks(self) -> int:
        log = self.proxy.greenroom.log()
        return log.count("access.reloaded") + log.count("access.not.reloaded")

    def call(self, method: str, request: Message, authorization: str | None) -> Any:
        """The answer, of a stream the first one; grpc.RpcError."""
        metadata = () if authorization is None else (("authorization", authorization),)
        ask = getattr(control_pb2_grpc.ControlStub(self.proxy.control.channel), method)
        answer = ask(request, metadata=metadata, timeout=CALL_SECONDS)
        return next(answer) if DECLARED[method].server_streaming else answer

    def refusal(self, method: str, request: Message, authorization: str | None) -> grpc.RpcError:
        with pytest.raises(grpc.RpcError) as raised:
            self.call(method, request, authorization)
        return raised.value

    def stored(self) -> list[tuple[bytes, bytes, int]]:
        """All that is in etcd but for the proxy's own presence."""
        kvs = self.proxy.public.everything().kvs
        return [(kv.key, kv.value, kv.mod_revision) for kv in kvs if not kv.key.startswith(PROXIES)]

    def record(self, worker: Worker) -> Record:
        return stored_record(self.proxy.public, InstanceId(worker.instance))

    def get(self, path: str, authorization: str | None = None) -> httpx.Response:
        headers = {} if authorization is None else {"authorization": authorization}
        return httpx.get(self.proxy.greenroom.http_url + path, headers=headers, trust_env=False)

    def post(self, path: str, body: dict[str, str], authorization: str | None) -> httpx.Response:
        headers = {} if authorization is None else {"authorization": authorization}
        return httpx.post(self.proxy.greenroom.http_url + path, json=body, headers=headers, trust_env=False)

    def token_file(self, name: str) -> str:
        path = self.path.with_name(f"{name}.token")
        path.write_text(f"{TOKENS[name]}\n")
        return str(path)


@pytest.fixture(scope="module")
def guarded_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("access")
    path = folder / "access.yaml"
    path.write_text(access_text())
    arguments = (*GATE_ARGUMENTS, "--access", str(path))
    with Etcd.launch() as etcd, launched_proxy(etcd, folder, arguments=arguments) as proxy:
        guarded = Guarded(proxy, path)
        yield guarded
        written = proxy.greenroom.log() + repr(guarded.stored())
        assert not [name for name, token in TOKENS.items() if token in written]


@pytest.fixture
def guarded(guarded_proxy: Guarded) -> Guarded:
    """As at its start: nothing is registered, and the file says what it said."""
    guarded_proxy.say(access_text())
    wipe_beside_proxies(guarded_proxy.proxy.etcd)
    return guarded_proxy


def request_of(method: str, worker: Worker) -> Any:
    """What would change something, were it let through. Of methods that only other versions have, as much as fits."""
    name = f"instances/{worker.instance}"
    known: dict[str, Message] = {
        "ReportVerdict": pb.ReportVerdictRequest(
            name=name, gate="smoke", attempt=1, outcome=pb.OUTCOME_FAILED, reason="no"
        ),
        "CreateRolloutHold": pb.CreateRolloutHoldRequest(rollout_hold=pb.RolloutHold(reason="no")),
        "LiftRolloutHold": pb.LiftRolloutHoldRequest(name="rolloutHolds/night"),
    }
    if method in known:
        return known[method]
    made: Any = DECLARED[method].input_type._concrete_class()
    if method.endswith("Claim"):
        name += "/gates/smoke/claim"
    fitting = {"name": name, "gate": "smoke", "reason": "no", "attempt": 1, "lease": "1"}
    for field in DECLARED[method].input_type.fields:
        if field.name in fitting:
            setattr(made, field.name, fitting[field.name])
        elif field.name == "ttl":
            made.ttl.FromSeconds(60)
    return made


def hold_night(guarded: Guarded) -> None:
    hold = pb.RolloutHold(reason="nobody is there")
    request = pb.CreateRolloutHoldRequest(rollout_hold=hold, rollout_hold_id="night")
    guarded.call("CreateRolloutHold", request, bearer("ann"))


def reflected(guarded: Guarded, authorization: str | None) -> list[str]:
    metadata = () if authorization is None else (("authorization", authorization),)
    stub = reflection_pb2_grpc.ServerReflectionStub(guarded.proxy.control.channel)
    asked = reflection_pb2.ServerReflectionRequest(list_services="")
    answers = list(stub.ServerReflectionInfo(iter([asked]), metadata=metadata, timeout=CALL_SECONDS))
    return [service.name for answer in answers for service in answer.list_services_response.service]


@pytest.mark.parametrize("stranger", STRANGERS)
def test_who_is_not_known_is_refused_at_every_method_and_changes_nothing(guarded: Guarded, stranger: str) -> None:
    worker = guarded.proxy.held_worker()
    hold_night(guarded)
    before = guarded.stored()
    for method in DECLARED:
        error = guarded.refusal(method, request_of(method, worker), STRANGERS[stranger])
        assert isinstance(error, grpc.Call)
        assert error.code() is grpc.StatusCode.UNAUTHENTICATED, method
        assert error_reason(error) == "UNAUTHENTICATED"
        for known in ("ann", "late", "expired", "revoked"):
            assert known not in (error.details() or "").split(), "a stranger is told nothing of whom there is"
    with pytest.raises(grpc.RpcError) as refused:
        reflected(guarded, STRANGERS[stranger])
    assert isinstance(refused.value, grpc.Call)
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    for path in ("/metrics", "/v1/instances", "/v1/openapi.json", "/v1/rolloutHolds"):
        assert guarded.get(path, STRANGERS[stranger]).status_code == 401
    assert guarded.stored() == before


def test_a_token_is_good_until_it_is_taken_out_of_the_file(guarded: Guarded) -> None:
    """And no longer for streams that are open: the one who watches with it is shown nothing more."""
    stub = control_pb2_grpc.ControlStub(guarded.proxy.control.channel)
    stream = stub.WatchInstances(
        pb.WatchInstancesRequest(), metadata=(("authorization", bearer("grafana")),), timeout=CALL_SECONDS
    )
    assert next(stream).events
    guarded.say(access_text("grafana"))
    error = guarded.refusal("ListInstances", pb.ListInstancesRequest(), bearer("grafana"))
    assert error_reason(error) == "UNAUTHENTICATED"
    guarded.proxy.held_worker()
    with pytest.raises(grpc.RpcError) as ended:
        next(stream)
    assert error_reason(ended.value) == "UNAUTHENTICATED"
    guarded.say(access_text())
    guarded.call("ListInstances", pb.ListInstancesRequest(), bearer("grafana"))


def test_streams_on_which_nothing_happens_end_with_their_token_too(guarded: Guarded) -> None:
    shown = {"metadata": (("authorization", bearer("grafana")),), "timeout": CALL_SECONDS}
    channel, asked = guarded.proxy.control.channel, queue.SimpleQueue[Any]()
    reflection_stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    reflection = reflection_stub.ServerReflectionInfo(iter(asked.get, None), **shown)
    asked.put(reflection_pb2.ServerReflectionRequest(list_services=""))
    assert next(reflection).list_services_response.service
    health = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), **shown)
    assert next(health).status == health_pb2.HealthCheckResponse.SERVING
    guarded.say(access_text("grafana"))
    for stream in (reflection, health):
        with pytest.raises(grpc.RpcError) as ended:
            next(stream)
        assert ended.value.code() is grpc.StatusCode.UNAUTHENTICATED
    asked.put(None)


def test_a_wrong_file_keeps_the_one_before_and_says_so(guarded: Guarded) -> None:
    def loaded() -> bool:
        return "greenroom_access_loaded 1.0" in guarded.get("/metrics", bearer("grafana")).text

    assert loaded()
    guarded.say("callers:\n- name: ann\n  role: king\n")
    assert not loaded()
    assert "callers[0].role: 'king' is none of" in guarded.proxy.greenroom.log()
    guarded.call("ListInstances", pb.ListInstancesRequest(), bearer("ann"))
    guarded.say(access_text())
    assert loaded()


@pytest.mark.parametrize("name", ROLES)
def test_a_role_is_let_in_at_its_methods_and_at_no_others(guarded: Guarded, name: str) -> None:
    worker = guarded.proxy.held_worker()
    role, may = ROLES[name]
    for method in DECLARED:
        if METHODS[method] in may:
            continue
        before = guarded.stored()
        error = guarded.refusal(method, request_of(method, worker), bearer(name))
        assert (error_reason(error), f"{name} is a {role}" in str(error)) == ("NOT_PERMITTED", True)
        assert guarded.stored() == before
    assert guarded.call("ListInstances", pb.ListInstancesRequest(), bearer(name)) is not None
    assert "greenroom.control.v1.Control" in reflected(guarded, bearer(name))


def test_a_verdict_is_in_the_name_of_whose_token_it_was(guarded: Guarded) -> None:
    worker = guarded.proxy.held_worker()
    guarded.call("ReportVerdict", request_of("ReportVerdict", worker), bearer("next-ci"))
    record = guarded.record(worker)
    assert (record.state, record.gates["smoke"].reporter) == ("REJECTED", "ci")
    assert record.transitions[-1].actor == "ci"
    lines = guarded.proxy.greenroom.log().splitlines()
    assert "reporter=ci" in next(line for line in lines if worker.instance in line and "gate.decided" in line)


def test_a_rollout_hold_is_in_the_name_of_whose_token_it_was(guarded: Guarded) -> None:
    hold_night(guarded)
    [hold] = guarded.call("ListRolloutHolds", pb.ListRolloutHoldsRequest(), bearer("ci")).rollout_holds
    assert hold.actor == "ann"
    guarded.call("LiftRolloutHold", pb.LiftRolloutHoldRequest(name=hold.name), bearer("ann"))
    assert "lifted_by=ann" in guarded.proxy.greenroom.log()


def test_a_persons_decision_is_in_the_name_of_whose_token_it_was(guarded: Guarded) -> None:
    """By gRPC, and by HTTP for another worker."""
    one, other = guarded.proxy.held_worker(), guarded.proxy.held_worker()
    guarded.call("RejectInstance", request_of("RejectInstance", one), bearer("ann"))
    path, body = f"/v1/instances/{other.instance}:reject", {"reason": "no"}
    assert guarded.post(path, {**body, "actor": "ci"}, bearer("ann")).status_code == 403
    assert guarded.post(path, body, bearer("ci")).status_code == 403
    assert guarded.post(path, body, None).status_code == 401
    assert guarded.record(other).state == "HELD"
    assert guarded.post(path, body, bearer("ann")).status_code == 200
    for worker in (one, other):
        record = guarded.record(worker)
        assert (record.state, record.transitions[-1].actor) == ("REJECTED", "ann")


@pytest.mark.parametrize("name", ["ci", "tiny-ci", "ann"])
def test_nobody_passes_a_gate_in_anothers_name(guarded: Guarded, name: str) -> None:
    worker = guarded.proxy.held_worker()
    before = guarded.stored()
    request = request_of("ReportVerdict", worker)
    request.reporter = "somebody"
    error = guarded.refusal("ReportVerdict", request, bearer(name))
    assert error_reason(error) == "NOT_PERMITTED"
    assert f"says 'somebody', and the call is {name}'s" in str(error)
    assert guarded.stored() == before


def test_a_reporter_passes_its_own_gates_only(guarded: Guarded) -> None:
    worker = guarded.proxy.held_worker()
    before = guarded.stored()
    for outcome in pb.Outcome.values():
        request = request_of("ReportVerdict", worker)
        request.gate, request.outcome = "latency", outcome
        error = guarded.refusal("ReportVerdict", request, bearer("ci"))
        assert (error_reason(error), "only for smoke" in str(error)) == ("NOT_PERMITTED", True)
    assert guarded.stored() == before


@pytest.mark.parametrize(
    "method", [name for name in DECLARED if METHODS[name] is Role.REPORTER and name not in WITHOUT_GATES]
)
def test_a_reporter_keeps_to_its_instances_at_every_method(guarded: Guarded, method: str) -> None:
    """The instance is judged by the record that the change would be made from, within the same fence."""
    worker = guarded.proxy.held_worker(model="large")
    before = guarded.stored()
    error = guarded.refusal(method, request_of(method, worker), bearer("tiny-ci"))
    assert error_reason(error) == "NOT_PERMITTED"
    assert f"may not report on {worker.instance} (dynamo.backend.generate large): only on" in str(error)
    assert guarded.stored() == before


def test_a_reporter_opens_sees_and_closes_previews_of_its_own_instances_only(guarded: Guarded) -> None:
    """`ci` is limited to a gate, and may look at every instance; what shows more than one is an operator's."""
    own, foreign = guarded.proxy.held_worker(model="tiny-chat"), guarded.proxy.held_worker(model="large")

    def open_as(name: str, worker: Worker | None) -> Any:
        asked = pb.Preview(instance=f"instances/{worker.instance}" if worker else "", only=worker is not None)
        return guarded.call("OpenPreview", pb.OpenPreviewRequest(preview=asked), bearer(name))

    def refused(method: str, request: Message, name: str) -> bool:
        return error_reason(guarded.refusal(method, request, bearer(name))) == "NOT_PERMITTED"

    def listed(name: str) -> list[str]:
        found = guarded.call("ListPreviews", pb.ListPreviewsRequest(), bearer(name)).previews
        return [preview.name for preview in found]

    of_foreign = pb.OpenPreviewRequest(preview=pb.Preview(instance=f"instances/{foreign.instance}"))
    assert refused("OpenPreview", of_foreign, "tiny-ci")
    assert refused("OpenPreview", pb.OpenPreviewRequest(preview=pb.Preview()), "ci")
    mine, others, all_held = open_as("tiny-ci", own), open_as("ci", foreign), open_as("ann", None)
    assert (mine.actor, others.actor, all_held.actor) == ("tiny-ci", "ci", "ann")
    wait_for(lambda: listed("ci") == [mine.name, others.name], describe="the proxy's list has both instances")
    assert (listed("tiny-ci"), listed("ann")) == ([mine.name], [mine.name, others.name, all_held.name])
    for preview in (others, all_held):
        assert refused("GetPreview", pb.GetPreviewRequest(name=preview.name), "tiny-ci")
        assert refused("ClosePreview", pb.ClosePreviewRequest(name=preview.name), "tiny-ci")
    for preview in (mine, others, all_held):
        guarded.call("ClosePreview", pb.ClosePreviewRequest(name=preview.name), bearer("ann"))
    assert listed("ann") == []


def test_a_reporter_reports_on_the_instances_that_are_its_own(guarded: Guarded) -> None:
    worker = guarded.proxy.held_worker(model="tiny-chat")
    answer = guarded.call("ReportVerdict", request_of("ReportVerdict", worker), bearer("tiny-ci"))
    assert answer.decision == pb.DECISION_REJECTED
    assert guarded.record(worker).gates["smoke"].reporter == "tiny-ci"


def test_a_card_that_changes_hands_takes_its_instance_out_of_a_reporters_hands(guarded: Guarded) -> None:
    """The worker becomes another model's after the check began: the verdict is refused for that, and not as stale."""
    worker = guarded.proxy.held_worker(model="tiny-chat")
    worker.model = "large"
    worker.client.put(worker.card_key, worker.card(), worker.lease)
    before = guarded.stored()
    error = guarded.refusal("ReportVerdict", request_of("ReportVerdict", worker), bearer("tiny-ci"))
    assert error_reason(error) == "NOT_PERMITTED"
    assert guarded.stored() == before


def test_probes_and_health_are_open_and_metrics_are_for_viewers(guarded: Guarded) -> None:
    worker = guarded.proxy.held_worker()
    assert guarded.get(f"/v1/instances/{worker.instance}/health").json()["instances"] == []
    assert [guarded.get(path).status_code for path in ("/live", "/ready")] == [200, 200]
    by_name = httpx.get(
        f"{guarded.proxy.greenroom.http_url}/live", headers={"host": "greenroom.fleet"}, trust_env=False
    )
    assert by_name.status_code == 200, "a port that asks who calls goes by any name"
    assert guarded.get("/metrics", bearer("grafana")).status_code == 200
    health = health_pb2_grpc.HealthStub(guarded.proxy.control.channel)
    answer = health.Check(health_pb2.HealthCheckRequest(), timeout=CALL_SECONDS)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_refusals_are_logged_with_method_peer_and_name_and_counted(guarded: Guarded) -> None:
    def counted(cause: str) -> float:
        name = f'greenroom_control_refused_total{{cause="{cause}"}} '
        page = guarded.get("/metrics", bearer("grafana")).text
        return float(next(line for line in page.splitlines() if line.startswith(name)).rpartition(" ")[2])

    before = counted("expired")
    guarded.refusal("ListRolloutHolds", pb.ListRolloutHoldsRequest(), bearer("late"))
    assert counted("expired") == before + 1
    lines = [line for line in guarded.proxy.greenroom.log().splitlines() if "control.refused" in line]
    expired = [line for line in lines if "cause=expired" in line and "caller=late" in line]
    assert any("method=ListRolloutHolds" in line and "peer=ipv4:127.0.0.1" in line for line in expired)


def test_the_command_line_shows_its_token_and_says_what_to_do_without_one(
    guarded: Guarded, wait_listed: Callable[[Worker], None]
) -> None:
    worker = guarded.proxy.held_worker()
    wait_listed(worker)
    greenroom = guarded.proxy.greenroom
    verdict = ("verdict", worker.instance, "smoke", "passed")
    without = greenroom.cli(*verdict)
    assert (without.returncode, without.stdout) == (1, "")
    assert "--token-file, GREENROOM_TOKEN_FILE or GREENROOM_TOKEN say who you are" in without.stderr
    done = greenroom.must(*verdict, "--token-file", guarded.token_file("ci"))
    assert "smoke passed (attempt 1 of" in done
    assert guarded.record(worker).gates["smoke"].reporter == "ci"
    denied = greenroom.cli("rollout-hold", "create", "--reason", "x", "--token-file", guarded.token_file("ci"))
    assert denied.returncode == 1
    assert "ci is a reporter: CreateRolloutHold needs the role operator" in denied.stderr
    created = greenroom.must("rollout-hold", "create", "--reason", "x", "--token-file", guarded.token_file("ann"))
    assert f"--token-file {guarded.token_file('ann')}" in created, "the command that lifts it needs the token too"


@pytest.fixture
def wait_listed(guarded: Guarded) -> Callable[[Worker], None]:
    """Returns when the proxy's list, which follows etcd by a watch, has come to a worker."""

    def wait(worker: Worker) -> None:
        def listed() -> bool:
            found = guarded.call("ListInstances", pb.ListInstancesRequest(), bearer("grafana")).instances
            return worker.instance in {one.id for one in found}

        wait_for(listed, describe=f"{worker} is listed")

    return wait
