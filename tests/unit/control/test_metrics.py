"""What is counted, by whom, and that no label grows without bound."""

from datetime import timedelta
from pathlib import Path

from prometheus_client import generate_latest

from greenroom.control.metrics import Metrics
from greenroom.core.decisions import DecisionKind
from greenroom.core.record import Record
from greenroom.core.transitions import Outcome, conflicted, deadline_passed, rejected, released, with_verdict
from greenroom.core.verdicts import Effect
from greenroom.relay.calls import Observer
from greenroom.store.fenced import CarriedOut
from greenroom.store.members import Members
from greenroom.store.mirror import Mirror
from tests.support.control_side import GATED, EventLog, MovableClock
from tests.support.mirroring import ONE, TWO, claim_kv, expired, held, kv_of, unconnected
from tests.support.policies import policy_file, policy_in_force, rule
from tests.support.registering import held_record, now


def metrics_of(mirror: Mirror | None = None, clock: MovableClock | None = None) -> Metrics:
    methods = {"etcdserverpb.KV/Put"}
    return Metrics(
        mirror or Mirror(GATED), clock=clock or MovableClock(), gates={"smoke"}, methods=methods, version="1.2"
    )


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"greenroom_{name}", labels)


def done(before: Record, after: Record, effect: Effect) -> CarriedOut:
    return CarriedOut(ONE, before, after, effect, 7)


