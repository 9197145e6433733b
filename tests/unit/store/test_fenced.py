"""Carrying out a plan: what bounds it. What it does to etcd is shown in tests/integration."""

import pytest

from greenroom.core.verdicts import reconcile
from greenroom.errors import FenceContended
from greenroom.store.fenced import carry_out
from tests.support.control_side import MovableClock
from tests.support.mirroring import ONE, unconnected


async def test_when_the_time_is_up_nothing_more_is_sent() -> None:
    upstream = unconnected()
    with pytest.raises(FenceContended) as contended:
        await carry_out(upstream, ONE, reconcile(None), clock=MovableClock(), deadline_seconds=0)
    assert contended.value.metadata == {"instance": ONE}
    await upstream.close()
