"""What a runner is to run and to stop, by what it is told and at what time."""

from datetime import datetime, timedelta

import pytest

from greenroom.gates.plan import Ending, Job, Plan, Start, pause_seconds
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.shown import NOW, at, shown

ID = "6177a228983c0b2b"
SMOKE = Job(ID, "smoke", 2)


def plan_of(*instances: pb.Instance, gates: tuple[str, ...] = ("smoke", "latency"), limit: int = 100) -> Plan:
    plan = Plan(gates, lambda _: True, limit)
    for instance in instances:
        plan.told(instance)
    return plan


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def started(plan: Plan, seconds: float = 0) -> list[Job]:
    return [start.job for start in plan.decide(later(seconds)).start]


def at_revision(instance: pb.Instance, revision: int) -> pb.Instance:
    instance.record_revision = revision
    return instance


def attempted(attempt: int, revision: int) -> pb.Instance:
    instance = at_revision(shown(), revision)
    instance.gates[0].attempt = attempt
    return instance


def continuous(renew_by: float, ttl_seconds: int = 60) -> pb.Instance:
    instance = shown(state="RELEASED", gates={"smoke": "PASSED"})
    instance.gates[0].phase = pb.GATE_PHASE_CONTINUOUS
    instance.gates[0].pass_ttl.seconds = ttl_seconds
    instance.gates[0].renew_by_time.CopyFrom(at(renew_by))
    return instance


def test_each_open_gate_that_the_runner_has_is_started_once() -> None:
    instance = shown(gates={"smoke": "PENDING", "latency": "PASSED", "golden": "PENDING"})
    plan = plan_of(instance)
    (start,) = plan.decide(NOW).start
    assert start == Start(SMOKE, instance, later(840))
    assert started(plan) == []
    plan.told(instance)
    assert started(plan) == []


@pytest.mark.parametrize("state", ["PENDING", "INCONCLUSIVE", "ERROR"])
def test_an_attempt_is_open_until_it_is_decided(state: str) -> None:
    assert started(plan_of(shown(gates={"smoke": state}))) == [SMOKE]


@pytest.mark.parametrize("state", ["PASSED", "FAILED", "OVERRIDDEN"])
def test_what_is_decided_is_not_run(state: str) -> None:
    assert started(plan_of(shown(gates={"smoke": state}))) == []


@pytest.mark.parametrize(("state", "runs"), [("HELD", True), ("WITHDRAWN", True), ("REJECTED", False)])
def test_only_what_somebody_waits_for_is_run(state: str, runs: bool) -> None:
    """Of what automation withdrew each gate has to pass again; what is rejected waits for a retry."""
    assert bool(started(plan_of(shown(state=state)))) == runs


@pytest.mark.parametrize("reason", ["WithdrawnByPerson", "RejectedByPerson"])
def test_what_waits_for_a_person_is_left_alone(reason: str) -> None:
    instance = shown(state="WITHDRAWN")
    instance.conditions[0].reason = reason
    assert started(plan_of(instance)) == []


def test_of_a_released_one_later_cards_are_checked() -> None:
    """Their gates have a deadline. Others are open because nobody waits for them."""
    instance = shown(state="RELEASED")
    assert started(plan_of(instance)) == [SMOKE]
    instance.gates[0].ClearField("deadline_time")
    assert started(plan_of(instance)) == []
    instance.gates[0].dry_run = True
    assert started(plan_of(instance)) == [SMOKE]


def test_who_is_public_is_left_alone_where_no_check_reaches_him() -> None:
    """A gate in dry run that was not over before the release: its frontend has ended with that."""
    instance = shown(state="RELEASED")
    instance.gates[0].dry_run = True
    plan = Plan(("smoke",), lambda _: True, 100, checks_public=False)
    plan.told(instance)
    assert started(plan) == []
    instance.gated_keys.add(live=True, public=False)
    plan.told(instance)
    assert started(plan) == [SMOKE]


def test_without_a_card_there_is_nothing_to_check() -> None:
    instance = shown()
    instance.gated_keys[0].live = False
    assert started(plan_of(instance)) == []


def test_who_has_not_said_where_it_listens_gets_a_moment() -> None:
    instance = shown(address="")
    instance.gates[0].opened_time.CopyFrom(at(-1))
    plan = plan_of(instance)
    steps = plan.decide(NOW)
    assert (steps.start, steps.wake) == ((), later(1))
    assert started(plan, 1) == [SMOKE]


def test_a_clock_that_is_behind_delays_nothing() -> None:
    instance = shown()
    instance.gates[0].opened_time.CopyFrom(at(600))
    assert started(plan_of(instance)) == [SMOKE]


def test_the_address_ends_that_moment() -> None:
    instance = shown(address="")
    instance.gates[0].opened_time.CopyFrom(at(-1))
    plan = plan_of(instance)
    assert started(plan) == []
    plan.told(shown())
    assert started(plan) == [SMOKE]


