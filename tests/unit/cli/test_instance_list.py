"""The list of instances."""

import pytest

from greenroom.cli.instance_list import MAX_REASON_CHARACTERS, one_line, render, waits_for
from tests.support.shown import NOW, at, shown


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


def test_nothing_is_said_as_such() -> None:
    assert render([], NOW, 80) == ["no instances"]


def test_what_a_held_instance_waits_for() -> None:
    assert waits_for(shown(), NOW) == "smoke (14m left)"
    assert waits_for(shown(gates={"smoke": "ERROR", "a": "PASSED"}), NOW) == "smoke (14m left)"
    assert waits_for(shown(gates={"smoke": "PASSED"}, rollout_hold="h1"), NOW) == "rollout hold h1 to be lifted"
    both = waits_for(shown(rollout_hold="h1"), NOW)
    assert both == "smoke (14m left) and rollout hold h1 to be lifted"
    assert waits_for(shown(gates={"smoke": "PASSED"}), NOW) == "its release"


def test_the_nearest_deadline_is_told() -> None:
    instance = shown(gates={"a": "PENDING", "b": "PENDING"})
    instance.gates[1].deadline_time.CopyFrom(at(30))
    assert waits_for(instance, NOW) == "a, b (30s left)"


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
    assert said.startswith("nothing: smoke failed (gibberish gibberish")
    assert len(said) < MAX_REASON_CHARACTERS + 40


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
    assert waits_for(instance, NOW) == "nothing: other blocks there"
