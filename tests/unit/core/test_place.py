"""Where a key is written and read: by the record first, then where it is, then by what is to be kept back."""

from dataclasses import replace

import pytest

from greenroom.core.keyspace import Key
from greenroom.core.place import Place, effective_hold, gates_to_pass, place_compares, place_of, where
from greenroom.core.policy import Hold, Requirements
from greenroom.core.record import Record, State
from greenroom.core.snapshot import Snapshot
from greenroom.core.transitions import Outcome, with_verdict, withdrawn
from tests.support.instances import LORA, NOW, TEXT, I, K, gated, held_record, needs, snapshot
from tests.support.later import released_record, with_later

HELD = held_record(K)
RELEASED = HELD.model_copy(update={"state": State.RELEASED})
RULE = {hold: needs("smoke", hold=hold) for hold in Hold}


@pytest.mark.parametrize("asked", [None, *RULE.values()], ids=lambda asked: asked.hold if asked else "no rule")
@pytest.mark.parametrize("key", [K, I])
def test_a_key_that_is_somewhere_stays_there_whatever_the_rules(key: Key, asked: Requirements | None) -> None:
    for record in (None, HELD, held_record(K, hold=Hold.CARD_AND_INSTANCE), held_record(K, hold=Hold.HEALTH)):
        assert place_of(gated(key), snapshot(record, shadows=(key,)), asked) is Place.SHADOW
        assert place_of(gated(key), snapshot(record, public=(key,)), asked) is Place.PUBLIC
        assert place_of(gated(key), snapshot(record, shadows=(key,), public=(key,)), asked) is Place.SHADOW


@pytest.mark.parametrize(
    ("asked", "model", "lora", "instance"),
    [
        (None, (), (), ()),
        (Hold.HEALTH, ("smoke",), (), ()),
        (Hold.CARD, ("smoke",), (), ()),
        (Hold.CARD_AND_INSTANCE, ("smoke",), (), ()),
    ],
)
def test_a_released_instance_holds_what_its_gates_have_not_seen(
    asked: Hold | None, model: tuple[str, ...], lora: tuple[str, ...], instance: tuple[str, ...]
) -> None:
    """K is another model's card; what passed here stands in for the others."""
    seen, rules = snapshot(released_record()), RULE[asked] if asked else None
    for key, gates in ((K, model), (LORA, lora), (I, instance)):
        assert gates_to_pass(gated(key), seen, rules) == gates
        assert place_of(gated(key), seen, rules) is (Place.SHADOW if gates else Place.PUBLIC)


@pytest.mark.parametrize(("key", "hold"), [(LORA, Hold.CARD), (I, Hold.CARD_AND_INSTANCE)])
def test_a_gate_that_has_not_passed_here_holds_whatever_brings_it(key: Key, hold: Hold) -> None:
    rules = needs("smoke", "chat", "route", hold=hold)
    assert gates_to_pass(gated(key), snapshot(with_later(released_record(), "chat")), rules) == ("chat", "route")
    assert gates_to_pass(gated(key), snapshot(released_record(hold=Hold.HEALTH)), RULE[Hold.HEALTH]) == ()


def test_a_later_card_stays_where_it_is_found() -> None:
    for asked in (None, *RULE.values()):
        assert place_of(gated(K), snapshot(released_record(), shadows=(K,)), asked) is Place.SHADOW
        assert place_of(gated(K), snapshot(released_record(), public=(K,)), asked) is Place.PUBLIC


@pytest.mark.parametrize(
    ("record", "asked", "card", "instance"),
    [
        (None, None, Place.PUBLIC, Place.PUBLIC),
        (None, Hold.HEALTH, Place.PUBLIC, Place.PUBLIC),
        (None, Hold.CARD, Place.SHADOW, Place.PUBLIC),
        (None, Hold.CARD_AND_INSTANCE, Place.SHADOW, Place.SHADOW),
        (Hold.HEALTH, None, Place.PUBLIC, Place.PUBLIC),
        (Hold.HEALTH, Hold.HEALTH, Place.PUBLIC, Place.PUBLIC),
        (Hold.HEALTH, Hold.CARD, Place.SHADOW, Place.PUBLIC),
        (Hold.HEALTH, Hold.CARD_AND_INSTANCE, Place.SHADOW, Place.SHADOW),
        (Hold.CARD, None, Place.SHADOW, Place.PUBLIC),
        (Hold.CARD, Hold.HEALTH, Place.SHADOW, Place.PUBLIC),
        (Hold.CARD, Hold.CARD_AND_INSTANCE, Place.SHADOW, Place.SHADOW),
        (Hold.CARD_AND_INSTANCE, None, Place.SHADOW, Place.SHADOW),
        (Hold.CARD_AND_INSTANCE, Hold.HEALTH, Place.SHADOW, Place.SHADOW),
    ],
)
def test_a_key_that_is_nowhere_goes_by_the_record_or_its_own_rules_whichever_holds_more(
    record: Hold | None, asked: Hold | None, card: Place, instance: Place
) -> None:
    seen = snapshot(held_record(hold=record) if record else None)
    rules = RULE[asked] if asked else None
    assert (place_of(gated(K), seen, rules), place_of(gated(I), seen, rules)) == (card, instance)