def test_a_gate_that_another_has_claimed_is_left_until_the_claim_ends() -> None:
    instance = shown()
    instance.gates[0].claim.expire_time.CopyFrom(at(20))
    plan = plan_of(instance)
    assert (started(plan), plan.decide(later(20)).wake) == ([], later(21))
    assert started(plan, 21) == [SMOKE]


def test_a_run_stops_when_its_attempt_is_not_the_one_that_is_open() -> None:
    """The new attempt is run once nothing of the old one is left."""
    plan = plan_of(attempted(2, 10))
    assert started(plan) == [SMOKE]
    plan.told(attempted(3, 11))
    steps = plan.decide(NOW)
    assert (steps.start, steps.stop) == ((), (SMOKE,))
    plan.ended(SMOKE, Ending.AGAIN, NOW)
    assert started(plan) == [Job(ID, "smoke", 3)]


@pytest.mark.parametrize("state", ["PASSED", "FAILED", "OVERRIDDEN"])
def test_a_run_stops_when_somebody_else_decided(state: str) -> None:
    plan = plan_of(shown())
    assert started(plan) == [SMOKE]
    plan.told(shown(gates={"smoke": state}))
    assert plan.decide(NOW).stop == (SMOKE,)


def test_a_run_stops_with_the_lease() -> None:
    plan = plan_of(shown())
    assert started(plan) == [SMOKE]
    plan.gone(ID)
    assert plan.decide(NOW).stop == (SMOKE,)
    plan.ended(SMOKE, Ending.AGAIN, NOW)
    assert plan.decide(NOW).wake is None


def test_what_ended_without_a_decision_is_run_again_after_longer_and_longer() -> None:
    plan = plan_of(shown())
    time = 0.0
    for pause in (1, 2, 4, 8, 15, 15):
        assert started(plan, time) == [SMOKE]
        plan.ended(SMOKE, Ending.AGAIN, later(time))
        steps = plan.decide(later(time + pause - 0.1))
        assert (steps.start, steps.wake) == ((), later(time + pause))
        time += pause


def test_a_pass_ends_the_pauses() -> None:
    """A continuous gate keeps its attempt: what was noisy once is no reason to wait for longer later."""
    plan = plan_of(continuous(renew_by=0))
    for ending in (Ending.AGAIN, Ending.AGAIN, Ending.DECIDED, Ending.AGAIN):
        assert started(plan, 60) == [SMOKE]
        plan.ended(SMOKE, ending, NOW)
    assert plan.decide(NOW).wake == later(1)


def test_a_new_attempt_knows_nothing_of_the_pauses_before() -> None:
    plan = plan_of(attempted(2, 10))
    assert started(plan) == [SMOKE]
    plan.ended(SMOKE, Ending.AGAIN, NOW)
    plan.told(attempted(3, 11))
    assert started(plan) == [Job(ID, "smoke", 3)]


def test_of_what_is_told_twice_the_newer_counts() -> None:
    """The stream tells of the claim after the verdict's answer came."""
    plan = plan_of(at_revision(shown(), 10))
    assert started(plan) == [SMOKE]
    plan.told(at_revision(shown(gates={"smoke": "PASSED"}), 12))
    plan.ended(SMOKE, Ending.DECIDED, NOW)
    plan.told(at_revision(shown(), 11))
    assert started(plan) == []


def test_a_pass_that_ends_is_renewed_when_half_of_it_is_over() -> None:
    plan = plan_of(continuous(renew_by=50))
    steps = plan.decide(NOW)
    assert (steps.start, steps.wake) == ((), later(20))
    (start,) = plan.decide(later(20)).start
    assert (start.job, start.deadline) == (SMOKE, later(50))
    plan.told(at_revision(continuous(renew_by=80), 8))
    assert plan.decide(later(21)).stop == ()
    plan.ended(SMOKE, Ending.DECIDED, later(21))
    assert plan.decide(later(21)).wake == later(50)


def test_no_more_run_at_once_than_may() -> None:
    """Whose turn comes then is another instance's."""
    plan = plan_of(*map(shown, "123"), limit=2)
    first = started(plan)
    assert [job.instance for job in first] == ["1", "2"]
    plan.told(at_revision(shown("1", gates={"smoke": "PASSED"}), 8))
    assert started(plan) == []
    plan.ended(first[0], Ending.DECIDED, NOW)
    assert [job.instance for job in started(plan)] == ["3"]
    assert len(plan.running) == 2


def test_who_is_not_selected_is_not_run() -> None:
    plan = Plan(("smoke",), lambda instance: instance.component == "other", 100)
    plan.told(shown())
    assert started(plan) == []
    assert [one.id for one in plan.instances] == [ID]
    assert plan.instance(ID) is not None


def test_pauses_have_an_end() -> None:
    assert pause_seconds(10**6) == 15
