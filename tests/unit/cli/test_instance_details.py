"""One instance in full, and what helps next."""

from greenroom.cli.instance_details import next_steps, render
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.shown import NOW, rollout_hold, shown


def test_a_held_instance_says_why_and_which_command_passes_it() -> None:
    text = "\n".join(render(shown(), [], NOW))
    assert text.startswith("Instance 6177a228983c0b2b is HELD\n")
    for said in (
        "no   GatesPassed: smoke",
        "yes  NotOnHold: no rollout hold applies",
        "smoke  pending  2        2026-03-01 12:14:00 UTC (14m left)",
        "v1/mdc/dynamo/backend/generate/6177a228983c0b2b  held",
        "2026-03-01 11:56:40 UTC  greenroom  opened  HELD",
        "greenroom verdict 6177a228983c0b2b smoke passed --reason 'why'",
    ):
        assert said in text


def test_every_open_gate_gets_its_command_for_the_proxy_that_was_asked() -> None:
    steps = next_steps(shown(gates={"a": "PENDING", "b": "PASSED", "c": "ERROR"}), [], " --control 127.0.0.1:9")
    assert steps == [
        "greenroom verdict 6177a228983c0b2b a passed --reason 'why' --control 127.0.0.1:9",
        "greenroom verdict 6177a228983c0b2b c passed --reason 'why' --control 127.0.0.1:9",
    ]


def test_only_the_rollout_hold_that_stops_it_is_to_be_lifted() -> None:
    holds = [rollout_hold("h1"), rollout_hold("h10"), rollout_hold("other")]
    steps = next_steps(shown(gates={"smoke": "PASSED"}, rollout_hold="h1"), holds)
    assert steps == ["greenroom rollout-hold lift h1"]


def test_one_that_is_about_to_be_released_can_be_waited_for() -> None:
    steps = next_steps(shown(gates={"smoke": "PASSED"}), [])
    assert steps == ["greenroom wait 6177a228983c0b2b --for released"]


def test_a_released_instance_needs_nothing() -> None:
    instance = shown(state="RELEASED", gates={"smoke": "PASSED"}, reason="AlreadyPublic")
    text = "\n".join(render(instance, [], NOW))
    assert "is RELEASED (AlreadyPublic)" in text
    assert "Why it is not released" not in text
    assert "0b2b  public" in text
    assert next_steps(instance, []) == ["nothing: it is public"]


def test_a_rejected_instance_says_what_can_be_done() -> None:
    (step,) = next_steps(shown(state="REJECTED", gates={"smoke": "FAILED"}), [])
    assert "start the worker again" in step


def test_a_key_that_was_deleted_is_gone_and_one_under_hold_health_is_public() -> None:
    instance = shown()
    instance.gated_keys[0].live = False
    assert "0b2b  gone" in "\n".join(render(instance, [], NOW))
    instance = shown()
    instance.hold = pb.HOLD_HEALTH
    assert "0b2b  public" in "\n".join(render(instance, [], NOW))
