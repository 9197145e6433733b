"""Two proxies whose clocks are 30 s apart: a deadline is a time of the clock, and the foremost one comes to it first.

The rule: nothing else is by a clock that anybody is promised; `faults/races.py` races with clocks apart.
"""

from datetime import timedelta

from greenroom.core.decide import DEADLINE_GRACE_SECONDS
from greenroom.core.record import State
from tests.support.client import EtcdClient
from tests.support.control_side import ControlSide, MovableClock, control_side
from tests.support.etcd import Etcd
from tests.support.mirroring import wait_mirrored
from tests.support.registering import register, stored_record

APART_SECONDS = 30
GATE_SECONDS = 60


async def woken(client: EtcdClient, *sides: ControlSide) -> None:
    """Both have looked at the time again, as they do at any change."""
    revision = client.put(b"\x01greenroom/instances/zz", b"{}").header.revision
    for side in sides:
        await wait_mirrored(side.follower, revision)


async def test_a_deadline_comes_early_by_no_more_than_the_foremost_clock_is_ahead(
    etcd: Etcd, client: EtcdClient
) -> None:
    right, ahead = MovableClock(), MovableClock(timedelta(seconds=APART_SECONDS))
    async with control_side(etcd, clock=right) as one, control_side(etcd, clock=ahead) as other:
        for clock in (right, ahead):
            clock.advance(DEADLINE_GRACE_SECONDS)
        held = register(client, {"smoke": GATE_SECONDS}, at=right())
        await woken(client, one, other)
        assert stored_record(client, held.instance).state is State.HELD
        for clock in (right, ahead):
            clock.advance(GATE_SECONDS - APART_SECONDS)
        await woken(client, one, other)
        [event] = await other.log.wait_named("instance.rejected")
        record = stored_record(client, held.instance)
        assert (event["instance"], record.state) == (held.instance, State.REJECTED)
        early = record.gates["smoke"].deadline - right()
        assert timedelta() < early <= timedelta(seconds=APART_SECONDS)
        assert one.log.named("instance.rejected") == []
