"""What is different from how it was. Reading the past from etcd is shown in tests/integration."""

from collections.abc import Mapping

from greenroom.core.keyspace import CLAIMS, RECORDS, ROLLOUT_HOLDS, SHADOWS, InstanceId, record_key, shadow_key
from greenroom.core.rollout_holds import RolloutHold, encode
from greenroom.core.selectors import Selector
from greenroom.pb.etcd import kv_pb2
from greenroom.store.history import Past, is_behind, touched_since
from greenroom.store.mirror import Mirror
from tests.support.control_side import GATED
from tests.support.mirroring import ONE, TWO, claim_kv, held, kv_of, record_kv, shadow_kv
from tests.support.registering import card_key, held_record, instance_record_key

HOLD = ROLLOUT_HOLDS + b"freeze"
THREE = InstanceId("abc3")


def mirror_of(*kvs: kv_pb2.KeyValue, addresses: Mapping[bytes, int] | None = None) -> Mirror:
    mirror = Mirror(GATED)
    mirror.replace(kvs)
    mirror.replace_addresses(b"v1/", [kv_of(key, b"", revision) for key, revision in (addresses or {}).items()])
    return mirror


def past_of(*kvs: kv_pb2.KeyValue, revision: int = 10, addresses: Mapping[bytes, int] | None = None) -> Past:
    return Past(
        revision,
        cluster=1,
        store_revision=99,
        records={kv.key: kv for kv in kvs if kv.key.startswith(RECORDS)},
        holds={kv.key: kv for kv in kvs if kv.key.startswith(ROLLOUT_HOLDS)},
        shadows={kv.key: kv.mod_revision for kv in kvs if kv.key.startswith(SHADOWS)},
        addresses={} if addresses is None else addresses,
        claims={kv.key: kv for kv in kvs if kv.key.startswith(CLAIMS)},
    )


def hold_kv(reason: str, model: str | None, revision: int) -> kv_pb2.KeyValue:
    hold = RolloutHold(hold_id="freeze", reason=reason, actor="ops", selector=Selector(model=model))
    return kv_of(HOLD, encode(hold), revision)


def test_nothing_changed_is_nothing() -> None:
    kvs = [*held(ONE), *held(TWO), hold_kv("r", None, 8)]
    assert touched_since(past_of(*kvs), mirror_of(*kvs)) == frozenset()


def test_records_and_shadows_that_came_changed_or_went_name_their_instance() -> None:
    past = past_of(*held(ONE), *held(TWO))
    assert touched_since(past, mirror_of(record_kv(ONE, revision=11), shadow_kv(ONE), *held(TWO))) == {ONE}
    assert touched_since(past, mirror_of(record_kv(ONE), *held(TWO))) == {ONE}
    assert touched_since(past, mirror_of(*held(TWO))) == {ONE}
    assert touched_since(past, mirror_of(*held(ONE), *held(TWO), *held(THREE))) == {THREE}


def test_claims_that_came_were_renewed_or_went_name_their_instance() -> None:
    kvs, claim = [*held(ONE), *held(TWO)], claim_kv(ONE, revision=8)
    past = past_of(*kvs, claim)
    assert touched_since(past, mirror_of(*kvs, claim)) == frozenset()
    assert touched_since(past, mirror_of(*kvs)) == {ONE}
    assert touched_since(past, mirror_of(*kvs, claim_kv(ONE, revision=11))) == {ONE}
    assert touched_since(past, mirror_of(*kvs, claim, claim_kv(TWO, revision=11))) == {TWO}
    was = past.instance(ONE)
    assert was is not None
    assert was.claims == mirror_of(*kvs, claim).claims(ONE)
    assert past.instance(TWO).claims == {}  # type: ignore[union-attr]


def test_a_rollout_hold_names_those_that_it_was_or_is_about() -> None:
    kvs = [*held(ONE, held_record(ONE, model="A")), *held(TWO, held_record(TWO, model="B"))]
    for_a, for_b = hold_kv("r", "A", 8), hold_kv("r", "B", 12)
    assert touched_since(past_of(*kvs), mirror_of(*kvs, for_b)) == {TWO}
    assert touched_since(past_of(*kvs, for_a), mirror_of(*kvs)) == {ONE}
    assert touched_since(past_of(*kvs, for_a), mirror_of(*kvs, for_b)) == {ONE, TWO}


def test_an_address_that_may_have_changed_names_its_instance() -> None:
    kvs, key = held(ONE), instance_record_key(ONE)
    assert touched_since(past_of(*kvs, addresses={key: 5}), mirror_of(*kvs, addresses={key: 5})) == frozenset()
    assert touched_since(past_of(*kvs, addresses={key: 5}), mirror_of(*kvs, addresses={key: 6})) == {ONE}
    assert touched_since(past_of(*kvs, addresses={key: 5}), mirror_of(*kvs)) == {ONE}


def test_where_the_addresses_are_not_known_any_more_everything_may_have_changed() -> None:
    past = Past(10, 1, 99, {record_key(TWO): record_kv(TWO)}, {}, {}, addresses=None)
    assert touched_since(past, mirror_of(*held(ONE))) == {ONE, TWO}


def test_a_mirror_that_lacks_a_write_or_a_delete_of_the_past_is_behind() -> None:
    past = past_of(*held(ONE), revision=10)
    assert not is_behind(mirror_of(*held(ONE)), past)
    assert is_behind(mirror_of(), past)
    assert is_behind(mirror_of(record_kv(ONE, revision=6), shadow_kv(ONE)), past)
    assert is_behind(mirror_of(*held(ONE), *held(TWO)), past)


def test_a_mirror_that_is_further_is_not_behind() -> None:
    past = past_of(*held(ONE), revision=10)
    assert not is_behind(mirror_of(kv_of(b"\x01greenroom/budget", b"", 20)), past)
    assert not is_behind(mirror_of(*held(ONE), record_kv(TWO, revision=11)), past)
    assert not is_behind(mirror_of(record_kv(ONE, revision=12), shadow_kv(ONE)), past)


def test_a_mirror_that_was_read_anew_is_not_behind_what_is_gone_by_then() -> None:
    """etcd was away, or its history compacted: the delete was never seen, and nothing is newer than what is left."""
    past = past_of(*held(ONE), record_kv(TWO, revision=3), revision=10)
    mirror = mirror_of()
    mirror.replace([record_kv(TWO, revision=3)], revision=30)
    assert not is_behind(mirror, past)


def test_an_instance_as_it_was() -> None:
    past = past_of(*held(ONE), kv_of(record_key(TWO), b"{}"))
    one = past.instance(ONE)
    assert one is not None
    assert (one.revision, one.held, one.address) == (7, {card_key(ONE)}, None)
    assert past.instance(ONE) is one
    assert (past.instance(TWO), past.instance(THREE)) == (None, None)
    assert past.revisions == {record_key(ONE): 7, record_key(TWO): 7, shadow_key(ONE, card_key(ONE)): 7}


def test_the_rollout_holds_that_were_in_force() -> None:
    assert [hold.reason for hold in past_of(hold_kv("incident", None, 8)).rollout_holds] == ["incident"]
