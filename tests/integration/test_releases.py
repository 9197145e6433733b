"""Limits of releases on a real etcd: a budget, the queue before it, what stops a drain, and the floor under a group."""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from greenroom.core import budget as budgets
from greenroom.core import rollout_holds
from greenroom.core.keyspace import BUDGET, rollout_hold_key
from greenroom.core.policy import ReleasesPolicy
from greenroom.core.record import State
from greenroom.core.snapshot import Snapshot
from greenroom.core.transitions import Outcome
from greenroom.core.verdicts import Effect, KeptInService, Plan, Unchanged, verdict, withdrawal
from greenroom.pb.control.v1 import control_pb2 as pb
from greenroom.pb.etcd import rpc_pb2
from greenroom.store.fenced import CarriedOut, carry_out
from tests.integration.test_reconciler import HOLD, HOLD_VALUE, store_verdict, wait_state
from tests.support.client import EtcdClient
from tests.support.control_side import ControlSide, control_side
from tests.support.endpoints import Proxy
from tests.support.etcd import Etcd
from tests.support.http import ask
from tests.support.mirroring import wait_mirrored
from tests.support.registering import Held, register, stored_record
from tests.support.waiting import wait_for

FLEET = 60
SHORT = ReleasesPolicy(max_in_flight=8, settle_seconds=0.2)
ONE_AT_ONCE = ReleasesPolicy(max_in_flight=1, settle_seconds=3600)
TWO_STAY = ReleasesPolicy(min_released=2)


async def passes(side: ControlSide, held: Held) -> "pb.Decision.ValueType":
    request = pb.ReportVerdictRequest(name=held.name, gate="smoke", attempt=1, outcome=pb.OUTCOME_PASSED)
    return (await side.stub.ReportVerdict(request)).decision


async def withdraws(side: ControlSide, held: Held, *, by_person: bool) -> CarriedOut | Unchanged:
    actor = "alice" if by_person else "greenroom"
    planner = withdrawal(actor, "wrong words", by_person=by_person, limits=side.limits)
    done = await carry_out(side.upstream, held.instance, planner, clock=side.clock)
    if isinstance(done, CarriedOut):
        side.announcer.carried_out(done)
    return done


def writes_of_the_budget(client: EtcdClient, since: int) -> list[tuple[int, budgets.Budget]]:
    """Each write of the key after `since`, with its revision."""
    with client.watch(BUDGET, b"", start_revision=since + 1) as seen:
        marker = client.put(BUDGET, b"the end").header.revision
        seen.wait_revision(marker)
    found = [(event.kv.mod_revision, budgets.decode(event.kv.value)) for event in seen.events]
    return [(revision, budget) for revision, budget in found if budget is not None]


async def test_a_lifted_hold_lets_a_fleet_in_by_turns_and_never_more_than_the_budget(
    etcd: Etcd, client: EtcdClient
) -> None:
    """Of two proxies too: in the order of readiness, at most eight of which none has settled, and nobody twice."""
    async with control_side(etcd, releases=SHORT) as one, control_side(etcd, releases=SHORT) as other:
        client.put(HOLD, HOLD_VALUE)
        fleet = [register(client) for _ in range(FLEET)]
        for held in reversed(fleet):
            store_verdict(client, held)
        since = client.revision()
        await asyncio.gather(*(wait_mirrored(side.follower, since) for side in (one, other)))
        with client.watch(b"v1/mdc/", b"v1/mdc0") as public:
            client.delete(HOLD)
            await asyncio.to_thread(public.wait_events, FLEET, 30)
    shown = [event.kv.key for event in public.events]
    ready = {held.card: (stored_record(client, held.instance).gates["smoke"].decided, held.instance) for held in fleet}
    assert shown == sorted(ready, key=lambda card: ready[card])
    at = {held.card: stored_record(client, held.instance).released for held in fleet}
    times = [at[card] for card in shown]
    gaps = [late - early for early, late in zip(times, times[8:], strict=False) if early and late]
    assert len(gaps) == FLEET - 8
    assert min(gaps) >= timedelta(seconds=0.2), "nine at once"
    written = writes_of_the_budget(client, since)
    assert [revision for revision, _ in written] == [event.kv.mod_revision for event in public.events]
    assert max(len(budget.in_flight) for _, budget in written) == 8


async def test_the_queue_is_told_by_place_and_a_release_that_ends_lets_the_next_in(
    etcd: Etcd, client: EtcdClient
) -> None:
    async with control_side(etcd, releases=ONE_AT_ONCE) as side:
        first, second, third = (register(client) for _ in range(3))
        assert await passes(side, first) == pb.DECISION_RELEASED
        assert await passes(side, second) == pb.DECISION_QUEUED
        assert await passes(side, third) == pb.DECISION_QUEUED
        await wait_mirrored(side.follower, client.revision())
        listed = (await side.stub.ListInstances(pb.ListInstancesRequest())).instances
        assert {one.id: one.queue_position for one in listed} == {
            first.instance: 0,
            second.instance: 1,
            third.instance: 2,
        }
        got = await side.stub.GetInstance(pb.GetInstanceRequest(name=third.name))
        said = next(one for one in got.conditions if one.type == "BudgetAvailable")
        assert (got.queue_position, said.status, said.reason) == (2, False, "InQueue")
        assert said.message == "place 2 of 2 in the queue; 1 of 1 releases in flight"
        client.revoke(first.lease)
        await wait_state(client, second, State.RELEASED)
        assert stored_record(client, third.instance).state is State.HELD


