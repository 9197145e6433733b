"""The lines about instances and rollout holds."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from greenroom.control import announce
from greenroom.control.announce import Announcer
from greenroom.control.metrics import Metrics
from greenroom.control.requests import VerdictReport
from greenroom.core import rollout_holds
from greenroom.core.decisions import DecisionKind, PersonsDecision
from greenroom.core.keyspace import InstanceId, rollout_hold_key
from greenroom.core.policy import Hold, Phase, Requirements, gates_of
from greenroom.core.record import GateState
from greenroom.core.rollout_holds import RolloutHold
from greenroom.core.templates import GatedKeys
from greenroom.core.transitions import Outcome, opened_as_public, rejected, released, with_gate, with_verdict, withdrawn
from greenroom.core.verdicts import Effect
from greenroom.pb.etcd import kv_pb2
from greenroom.store.claims import HeldClaim
from greenroom.store.fenced import CarriedOut
from greenroom.store.follower import Follower
from greenroom.store.mirror import Mirror
from tests.support.control_side import GATED, EventLog, MovableClock
from tests.support.instances import K
from tests.support.later import released_record, with_later
from tests.support.mirroring import (
    ONE,
    TWO,
    claim_kv,
    delete_event,
    fed_follower,
    held,
    kv_of,
    put_event,
    record_kv,
    unconnected,
)
from tests.support.registering import entry, held_record, instance_record, instance_record_key, now

ADDRESS_EVENT = put_event(instance_record_key(ONE), instance_record(ONE, "10.0.0.7:1"))


def announcer_of(follower: Follower, control: str | None = None) -> tuple[Announcer, EventLog, Metrics]:
    log, clock = EventLog(), MovableClock()
    metrics = Metrics(follower.mirror, clock=clock, gates=(), methods=(), version="1")
    return Announcer(follower, clock=clock, log=log, metrics=metrics, control=control), log, metrics


@asynccontextmanager
async def running(announcer: Announcer) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(announcer.run())
        await asyncio.sleep(0)
        try:
            yield
        finally:
            task.cancel()


async def follower_with_address(kvs: list[kv_pb2.KeyValue]) -> Follower:
    follower = fed_follower(kvs)
    follower.addresses_changed(follower.mirror.apply_addresses([ADDRESS_EVENT]), b"v1/instances/", 11)
    return follower


async def test_a_held_instance_is_told_with_what_passes_its_first_gate() -> None:
    record = held_record(ONE, {"smoke": 900.0, "latency": 60.0})
    announcer, log, _ = announcer_of(await follower_with_address(held(ONE, record)), "10.0.0.1:2390")
    async with running(announcer):
        announcer.opened(ONE)
        [event] = await log.wait_named("instance.held")
    assert event["command"] == f"greenroom verdict {ONE} smoke passed --attempt 1 --reason TEXT --control 10.0.0.1:2390"
    assert event["address"] == "10.0.0.7:1"
    smoke, latency = event["waits_for"].split(", ")
    assert smoke == f"smoke until {record.gates['smoke'].deadline:%Y-%m-%d %H:%M:%S} UTC"
    assert latency.startswith("latency until ")


async def test_the_line_waits_for_the_address() -> None:
    follower = fed_follower(held(ONE))
    announcer, log, _ = announcer_of(follower)
    async with running(announcer):
        announcer.opened(ONE)
        await asyncio.sleep(0)
        assert log.events == []
        follower.addresses_changed(follower.mirror.apply_addresses([ADDRESS_EVENT]), b"v1/instances/", 11)
        [event] = await log.wait_named("instance.held")
    assert event["address"] == "10.0.0.7:1"


async def test_one_that_was_released_meanwhile_is_not_told_as_held_afterwards() -> None:
    """The gates of a small model can pass before its address is known; the mirror still shows it as held then."""
    follower = fed_follower([*held(ONE), *held(TWO)])
    announcer, log, _ = announcer_of(follower)
    before = held_record(ONE)
    async with running(announcer):
        announcer.opened(ONE)
        announcer.opened(TWO)
        await asyncio.sleep(0)
        announcer.carried_out(CarriedOut(ONE, before, released(before, now()), Effect.RELEASED, 7))
        two_address = put_event(instance_record_key(TWO), instance_record(TWO, "10.0.0.8:1"))
        follower.addresses_changed(follower.mirror.apply_addresses([ADDRESS_EVENT, two_address]), b"v1/instances/", 11)
        await log.wait_named("instance.held")
    assert [(event["event"], event["instance"]) for event in log.events] == [
        ("instance.released", ONE),
        ("instance.held", TWO),
    ]


async def test_one_that_another_proxy_released_or_that_expired_is_waited_for_no_longer() -> None:
    follower = fed_follower([*held(ONE), *held(TWO)])
    announcer, log, _ = announcer_of(follower)
    async with running(announcer):
        announcer.opened(ONE)
        announcer.opened(TWO)
        await asyncio.sleep(0)
        out = record_kv(ONE, released(held_record(ONE), now()))
        gone = delete_event(record_kv(TWO).key)
        follower.moved_on(follower.mirror.apply([put_event(out.key, out.value), gone]), 11)
        await log.wait_named("instance.expired")
        assert announcer._opened == {}
    assert log.named("instance.held") == []


async def test_without_an_address_the_line_comes_when_the_wait_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announce, "ADDRESS_WAIT_SECONDS", 0.02)
    announcer, log, _ = announcer_of(fed_follower(held(ONE)))
    announcer.opened(TWO)
    async with running(announcer):
        announcer.opened(ONE)
        behind, event = await log.wait_named("instance.held", 2)
    assert (event["instance"], event["address"]) == (ONE, None)
    assert (behind["instance"], "address" in behind) == (TWO, False)


async def test_where_no_template_names_instance_records_no_address_is_waited_for() -> None:
    mirror = Mirror(GatedKeys(GATED.templates, ()))
    follower = Follower(unconnected(), mirror, GATED, clock=MovableClock(), log=EventLog())
    follower.synced(mirror.replace(held(ONE)), 10)
    announcer, log, _ = announcer_of(follower)
    async with running(announcer):
        announcer.opened(ONE)
        await log.wait_named("instance.held", timeout_seconds=1)


async def test_what_others_do_costs_nothing_while_a_whole_fleet_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 500 that waited once looked into the mirror at each change: 2.8 ms of the loop's time, each time."""
    fleet = [InstanceId(f"{number:x}") for number in range(1, 501)]
    follower = fed_follower([kv for instance in fleet for kv in held(instance)])
    announcer, log, _ = announcer_of(follower)
    looked_at: list[InstanceId] = []
    find = Mirror.instance
    monkeypatch.setattr(Mirror, "instance", lambda self, name: (looked_at.append(name), find(self, name))[1])
    async with running(announcer):
        for instance in fleet:
            announcer.opened(instance)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        looked_at.clear()
        follower.moved_on(follower.mirror.apply([put_event(record_kv(ONE).key, record_kv(ONE).value)]), 11)
        two = put_event(instance_record_key("2"), instance_record("2", "10.0.0.8:1"))
        follower.addresses_changed(follower.mirror.apply_addresses([two]), b"v1/instances/", 11)
        await log.wait_named("instance.held")
    assert looked_at == ["2"]


