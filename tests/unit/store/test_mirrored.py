"""Which keys of an instance are taken for existing."""

from greenroom.core.claims import Claim
from greenroom.core.policy import Hold
from greenroom.core.transitions import Outcome, released, with_verdict
from greenroom.store.mirrored import MirroredInstance
from tests.support.instances import LORA, K
from tests.support.later import released_record, with_later
from tests.support.mirroring import ONE
from tests.support.registering import card_key, held_record, now


def test_while_held_the_keys_in_the_reserved_area_are_live() -> None:
    record = held_record(ONE)
    assert MirroredInstance(ONE, record, 7, frozenset(), None).live_cards == 0
    one = MirroredInstance(ONE, record, 7, frozenset({card_key(ONE)}), None)
    assert (one.live_keys, one.live_cards) == ({card_key(ONE)}, 1)


def test_only_claims_on_current_attempts_are_such() -> None:
    claim = Claim(runner="r1", attempt=1, claimed=now(), expires=now())
    old = claim.model_copy(update={"attempt": 2})
    claims = {"smoke": claim, "latency": old, "removed": claim}
    record = held_record(ONE, {"smoke": 9.0, "latency": 9.0})
    assert MirroredInstance(ONE, record, 7, frozenset(), None, claims).claimed == {"smoke": claim}


def test_once_public_every_registered_key_is_taken_for_live() -> None:
    passed = with_verdict(held_record(ONE), "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=now())
    for record in (released(passed, now()), held_record(ONE, hold=Hold.HEALTH)):
        assert MirroredInstance(ONE, record, 7, frozenset(), None).live_keys == {card_key(ONE)}


def test_a_later_card_lives_while_it_is_held_and_only_what_is_not_held_is_public() -> None:
    record = with_later(released_record())
    waiting = MirroredInstance(ONE, record, 7, frozenset({K}), None)
    assert (waiting.live_keys, waiting.public_keys, waiting.live_cards) == ({K, LORA}, {LORA}, 1)
    assert waiting.current is record
    gone = MirroredInstance(ONE, record, 7, frozenset(), None)
    assert (gone.live_keys, gone.public_keys, gone.live_cards) == ({LORA}, {LORA}, 0)
    assert gone.current.later == ()
