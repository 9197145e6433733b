"""The list of instances."""

import pytest

from greenroom.cli.instance_list import MAX_REASON_CHARACTERS, one_line, render, waits_for
from tests.support.shown import NOW, at, shown, to_be_withdrawn


def test_a_wide_list_is_a_table() -> None:
    lines = render([shown(gates={"smoke": "PASSED", "latency": "PENDING"})], NOW, None)
    assert lines[0].split() == ["INSTANCE", "MODEL", "ENDPOINT", "ADDRESS", "STATE", "GATES", "WAITS", "FOR", "AGE"]
    assert [cell.strip() for cell in lines[1].split("  ") if cell.strip()] == [
        "6177a228983c0b2b",
        "tiny",
        "dynamo.backend.generate",
        "127.0.0.1:46537",
        "HELD",
        "latency pending, smoke passed",
        "latency (14m left)",
        "3m 20s",
    ]


def test_a_narrow_list_has_everything_in_lines_that_fit() -> None:
    """On 80 columns a table would wrap into something nobody can read."""
    lines = render([shown(gates={"smoke": "PASSED", "latency": "PENDING"})], NOW, 80)
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    for said in ("6177a228983c0b2b", "HELD", "tiny", "127.0.0.1:46537", "latency pending", "14m left", "3m 20s"):
        assert said in text


@pytest.mark.parametrize("columns", [None, 80])
def test_a_dry_run_is_told_from_what_is_really_held(columns: int | None) -> None:
    """`HELD` was said of an instance that served."""
    instance = shown()
    assert "dry run" not in "\n".join([*render([instance], NOW, columns), one_line(instance, NOW)])
    instance.dry_run = True
    assert "HELD in dry run" in "\n".join(render([instance], NOW, columns))
    assert one_line(instance, NOW).startswith("6177a228983c0b2b HELD in dry run tiny at ")


def test_nothing_is_said_as_such() -> None:
    assert render([], NOW, 80) == ["no instances"]


def test_what_a_held_instance_waits_for() -> None:
    assert waits_for(shown(), NOW) == "smoke (14m left)"
    assert waits_for(shown(gates={"smoke": "ERROR", "a": "PASSED"}), NOW) == "smoke (14m left)"
    assert waits_for(shown(gates={"smoke": "PASSED"}, rollout_hold="h1"), NOW) == "rollout hold h1 to be lifted"
    both = waits_for(shown(rollout_hold="h1"), NOW)
    assert both == "smoke (14m left) and rollout hold h1 to be lifted"
    assert waits_for(shown(gates={"smoke": "PASSED"}), NOW) == "its release"


def test_each_gate_is_told_with_its_own_deadline() -> None:
    """`a, b (30s left)` was read as a's, too."""
    instance = shown(gates={"a": "PENDING", "b": "PENDING"})
    assert waits_for(instance, NOW) == "a, b (14m left)"
    instance.gates[1].deadline_time.CopyFrom(at(30))
    assert waits_for(instance, NOW) == "a (14m left), b (30s left)"


def test_what_has_no_deadline_is_told_without() -> None:
    instance = shown(state="WITHDRAWN", gates={"a": "PENDING", "b": "PENDING"})
    for gate in instance.gates:
        gate.ClearField("deadline_time")
    assert waits_for(instance, NOW) == "a, b"


def test_one_without_a_card_waits_for_one() -> None:
    """As after `drop`: its gates may pass, and nothing comes of it."""
    instance = shown()
    instance.gated_keys[0].live = False
    assert waits_for(instance, NOW) == "a card and smoke (14m left)"
    instance = shown(gates={"smoke": "PASSED"})
    del instance.gated_keys[:]
    instance.conditions[0].status, instance.conditions[0].reason = False, "NoCard"
    assert waits_for(instance, NOW) == "a card"


def test_a_released_one_waits_for_nothing() -> None:
    assert waits_for(shown(state="RELEASED", gates={"smoke": "PASSED"}), NOW) == "-"


@pytest.mark.parametrize(("state", "reason"), [("REJECTED", "RejectedByPerson"), ("WITHDRAWN", "WithdrawnByPerson")])
def test_what_a_person_keeps_out_waits_for_a_person(state: str, reason: str) -> None:
    instance = shown(state=state)
    instance.conditions[0].reason = reason
    assert waits_for(instance, NOW) == "a person's retry or override"


def test_a_rejected_one_says_what_failed() -> None:
    instance = shown(state="REJECTED", gates={"smoke": "FAILED"}, failed_because="gibberish\n" * 40)
    said = waits_for(instance, NOW)
    assert said.startswith("a retry of smoke (failed: gibberish gibberish")
    assert len(said) < MAX_REASON_CHARACTERS + 40
    both = shown(state="REJECTED", gates={"chat": "FAILED", "latency": "PENDING", "smoke": "FAILED"})
    both.gates[2].reason = "slow"
    assert waits_for(both, NOW) == "a retry of chat, smoke (failed: slow)"
    both.gates[2].reason = ""
    assert waits_for(both, NOW) == "a retry of chat, smoke (failed)"


def test_a_failed_gate_of_a_dry_run_is_not_what_it_was_rejected_for() -> None:
    instance = shown(state="REJECTED", gates={"chat": "FAILED", "smoke": "FAILED"})
    instance.gates[0].dry_run = True
    assert waits_for(instance, NOW) == "a retry of smoke (failed)"


def test_a_change_is_one_line() -> None:
    assert one_line(shown(), NOW) == (
        "6177a228983c0b2b HELD tiny at 127.0.0.1:46537, smoke pending, waits for smoke (14m left)"
    )
    assert one_line(shown(state="RELEASED", gates={}, address=""), NOW) == "6177a228983c0b2b RELEASED tiny"


def test_a_gate_that_was_open_when_another_failed_is_not_decided() -> None:
    instance = shown(state="REJECTED", gates={"latency": "PENDING", "smoke": "FAILED"})
    assert "latency not decided, smoke failed" in one_line(instance, NOW)


def test_a_released_one_with_a_later_card_says_what_that_waits_for() -> None:
    instance = shown(state="RELEASED", gates={"smoke": "PENDING", "latency": "PASSED"})
    assert waits_for(instance, NOW) == "-", "a gate that is open for what is gone keeps nothing back"
    instance.gated_keys.add(key=b"later", live=True)
    assert waits_for(instance, NOW) == "smoke (14m left)"
    instance.gated_keys[1].live = False
    assert waits_for(instance, NOW) == "-"


def test_one_that_was_rejected_for_a_conflict_says_which() -> None:
    instance = shown(state="REJECTED", gates={"smoke": "PENDING"})
    instance.conditions.add(type="NoConflict", reason="RejectedForConflict", message="other blocks\nthere")
    assert waits_for(instance, NOW) == "a retry or override (other blocks there)"


def test_a_released_one_that_automation_would_withdraw_says_that_it_waits_for_that() -> None:
    assert waits_for(to_be_withdrawn(), NOW) == "its withdrawal"