@pytest.mark.parametrize("state", [State.HELD, State.REJECTED, State.WITHDRAWN])
def test_every_waiting_state_keeps_back_alike(state: State) -> None:
    assert place_of(gated(K), snapshot(HELD.model_copy(update={"state": state})), None) is Place.SHADOW


def test_the_hold_in_force() -> None:
    assert effective_hold(snapshot(), None) is None
    assert effective_hold(snapshot(), RULE[Hold.CARD]) is Hold.CARD
    assert effective_hold(snapshot(HELD), None) is Hold.CARD
    assert effective_hold(snapshot(HELD), RULE[Hold.CARD_AND_INSTANCE]) is Hold.CARD_AND_INSTANCE


def test_what_stands_for_a_key() -> None:
    assert TEXT.key(where(gated(K), Place.SHADOW)) == "S(K)"
    assert where(gated(K), Place.PUBLIC) == K


@pytest.mark.parametrize(
    ("record", "shadows", "public", "place", "compares"),
    [
        (HELD, (K,), (), Place.SHADOW, ["ver(S(K))>0"]),
        (HELD, (), (), Place.SHADOW, ["ver(K)=0"]),
        (None, (), (), Place.SHADOW, ["ver(K)=0"]),
        (None, (), (), Place.PUBLIC, ["ver(S(K))=0", "ver(K)=0"]),
        (None, (), (K,), Place.PUBLIC, ["ver(S(K))=0", "ver(K)>0"]),
        (HELD, (), (K,), Place.PUBLIC, ["ver(S(K))=0", "ver(K)>0"]),
        (RELEASED, (), (K,), Place.PUBLIC, ["ver(K)>0"]),
        (RELEASED, (), (), Place.PUBLIC, []),
        (RELEASED, (), (), Place.SHADOW, ["ver(K)=0"]),
        (RELEASED, (K,), (), Place.SHADOW, ["ver(S(K))>0"]),
    ],
)
def test_what_must_still_be_so(
    record: Record | None, shadows: tuple[Key, ...], public: tuple[Key, ...], place: Place, compares: list[str]
) -> None:
    seen: Snapshot = snapshot(record, shadows=shadows, public=public)
    assert [TEXT.compare(compare) for compare in place_compares(gated(K), place, seen)] == compares


def test_what_is_only_remembered_must_be_as_it_was() -> None:
    """The shadow's revision is 20 and the public key's 40; what is absent is compared as absent either way."""
    held = replace(snapshot(HELD, shadows=(K,)), remembered=True)
    public = replace(snapshot(HELD, public=(K,)), remembered=True)
    compares = [list(place_compares(gated(K), place, seen)) for place, seen in zip(Place, (held, public), strict=True)]
    assert [[TEXT.compare(compare) for compare in found] for found in compares] == [
        ["mod(S(K))=20"],
        ["ver(S(K))=0", "mod(K)=40"],
    ]


@pytest.mark.parametrize("hold", list(Hold))
@pytest.mark.parametrize("by_person", [True, False])
def test_a_new_card_of_a_withdrawn_instance_stays_out_of_sight(hold: Hold, by_person: bool) -> None:
    record = held_record(K, hold=hold).model_copy(update={"state": State.RELEASED})
    taken = withdrawn(record, "alice", "bad", NOW, by_person=by_person)
    assert place_of(gated(LORA), snapshot(taken, shadows=(K,)), None) is Place.SHADOW
    held = hold is Hold.CARD_AND_INSTANCE
    assert place_of(gated(I), snapshot(taken, shadows=(K,)), None) is (Place.SHADOW if held else Place.PUBLIC)
    failed = with_verdict(taken, "smoke", 2, Outcome.FAILED, reason="", reporter="ci", now=NOW)
    free = hold is Hold.HEALTH and not by_person
    assert place_of(gated(LORA), snapshot(failed, shadows=(K,)), None) is (Place.PUBLIC if free else Place.SHADOW)