async def test_an_instance_that_served_before_is_told_as_adopted() -> None:
    record = opened_as_public((entry(ONE),), Requirements(Hold.CARD, gates_of({"smoke": 1.0})), now())
    announcer, log, _ = announcer_of(await follower_with_address([record_kv(ONE, record)]))
    async with running(announcer):
        announcer.opened(ONE)
        await log.wait_named("instance.adopted")
    assert log.named("instance.held") == []


async def test_an_expiry_is_told_and_counted() -> None:
    follower = fed_follower(held(ONE))
    announcer, log, metrics = announcer_of(follower)
    async with running(announcer):
        await asyncio.sleep(0)
        follower.moved_on(follower.mirror.apply([delete_event(record_kv(ONE).key)]), 11)
        [event] = await log.wait_named("instance.expired")
    assert (event["instance"], event["state"]) == (ONE, "held")
    assert metrics.registry.get_sample_value("greenroom_expired_total", {"state": "held"}) == 1


async def test_what_a_txn_did_is_one_line_by_its_effect() -> None:
    announcer, log, _ = announcer_of(fed_follower([]))
    before = held_record(ONE)
    failed = with_verdict(before, "smoke", 1, Outcome.FAILED, reason="no answer", reporter="ci", now=now())
    passed = with_verdict(before, "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=now())
    out = released(passed, now())
    back = withdrawn(out, "ops", "bad answers", now(), by_person=True)
    for old, new, effect in (
        (before, passed, Effect.STORED),
        (before, failed, Effect.REJECTED),
        (passed, out, Effect.RELEASED),
        (out, back, Effect.WITHDRAWN),
    ):
        announcer.carried_out(CarriedOut(ONE, old, new, effect, 7))
    assert [event["event"] for event in log.events] == ["instance.rejected", "instance.released", "instance.withdrawn"]
    rejected, told, _ = log.events
    assert (rejected["reason"], rejected["actor"]) == ("no answer", "ci")
    assert told["models"] == "Qwen/Qwen3-0.6B"
    assert told["endpoint"] == "dynamo.backend.generate"
    assert told["revision"] == 7


async def test_what_rules_in_dry_run_would_have_done_is_told_as_that() -> None:
    """Nobody is to be called at night because of it."""
    announcer, log, _ = announcer_of(fed_follower())
    before = held_record(ONE).model_copy(update={"dry_run": True})
    announcer.carried_out(CarriedOut(ONE, before, released(before, now()), Effect.RELEASED, 7))
    assert [event["dry_run"] for event in log.events] == [True]


async def test_a_persons_decision_is_a_line_of_its_own_before_what_it_did() -> None:
    announcer, log, metrics = announcer_of(fed_follower([]))
    before = held_record(ONE)
    after = rejected(before, "ann", "looks wrong", now())
    said = PersonsDecision(DecisionKind.REJECT, ONE, "ann", "looks wrong")
    announcer.decision_taken(said, after, CarriedOut(ONE, before, after, Effect.REJECTED, 7))
    decision, rejection = log.events
    told = [decision[name] for name in ("event", "instance", "kind", "actor", "reason", "leaves")]
    assert told == ["decision.taken", ONE, "reject", "ann", "looks wrong", "rejected"]
    assert (rejection["event"], rejection["actor"], rejection["reason"]) == ("instance.rejected", "ann", "looks wrong")
    assert "gate" not in rejection
    assert metrics.registry.get_sample_value("greenroom_decisions_total", {"kind": "reject"}) == 1


async def test_a_retry_names_its_gates_and_the_end_of_a_lease_leaves_nothing() -> None:
    announcer, log, _ = announcer_of(fed_follower([]))
    record = held_record(ONE)
    announcer.decision_taken(PersonsDecision(DecisionKind.RETRY, ONE, "ann", "flaky", ("smoke",)), record)
    announcer.decision_taken(PersonsDecision(DecisionKind.REVOKE_LEASE, ONE, "ann", "anew"), record)
    again, ended = log.events
    assert (again["gates"], again["leaves"]) == ("smoke", "held, waits for smoke")
    assert ("gates" in ended, ended["leaves"]) == (False, "nothing")


async def test_rollout_holds_are_told_when_created_and_lifted() -> None:
    announcer, log, _ = announcer_of(fed_follower([]))
    hold = RolloutHold(hold_id="freeze", reason="incident", actor="ops", expires=now())
    announcer.rollout_hold_created(hold)
    announcer.rollout_hold_lifted(hold)
    created, lifted = log.events
    assert (created["event"], created["id"], created["actor"]) == ("rollout_hold.created", "freeze", "ops")
    assert created["until"] is not None
    assert (lifted["event"], lifted["selector"]) == ("rollout_hold.lifted", "everything")


async def test_a_worker_that_no_rule_matches_is_warned_of_once_and_counted_always() -> None:
    announcer, log, metrics = announcer_of(fed_follower([]))
    for instance in (ONE, ONE, TWO):
        announcer.ungated(instance, entry(instance))
    first, second = log.named("instance.ungated")
    assert (first["instance"], second["instance"], first["level"]) == (ONE, TWO, "warning")
    assert (first["key"], first["why"]) == (entry(ONE).key, "no rule matches")
    names = [first[name] for name in ("namespace", "component", "endpoint", "model")]
    assert names == ["dynamo", "backend", "generate", "Qwen/Qwen3-0.6B"]
    assert metrics.registry.get_sample_value("greenroom_ungated_writes_total") == 3


async def test_ungated_instances_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announce, "MAX_REMEMBERED_UNGATED", 2)
    announcer, log, _ = announcer_of(fed_follower([]))
    for number in (1, 2, 3, 3, 1):
        announcer.ungated(InstanceId(f"{number:x}"), entry(ONE))
    assert [event["instance"] for event in log.events] == ["1", "2", "3", "1"]


