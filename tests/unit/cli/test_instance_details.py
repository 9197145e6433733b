"""One instance in full, and what helps next."""

import pytest

from greenroom.cli.instance_details import NEEDS_CARD, next_steps, render
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.shown import NOW, at, shown, to_be_withdrawn


def test_a_held_instance_says_why_and_which_command_passes_it() -> None:
    text = "\n".join(render(shown(), NOW))
    assert text.startswith("Instance 6177a228983c0b2b is HELD\n")
    for said in (
        "Why it is not released\n  gate smoke has to be decided (14m left)\n\nGates",
        "smoke  pending  2        2026-03-01 12:14:00 UTC (14m left)",
        "v1/mdc/dynamo/backend/generate/6177a228983c0b2b  held",
        "2026-03-01 11:56:40 UTC  greenroom  registered  HELD ",
        "greenroom verdict 6177a228983c0b2b smoke passed --attempt 2 --reason 'why'",
    ):
        assert said in text


def test_every_open_gate_gets_its_command_for_the_proxy_that_was_asked() -> None:
    steps = next_steps(shown(gates={"a": "PENDING", "b": "PASSED", "c": "ERROR"}), " --control 127.0.0.1:9")
    assert steps == [
        "greenroom verdict 6177a228983c0b2b a passed --attempt 2 --reason 'why' --control 127.0.0.1:9",
        "greenroom verdict 6177a228983c0b2b c passed --attempt 2 --reason 'why' --control 127.0.0.1:9",
        "greenroom release 6177a228983c0b2b --override --reason 'why' --control 127.0.0.1:9",
        "greenroom reject 6177a228983c0b2b --reason 'why' --control 127.0.0.1:9",
    ]


def test_only_the_rollout_holds_that_stop_it_are_to_be_lifted() -> None:
    """Reasons are anybody's text: one that reads like another rollout hold had a command printed that lifted that."""
    instance = shown(gates={"smoke": "PASSED"}, rollout_hold="night")
    stopped = next(one for one in instance.conditions if one.type == "NotOnHold")
    stopped.message = "rollout hold night by ann: see rollout hold other by ann: incident"
    reject = "greenroom reject 6177a228983c0b2b --reason 'why'"
    assert next_steps(instance) == ["greenroom rollout-hold lift night", reject]
    instance.rollout_holds.append("other")
    assert next_steps(instance) == ["greenroom rollout-hold lift night", "greenroom rollout-hold lift other", reject]


def test_one_that_is_about_to_be_released_can_be_waited_for() -> None:
    steps = next_steps(shown(gates={"smoke": "PASSED"}))
    assert steps == ["greenroom wait 6177a228983c0b2b --for released"]


def test_one_whose_cards_were_never_held_is_told_what_to_change() -> None:
    """Its instance record would wait for ever for a card to be published with."""
    instance = shown(gates={"smoke": "PASSED"})
    instance.conditions[0].status, instance.conditions[0].reason = False, "NoCard"
    assert next_steps(instance) == ["greenroom wait 6177a228983c0b2b --for released"]
    instance.gated_keys[0].public = True
    (step,) = next_steps(instance)
    assert "select by component, not by model" in step
    assert "0b2b  public" in "\n".join(render(instance, NOW))


def test_a_released_instance_can_be_taken_back() -> None:
    instance = shown(state="RELEASED", gates={"smoke": "PASSED"}, reason="AlreadyPublic")
    text = "\n".join(render(instance, NOW))
    assert "is RELEASED (AlreadyPublic)" in text
    assert "Why it is not released" not in text
    assert "0b2b  public" in text
    assert next_steps(instance, " --control a:9") == [
        "greenroom withdraw 6177a228983c0b2b --reason 'why' --control a:9"
    ]


def test_a_rejected_instance_says_what_can_be_done() -> None:
    retry, override, anew = next_steps(shown(state="REJECTED", gates={"smoke": "FAILED"}))
    assert retry == "greenroom retry 6177a228983c0b2b smoke --reason 'why'"
    assert override == "greenroom release 6177a228983c0b2b --override --reason 'why'"
    assert "start the worker again" in anew


def test_a_retry_is_proposed_of_what_failed_and_of_nothing_else() -> None:
    """Of all that have not passed, it would end the attempts that others are at."""
    gates = {"chat": "FAILED", "latency": "PENDING", "probe": "PASSED", "smoke": "FAILED"}
    assert next_steps(shown(state="REJECTED", gates=gates), " --control a:9")[0] == (
        "greenroom retry 6177a228983c0b2b chat smoke --reason 'why' --control a:9"
    )


