"""When the follower is ready, up to where, and whom it tells. Following itself is shown in tests/integration."""

import asyncio
from datetime import timedelta

import pytest

from greenroom.core.decide import DEADLINE_GRACE_SECONDS
from greenroom.store.follower import _Addresses, _Reserved
from tests.support.control_side import MovableClock
from tests.support.mirroring import ONE, delete_event, fed_follower, held, kv_of, put_event, record_kv, wait_mirrored
from tests.support.registering import instance_record, instance_record_key

GRACE = timedelta(seconds=DEADLINE_GRACE_SECONDS)


async def test_it_is_ready_once_the_reserved_area_was_read_and_until_etcd_goes_away() -> None:
    follower = fed_follower()
    assert (follower.ready, follower.why_not_ready) == (False, "the reserved area was not read yet")
    _Reserved(follower).replace(held(ONE), 10)
    assert (follower.ready, follower.why_not_ready, follower.revision) == (True, None, 10)
    _Reserved(follower).away("UNAVAILABLE: gone")
    assert (follower.ready, follower.why_not_ready) == (False, "etcd cannot be followed: UNAVAILABLE: gone")
    assert follower.mirror.instance(ONE) is not None


async def test_each_reading_of_the_reserved_area_begins_a_history_that_lasts_until_etcd_goes_away() -> None:
    follower = fed_follower()
    assert follower.history is None
    _Reserved(follower).replace(held(ONE), 10)
    first = follower.history
    assert first is not None
    _Reserved(follower).apply([], 11)
    assert follower.history == first
    _Reserved(follower).away("UNAVAILABLE: gone")
    assert follower.history is None
    _Reserved(follower).replace(held(ONE), 10)
    assert follower.history not in (None, first)


async def test_unreadable_instance_records_do_not_make_it_unready() -> None:
    follower = fed_follower([])
    _Addresses(follower, b"v1/instances/").away("PERMISSION_DENIED")
    assert follower.ready


async def test_the_grace_counts_from_the_latest_sync_and_never_ends_while_away() -> None:
    clock = MovableClock()
    follower = fed_follower(clock=clock)
    assert follower.no_rejection_before - clock() > GRACE - timedelta(seconds=1)
    _Reserved(follower).replace([], 10)
    first = follower.no_rejection_before
    clock.advance(50)
    _Reserved(follower).apply([], 11)
    assert follower.no_rejection_before == first
    follower.went_away("gone")
    clock.advance(50)
    assert follower.no_rejection_before - clock() > GRACE - timedelta(seconds=1)
    _Reserved(follower).replace([], 12)
    clock.advance(30)
    assert follower.no_rejection_before - first > timedelta(seconds=99)


async def test_listeners_are_told_of_a_revision_even_where_nothing_of_it_shows() -> None:
    follower = fed_follower([])
    waiting = asyncio.ensure_future(wait_mirrored(follower, 12))
    await asyncio.sleep(0)
    _Reserved(follower).apply([put_event(*_pair(ONE))], 11)
    await asyncio.sleep(0)
    assert not waiting.done()
    _Reserved(follower).apply([], 12)
    await asyncio.wait_for(waiting, 60)


def _pair(instance: str) -> tuple[bytes, bytes]:
    kv = record_kv(instance)  # type: ignore[arg-type]
    return kv.key, kv.value


async def test_subscribers_learn_of_changes_addresses_and_outages() -> None:
    follower = fed_follower([])
    with follower.subscribe() as changes:
        _Reserved(follower).apply([put_event(*_pair(ONE)), delete_event(record_kv(ONE).key)], 11)
        told = await changes.next()
        assert (told.instances, [gone.instance for gone in told.expired]) == ({ONE}, [ONE])
        addresses = _Addresses(follower, b"v1/instances/")
        addresses.apply([put_event(instance_record_key(ONE), instance_record(ONE, "10.0.0.7:1"))], 12)
        assert (await changes.next()).instances == {ONE}
        addresses.replace([kv_of(instance_record_key(ONE), instance_record(ONE, "10.0.0.8:1"))], 13)
        assert (await changes.next()).instances == {ONE}
        assert follower.mirror.address(ONE) == "10.0.0.8:1"
        follower.went_away("gone")
        assert (await changes.next()).everything


async def test_it_is_known_up_to_the_newest_event_and_not_to_where_the_header_says() -> None:
    """etcd splits the backlog of a watch that lagged; each part's header names the store's revision, not the part's."""
    follower = fed_follower([])
    _Reserved(follower).apply([put_event(*_pair(ONE), revision=11)], 500)
    assert follower.revision == 11
    _Reserved(follower).apply([], 500)
    assert follower.revision == 500
    addresses = _Addresses(follower, b"v1/instances/")
    addresses.replace([], 9)
    assert follower.address_revisions == {b"v1/instances/": 9}
    addresses.apply([put_event(instance_record_key(ONE), b"", revision=13)], 500)
    assert follower.address_revisions == {b"v1/instances/": 13}


async def test_each_fresh_reading_is_counted() -> None:
    follower = fed_follower([])
    before = follower.syncs
    _Reserved(follower).apply([], 11)
    assert follower.syncs == before
    follower.went_away("gone")
    _Reserved(follower).replace([], 12)
    assert follower.syncs == before + 1


async def test_once_it_ends_the_mirror_is_not_taken_for_fresh() -> None:
    follower = fed_follower([])
    running = asyncio.ensure_future(follower.run())
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert follower.why_not_ready == "etcd cannot be followed: the proxy is stopping"


async def test_a_listener_is_told_at_once() -> None:
    follower, heard = fed_follower([]), []

    class Keeps:
        def add(self, changes: object) -> None:
            heard.append(changes)

    with follower.told(Keeps()):
        follower.went_away("gone")
    assert len(heard) == 1


async def test_readiness_is_waited_for() -> None:
    follower = fed_follower()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(follower.wait_ready(), 0.001)
    _Reserved(follower).replace([], 10)
    await asyncio.wait_for(follower.wait_ready(), 60)
