"""Bounds: budgets within budgets, and rates."""

import dataclasses

from greenroom.relay.limits import Budget, Limits, Rate, Totals


def test_a_budget_takes_all_or_nothing_up_to_its_bound() -> None:
    budget = Budget(10)
    assert budget.take(6)
    assert not budget.take(5)
    assert budget.used == 6
    budget.give_back(1)
    assert budget.take(5)


def test_a_wider_budget_binds_too_and_counts_what_its_parts_hold() -> None:
    wide = Budget(10)
    one, two = Budget(8, wide), Budget(8, wide)
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
