"""One object as long as nothing that is shown has changed, and none when nobody was told."""

from greenroom.control.told import Known
from greenroom.core.fleet import Limits
from greenroom.core.keyspace import ROLLOUT_HOLDS, InstanceId
from greenroom.core.policy import Phase, ReleasesPolicy
from greenroom.core.record import GateState, Record, State
from greenroom.store.mirror import Mirror
from tests.support.control_side import GATED
from tests.support.known_fleet import KnownFleet
from tests.support.mirroring import ONE, TWO, claim_kv, delete_event, held, put_event, record_kv, shadow_kv
from tests.support.registering import entry, held_record, instance_record, instance_record_key, now

HOLD = ROLLOUT_HOLDS + b"freeze"
FOR_OTHERS = b'{"hold_id": "freeze", "reason": "r", "actor": "a", "selector": {"model": "other"}}'
FOR_ALL = b'{"hold_id": "freeze", "reason": "r", "actor": "a"}'


def mirror_of_one() -> Mirror:
    mirror = Mirror(GATED)
    mirror.replace(held(ONE))
    return mirror


def test_the_message_is_made_once_for_all_who_ask() -> None:
    known = Known(mirror_of_one())
    first = known.now(ONE)
    assert first is not None
    assert known.now(ONE) is first
    assert first.message is first.message
    assert first.message.record_revision == 7


def test_whatever_shows_makes_another_one() -> None:
    mirror = mirror_of_one()
    known, record = Known(mirror), record_kv(ONE)
    seen = [known.now(ONE)]
    claim = claim_kv(ONE)
    for change in (
        lambda: mirror.apply([put_event(claim.key, claim.value)]),
        lambda: mirror.apply([delete_event(claim.key)]),
        lambda: mirror.apply([put_event(record.key, record.value, revision=8)]),
        lambda: mirror.apply([delete_event(shadow_kv(ONE).key)]),
        lambda: mirror.apply_addresses([put_event(instance_record_key(ONE), instance_record(ONE, "10.0.0.7:1"))]),
        lambda: mirror.apply([put_event(HOLD, FOR_ALL)]),
    ):
        change()
        seen.append(known.now(ONE))
    assert len({id(one) for one in seen}) == len(seen)
    assert [one.message.rollout_holds[:] for one in seen if one] == [*[[]] * 6, ["freeze"]]


def test_what_does_not_show_leaves_it() -> None:
    mirror = mirror_of_one()
    known = Known(mirror)
    first = known.now(ONE)
    mirror.apply([put_event(HOLD, FOR_OTHERS), *map(_put, held(TWO))])
    assert known.now(ONE) is first


def test_a_conflict_shows() -> None:
    mirror = mirror_of_one()
    known = Known(mirror)
    one, two = configured(ONE, "a=1"), configured(TWO, "a=2")
    mirror.apply([_put(record_kv(ONE, one))])
    first = known.now(ONE)
    mirror.apply([*map(_put, held(TWO, two))])
    second = known.now(ONE)
    assert first is not second
    assert second is not None
    assert (second.message.conditions[3].reason, second.message.conditions[3].status) == ("ConflictsWithHeld", False)


def test_who_is_kept_in_service_says_so() -> None:
    mirror = mirror_of_one()
    record = held_record(ONE)
    failed = {"phase": Phase.CONTINUOUS, "ttl_seconds": 60, "state": GateState.FAILED, "passed": now()}
    gates = {"smoke": record.gates["smoke"].model_copy(update=failed)}
    serving = record.model_copy(update={"state": State.RELEASED, "gates": gates})
    mirror.replace([record_kv(ONE, serving)])
    told = Known(mirror, lambda: Limits(ReleasesPolicy(min_released=1), KnownFleet())).now(ONE)
    assert told is not None
    assert told.message.conditions[0].reason == "ToBeWithdrawn"
    assert "only 0 others of" in told.message.conditions[0].message


def configured(instance: InstanceId, configuration: str) -> Record:
    card = entry(instance).model_copy(update={"configuration": configuration})
    return held_record(instance).model_copy(update={"cards": (card,)})


def _put(kv: object) -> object:
    return put_event(kv.key, kv.value)  # type: ignore[attr-defined]


def test_who_is_not_there_is_none() -> None:
    assert Known(mirror_of_one()).now(TWO) is None


def test_nothing_is_kept_for_nobody() -> None:
    known = Known(mirror_of_one())
    known.now(ONE)
    assert len(known._told) == 0