@pytest.mark.parametrize("keys", ["gone", "dropped"])
def test_one_without_a_card_says_so_and_what_brings_one(keys: str) -> None:
    instance = shown()
    if keys == "dropped":
        del instance.gated_keys[:]
    else:
        instance.gated_keys[0].live = False
    lines = render(instance, NOW)
    why = lines.index("Why it is not released")
    assert lines[why + 1 : why + 3] == [
        "  no card is registered at the moment",
        "  gate smoke has to be decided (14m left)",
    ]
    assert ("  none" in lines) == (keys == "dropped")
    assert next_steps(instance) == [NEEDS_CARD, "greenroom reject 6177a228983c0b2b --reason 'why'"]
    instance.state = pb.INSTANCE_STATE_REJECTED
    assert next_steps(instance) == [NEEDS_CARD, "greenroom retry 6177a228983c0b2b --reason 'why'"]
    instance.state = pb.INSTANCE_STATE_RELEASED
    assert "no card" not in "\n".join(render(instance, NOW))


def test_that_there_is_no_card_is_said_once() -> None:
    instance = kept_out("WITHDRAWN", "WithdrawnByPerson", "alice withdrew it; no card is registered at the moment", {})
    del instance.gated_keys[:]
    assert "\n".join(render(instance, NOW)).count("no card is registered") == 1


def kept_out(state: str, reason: str, message: str, gates: dict[str, str]) -> pb.Instance:
    instance = shown(state=state, gates=gates)
    instance.conditions[0].status, instance.conditions[0].reason = False, reason
    instance.conditions[0].message = message
    return instance


@pytest.mark.parametrize(("state", "word"), [("REJECTED", "rejected"), ("WITHDRAWN", "withdrew")])
def test_what_a_person_keeps_out_says_who_and_what_a_person_can_do(state: str, word: str) -> None:
    """Neither a verdict nor a new start of the worker is what it waits for."""
    said = f"alice {word} it; a retry or override ends that"
    reason = {"REJECTED": "RejectedByPerson", "WITHDRAWN": "WithdrawnByPerson"}[state]
    instance = kept_out(state, reason, said, {"smoke": "PENDING"})
    lines = render(instance, NOW)
    assert lines[lines.index("Why it is not released") + 1] == f"  {said}"
    assert next_steps(instance) == [
        "greenroom retry 6177a228983c0b2b --reason 'why'",
        "greenroom release 6177a228983c0b2b --override --reason 'why'",
    ]


def test_one_that_was_withdrawn_by_itself_waits_for_its_gates_and_is_not_to_be_rejected_first() -> None:
    assert next_steps(shown(state="WITHDRAWN")) == [
        "greenroom verdict 6177a228983c0b2b smoke passed --attempt 2 --reason 'why'",
        "greenroom release 6177a228983c0b2b --override --reason 'why'",
    ]


def test_a_key_that_was_deleted_is_gone_and_one_under_hold_health_is_public() -> None:
    instance = shown()
    instance.gated_keys[0].live = False
    assert "0b2b  gone" in "\n".join(render(instance, NOW))
    instance = shown()
    instance.hold = pb.HOLD_HEALTH
    instance.gated_keys[0].public = True
    assert "0b2b  public" in "\n".join(render(instance, NOW))


def test_only_what_is_missing_is_told_in_plain_words() -> None:
    passed = "\n".join(render(shown(gates={"smoke": "PASSED"}, rollout_hold="night"), NOW))
    assert "Why it is not released\n  rollout hold night by ann: incident\n\n" in passed
    ready = "\n".join(render(shown(gates={"smoke": "PASSED"}), NOW))
    assert "Why it is not released\n  nothing is missing: it is about to be released\n" in ready
    instance = shown(gates={"smoke": "ERROR"})
    instance.gates[0].reason = "no route\nto host"
    assert "gate smoke has to be decided (14m left, so far error: no route to host)" in "\n".join(render(instance, NOW))


def test_attempts_that_failed_and_were_forgiven_are_told() -> None:
    instance = shown(gates={"smoke": "PENDING"})
    instance.gates[0].failures, instance.gates[0].failure_limit = 2, 3
    said = "gate smoke has to be decided (14m left, 2 failed before, 1 more is forgiven)"
    assert said in "\n".join(render(instance, NOW))


def test_a_continuous_gate_says_by_when_it_must_pass_again() -> None:
    instance = shown(state="RELEASED", gates={"probe": "PASSED"})
    instance.gates[0].phase = pb.GATE_PHASE_CONTINUOUS
    instance.gates[0].renew_by_time.CopyFrom(at(45))
    text = "\n".join(render(instance, NOW))
    assert "probe  passed (continuous)  2        renew by 2026-03-01 12:00:45 UTC (45s left)  tests" in text


def test_a_continuous_gate_that_is_open_says_what_it_waits_for_and_what_comes_then() -> None:
    instance = shown(gates={"probe": "PENDING"})
    instance.gates[0].phase = pb.GATE_PHASE_CONTINUOUS
    instance.gates[0].pass_ttl.FromSeconds(300)
    text = "\n".join(render(instance, NOW))
    assert "pending (continuous)  2        pass by 2026-03-01 12:14:00 UTC (14m left), then again every 5m  -" in text
    assert "gate probe has to pass, and then again every 5m (14m left)" in text
    instance.state = pb.INSTANCE_STATE_WITHDRAWN
    instance.gates[0].ClearField("deadline_time")
    text = "\n".join(render(instance, NOW))
    assert "pending (continuous)  2        none, then again every 5m  -" in text
    assert "  gate probe has to pass, and then again every 5m\n" in text


