"""Bounds: bounds within bounds, and rates."""

import dataclasses

from greenroom.relay.limits import Bound, Limits, Rate, Totals


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


def test_a_rate_counts_anew_each_second() -> None:
    rate = Rate(2)
    assert [rate.exceeded(7.0), rate.exceeded(7.5), rate.exceeded(7.9)] == [False, False, True]
    assert not rate.exceeded(8.0)


def test_no_connection_may_take_more_than_the_process() -> None:
    limits = Limits()
    assert limits.copied_bytes <= limits.process_copied_bytes
    assert limits.unsent_answer_bytes <= limits.process_unsent_answer_bytes
    assert limits.handlers <= limits.process_handlers
    assert all(value > 0 for value in dataclasses.astuple(limits))
    assert Totals(limits).handlers.take(limits.process_handlers)
