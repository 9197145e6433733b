"""The arithmetic of `check latency`: what is usual, what is worst, and how far apart the requests are.

The spread is the median of the distances from the median, divided by that: robust, as more than half of the requests
must be off to make it large. So a worker that is slow always, or for a few, has a small one and is judged; where it is
large most requests took anything, and a figure says more about the moment than about the worker.
"""

from collections.abc import Sequence
from math import ceil
from statistics import median


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that so many percent of all do not exceed; of less than 100 values, 99 is the largest."""
    return sorted(values)[ceil(len(values) * percent / 100) - 1]


def spread(values: Sequence[float]) -> float:
    """Median absolute deviation by median: 0 where most are equal. Normal values have about 2/3 of a deviation."""
    middle = median(values)
    return median(abs(value - middle) for value in values) / middle if middle else 0.0
