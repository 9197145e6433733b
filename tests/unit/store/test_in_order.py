"""The order of lists, kept through whatever comes and goes."""

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom.core.keyspace import InstanceId
from greenroom.core.record import Record
from greenroom.store.in_order import MANY, InOrder, place_of
from tests.support.instances import NOW
from tests.support.registering import held_record

NAMES = [InstanceId(f"abc{number}") for number in range(6)]
PLACES = st.tuples(st.sampled_from(NAMES), st.integers(0, 3))


def seen(instance: InstanceId, seconds: int) -> Record:
    return held_record(instance, at=NOW + timedelta(seconds=seconds))


@settings(max_examples=50)
@given(st.lists(st.tuples(PLACES, st.booleans(), st.booleans())))
def test_it_is_always_sorted_by_first_sight_and_then_by_name(
    steps: list[tuple[tuple[InstanceId, int], bool, bool]],
) -> None:
    """Read after each step or only at the end: some put it in order bit by bit, some at once."""
    order, known = InOrder(), dict[InstanceId, Record]()
    for (instance, seconds), stays, is_read in steps:
        if stays:
            known[instance] = seen(instance, seconds)
        else:
            known.pop(instance, None)
        order.put(instance, known.get(instance))
        if is_read:
            assert list(order.after()) == by_place(known)
    assert list(order.after()) == by_place(known)


def by_place(known: dict[InstanceId, Record]) -> list[InstanceId]:
    return [name for _, name in sorted(place_of(instance, record) for instance, record in known.items())]


def test_a_crowd_that_comes_at_once_is_in_order_too() -> None:
    order, crowd = InOrder(), [InstanceId(f"{number:04x}") for number in range(2 * MANY)]
    order.put(NAMES[0], seen(NAMES[0], 1))
    assert list(order.after()) == NAMES[:1]
    for instance in reversed(crowd):
        order.put(instance, seen(instance, 1))
    assert list(order.after()) == sorted([*crowd, NAMES[0]])


def test_after_a_place_come_those_behind_it_whether_it_is_still_taken_or_not() -> None:
    order = InOrder()
    for instance in NAMES:
        order.put(instance, seen(instance, 1))
    place = place_of(NAMES[2], seen(NAMES[2], 1))
    assert list(order.after(place)) == NAMES[3:]
    order.put(NAMES[2], None)
    assert list(order.after(place)) == NAMES[3:]
    order.clear()
    assert list(order.after()) == []
