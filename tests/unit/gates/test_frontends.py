"""What becomes of frontends, by what their instances are. Processes: tests/integration/gates/test_frontends.py."""

import asyncio
from typing import Any

import pytest

from greenroom.gates.frontend import FrontendFailed, FrontendSettings
from greenroom.gates.frontends import Fate, Frontends, fate
from tests.support.control_side import EventLog
from tests.support.shown import NOW, shown


@pytest.mark.parametrize(
    ("state", "becomes"),
    [("HELD", Fate.STAY), ("WITHDRAWN", Fate.STAY), ("REJECTED", Fate.STAY_A_WHILE), ("RELEASED", Fate.END)],
)
def test_a_frontend_goes_by_its_instances_state(state: str, becomes: Fate) -> None:
    assert fate(shown(state=state)) is becomes


def test_a_released_one_with_a_later_card_needs_it_still() -> None:
    instance = shown(state="RELEASED")
    instance.gated_keys.add(live=True, public=False)
    assert fate(instance) is Fate.STAY


def test_what_waits_for_a_person_stays_a_while_and_what_is_gone_ends() -> None:
    instance = shown(state="WITHDRAWN")
    instance.conditions[0].reason = "WithdrawnByPerson"
    assert fate(instance) is Fate.STAY_A_WHILE
    assert fate(None) is Fate.END


async def test_one_that_is_taken_down_before_it_has_begun_keeps_nobody_waiting() -> None:
    """The instance is released, or gone, in the moment in which its first gate asks for a frontend."""
    previews: Any = None  # Nobody comes to ask it.
    async with asyncio.TaskGroup() as group:
        frontends = Frontends(FrontendSettings(("{port}",), 0.1, 10, 60), previews, group.create_task, EventLog())

        async def use() -> None:
            async with frontends.use(shown()):
                pytest.fail("there is none")

        using = asyncio.ensure_future(use())
        await asyncio.sleep(0)
        assert frontends.look_at(shown().id, None, NOW) is None
        with pytest.raises(FrontendFailed, match="the frontend was taken down"):
            await using
