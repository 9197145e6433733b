"""The table itself. That each event goes where it says is shown with the transitions."""

from itertools import product

from greenroom.core.events import APART, REFUSED, SETTLE, TABLE, Event
from greenroom.core.record import State


def test_the_table_has_every_pair_and_nothing_else() -> None:
    assert set(TABLE) == set(product(State, Event))
    assert set(TABLE.values()) <= {*State, REFUSED, SETTLE, APART}
