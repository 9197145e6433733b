"""What the mirror shows after etcd's keys and events, and which instances it says they touched."""

from greenroom.core.budget import Budget, encode
from greenroom.core.keyspace import BUDGET, CLAIMS, ROLLOUT_HOLDS, InstanceId, claim_key, record_key, shadow_key
from greenroom.core.policy import Hold
from greenroom.core.record import Record, State
from greenroom.core.templates import GatedKeys
from greenroom.store.changes import Changes
from greenroom.store.in_order import place_of
from greenroom.store.mirror import Mirror
from tests.support.control_side import GATED
from tests.support.mirroring import ONE, TWO, claim_kv, delete_event, held, kv_of, put_event, record_kv, shadow_kv
from tests.support.registering import (
    card_key,
    card_value,
    entry,
    held_record,
    instance_record,
    instance_record_key,
    now,
)

HOLD = ROLLOUT_HOLDS + b"freeze"
HOLD_VALUE = b'{"hold_id": "freeze", "reason": "incident", "actor": "ops"}'


def mirror_of(*kvs: object) -> Mirror:
    mirror = Mirror(GATED)
    mirror.replace(list(kvs))  # type: ignore[arg-type]
    return mirror


def test_a_record_and_its_shadow_make_a_held_instance() -> None:
    one = mirror_of(*held(ONE)).instance(ONE)
    assert one is not None
    assert (one.record.state, one.revision, one.held, one.live_cards) == (State.HELD, 7, {card_key(ONE)}, 1)


def test_events_say_whom_they_touched() -> None:
    mirror = mirror_of()
    assert mirror.apply([put_event(*_pair(record_kv(ONE)))]).instances == {ONE}
    assert mirror.apply([put_event(shadow_key(TWO, card_key(TWO)), card_value())]).instances == {TWO}
    assert mirror.apply([put_event(b"\x01greenroom/budget", b"{}")]).instances == frozenset()


def _pair(kv: object) -> tuple[bytes, bytes]:
    return kv.key, kv.value  # type: ignore[attr-defined]


def test_an_edit_of_a_card_that_is_held_changes_nothing_that_is_shown() -> None:
    """But it is known of: whoever asks how far the mirror is gets its revision."""
    mirror = mirror_of(*held(ONE))
    edit = put_event(shadow_key(ONE, card_key(ONE)), card_value(), revision=20)
    assert mirror.apply([edit]) == Changes()
    assert (mirror.newest, mirror.revisions[shadow_key(ONE, card_key(ONE))]) == (20, 20)


def test_a_deleted_shadow_is_no_live_card() -> None:
    mirror = mirror_of(*held(ONE))
    assert mirror.apply([delete_event(shadow_key(ONE, card_key(ONE)))]).instances == {ONE}
    assert mirror.instance(ONE).live_cards == 0  # type: ignore[union-attr]


def test_a_record_that_vanishes_has_expired_and_is_handed_out_as_last_seen() -> None:
    mirror = mirror_of(*held(ONE))
    events = [delete_event(shadow_key(ONE, card_key(ONE))), delete_event(record_key(ONE))]
    changes = mirror.apply(events)
    assert [(gone.instance, gone.record.state) for gone in changes.expired] == [(ONE, State.HELD)]
    assert mirror.instance(ONE) is None
    assert mirror.apply(events).expired == ()


def test_one_that_expired_is_handed_out_with_the_keys_that_its_lease_took_first() -> None:
    mirror = mirror_of(*held(ONE))
    mirror.apply_addresses([put_event(instance_record_key(ONE), instance_record(ONE, "10.0.0.7:1"))])
    newer = held_record(ONE).model_copy(update={"generation": 5})
    events = [
        put_event(*_pair(record_kv(ONE, newer)), revision=20),
        delete_event(shadow_key(ONE, card_key(ONE)), 21),
        delete_event(record_key(ONE), 21),
    ]
    [gone] = mirror.apply(events).expired
    assert (gone.last.held, gone.last.address) == ({card_key(ONE)}, "10.0.0.7:1")
    assert (gone.last.revision, gone.record.generation) == (20, 5)


