"""What becomes of frontends, by what their instances are. Processes: tests/integration/gates/test_frontends.py."""

import pytest

from greenroom.gates.frontends import Fate, fate
from tests.support.shown import shown


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
