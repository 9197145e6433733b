"""Bounds: bounds within bounds, and rates."""

import dataclasses

from greenroom.relay.limits import Bound, Limits, Rates, Totals


def test_a_bound_takes_all_or_nothing_up_to_its_bound() -> None:
    bound = Bound(10)
    assert bound.take(6)
    assert not bound.take(5)
    assert bound.used == 6
    bound.give_back(1)
    assert bound.take(5)


def test_a_wider_one_binds_too_and_counts_what_its_parts_hold() -> None:
    wide = Bound(10)
    one, two = Bound(8, wide), Bound(8, wide)
    assert one.take(6)
    assert not two.take(5)
    assert (two.used, wide.used) == (0, 6)
    one.give_all_back()
    assert (one.used, wide.used) == (0, 0)
    assert two.take(5)


def test_one_that_takes_all_it_can_get_leaves_as_much_to_the_others() -> None:
    wide = Bound(1_000)
    hog, other = Bound(1_000, wide), Bound(1_000, wide)
    while hog.take(10):
        pass
    assert hog.used == 500
    while other.take(10):
        pass
    assert other.used == 250
    assert not hog.take(10), "the greediest gets nothing more"
    assert Bound(1_000, wide).take(10), "and a newcomer still does"


def test_many_that_take_all_they_can_get_still_leave_something() -> None:
    wide = Bound(1_000)
    hogs = [Bound(1_000, wide) for _ in range(9)]
    for _ in range(1_000):
        for hog in hogs:
            hog.take(1)
    assert {hog.used for hog in hogs} <= {100, 101}
    assert wide.left >= 90


def test_rates_are_counted_anew_from_each_second_on() -> None:
    rates = Rates()
    assert rates.until < 0
    rates.control_frames = rates.empty_data_frames = rates.window_updates = 3
    rates.begin(7.0)
    assert (rates.until, rates.control_frames, rates.empty_data_frames, rates.window_updates) == (8.0, 0, 0, 0)


def test_no_connection_may_take_more_than_the_process() -> None:
    limits = Limits()
    assert limits.copied_bytes <= limits.process_copied_bytes
    assert limits.unsent_answer_bytes <= limits.process_unsent_answer_bytes
    assert limits.handlers_at_work <= limits.handlers <= limits.process_handlers
    assert limits.handlers_at_work <= limits.process_handlers_at_work <= limits.process_handlers
    assert limits.large_head_bytes <= limits.process_large_head_bytes
    assert limits.streams <= limits.process_streams
    assert all(value > 0 for value in dataclasses.astuple(limits))
    assert Totals(limits).handlers.take(limits.process_handlers)