def test_an_override_of_a_continuous_gate_says_how_long_it_lasts() -> None:
    instance = shown(state="RELEASED", gates={"probe": "OVERRIDDEN", "smoke": "OVERRIDDEN"})
    instance.gates[0].phase = pb.GATE_PHASE_CONTINUOUS
    lines = render(instance, NOW)
    decided = "decided 2026-03-01 11:59:50 UTC"
    assert [f"{decided}, until its next attempt" in line for line in lines if decided in line] == [True, False]


def test_what_nobody_waits_for_shows_no_deadline() -> None:
    instance = shown(state="WITHDRAWN")
    instance.gates[0].ClearField("deadline_time")
    text = "\n".join(render(instance, NOW))
    assert "smoke  pending  2        none      -" in text
    assert "  gate smoke has to be decided\n" in text


def test_who_has_claimed_a_gate_is_told() -> None:
    instance = shown(gates={"smoke": "PENDING"})
    instance.gates[0].claim.CopyFrom(pb.GateClaim(runner="runner-3", expire_time=at(25)))
    assert "has to be decided (14m left, claimed by runner-3, 25s left)" in "\n".join(render(instance, NOW))


def test_of_a_rejected_instance_only_what_failed_is_why_and_the_rest_was_not_decided() -> None:
    """`latency pending (14m left)` made people wait for a check that nobody would run any more."""
    gates = {"latency": "PENDING", "smoke": "FAILED"}
    lines = render(shown(state="REJECTED", gates=gates, failed_because="gibberish"), NOW)
    assert lines[lines.index("Why it is not released") + 1] == "  gate smoke failed: gibberish"
    (latency,) = [line for line in lines if line.startswith("  latency")]
    assert [cell.strip() for cell in latency.split("  ") if cell.strip()] == [
        "latency",
        "not decided",
        "2",
        "-",
        "-",
        "-",
    ]


def test_the_first_line_of_the_trail_is_for_people() -> None:
    instance = shown(reason="opened: v1/mdc/a")
    instance.transitions[0].reason = "v1/mdc/a"
    text = "\n".join(render(instance, NOW))
    assert text.startswith("Instance 6177a228983c0b2b is HELD\n")
    assert "greenroom  registered  HELD   v1/mdc/a" in text
    instance.transitions[0].to_state = pb.INSTANCE_STATE_RELEASED
    instance.transitions[0].reason = "AlreadyPublic"
    assert "greenroom  registered  RELEASED  it was public already" in "\n".join(render(instance, NOW))


def test_what_rules_in_dry_run_ask_for_is_shown_and_not_waited_for() -> None:
    instance = shown(gates={"chat": "PENDING", "smoke": "PENDING"})
    instance.gates[0].dry_run = True
    text = "\n".join(render(instance, NOW))
    assert "chat   pending (dry run)" in text
    assert "gate smoke has to be decided" in text
    assert "gate chat" not in text
    instance.dry_run = instance.gated_keys[0].public = True
    text = "\n".join(render(instance, NOW))
    assert text.startswith("Instance 6177a228983c0b2b is HELD in dry run\n")
    assert "keeps back  nothing: dry run" in text
    assert "gate chat has to be decided" in text
    assert "0b2b  public" in text


@pytest.mark.parametrize("is_dry_run", [True, False], ids=["a person withdrew it", "its dry run is over"])
def test_a_card_that_is_held_is_never_shown_as_public(*, is_dry_run: bool) -> None:
    """Where rules hold nothing back a person's withdrawal does, and so does an obeyed rule for a card that came later.

    Both pages said that the card was public.
    """
    instance = shown(state="WITHDRAWN" if is_dry_run else "HELD")
    instance.hold, instance.dry_run = pb.HOLD_HEALTH, is_dry_run
    text = "\n".join(render(instance, NOW))
    assert "0b2b  held" in text
    assert "keeps back  only what is shown as held below" in text


def test_a_later_card_is_shown_as_held_with_what_it_waits_for_and_the_command_that_helps() -> None:
    instance = shown(state="RELEASED", gates={"smoke": "PENDING"})
    instance.gated_keys.add(key=b"later", live=True)
    text = "\n".join(render(instance, NOW))
    assert "Why not all of it is public\n  gate smoke has to be decided (14m left)" in text
    assert "0b2b  public\n  later  held" in text
    assert next_steps(instance)[0] == "greenroom verdict 6177a228983c0b2b smoke passed --attempt 2 --reason 'why'"
    instance.gates[0].state = pb.GATE_STATE_FAILED
    _, step = next_steps(instance)
    assert "what is public stays so" in step


def test_one_that_is_kept_in_service_says_why_and_what_a_person_can_do() -> None:
    instance = to_be_withdrawn(rollout_hold="h1")
    instance.gated_keys.add(key=b"later", live=True)
    text = "\n".join(render(instance, NOW))
    assert "Why it is released\n  smoke failed; it stays in service\n\n" in text
    assert next_steps(instance) == ["greenroom withdraw 6177a228983c0b2b --reason 'why'"]