async def test_a_release_that_has_settled_lets_the_next_in_by_itself(etcd: Etcd, client: EtcdClient) -> None:
    async with control_side(etcd, releases=ReleasesPolicy(max_in_flight=1, settle_seconds=0.3)) as side:
        first, second = register(client), register(client)
        assert await passes(side, first) == pb.DECISION_RELEASED
        await passes(side, second)
        late = (await wait_state(client, second, State.RELEASED)).released
        early = stored_record(client, first.instance).released
        assert early is not None
        assert late is not None
        assert late - early >= timedelta(seconds=0.3)


async def test_a_withdrawal_before_it_has_settled_stops_the_drain_until_somebody_lifts_it(
    etcd: Etcd, client: EtcdClient
) -> None:
    async with control_side(etcd, releases=ONE_AT_ONCE) as side:
        first, second = register(client), register(client)
        other = register(client, model="another")
        assert await passes(side, first) == pb.DECISION_RELEASED
        assert await passes(side, second) == pb.DECISION_QUEUED
        assert isinstance(await withdraws(side, first, by_person=True), CarriedOut)
        assert await passes(side, other) == pb.DECISION_RELEASED, "the stop is for what is like the withdrawn"
        client.revoke(other.lease)
        [hold] = (await side.stub.ListRolloutHolds(pb.ListRolloutHoldsRequest())).rollout_holds
        assert (hold.name, hold.actor) == (f"rolloutHolds/stopped-{first.instance}", "greenroom")
        assert hold.reason == f"alice withdrew {first.instance} right after its release: wrong words"
        [line] = side.log.named("rollout_hold.created")
        assert line["id"] == f"stopped-{first.instance}"
        await wait_mirrored(side.follower, client.put(BUDGET, budgets.encode(budgets.Budget())).header.revision)
        assert stored_record(client, second.instance).state is State.HELD
        await side.stub.LiftRolloutHold(pb.LiftRolloutHoldRequest(name=hold.name))
        await wait_state(client, second, State.RELEASED)


async def test_what_people_decide_keeps_to_the_limits_too(etcd: Etcd, client: EtcdClient) -> None:
    """An override sets gates aside, and not those who came before; a person's withdrawal stops the drain."""
    async with control_side(etcd, releases=ONE_AT_ONCE) as side:
        first, second = register(client), register(client)
        why = {"reason": "known good", "actor": "alice"}
        override = pb.ReleaseInstanceRequest(name=first.name, override=True, **why)
        assert (await side.stub.ReleaseInstance(override)).decision == pb.DECISION_RELEASED
        override = pb.ReleaseInstanceRequest(name=second.name, override=True, **why)
        assert (await side.stub.ReleaseInstance(override)).decision == pb.DECISION_QUEUED
        withdrawn = await side.stub.WithdrawInstance(pb.WithdrawInstanceRequest(name=first.name, **why))
        assert withdrawn.decision == pb.DECISION_WITHDRAWN
        [line] = side.log.named("rollout_hold.created")
        assert line["id"] == f"stopped-{first.instance}"
        got = await side.stub.GetInstance(pb.GetInstanceRequest(name=second.name))
        assert list(got.rollout_holds) == [f"stopped-{first.instance}"]


async def test_who_cannot_be_released_keeps_nobody_waiting(etcd: Etcd, client: EtcdClient) -> None:
    """A shadow that the record does not name makes the plan of the first in the queue fail."""
    async with control_side(etcd, releases=SHORT) as side:
        client.put(HOLD, HOLD_VALUE)
        broken, held = register(client), register(client)
        client.put(b"\x01greenroom/held/" + broken.instance.encode() + b"/v1/mdc/strange", b"1", broken.lease)
        store_verdict(client, broken)
        store_verdict(client, held)
        client.delete(HOLD)
        await wait_state(client, held, State.RELEASED)
        await side.log.wait_named("reconciler.failed")
        assert stored_record(client, broken.instance).state is State.HELD


async def test_a_rollout_hold_that_comes_between_a_read_and_its_release_is_heeded(
    etcd: Etcd, client: EtcdClient
) -> None:
    """The plan was made when nothing stood against it; by the time of the Txn somebody has stopped releases."""
    async with control_side(etcd) as side:
        held, planned = register(client), list[Plan]()
        passed = verdict("smoke", 1, Outcome.PASSED, reason="", reporter="ci")

        def plan(snapshot: Snapshot, now: object) -> Plan:
            planned.append(passed(snapshot, now))  # type: ignore[arg-type]
            if len(planned) == 1:
                client.put(HOLD, HOLD_VALUE)
            return planned[-1]

        done = await carry_out(side.upstream, held.instance, plan, clock=side.clock)
        assert isinstance(done, CarriedOut)
        assert [one.effect for one in planned] == [Effect.RELEASED, Effect.STORED]  # type: ignore[union-attr]
        assert (done.effect, client.get(held.card)) == (Effect.STORED, None)


