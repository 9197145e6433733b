"""Rollout holds: what is stored, what they stop, and that one which cannot be read stops everything."""

import json
from datetime import timedelta

import pytest

from greenroom.core.record import MAX_REASON_BYTES
from greenroom.core.rollout_holds import RolloutHold, decode, encode, matching, stop_after
from greenroom.core.selectors import Selector
from tests.support.instances import INSTANCE, LORA, NOW, I, K, held_record

KEY = b"\x01greenroom/rollout-holds/freeze"
RECORD = held_record(K, LORA)


def hold(hold_id: str = "freeze", **selector: str) -> RolloutHold:
    return RolloutHold(hold_id=hold_id, reason="incident 12", actor="alice", selector=Selector(**selector))


def test_what_is_stored_is_read_back() -> None:
    stored = hold(model="tiny*").model_copy(update={"created": NOW, "expires": NOW + timedelta(hours=2)})
    assert decode(KEY, encode(stored)) == stored


def test_the_stored_form_is_this() -> None:
    assert json.loads(encode(hold(model="tiny*"))) == {
        "schema_version": 1,
        "hold_id": "freeze",
        "reason": "incident 12",
        "actor": "alice",
        "selector": {"namespace": None, "component": None, "endpoint": None, "model": "tiny*", "suffix": None},
        "created": None,
        "expires": None,
    }


def test_its_key_names_it_whatever_the_value_says() -> None:
    assert decode(KEY, encode(hold("other"))).hold_id == "freeze"


def test_what_a_newer_proxy_added_survives() -> None:
    value = json.dumps({**json.loads(encode(hold())), "ticket": "INC-12"}).encode()
    assert json.loads(encode(decode(KEY, value)))["ticket"] == "INC-12"


@pytest.mark.parametrize(
    "changes",
    [
        {"schema_version": 2},
        {"reason": ""},
        {"actor": ""},
        {"selector": {"region": "eu"}},
        {"selector": {"model": 7}},
        {"selector": "tiny*"},
    ],
    ids=str,
)
def test_one_that_cannot_be_read_stops_everything(changes: dict[str, object]) -> None:
    """Somebody meant to stop something, and which part of it is not known."""
    value = json.dumps({**json.loads(encode(hold(model="nothing"))), **changes}).encode()
    unreadable = decode(KEY, value)
    assert unreadable.hold_id == "freeze"
    assert unreadable.stops(RECORD)


def test_one_that_is_no_json_or_whose_name_is_no_text_stops_everything_too() -> None:
    assert decode(KEY, b"freeze!").stops(RECORD)
    assert decode(KEY + b"\xff", b"").hold_id == "freeze\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("selector", "stopped"),
    [
        ({}, True),
        ({"model": "tiny2"}, True),
        ({"model": "lora-*"}, True),
        ({"model": "big"}, False),
        ({"component": "pyw", "namespace": "dynamo"}, True),
        ({"component": "pyw", "namespace": "prod"}, False),
        ({"suffix": "lora-a"}, True),
    ],
    ids=str,
)
def test_it_stops_an_instance_with_any_card_that_matches(selector: dict[str, str], stopped: bool) -> None:
    assert hold(**selector).stops(RECORD) == stopped


def test_a_model_that_is_not_known_is_stopped() -> None:
    assert hold(model="big").stops(held_record(I))


def test_those_that_stop_an_instance_in_their_order() -> None:
    holds = (hold("a"), hold("b", model="big"), hold("c", model="tiny2"))
    assert [found.hold_id for found in matching(holds, RECORD)] == ["a", "c"]


def test_a_withdrawal_stops_what_is_like_the_withdrawn() -> None:
    stop = stop_after(INSTANCE, RECORD.model_copy(update={"cards": RECORD.cards[:1]}), "alice", "wrong words", NOW)
    assert (stop.hold_id, stop.actor, stop.created, stop.expires) == (f"stopped-{INSTANCE}", "greenroom", NOW, None)
    assert stop.reason == f"alice withdrew {INSTANCE} right after its release: wrong words"
    card = RECORD.cards[0]
    assert stop.selector == Selector(namespace=card.namespace, component=card.component, model=card.model)
    assert stop.stops(RECORD)


def test_a_withdrawal_takes_the_place_of_no_rollout_hold() -> None:
    """It took that of one of its name: a person's, or of an earlier withdrawal, when the instance had another model."""
    ids = [f"stopped-{INSTANCE}", f"stopped-{INSTANCE}-2"]
    stops = [stop_after(INSTANCE, RECORD, "alice", "x", NOW, map(hold, ids[:number])) for number in range(3)]
    assert [stop.hold_id for stop in stops] == [*ids, f"stopped-{INSTANCE}-3"]


def test_a_name_that_looks_like_a_glob_selects_only_itself() -> None:
    odd = RECORD.cards[0].model_copy(update={"model": "tiny[a-z]*"})
    stop = stop_after(INSTANCE, RECORD.model_copy(update={"cards": (odd,)}), "alice", "x", NOW)
    assert stop.stops(RECORD.model_copy(update={"cards": (odd,)}))
    assert not stop.stops(RECORD.model_copy(update={"cards": (odd.model_copy(update={"model": "tinyb9"}),)}))


def test_of_several_models_none_is_selected() -> None:
    stop = stop_after(INSTANCE, RECORD, "alice", "x" * 5000, NOW)
    assert stop.selector.model is None
    assert len(stop.reason.encode()) <= MAX_REASON_BYTES