def passed(record: Record) -> Record:
    return with_verdict(record, "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=now())


def test_a_release_counts_the_gate_and_how_long_it_was_held() -> None:
    metrics = metrics_of()
    before = held_record(ONE, at=now() - timedelta(seconds=40))
    metrics.carried_out(done(before, released(passed(before), now()), Effect.RELEASED))
    assert value(metrics, "releases_total") == 1
    assert 39 < (value(metrics, "hold_duration_seconds_sum") or 0) < 60
    assert 39 < (value(metrics, "gate_duration_seconds_sum", gate="smoke", outcome="passed") or 0) < 60


def test_a_verdict_that_only_adds_to_what_was_decided_counts_no_gate_twice() -> None:
    metrics = metrics_of()
    before = passed(held_record(ONE))
    metrics.carried_out(done(before, released(before, now()), Effect.RELEASED))
    assert value(metrics, "gate_duration_seconds_count", gate="smoke", outcome="passed") is None


def test_rejections_tell_a_reporter_from_the_clock() -> None:
    metrics = metrics_of()
    before = held_record(ONE)
    failed = with_verdict(before, "smoke", 1, Outcome.FAILED, reason="", reporter="ci", now=now())
    metrics.carried_out(done(before, failed, Effect.REJECTED))
    metrics.carried_out(done(before, deadline_passed(before, "smoke", now()), Effect.REJECTED))
    assert value(metrics, "rejections_total", cause="verdict") == 1
    assert value(metrics, "rejections_total", cause="deadline") == 1
    metrics.carried_out(done(before, conflicted(before, "other blocks", now()), Effect.REJECTED))
    assert value(metrics, "rejections_total", cause="conflict") == 1
    assert value(metrics, "gate_duration_seconds_count", gate="smoke", outcome="deadline") == 1


def test_peoples_decisions_are_counted_by_kind_and_a_persons_rejection_as_such() -> None:
    metrics = metrics_of()
    before = held_record(ONE)
    metrics.decision_taken(DecisionKind.REJECT)
    metrics.carried_out(done(before, rejected(before, "ann", "", now()), Effect.REJECTED))
    assert value(metrics, "decisions_total", kind="reject") == 1
    assert [value(metrics, "rejections_total", cause=cause) for cause in ("person", "verdict")] == [1, 0]


def test_verdicts_and_rejections_are_there_before_the_first_one() -> None:
    """A rate over a series that begins at 1 shows nothing."""
    metrics = metrics_of()
    for outcome in Outcome:
        assert value(metrics, "verdicts_total", gate="smoke", outcome=outcome.value) == 0
    causes = ("verdict", "deadline", "person", "conflict")
    assert [value(metrics, "rejections_total", cause=cause) for cause in causes] == [0] * 4
    assert {value(metrics, "decisions_total", kind=kind.value) for kind in DecisionKind} == {0}
    assert (value(metrics, "releases_total"), value(metrics, "ungated_writes_total")) == (0, 0)


def test_there_is_no_second_series_of_when_one_began() -> None:
    metrics = metrics_of()
    metrics.verdict_given("smoke", "passed")
    metrics.ungated_write()
    assert value(metrics, "ungated_writes_total") == 1
    assert b"_created" not in generate_latest(metrics.registry)


def test_expiries_are_counted_by_their_last_state() -> None:
    metrics = metrics_of()
    metrics.expired(expired(ONE))
    assert value(metrics, "expired_total", state="held") == 1


def test_open_streams_are_a_gauge() -> None:
    metrics = metrics_of()
    metrics.watcher_opened()
    metrics.watcher_opened()
    metrics.watcher_closed()
    assert value(metrics, "instance_watchers") == 1


def test_names_that_nobody_announced_share_one_label() -> None:
    metrics = metrics_of()
    for number in range(50):
        metrics.verdict_given(f"gate-{number}", "passed")
        metrics.call_refused(f"/evil.Service/Method{number}".encode(), 12)
        metrics.call_relayed(b"\xff/%d" % number)
    metrics.call_relayed(b"/etcdserverpb.KV/Put")
    metrics.call_handed_over(b"")
    assert value(metrics, "verdicts_total", gate="other", outcome="passed") == 50
    assert value(metrics, "calls_refused_total", method="other", code="12") == 50
    assert value(metrics, "calls_relayed_total", method="other") == 50
    assert value(metrics, "calls_relayed_total", method="etcdserverpb.KV/Put") == 1
    assert value(metrics, "calls_handed_over_total", method="other") == 1
    assert len(generate_latest(metrics.registry).splitlines()) < 150


def test_it_is_an_observer_of_the_relay() -> None:
    metrics = metrics_of()
    observer: Observer = metrics
    observer.connection_opened()
    observer.connection_opened()
    observer.connection_closed("GOAWAY")
    observer.upstream_failed("127.0.0.1:1", "refused")
    observer.inspector_failed(b"/a", ValueError())
    observer.handler_failed(b"/a", ValueError())
    assert (value(metrics, "connections"), value(metrics, "connections_opened_total")) == (1, 2)
    assert value(metrics, "upstream_failures_total") == 1
    assert value(metrics, "call_bugs_total", part="inspector") == 1
    assert value(metrics, "call_bugs_total", part="handler") == 1


def test_gauges_are_what_the_mirror_shows() -> None:
    clock, mirror = MovableClock(), Mirror(GATED)
    metrics = metrics_of(mirror, clock)
    assert (value(metrics, "instances", state="held"), value(metrics, "oldest_held_age_seconds")) == (0, 0)
    assert (value(metrics, "claims", gate="smoke"), value(metrics, "claims", gate="other")) == (0, None)
    mirror.replace(
        [
            *held(ONE, held_record(ONE, at=now() - timedelta(seconds=100))),
            *held(TWO),
            kv_of(b"\x01greenroom/rollout-holds/f", b"{}"),
            *(claim_kv(ONE), claim_kv(TWO), claim_kv(TWO, "unknown-to-the-policy")),
            kv_of(b"\x01greenroom/instances/abc3", b"{}"),
        ]
    )
    assert value(metrics, "instances", state="held") == 2
    assert value(metrics, "instances", state="released") == 0
    assert (value(metrics, "claims", gate="smoke"), value(metrics, "claims", gate="other")) == (2, 1)
    assert 100 <= (value(metrics, "oldest_held_age_seconds") or 0) < 110
    assert (value(metrics, "rollout_holds"), value(metrics, "unreadable_records")) == (1, 1)


def test_each_member_of_etcd_is_shown_as_of_now() -> None:
    members = Members([("10.0.0.1", 2379), ("10.0.0.2", 2379)])
    metrics = metrics_of()
    metrics.show_members(members)
    assert value(metrics, "upstream_member_up", member="10.0.0.1:2379") == 0
    members.answered(("10.0.0.1", 2379), 0)
    assert value(metrics, "upstream_member_up", member="10.0.0.1:2379") == 1
    assert value(metrics, "upstream_member_up", member="10.0.0.2:2379") == 0


def test_the_build_says_its_version_and_fences_are_counted() -> None:
    metrics = metrics_of()
    metrics.fence_lost()
    assert value(metrics, "lost_fences_total") == 1
    assert value(metrics, "build_info", version="1.2") == 1


def test_what_may_happen_once_is_there_before_it_does() -> None:
    """A bug that happens once is what an alert on the counter's increase is for, and it would not see the first."""
    metrics = metrics_of()
    for part in ("inspector", "handler", "relay"):
        assert value(metrics, "call_bugs_total", part=part) == 0
    for state in ("held", "released", "rejected", "withdrawn"):
        assert value(metrics, "expired_total", state=state) == 0


def test_a_new_policys_gates_have_names_of_their_own_and_the_old_ones_keep_theirs() -> None:
    metrics = metrics_of()
    metrics.verdict_given("latency", "passed")
    metrics.know_gates({"latency"})
    assert value(metrics, "verdicts_total", gate="latency", outcome="passed") == 0
    for gate in ("latency", "smoke"):
        metrics.verdict_given(gate, "passed")
        assert value(metrics, "verdicts_total", gate=gate, outcome="passed") == 1
    assert value(metrics, "verdicts_total", gate="other", outcome="passed") == 1


async def test_a_policy_file_that_is_refused_shows(tmp_path: Path) -> None:
    path, metrics = tmp_path / "policy.yaml", metrics_of()
    path.write_text(policy_file(rule("all")))
    policy = policy_in_force(unconnected(), log=EventLog(), file=path)
    metrics.show_policy(policy)
    assert (value(metrics, "policy_loaded"), value(metrics, "policy_reload_failures_total")) == (1, 0)
    path.write_text("rules: [")
    await policy.source.reload(asked=True)
    policy.presence._peers.seen({"two": {"policy": "other"}})
    assert (value(metrics, "policy_loaded"), value(metrics, "policy_reload_failures_total")) == (0, 1)
    assert value(metrics, "policy_differing_proxies") == 1
