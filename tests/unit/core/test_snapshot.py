"""The one read: what is asked, how the answer is understood, what it is enough for."""

import pytest

from greenroom.core.keyspace import Key
from greenroom.core.policy import Hold
from greenroom.core.record import Record, State
from greenroom.core.rollout_holds import RolloutHold
from greenroom.core.snapshot import MAX_READ_KEYS, read_request, snapshot_from
from greenroom.core.txns import MAX_OPERATIONS
from greenroom.errors import EtcdRefusal, UnreadableRecord
from greenroom.pb.etcd import kv_pb2, rpc_pb2
from tests.support.instances import (
    INSTANCE,
    LEASE,
    LORA,
    RECORD,
    TEXT,
    I,
    K,
    held_record,
    lora_cards,
    snapshot,
    value_of,
)


def test_one_read_of_everything_that_decisions_stand_on() -> None:
    assert TEXT.txn(read_request(INSTANCE, (K, LORA))) == " || get R; get S*; get H; get B; get K; get LORA"
    assert TEXT.txn(read_request(INSTANCE)) == " || get R; get S*; get H; get B"


def test_as_many_keys_as_etcd_takes() -> None:
    keys = tuple(lora_cards(MAX_READ_KEYS))
    assert len(read_request(INSTANCE, keys).success) == MAX_OPERATIONS


def test_what_was_found() -> None:
    hold = RolloutHold(hold_id="freeze", reason="why", actor="alice")
    seen = snapshot(held_record(K, LORA), shadows=(K,), public=(LORA,), rollout_holds=(hold,), budget_revision=6)
    assert (seen.instance, seen.lease, seen.revision) == (INSTANCE, LEASE, 100)
    assert (seen.record, seen.record_revision, seen.budget_revision) == (held_record(K, LORA), 7, 6)
    assert {key: kv.value for key, kv in seen.shadows.items()} == {K: value_of(K)}
    assert {key: kv.mod_revision for key, kv in seen.public.items()} == {LORA: 40}
    assert seen.asked == {K, LORA, I}
    assert seen.rollout_holds == (hold,)


def test_what_was_not_found() -> None:
    seen = snapshot()
    assert (seen.record, seen.record_revision, seen.budget_revision) == (None, 0, 0)
    assert (seen.shadows, seen.public, seen.rollout_holds, seen.live_cards) == ({}, {}, (), 0)
    assert not seen.is_released
    assert not seen.lacks_cards()


def test_an_unreadable_record_is_named_by_its_key() -> None:
    answer = rpc_pb2.TxnResponse()
    found = answer.responses.add().response_range
    found.kvs.append(kv_pb2.KeyValue(key=RECORD, value=b"{", mod_revision=7))
    for _ in range(3):
        answer.responses.add().response_range.SetInParent()
    with pytest.raises(UnreadableRecord, match=r"\\x01greenroom/instances/6177a228983c0b4d"):
        snapshot_from(INSTANCE, (), answer)


@pytest.mark.parametrize(
    ("record", "shadows", "public", "live"),
    [
        (held_record(K, LORA), (K, LORA), (), 2),
        (held_record(K, LORA), (LORA,), (), 1),
        (held_record(K, LORA), (), (K,), 0),
        (held_record(K, I, hold=Hold.CARD_AND_INSTANCE), (I,), (), 0),
        (held_record(K, hold=Hold.HEALTH), (), (K,), 1),
        (held_record(K, LORA, hold=Hold.HEALTH), (LORA,), (), 1),
        (held_record(K, LORA, hold=Hold.HEALTH), (LORA,), (K,), 2),
        (held_record(K).model_copy(update={"state": State.RELEASED}), (), (K,), 0),
        (held_record(K, LORA, I).model_copy(update={"state": State.RELEASED}), (LORA, I), (K,), 2),
    ],
    ids=[
        "all", "one is gone", "public is not held", "an instance record is no card", "health",
        "health, but its own rules hold it", "health, and both", "released", "released, and more came later",
    ],
)  # fmt: skip
def test_live_cards(record: Record, shadows: tuple[Key, ...], public: tuple[Key, ...], live: int) -> None:
    assert snapshot(record, shadows=shadows, public=public).live_cards == live


@pytest.mark.parametrize("state", State)
def test_released_by_its_record(state: State) -> None:
    seen = snapshot(held_record(K).model_copy(update={"state": state}))
    assert seen.is_released == (state is State.RELEASED)


def test_whether_every_listed_card_was_looked_at() -> None:
    few = snapshot(held_record(K, LORA), asked=(K,))
    assert few.lacks_cards()
    assert few.read_again() == (K, LORA)
    assert not snapshot(held_record(K, LORA), asked=few.read_again()).lacks_cards()


def test_reading_again_keeps_what_was_asked_for() -> None:
    assert snapshot(held_record(LORA), asked=(K, I)).read_again() == (I, K, LORA)
    assert set(snapshot(asked=(K, I)).read_again()) == {K, I}


def test_more_keys_than_one_read_can_ask_for_are_refused_never_left_out() -> None:
    """A record opened from half of what is public would leave the other half out of a withdrawal."""
    keys = tuple(Key(b"v1/mdc/%d" % number) for number in range(MAX_READ_KEYS + 1))
    assert len(read_request(INSTANCE, keys[:-1]).success) == MAX_OPERATIONS
    with pytest.raises(EtcdRefusal, match="too many operations"):
        read_request(INSTANCE, keys)