async def test_of_stacked_rollout_holds_the_last_lets_go(etcd: Etcd, client: EtcdClient) -> None:
    async with control_side(etcd, releases=SHORT) as side:
        held = register(client)
        for name in ("a", "b"):
            hold = rollout_holds.RolloutHold(hold_id=name, reason="r", actor="ops")
            client.put(rollout_hold_key(name), rollout_holds.encode(hold))
        assert await passes(side, held) == pb.DECISION_QUEUED
        got = await side.stub.GetInstance(pb.GetInstanceRequest(name=held.name))
        assert (list(got.rollout_holds), got.queue_position) == (["a", "b"], 0)
        await side.stub.LiftRolloutHold(pb.LiftRolloutHoldRequest(name="rolloutHolds/a"))
        await wait_mirrored(side.follower, client.put(BUDGET, b"{}").header.revision)
        assert stored_record(client, held.instance).state is State.HELD
        await side.stub.LiftRolloutHold(pb.LiftRolloutHoldRequest(name="rolloutHolds/b"))
        await wait_state(client, held, State.RELEASED)


@pytest.mark.parametrize("round_", range(5))
async def test_of_two_proxies_automation_never_withdraws_below_the_floor(
    etcd: Etcd, client: EtcdClient, round_: int
) -> None:
    """Three are released and two have to stay: each proxy withdraws another, at once, and one of them must not."""
    async with control_side(etcd, releases=TWO_STAY) as one, control_side(etcd, releases=TWO_STAY) as other:
        fleet = [register(client) for _ in range(3)]
        for held in fleet:
            assert await passes(one, held) == pb.DECISION_RELEASED
        await asyncio.gather(*(wait_mirrored(side.follower, client.revision()) for side in (one, other)))
        done = await asyncio.gather(
            withdraws(one, fleet[0], by_person=False), withdraws(other, fleet[1], by_person=False)
        )
        assert sorted(type(each).__name__ for each in done) == ["CarriedOut", "KeptInService"]
        [kept] = [each for each in done if isinstance(each, KeptInService)]
        assert "only 1 others of dynamo.backend.generate" in kept.why
        assert client.prefix(b"v1/mdc/").count == 2
        by_person = await withdraws(one, fleet[2], by_person=True)
        assert isinstance(by_person, CarriedOut), "a person may"


async def test_an_unreadable_budget_stops_releases_and_says_so(etcd: Etcd, client: EtcdClient) -> None:
    async with control_side(etcd, releases=SHORT) as side:
        held = register(client)
        revision = client.put(BUDGET, b'{"schema_version": 2}').header.revision
        await wait_mirrored(side.follower, revision)
        assert await passes(side, held) == pb.DECISION_QUEUED
        got = await side.stub.GetInstance(pb.GetInstanceRequest(name=held.name))
        assert "cannot be read" in next(one for one in got.conditions if one.type == "BudgetAvailable").message
        await side.upstream.delete_range(rpc_pb2.DeleteRangeRequest(key=BUDGET))
        await wait_state(client, held, State.RELEASED)


def test_the_program_obeys_its_policy_and_its_commands_tell_places(
    launch_proxy: Callable[..., Proxy], etcd: Etcd, tmp_path: Path
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(
        "rules: [{gates: {smoke: {timeout_seconds: 60}}}]\nreleases: {max_in_flight: 1, settle_seconds: 1h}"
    )
    proxy = launch_proxy(etcd, arguments=("--policy", str(path)))
    first, second = proxy.held_worker(), proxy.held_worker()
    assert proxy.control.pass_gates(first.instance, ("smoke",)) == "RELEASED"
    said = proxy.greenroom.must("verdict", second.instance, "smoke", "passed")
    assert "every gate passed, and it waits: " in said
    assert "in the queue; 1 of 1 releases in flight" in said
    wait_for(lambda: proxy.control.instance(second.instance).queue_position, describe="the place is known")
    [row] = [line for line in proxy.greenroom.must("instances").splitlines() if second.instance in line]
    assert "place 1 of 1 in the queue; 1 of 1 releases in flight" in row
    page = proxy.greenroom.must("instance", second.instance)
    assert "place 1 of 1 in the queue; 1 of 1 releases in flight" in page
    assert f"greenroom wait {second.instance} --for released" in page
    told = json.loads(proxy.greenroom.must("instance", second.instance, "-o", "json"))
    assert told["queue_position"] == 1
    health = ask(f"{proxy.greenroom.http_url}/v1/instances/{second.instance}/health")
    assert (health.status, health.json["reasons"]) == (503, ["place 1 of 1 in the queue; 1 of 1 releases in flight"])
    assert proxy.shown(second) == []
    first.client.revoke(first.lease)
    proxy.greenroom.must("wait", second.instance, "--for", "released")
