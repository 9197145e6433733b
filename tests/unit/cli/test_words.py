"""Enums, times and JSON of the control API."""

import json
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from greenroom.cli import words
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.shown import NOW, at, rollout_hold, shown


def test_states_by_word_and_back() -> None:
    assert words.state_word(pb.INSTANCE_STATE_WITHDRAWN) == "WITHDRAWN"
    assert words.state_word(pb.INSTANCE_STATE_UNSPECIFIED) == "-"
    assert words.state_named("held") == pb.INSTANCE_STATE_HELD
    with pytest.raises(ValueError, match="none of held"):
        words.state_named("queued")


def test_a_reason_that_repeats_the_state_is_left_out() -> None:
    assert words.in_state(shown(state="RELEASED", reason="released")) == "RELEASED"
    assert words.in_state(shown(state="RELEASED", reason="AlreadyPublic")) == "RELEASED (AlreadyPublic)"


def test_a_reason_of_many_lines_is_told_in_one() -> None:
    """A check's reason is the end of its output, as a rule."""
    assert words.in_state(shown(state="REJECTED", reason="smoke failed: a\n  b")) == "REJECTED (smoke failed: a b)"
    assert len(words.in_state(shown(state="REJECTED", reason="x" * 2048))) < 220


def test_what_only_a_newer_proxy_knows_is_told_by_its_number() -> None:
    assert (words.state_word(77), words.gate_word(78)) == ("UNKNOWN-77", "unknown-78")


def test_times_are_told_relative_to_now() -> None:
    assert words.since(at(-200), NOW) == "3m 20s"
    assert words.until(at(840), NOW) == "14m left"
    assert words.until(at(-1), NOW) == "overdue"
    assert words.clock_time(at(5)) == "2026-03-01 12:00:05 UTC"


def test_a_time_that_is_not_set_is_told_as_none() -> None:
    unset = Timestamp()
    assert (words.since(unset, NOW), words.until(unset, NOW), words.clock_time(unset)) == ("-", "", "-")


def test_what_a_rollout_hold_is_about() -> None:
    assert words.selector_words(rollout_hold("h", model="tiny*", component="b").selector) == "component=b,model=tiny*"
    assert words.selector_words(rollout_hold("h").selector) == "every instance"
    assert words.hold_id(rollout_hold("h")) == "h"


def test_json_has_every_field_by_name_and_no_prefixes() -> None:
    """Scripts read this: a field must not vanish because it has its default."""
    fields: dict[str, Any] = json.loads(json.dumps(words.instance_json(shown(gates={"smoke": "PASSED"}))))
    assert (fields["state"], fields["hold"], fields["generation"], fields["record_revision"]) == ("HELD", "CARD", 1, 7)
    assert fields["gates"][0]["state"] == "PASSED"
    assert fields["gates"][0]["reason"] == ""
    (key,) = fields["gated_keys"]
    assert (key["key"], key["live"]) == ("v1/mdc/dynamo/backend/generate/6177a228983c0b2b", True)
    assert set(key) == {field.name for field in pb.GatedKey.DESCRIPTOR.fields}
    assert fields["transitions"][0]["from_state"] is None
    assert set(fields) >= {field.name for field in pb.Instance.DESCRIPTOR.fields} - {"release_time"}


def test_a_key_that_is_no_text_is_still_shown() -> None:
    instance = shown()
    instance.gated_keys[0].key = b"v1/mdc/\xff"
    assert words.instance_json(instance)["gated_keys"][0]["key"] == "v1/mdc/\\xff"


def test_the_rollout_holds_that_stop_an_instance_are_named() -> None:
    instance = shown(rollout_hold="night")
    assert words.holds_to_lift(instance) == "rollout hold night"
    instance.rollout_holds.append("weekend")
    assert words.holds_to_lift(instance) == "rollout holds night, weekend"
    assert words.holds_to_lift(shown()) == ""