def test_one_that_came_and_went_in_the_same_answer_is_handed_out_too() -> None:
    mirror = mirror_of()
    [gone] = mirror.apply([put_event(*_pair(record_kv(ONE))), delete_event(record_key(ONE))]).expired
    assert gone.instance == ONE


def test_it_knows_the_revision_of_each_key_that_it_shows_and_of_the_newest_event() -> None:
    mirror = mirror_of(*held(ONE), kv_of(HOLD, HOLD_VALUE, 5), kv_of(b"\x01greenroom/budget", b"", 9))
    shadow = shadow_key(ONE, card_key(ONE))
    assert mirror.revisions == {record_key(ONE): 7, shadow: 7, HOLD: 5}
    assert mirror.newest == 9
    mirror.apply([put_event(HOLD, HOLD_VALUE, revision=11), delete_event(shadow, 12)])
    assert (mirror.revisions, mirror.newest) == ({record_key(ONE): 7, HOLD: 11}, 12)
    mirror.replace([kv_of(record_key(TWO), b"{}", 3)])
    assert (mirror.revisions, mirror.newest) == ({record_key(TWO): 3}, 3)


def test_a_claim_shows_on_its_instance_until_it_is_gone() -> None:
    mirror, claim = mirror_of(*held(ONE)), claim_kv(ONE, revision=12)
    assert mirror.apply([put_event(claim.key, claim.value, 12)]) == Changes(frozenset({ONE}))
    assert mirror.revisions[claim.key] == 12
    assert [one.runner for one in mirror.claims(ONE).values()] == ["runner-1"]
    assert mirror.instance(ONE).claimed.keys() == {"smoke"}  # type: ignore[union-attr]
    assert list(mirror.claimed_gates()) == ["smoke"]
    assert mirror.named(claim.key) == ONE
    assert mirror.apply([delete_event(claim.key, 13)]).instances == {ONE}
    assert (mirror.claims(ONE), list(mirror.claimed_gates())) == ({}, [])
    mirror.apply([put_event(claim.key, claim.value, 14)])
    mirror.replace(held(ONE))
    assert mirror.claims(ONE) == {}


def test_a_claim_that_ends_with_its_record_did_not_expire_and_one_that_ends_alone_did() -> None:
    """A verdict and a runner's own release write the record; an etcd lease that ends takes the claim alone."""
    claim, record = claim_kv(ONE), record_kv(ONE)
    together = mirror_of(*held(ONE), claim)
    assert together.apply([put_event(record.key, record.value, 9), delete_event(claim.key, 9)]).expired_claims == ()
    alone = mirror_of(*held(ONE), claim)
    [ended] = alone.apply([put_event(record.key, record.value, 8), delete_event(claim.key, 9)]).expired_claims
    assert (ended.instance, ended.gate, ended.claim.runner) == (ONE, "smoke", "runner-1")
    assert mirror_of(claim).apply([delete_event(claim.key, 9)]).expired_claims == (), "its instance is gone too"


def test_what_is_no_claim_under_their_prefix_touches_nobody() -> None:
    mirror = mirror_of(*held(ONE), kv_of(claim_key(ONE, "smoke"), b"unreadable"))
    assert mirror.claims(ONE) == {}
    assert mirror.apply([put_event(CLAIMS + b"odd", b"", 9)]).instances == frozenset()


def test_it_knows_the_revision_of_each_public_instance_record() -> None:
    mirror, key = mirror_of(), instance_record_key(ONE)
    mirror.replace_addresses(b"v1/instances/", [kv_of(key, b"", 4), kv_of(instance_record_key(TWO), b"", 5)])
    mirror.apply_addresses([put_event(key, b"", revision=6), delete_event(instance_record_key(TWO), 7)])
    assert mirror.address_revisions == {key: 6}
    mirror.replace_addresses(b"v1/instances/", [])
    assert mirror.address_revisions == {}


def test_it_says_whom_a_key_is_about() -> None:
    mirror = mirror_of()
    keys = (record_key(ONE), shadow_key(ONE, card_key(ONE)), instance_record_key(ONE))
    assert {mirror.named(key) for key in keys} == {ONE}
    assert mirror.named(HOLD) is None


