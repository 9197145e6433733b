"""Who subscribed learns of everything, however late it asks."""

import asyncio

import pytest

from greenroom.core.claims import Claim
from greenroom.core.rollout_holds import RolloutHold
from greenroom.store.changes import Changes, ClaimExpired, Feed
from tests.support.mirroring import ONE, TWO, expired
from tests.support.registering import now


async def test_what_came_since_the_last_call_comes_as_one() -> None:
    feed = Feed()
    gone = expired(TWO)
    hold = RolloutHold(hold_id="freeze", reason="incident", actor="ops")
    ended = ClaimExpired(ONE, "smoke", Claim(runner="r1", attempt=1, claimed=now(), expires=now()))
    with feed.subscribe() as changes:
        feed.publish(Changes(frozenset({ONE})))
        feed.publish(Changes(frozenset({TWO}), (gone,)))
        feed.publish(Changes(ended_holds=(hold,)))
        feed.publish(Changes(expired_claims=(ended,)))
        everything = Changes(frozenset({ONE, TWO}), (gone,), ended_holds=(hold,), expired_claims=(ended,))
        assert await changes.next() == everything


async def test_each_subscriber_gets_its_own_copy() -> None:
    feed = Feed()
    with feed.subscribe() as quick, feed.subscribe() as slow:
        feed.publish(Changes(frozenset({ONE})))
        assert (await quick.next()).instances == {ONE}
        feed.publish(Changes(everything=True))
        assert await slow.next() == Changes(frozenset({ONE}), everything=True)
        assert await quick.next() == Changes(everything=True)


async def test_who_keeps_changes_in_a_way_of_its_own_is_told_at_once_and_only_within_the_block() -> None:
    feed, heard = Feed(), list[Changes]()

    class Keeps:
        def add(self, changes: Changes) -> None:
            heard.append(changes)

    change = Changes(frozenset({ONE}))
    with feed.told(Keeps()):
        feed.publish(change)
        assert heard == [change]
    feed.publish(change)
    assert heard == [change]


def test_what_expired_is_handed_out_as_last_seen() -> None:
    gone = expired(TWO)
    assert (gone.instance, gone.record) == (TWO, gone.last.record)


async def test_with_nothing_new_it_waits() -> None:
    feed = Feed()
    with feed.subscribe() as changes:
        feed.publish(Changes(frozenset({ONE})))
        await changes.next()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(changes.next(), 0.001)


async def test_nothing_wakes_nobody_unless_it_is_asked_to() -> None:
    """Most events of a fleet are edits that nobody is shown."""
    feed = Feed()
    with feed.subscribe() as changes:
        feed.publish(Changes())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(changes.next(), 0.001)
        changes.wake()
        assert await changes.next() == Changes()


async def test_after_the_block_nothing_is_kept_for_it() -> None:
    feed = Feed()
    with feed.subscribe() as changes:
        pass
    feed.publish(Changes(frozenset({ONE})))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(changes.next(), 0.001)
