"""Who is in conflict with whom, and who is told of it."""

from greenroom.core.keyspace import InstanceId, Key
from greenroom.core.policy import Hold
from greenroom.core.record import GatedEntry, Record, State
from greenroom.core.templates import KeyKind
from greenroom.store.configurations import Configurations
from greenroom.store.mirrored import MirroredInstance
from tests.support.registering import card_key, entry, held_record

ONE, TWO, THREE = InstanceId("a1"), InstanceId("a2"), InstanceId("a3")
A, B = "kv_cache_block_size=64", "kv_cache_block_size=32"


def instance(
    name: InstanceId, configuration: str, state: State = State.HELD, hold: Hold = Hold.CARD, **entry_of: object
) -> MirroredInstance:
    card = entry(name).model_copy(update={"configuration": configuration, **entry_of})
    record = held_record(name, hold=hold).model_copy(update={"state": state, "cards": (card,)})
    is_held = state is not State.RELEASED and hold is not Hold.HEALTH
    return MirroredInstance(name, record, 7, frozenset({card_key(name)} if is_held else ()), None)


def known(*mirrored: MirroredInstance) -> Configurations:
    found = Configurations()
    for one in mirrored:
        found.update(one.instance, one)
    return found


def conflicts(found: Configurations, one: MirroredInstance) -> list[tuple[InstanceId, bool]]:
    return [(said.instance, said.is_public) for said in found.conflicts(one.instance, one.record, one.held)]


def test_others_of_the_same_model_that_differ_released_ones_first() -> None:
    waiting = instance(ONE, A)
    found = known(waiting, instance(TWO, B), instance(THREE, B, State.RELEASED))
    assert conflicts(found, waiting) == [(THREE, True), (TWO, False)]
    [said, _] = found.conflicts(ONE, waiting.record, waiting.held)
    assert (said.model, [str(one) for one in said.differences]) == (
        "Qwen/Qwen3-0.6B",
        ["kv_cache_block_size is 64 here and 32 there"],
    )


def test_who_is_alike_elsewhere_out_of_service_or_itself_is_no_conflict() -> None:
    waiting = instance(ONE, A)
    others = [
        instance(TWO, A, State.RELEASED),
        instance(TWO, B, State.REJECTED),
        instance(TWO, B, State.WITHDRAWN),
        instance(TWO, B, model="other"),
        instance(TWO, B, endpoint="other"),
        instance(TWO, B, model=None),
        instance(TWO, B, kind=KeyKind.INSTANCE),
        instance(TWO, f"{B} worker_type=decode"),
        instance(TWO, ""),
        instance(ONE, B, State.RELEASED),
    ]
    for other in others:
        assert conflicts(known(waiting, other), waiting) == [], other
    assert conflicts(known(waiting, instance(TWO, B)), waiting) == [(TWO, False)]


def test_what_is_not_held_any_more_and_what_is_public_has_no_conflict_of_its_own() -> None:
    found = known(instance(TWO, B, State.RELEASED))
    gone = instance(ONE, A).record
    assert found.conflicts(ONE, gone, ()) == ()
    public = instance(ONE, A, State.RELEASED)
    assert conflicts(found, public) == []
    health = instance(ONE, A, hold=Hold.HEALTH)
    assert conflicts(found, health) == [(TWO, True)]
    assert conflicts(known(health), instance(TWO, B)) == [(ONE, True)], "its card is public while it is held"


def test_a_later_card_is_compared_and_what_is_public_beside_it_is_not() -> None:
    later = entry(ONE).model_copy(update={"configuration": A, "later_gates": ("smoke",)})
    public = entry(ONE, "lora", "lora").model_copy(update={"configuration": A})
    record = _released(public, later)
    found = known(
        instance(TWO, B, State.RELEASED),
        instance(THREE, B, State.RELEASED, model="lora"),
        MirroredInstance(ONE, record, 7, frozenset({card_key(ONE)}), None),
    )
    assert [one.instance for one in found.conflicts(ONE, record, {card_key(ONE)})] == [TWO]
    assert conflicts(found, instance(THREE, B)) == [(ONE, False)], "it waits"
    assert found.conflicts(ONE, record, set[Key]()) == ()


def _released(*cards: GatedEntry) -> Record:
    return held_record(ONE).model_copy(update={"state": State.RELEASED, "cards": cards})


def test_others_are_told_only_when_a_configuration_comes_or_goes() -> None:
    """Else each of a thousand workers that register would make everybody look at each of the others."""
    found = known(instance(ONE, A))
    two, three = instance(TWO, B, State.RELEASED), instance(THREE, B, State.RELEASED)
    assert found.update(TWO, two) == {ONE}
    assert found.update(THREE, three) == frozenset()
    assert found.update(TWO, None) == frozenset()
    assert found.update(THREE, None) == {ONE}
    assert found.update(ONE, None) == frozenset()
    assert found.update(ONE, instance(ONE, A)) == frozenset()
    assert found.update(TWO, instance(TWO, A)) == frozenset(), "alike"
    assert found.update(TWO, instance(TWO, B)) == {ONE}


def test_nothing_remains_of_who_is_gone() -> None:
    found = known(instance(ONE, A), instance(TWO, B))
    for name in (ONE, TWO):
        found.update(name, None)
    assert (dict(found._places), found._of) == ({}, {})
    found.update(ONE, instance(ONE, A))
    found.clear()
    assert conflicts(found, instance(TWO, B)) == []
