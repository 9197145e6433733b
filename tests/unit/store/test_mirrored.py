"""Which keys of an instance are taken for existing."""

from greenroom.core.policy import Hold
from greenroom.core.transitions import Outcome, released, with_verdict
from greenroom.store.mirrored import MirroredInstance
from tests.support.mirroring import ONE
from tests.support.registering import card_key, held_record, now


def test_while_held_the_keys_in_the_reserved_area_are_live() -> None:
    record = held_record(ONE)
    assert MirroredInstance(ONE, record, 7, frozenset(), None).live_cards == 0
    one = MirroredInstance(ONE, record, 7, frozenset({card_key(ONE)}), None)
    assert (one.live_keys, one.live_cards) == ({card_key(ONE)}, 1)


def test_once_public_every_registered_key_is_taken_for_live() -> None:
    passed = with_verdict(held_record(ONE), "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=now())
    for record in (released(passed, now()), held_record(ONE, hold=Hold.HEALTH)):
        assert MirroredInstance(ONE, record, 7, frozenset(), None).live_keys == {card_key(ONE)}
