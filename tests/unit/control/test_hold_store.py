"""A rollout hold is answered as every later reader sees it. The store itself is shown in tests/integration."""

from datetime import UTC, datetime

from greenroom.control.hold_store import as_stored
from greenroom.core.rollout_holds import RolloutHold
from greenroom.core.selectors import Selector


def test_times_are_those_that_etcd_keeps() -> None:
    precise = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
    hold = RolloutHold(hold_id="f", reason="r", actor="a", selector=Selector(model="Q*"), created=precise)
    stored = as_stored(hold)
    assert stored.created == datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    assert stored.model_copy(update={"created": precise}) == hold
    assert as_stored(stored) == stored