def test_what_a_fresh_read_lacks_has_expired_meanwhile() -> None:
    mirror = mirror_of(*held(ONE), *held(TWO), kv_of(HOLD, HOLD_VALUE))
    changes = mirror.replace(held(TWO))
    assert [gone.instance for gone in changes.expired] == [ONE]
    assert changes.everything
    assert [one.instance for one in mirror.instances()] == [TWO]
    assert mirror.rollout_holds == ()


def test_with_hold_health_registered_cards_are_believed_to_be_public() -> None:
    record = held_record(ONE, hold=Hold.HEALTH)
    assert mirror_of(record_kv(ONE, record)).instance(ONE).live_cards == 1  # type: ignore[union-attr]


def test_any_change_of_the_rollout_holds_concerns_everything() -> None:
    mirror = mirror_of(*held(ONE))
    assert mirror.apply([put_event(HOLD, HOLD_VALUE)]).everything
    assert [hold.hold_id for hold in mirror.rollout_holds] == ["freeze"]
    assert mirror.apply([delete_event(HOLD)]).everything
    assert mirror.rollout_holds == ()


def test_a_record_that_cannot_be_read_is_kept_apart_until_it_can() -> None:
    mirror = mirror_of(kv_of(record_key(ONE), b"{}"))
    assert mirror.instance(ONE) is None
    assert list(mirror.unreadable) == [ONE]
    mirror.apply([put_event(*_pair(record_kv(ONE)))])
    assert mirror.unreadable == {}
    mirror.apply([put_event(record_key(ONE), b"[]")])
    assert mirror.instance(ONE) is None
    assert mirror.apply([delete_event(record_key(ONE))]).expired == ()
    assert mirror.unreadable == {}


def test_an_unreadable_record_in_a_fresh_read_is_no_expiry() -> None:
    mirror = mirror_of(*held(ONE))
    assert mirror.replace([kv_of(record_key(ONE), b"{}")]).expired == ()


def test_keys_that_others_put_into_our_area_harm_nothing() -> None:
    mirror = mirror_of()
    for key in (b"\x01greenroom/held/x", b"\x01greenroom/instances/\xff\xfe", b"\x01greenroom/held/\xff/k"):
        mirror.apply([put_event(key, b"1"), delete_event(key)])
    assert list(mirror.instances()) == []


def test_the_address_follows_the_public_instance_record() -> None:
    mirror = mirror_of(*held(ONE))
    key = instance_record_key(ONE)
    assert mirror.apply_addresses([put_event(key, instance_record(ONE, "10.0.0.7:1"))]).instances == {ONE}
    assert mirror.address(ONE) == "10.0.0.7:1"
    assert mirror.instance(ONE).address == "10.0.0.7:1"  # type: ignore[union-attr]
    mirror.apply_addresses([put_event(key, b"says nothing")])
    assert mirror.address(ONE) is None
    mirror.apply_addresses([put_event(key, instance_record(ONE, "10.0.0.8:1")), delete_event(key)])
    assert mirror.address(ONE) is None


def test_a_held_instance_record_gives_the_address_and_its_release_keeps_it() -> None:
    key = instance_record_key(ONE)
    shadow = shadow_kv(ONE, key, instance_record(ONE, "10.0.0.7:1"))  # type: ignore[arg-type]
    mirror = mirror_of(*held(ONE), shadow)
    assert mirror.address(ONE) == "10.0.0.7:1"
    mirror.apply_addresses([put_event(key, instance_record(ONE, "10.0.0.7:1"))])
    mirror.apply([delete_event(shadow.key)])
    assert mirror.address(ONE) == "10.0.0.7:1"


def test_a_fresh_read_of_one_prefix_replaces_its_addresses_only() -> None:
    shadow = shadow_kv(TWO, instance_record_key(TWO), instance_record(TWO, "10.0.0.8:1"))  # type: ignore[arg-type]
    mirror = mirror_of(*held(TWO), shadow)
    mirror.apply_addresses([put_event(instance_record_key(ONE), instance_record(ONE, "10.0.0.7:1"))])
    assert mirror.replace_addresses(b"v1/instances/", []).instances == {ONE}
    assert (mirror.address(ONE), mirror.address(TWO)) == (None, "10.0.0.8:1")
    mirror.replace(held(TWO))
    assert mirror.address(TWO) is None