@pytest.mark.parametrize(
    ("outcome", "effect", "left"),
    [
        (Outcome.PASSED, Effect.STORED, "held, waits for latency"),
        (Outcome.INCONCLUSIVE, Effect.STORED, "held, waits for smoke, latency"),
        (Outcome.FAILED, Effect.REJECTED, "rejected"),
    ],
)
async def test_a_stored_verdict_is_told_with_what_it_left(outcome: Outcome, effect: Effect, left: str) -> None:
    announcer, log, metrics = announcer_of(fed_follower([]))
    before = held_record(ONE, {"smoke": 900.0, "latency": 60.0})
    after = with_verdict(before, "smoke", 1, outcome, reason="r", reporter="ci", now=now())
    report = VerdictReport(ONE, "smoke", 1, outcome, "r", "ci")
    announcer.verdict_stored(report, CarriedOut(ONE, before, after, effect, 7))
    event = log.events[0]
    assert (event["event"], event["level"], event["instance"]) == ("gate.decided", "info", ONE)
    assert [event[name] for name in ("gate", "attempt", "outcome", "reporter")] == ["smoke", 1, outcome.value, "ci"]
    assert event["leaves"] == left
    assert [one["event"] for one in log.events[1:]] == (["instance.rejected"] if effect is Effect.REJECTED else [])
    counted = {"gate": "other", "outcome": outcome.value}
    assert metrics.registry.get_sample_value("greenroom_verdicts_total", counted) == 1


