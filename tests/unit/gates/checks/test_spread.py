"""Percentiles by rank, and a spread that a few outliers do not move."""

import pytest

from greenroom.gates.checks.spread import percentile, spread


@pytest.mark.parametrize(
    ("count", "percent", "value"), [(1, 50, 1), (2, 50, 1), (3, 50, 2), (100, 50, 50), (100, 99, 99), (32, 99, 32)]
)
def test_a_percentile_is_one_of_the_values(count: int, percent: int, value: float) -> None:
    assert percentile([float(n) for n in range(count, 0, -1)], percent) == value


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([10.0] * 8, 0),
        ([10.0] * 6 + [1000.0, 5000.0], 0),
        ([10.0, 10.0, 10.0, 30.0, 30.0, 30.0], 0.5),
        ([0.0, 0.0, 0.0], 0),
        ([1.0, 2.0, 4.0, 8.0, 16.0], 0.75),
    ],
)
def test_the_spread_is_that_of_most_values(values: list[float], expected: float) -> None:
    assert spread(values) == pytest.approx(expected)
