"""The floor under a group: whom automation would withdraw serves on while too few others do, and everybody is told why.

The rule: the program itself, or the control side where time has to pass; what the public sees is asked of etcd.
"""

from collections.abc import Callable
from pathlib import Path

from greenroom.core import record as records
from greenroom.core.decide import DEADLINE_GRACE_SECONDS
from greenroom.core.keyspace import record_key
from greenroom.core.policy import Phase, ReleasesPolicy
from greenroom.core.record import State
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.integration.test_reconciler import wait_state
from tests.support.client import EtcdClient, put
from tests.support.control_side import ControlSide, control_side
from tests.support.endpoints import Proxy
from tests.support.etcd import Etcd
from tests.support.registering import Held, register, stored_record
from tests.support.waiting import wait_for
from tests.support.workers import Worker

POLICY = """
rules: [{gates: {smoke: {timeout_seconds: 60, phase: continuous, ttl_seconds: 1h}}}]
releases: {min_released: 1}
"""
ONE_STAYS = ReleasesPolicy(min_released=1)
TTL_SECONDS = 600.0


def why(proxy: Proxy, worker: Worker) -> str:
    """What its first condition says, where that is not met."""
    passed = proxy.control.instance(worker.instance).conditions[0]
    assert passed.type == "GatesPassed"
    return "" if passed.status else f"{passed.reason}: {passed.message}"


def test_the_program_leaves_in_service_whom_too_few_others_serve_beside_until_they_do(
    launch_proxy: Callable[..., Proxy], etcd: Etcd, tmp_path: Path
) -> None:
    """Its gate fails: recorded, told, and done when another one is released. A person withdraws the last one too."""
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    proxy = launch_proxy(etcd, arguments=("--policy", str(path)))
    first, second = proxy.held_worker(), proxy.held_worker()
    assert proxy.control.pass_gates(first.instance, ("smoke",)) == "RELEASED"
    said = proxy.greenroom.must("verdict", first.instance, "smoke", "failed", "--reason", "it says gibberish")
    kept = "gate smoke failed: it says gibberish; it stays in service, since only 0 others of dynamo.backend.generate"
    assert f"stored, and its cards stay public: {kept}" in said
    assert why(proxy, first).startswith(f"ToBeWithdrawn: {kept}")
    page = proxy.greenroom.must("instance", first.instance)
    assert f"Why it is released\n  {kept}" in page
    assert "smoke failed" in page, "the trail has it"
    wait_for(lambda: "instance.kept_in_service" in proxy.greenroom.log(), describe="the log tells it")
    assert proxy.shown(first) == [first.card_key]

    assert proxy.control.pass_gates(second.instance, ("smoke",)) == "RELEASED"
    wait_for(lambda: proxy.control.state(first.instance) == "WITHDRAWN", 40, "the first is withdrawn")
    assert (proxy.shown(first), proxy.shown(second)) == ([], [second.card_key])
    line = proxy.control.instance(first.instance).transitions[-1]
    assert (line.actor, line.event, line.reason) == (
        *("greenroom", "withdraw"),
        "gate smoke failed: it says gibberish",
    )

    assert proxy.control.verdict(second.instance, "smoke", "failed") == "RELEASED"
    assert proxy.shown(second) == [second.card_key]
    answer = proxy.control.decide("WithdrawInstance", second.instance)
    assert pb.Decision.Name(answer.decision) == "DECISION_WITHDRAWN"
    assert proxy.shown(second) == []


def serving(client: EtcdClient) -> Held:
    """A held instance, whose rules asked for a continuous gate."""
    held = register(client)
    record = stored_record(client, held.instance)
    gate = record.gates["smoke"].model_copy(update={"phase": Phase.CONTINUOUS, "ttl_seconds": TTL_SECONDS})
    after = records.encode(record.model_copy(update={"gates": {"smoke": gate}}))
    client.txn([], [put(record_key(held.instance), after, held.lease)])
    return held


async def passes(side: ControlSide, held: Held) -> "pb.Decision.ValueType":
    request = pb.ReportVerdictRequest(
        name=held.name, gate="smoke", attempt=1, outcome=pb.OUTCOME_PASSED, reporter="probe"
    )
    return (await side.stub.ReportVerdict(request)).decision


async def test_a_pass_that_nobody_renews_withdraws_nobody_below_the_floor_and_can_still_be_renewed(
    etcd: Etcd, client: EtcdClient
) -> None:
    """The prober of a whole group died: one of two stays, and is as good as before once the prober is back."""
    async with control_side(etcd, releases=ONE_STAYS) as side:
        fleet = [serving(client), serving(client)]
        for held in fleet:
            assert await passes(side, held) == pb.DECISION_RELEASED
        side.clock.advance(TTL_SECONDS + DEADLINE_GRACE_SECONDS)
        client.put(b"\x01greenroom/instances/zz", b"{}")
        [line] = await side.log.wait_named("instance.kept_in_service")
        [kept] = [held for held in fleet if held.instance == line["instance"]]
        [out] = [held for held in fleet if held is not kept]
        await wait_state(client, out, State.WITHDRAWN)
        assert "only 0 others of" in line["why"]
        assert client.get(kept.card) is not None
        listed = (await side.stub.ListInstances(pb.ListInstancesRequest())).instances
        [shown] = [one for one in listed if one.id == kept.instance]
        assert shown.conditions[0].message.startswith("gate smoke was not renewed within 600 s; it stays in service")
        assert await passes(side, kept) == pb.DECISION_RELEASED
        got = await side.stub.GetInstance(pb.GetInstanceRequest(name=kept.name))
        assert (got.state, got.conditions[0].status) == (pb.INSTANCE_STATE_RELEASED, True)