async def test_a_verdict_after_which_only_a_rollout_hold_is_left_says_that_every_gate_passed() -> None:
    announcer, log, _ = announcer_of(fed_follower([]))
    before = held_record(ONE)
    after = with_verdict(before, "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=now())
    report = VerdictReport(ONE, "smoke", 1, Outcome.PASSED, "", "ci")
    announcer.verdict_stored(report, CarriedOut(ONE, before, after, Effect.STORED, 7))
    assert log.events[0]["leaves"] == "held, every gate passed"


async def test_a_renewal_is_counted_and_not_told() -> None:
    """A line for each would be one a minute for each worker of a fleet."""
    settings = {"state": GateState.PASSED, "phase": Phase.CONTINUOUS, "ttl_seconds": 60.0}
    record = held_record(ONE)
    passed = with_gate(record, "smoke", record.gates["smoke"].model_copy(update=settings))
    announcer, log, metrics = announcer_of(fed_follower([]))
    for outcome in (Outcome.PASSED, Outcome.FAILED):
        said = VerdictReport(ONE, "smoke", 1, outcome, "", "ci")
        after = with_verdict(passed, "smoke", 1, outcome, reason="", reporter="ci", now=now())
        announcer.verdict_stored(said, CarriedOut(ONE, passed, after, Effect.STORED, 9))
    assert [(one["event"], one["outcome"]) for one in log.events] == [("gate.decided", "failed")]
    for word in ("passed", "failed"):
        labels = {"gate": "other", "outcome": word}
        assert metrics.registry.get_sample_value("greenroom_verdicts_total", labels) == 1


async def test_a_claim_is_told_from_its_beginning_to_its_end() -> None:
    follower = fed_follower([*held(ONE), claim_kv(ONE)])
    announcer, log, metrics = announcer_of(follower)
    held_claim = HeldClaim(ONE, "smoke", 7, follower.mirror.claims(ONE)["smoke"])
    announcer.gate_claimed(held_claim)
    announcer.claim_released(held_claim)
    async with running(announcer):
        await asyncio.sleep(0)
        follower.moved_on(follower.mirror.apply([delete_event(claim_kv(ONE).key)]), 11)
        await log.wait_named("gate.claim_expired")
    assert [one["event"] for one in log.events] == ["gate.claimed", "gate.claim_released", "gate.claim_expired"]
    for one in log.events:
        assert (one["instance"], one["gate"], one["attempt"], one["runner"]) == (ONE, "smoke", 1, "runner-1")
    assert metrics.registry.get_sample_value("greenroom_claims_expired_total", {"gate": "other"}) == 1


async def test_a_rollout_hold_that_expired_is_told_and_one_that_was_lifted_before_its_time_is_not() -> None:
    late, early = now() - timedelta(seconds=1), now() + timedelta(hours=1)
    holds = [
        RolloutHold(hold_id="over", reason="incident", actor="ops", expires=late),
        RolloutHold(hold_id="lifted", reason="incident", actor="ops", expires=early),
        RolloutHold(hold_id="endless", reason="incident", actor="ops"),
    ]
    kvs = [kv_of(rollout_hold_key(hold.hold_id), rollout_holds.encode(hold)) for hold in holds]
    follower = fed_follower([*kvs, *held(ONE)])
    announcer, log, _ = announcer_of(follower)
    async with running(announcer):
        await asyncio.sleep(0)
        gone = [delete_event(kv.key) for kv in (*kvs, record_kv(ONE))]
        follower.moved_on(follower.mirror.apply(gone), 11)
        await log.wait_named("instance.expired")
        await log.wait_named("rollout_hold.expired")
    [event] = log.named("rollout_hold.expired")
    assert (event["id"], event["actor"], event["selector"]) == ("over", "ops", "everything")


async def test_a_later_card_is_told_when_it_is_held_kept_back_and_published() -> None:
    announcer, log, metrics = announcer_of(fed_follower([]))
    record = with_later(released_record(), now=now())
    announcer.held_later(ONE, record)
    failed = with_verdict(record, "smoke", 2, Outcome.FAILED, reason="no answer", reporter="ci", now=now())
    passed = with_verdict(record, "smoke", 2, Outcome.PASSED, reason="", reporter="ci", now=now())
    announcer.carried_out(CarriedOut(ONE, record, failed, Effect.KEPT_BACK, 7))
    announcer.carried_out(CarriedOut(ONE, record, released(passed, now()), Effect.PUBLISHED, 8))
    held, rejected, published = log.events
    assert [one["event"] for one in log.events] == ["later_cards.held", "later_cards.rejected", "later_cards.published"]
    assert {one["keys"] for one in log.events} == {K.decode()}
    assert held["command"] == f"greenroom verdict {ONE} smoke passed --attempt 2 --reason TEXT"
    assert (rejected["gate"], rejected["reason"], rejected["actor"]) == ("smoke failed", "no answer", "ci")
    assert published["revision"] == 8
    assert metrics.registry.get_sample_value("greenroom_releases_total") == 0, "the instance had been released before"


@pytest.mark.parametrize(
    ("outcome", "left"),
    [
        (Outcome.ERROR, "released, a later card held, waits for smoke"),
        (Outcome.PASSED, "released, a later card held, every gate passed"),
    ],
)
async def test_a_verdict_on_a_later_card_is_told_as_that(outcome: Outcome, left: str) -> None:
    announcer, log, _ = announcer_of(fed_follower([]))
    before = with_later(released_record())
    after = with_verdict(before, "smoke", 2, outcome, reason="r", reporter="ci", now=now())
    report = VerdictReport(ONE, "smoke", 2, outcome, "r", "ci")
    announcer.verdict_stored(report, CarriedOut(ONE, before, after, Effect.STORED, 7))
    assert log.events[0]["leaves"] == left