def test_rollout_holds_that_vanish_are_told_from_events_and_from_a_fresh_read() -> None:
    kvs = [kv_of(b"\x01greenroom/rollout-holds/" + name, b"{}") for name in (b"a", b"b", b"c")]
    mirror = mirror_of(*kvs)
    gone = mirror.apply([delete_event(kvs[0].key), delete_event(kvs[0].key)])
    assert [hold.hold_id for hold in gone.ended_holds] == ["a"]
    assert gone.everything
    assert [hold.hold_id for hold in mirror.replace(kvs[1:2]).ended_holds] == ["c"]


def test_addresses_are_known_only_where_a_template_names_instance_records() -> None:
    assert Mirror(GATED).knows_addresses
    assert not Mirror(GatedKeys(GATED.templates, ())).knows_addresses


def test_the_budget_is_followed_and_is_no_part_of_what_histories_compare() -> None:
    mirror, busy = Mirror(GATED), Budget().with_release(ONE, now())
    mirror.replace([kv_of(BUDGET, encode(busy))])
    assert mirror.budget is not None
    assert mirror.budget.has(ONE)
    assert mirror.apply([put_event(BUDGET, b"{}")]) == Changes(budget=True)
    assert mirror.budget == Budget()
    assert mirror.apply([put_event(BUDGET, b"?", revision=9)]).budget
    assert mirror.budget is None, "unreadable"
    assert mirror.apply([delete_event(BUDGET, revision=10)]).budget
    assert (mirror.budget, mirror.newest, dict(mirror.revisions)) == (Budget(), 10, {})
    mirror.apply([put_event(BUDGET, encode(busy), revision=11)])
    mirror.replace([])
    assert mirror.budget == Budget(), "it was gone when everything was read again"


def test_an_instance_exists_as_long_as_its_record_readable_or_not() -> None:
    mirror = Mirror(GATED)
    mirror.replace([record_kv(ONE), kv_of(record_key(TWO), b"?")])
    assert mirror.exists(ONE)
    assert mirror.exists(TWO)
    assert not mirror.exists(InstanceId("abc3"))


def configured(instance: InstanceId, configuration: str) -> Record:
    card = entry(instance).model_copy(update={"configuration": configuration})
    return held_record(instance).model_copy(update={"cards": (card,)})


def test_a_conflict_that_comes_or_goes_concerns_both_sides() -> None:
    """The other one must be looked at again: it may wait for just this."""
    one, two = configured(ONE, "a=1"), configured(TWO, "a=2")
    mirror = mirror_of(*held(ONE, one))
    assert mirror.conflicts(ONE, one, {card_key(ONE)}) == ()
    shown = mirror.apply([put_event(*_pair(record_kv(TWO, two))), put_event(*_pair(shadow_kv(TWO)))])
    assert shown.instances == {ONE, TWO}
    assert [said.instance for said in mirror.conflicts(ONE, one, {card_key(ONE)})] == [TWO]
    assert mirror.apply([delete_event(shadow_key(TWO, card_key(TWO)))]).instances == {ONE, TWO}
    assert mirror.conflicts(ONE, one, {card_key(ONE)}) == ()
    mirror.apply([put_event(*_pair(shadow_kv(TWO)))])
    gone = mirror.apply([delete_event(record_key(TWO))])
    assert (gone.instances, [last.instance for last in gone.expired]) == ({ONE, TWO}, [TWO])
    mirror.replace([*held(TWO, two)])
    assert [said.instance for said in mirror.conflicts(ONE, one, {card_key(ONE)})] == [TWO]


def test_lists_go_on_after_a_place_and_leave_out_what_does_not_match() -> None:
    mirror = mirror_of(*held(ONE), *held(TWO), *held(InstanceId("abc3")))
    assert sorted(mirror.names()) == [ONE, TWO, "abc3"]
    assert len(list(mirror.records())) == 3
    in_order = list(mirror.in_order())
    first, second, third = in_order
    assert list(mirror.in_order(place_of(first.instance, first.record))) == [second, third]
    assert list(mirror.in_order(matching=lambda record: record == second.record)) == [second]
    mirror.replace(held(TWO))
    assert [one.instance for one in mirror.in_order()] == [TWO]
