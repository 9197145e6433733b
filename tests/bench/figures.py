"""What is made of single measurements: percentiles, medians over the rounds, ratios.

The rule: two ways are compared within a round, where the machine was the same for both, and only then over the rounds.
Pure; a sample is whatever one way showed in one round of one subject.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Case:
    """A subject, such as `range`, at a size: so many connections, watchers or clients."""

    subject: str
    size: int


@dataclass(frozen=True, slots=True)
class Sample:
    """What one way showed in one round; figures by name, whose last part is the unit."""

    case: Case
    way: str
    round: int
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Spread:
    """The rounds' median, and the least and the most of them."""

    median: float
    least: float
    most: float


Samples: TypeAlias = Sequence[Sample]


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Of ascending values, the least that so many percent of them do not exceed. NaN of nothing."""
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def spread(values: Iterable[float]) -> Spread | None:
    """None of no values."""
    known = [value for value in values if not math.isnan(value)]
    return Spread(statistics.median(known), min(known), max(known)) if known else None


def figure(samples: Samples, case: Case, way: str, name: str) -> Spread | None:
    """One figure of one way over the rounds; None where it was not measured."""
    return spread(_by_round(samples, case, way, name).values())


def ratio(samples: Samples, case: Case, name: str, over: str, under: str) -> Spread | None:
    """A figure of one way in another's, of rounds in which both were measured."""
    above, below = (_by_round(samples, case, way, name) for way in (over, under))
    return spread(above[number] / below[number] for number in above if below.get(number))


def cases(samples: Samples) -> list[Case]:
    """In the order in which they were first measured."""
    return list(dict.fromkeys(sample.case for sample in samples))


def ways_of(samples: Samples, case: Case) -> list[str]:
    """Which ways showed something."""
    found: dict[Case, set[str]] = defaultdict(set)
    for sample in samples:
        found[sample.case].add(sample.way)
    return sorted(found[case])


def _by_round(samples: Samples, case: Case, way: str, name: str) -> dict[int, float]:
    return {
        sample.round: sample.figures[name]
        for sample in samples
        if sample.case == case and sample.way == way and name in sample.figures
    }
