"""The record as stored: read back as written, keeps what newer proxies added, refused if not understood."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom.core.policy import Hold
from greenroom.core.record import (
    MAX_REASON_BYTES,
    MAX_TRANSITIONS,
    Gate,
    GatedEntry,
    GateState,
    Record,
    State,
    bounded_reason,
    decode,
    encode,
)
from greenroom.core.templates import KeyKind
from greenroom.core.transitions import Outcome, card_added, retried, with_verdict
from greenroom.errors import UnreadableRecord
from tests.support.instances import LORA, NOW, I, K, entry, held_record, needs
from tests.support.later import released_record, with_later


def stored(**changes: object) -> bytes:
    return json.dumps({**json.loads(encode(held_record(K))), **changes}).encode()


def test_what_is_stored_is_read_back() -> None:
    record = held_record(K, LORA, I, gates=("smoke", "chat"), hold=Hold.CARD_AND_INSTANCE)
    assert decode(encode(record), "R") == record


def test_the_stored_form_is_this() -> None:
    """Other versions of the proxy read it: a change here is a change of the schema."""
    assert json.loads(encode(held_record(K))) == {
        "schema_version": 1,
        "state": "HELD",
        "hold": "card",
        "reason": "",
        "generation": 1,
        "cards": [
            {
                "key": "v1/mdc/dynamo/pyw/generate/6177a228983c0b4d",
                "kind": "card",
                "namespace": "dynamo",
                "component": "pyw",
                "endpoint": "generate",
                "model": "tiny2",
                "suffix": "",
                "configuration": (
                    "context_length=2048 gen_config=900cf68ad143 kv_cache_block_size=64 "
                    "model_info=87077b2f22ce model_type=8e5b825c420a prompt_formatter=a2c7d6b89ed4 "
                    "source_path=/models/tiny tokenizer=f821e7188507 worker_type=aggregated"
                ),
                "later_gates": [],
            }
        ],
        "gates": {
            "smoke": {
                "state": "PENDING",
                "attempt": 1,
                "timeout_seconds": 900.0,
                "failure_limit": 0,
                "inconclusive_limit": None,
                "max_concurrent": None,
                "claim_limit": 3,
                "phase": "pre-release",
                "ttl_seconds": None,
                "claims": 0,
                "failures": 0,
                "inconclusives": 0,
                "forgiven": 0,
                "started": "2026-03-01T12:00:00.000+00:00",
                "deadline": "2026-03-01T12:15:00.000+00:00",
                "decided": None,
                "passed": None,
                "reason": "",
                "reporter": "",
                "dry_run": False,
            }
        },
        "first_held": "2026-03-01T12:00:00.000+00:00",
        "released": None,
        "withdrawn_by": "",
        "rejected_by": "",
        "dry_run": False,
        "on_conflict": "warn",
        "conflict": "",
        "transitions": [
            {
                "time": "2026-03-01T12:00:00.000+00:00",
                "actor": "greenroom",
                "event": "opened",
                "from_state": None,
                "to_state": "HELD",
                "reason": "v1/mdc/dynamo/pyw/generate/6177a228983c0b4d",
            }
        ],
    }


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)).map(
    lambda when: when.replace(microsecond=when.microsecond // 1000 * 1000)
)
GATES = st.builds(
    Gate,
    state=st.sampled_from(GateState),
    attempt=st.integers(1, 2**40),
    timeout_seconds=st.floats(0.001, 1e6),
    started=MOMENTS,
    deadline=MOMENTS,
    decided=st.none() | MOMENTS,
    reason=TEXTS,
    reporter=TEXTS,
)
ENTRIES = st.builds(
    GatedEntry,
    key=TEXTS,
    kind=st.sampled_from(KeyKind),
    namespace=st.none() | TEXTS,
    component=st.none() | TEXTS,
    endpoint=st.none() | TEXTS,
    model=st.none() | TEXTS,
    suffix=st.none() | TEXTS,
)
RECORDS = st.builds(
    Record,
    state=st.sampled_from(State),
    hold=st.sampled_from(Hold),
    reason=TEXTS,
    generation=st.integers(1, 2**40),
    cards=st.lists(ENTRIES, max_size=3).map(tuple),
    gates=st.dictionaries(TEXTS, GATES, max_size=3),
    first_held=st.none() | MOMENTS,
    released=st.none() | MOMENTS,
    withdrawn_by=TEXTS,
    rejected_by=TEXTS,
)


@settings(max_examples=25, deadline=None)
@given(RECORDS)
def test_any_record_is_read_back(record: Record) -> None:
    assert decode(encode(record), "R") == record


def test_times_are_kept_to_the_millisecond_whatever_their_zone() -> None:
    there = datetime(2026, 3, 1, 13, 0, 0, 123999, tzinfo=timezone(timedelta(hours=1)))
    record = held_record(K).model_copy(update={"released": there})
    assert decode(encode(record), "R").released == datetime(2026, 3, 1, 12, 0, 0, 123000, tzinfo=UTC)


def test_what_a_newer_proxy_added_survives_every_rewrite() -> None:
    newer = json.loads(encode(held_record(K)))
    newer["budget_class"] = {"name": "big", "weights": [1, 2]}
    newer["gates"]["smoke"]["claim"] = "runner-7"
    newer["cards"][0]["checksum"] = "abc"
    newer["transitions"][0]["revision"] = 12
    record = decode(json.dumps(newer).encode(), "R")
    record = with_verdict(record, "smoke", 1, Outcome.FAILED, reason="no", reporter="ci", now=NOW)
    record = retried(record, (), "alice", "again", NOW)
    record = card_added(record, entry(LORA), needs("smoke"), NOW)
    again = json.loads(encode(record))
    assert again["budget_class"] == newer["budget_class"]
    assert again["gates"]["smoke"]["claim"] == "runner-7"
    assert again["gates"]["smoke"]["attempt"] == 3
    assert again["cards"][0]["checksum"] == "abc"
    assert again["transitions"][0]["revision"] == 12


def test_what_an_older_proxy_left_out_has_its_default() -> None:
    assert decode(b'{"schema_version": 1, "state": "HELD", "hold": "card"}', "R") == Record(
        state=State.HELD, hold=Hold.CARD
    )


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (stored(schema_version=2), "schema_version"),
        (stored(schema_version=0), "schema_version"),
        (stored(schema_version="1"), "schema_version"),
        (stored(state="PAUSED"), "state"),
        (stored(hold="none"), "hold"),
        (stored(generation=0), "generation"),
        (stored(cards=[{}]), "cards.0.key"),
        (stored(first_held="2026-03-01T12:00:00"), "first_held"),
        (stored(gates={"smoke": {"state": "PENDING"}}), "gates.smoke.timeout_seconds"),
        (b"", "(whole)"),
        (b"[]", "(whole)"),
        (b"\xff", "(whole)"),
        (b"{}", "state"),
    ],
)
def test_what_is_not_understood_is_refused_naming_place_and_field(value: bytes, field: str) -> None:
    with pytest.raises(UnreadableRecord) as refused:
        decode(value, "the place")
    assert str(refused.value).startswith(f"the place: field {field}: ")


def test_an_error_does_not_repeat_the_value() -> None:
    with pytest.raises(UnreadableRecord) as refused:
        decode(stored(state="a secret of the worker"), "R")
    assert "secret" not in str(refused.value)


def test_entries_are_found_by_their_key() -> None:
    record = held_record(K, LORA)
    assert record.entry(LORA) == entry(LORA)
    assert record.entry(I) is None
    assert record.keys == (K, LORA)


def test_selectors_are_tried_on_cards_and_on_instance_records_only_where_there_is_no_card() -> None:
    assert held_record(I, K).attributes == (entry(K).attributes,)
    assert held_record(I).attributes == (entry(I).attributes,)
    assert held_record(I).attributes[0].model is None


def test_different_attributes_are_told_once_in_order() -> None:
    record = held_record(I, K, LORA)
    assert record.distinct("model") == ("tiny2", "lora-a")
    assert record.distinct("namespace") == ("dynamo",)


@pytest.mark.parametrize(
    ("state", "hold", "at_once"),
    [
        (State.HELD, Hold.CARD, False),
        (State.HELD, Hold.CARD_AND_INSTANCE, False),
        (State.HELD, Hold.HEALTH, True),
        (State.REJECTED, Hold.HEALTH, True),
        (State.RELEASED, Hold.CARD, True),
        (State.WITHDRAWN, Hold.CARD, False),
    ],
)
def test_what_is_published_at_once(state: State, hold: Hold, at_once: bool) -> None:
    assert held_record(hold=hold).model_copy(update={"state": state}).publishes_at_once == at_once


def test_the_trail_keeps_its_opening_and_its_newest_lines() -> None:
    record = held_record(K)
    for number in range(200):
        record = record.with_transition(NOW, "ci", f"event {number}", State.HELD)
    assert len(record.transitions) == MAX_TRANSITIONS
    events = [line.event for line in record.transitions]
    assert events[0] == "opened"
    assert events[1:] == [f"event {number}" for number in range(200 - MAX_TRANSITIONS + 1, 200)]


def test_a_line_of_the_trail_says_from_where_to_where() -> None:
    line = held_record(K).with_transition(NOW, "ci", "smoke failed", State.REJECTED, "why").transitions[-1]
    assert (line.from_state, line.to_state, line.actor, line.event, line.reason) == (
        State.HELD,
        State.REJECTED,
        "ci",
        "smoke failed",
        "why",
    )


@pytest.mark.parametrize(
    ("reason", "kept"),
    [
        ("", ""),
        ("short", "short"),
        ("a" * MAX_REASON_BYTES, "a" * MAX_REASON_BYTES),
        ("b" + "a" * MAX_REASON_BYTES, "a" * MAX_REASON_BYTES),
        ("é" * 1025, "é" * 1024),
        ("é" * 1024 + "a", "é" * 1023 + "a"),
        ("half \ud800 a character", "half ? a character"),
        ("\n" * MAX_REASON_BYTES, "\n" * MAX_REASON_BYTES),
        ("\x1b[31m" * MAX_REASON_BYTES, "31m" + "\x1b[31m" * 409),
        ("\0" * MAX_REASON_BYTES, "\0" * 682),
        ("a\0" * MAX_REASON_BYTES, "a\0" * 585),
    ],
)
def test_a_reason_keeps_its_last_2_kib_cut_between_characters(reason: str, kept: str) -> None:
    assert bounded_reason(reason) == kept


@pytest.mark.parametrize(
    ("state", "is_open", "is_through"),
    [
        (GateState.PENDING, True, False),
        (GateState.INCONCLUSIVE, True, False),
        (GateState.ERROR, True, False),
        (GateState.PASSED, False, True),
        (GateState.OVERRIDDEN, False, True),
        (GateState.FAILED, False, False),
    ],
)
def test_gate_states(state: GateState, is_open: bool, is_through: bool) -> None:
    assert (state.is_open, state.is_through) == (is_open, is_through)


def test_the_gates_that_keep_something_back() -> None:
    assert held_record(K, gates=("smoke", "chat")).waited_for.keys() == {"smoke", "chat"}
    assert released_record(("smoke", "chat")).waited_for == {}
    assert with_later(released_record(("smoke", "chat"))).waited_for.keys() == {"smoke"}


def test_a_later_card_that_is_not_held_any_more_is_not_marked() -> None:
    record = with_later(released_record())
    assert [entry.gated_key for entry in record.later] == [K]
    assert record.with_held({K}) is record
    assert record.with_held({LORA}).later == ()
    assert record.with_held(()).keys == record.keys


def test_selectors_are_tried_on_what_waits() -> None:
    public, later = released_record(), with_later(released_record())
    assert {one.model for one in public.attributes_to_publish} == {"lora-a"}
    assert [one.model for one in later.attributes_to_publish] == [entry(K).model]
    assert {one.model for one in later.attributes} == {"lora-a", entry(K).model}
