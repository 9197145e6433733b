"""What is to be reached, as data, and how far a run is from it.

The rule: a target is an amount that must not be exceeded, of a figure by itself or of its ratio to another way's. Each
case that a target speaks of is judged by itself; whether one is met passes or fails no test.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tests.bench import gated, idle, start_up, visible
from tests.bench.figures import Case, Samples, Spread, cases, figure, ratio
from tests.bench.ways import DIRECT, GREENROOM, GRPC_PROXY, HAPROXY
from tests.bench.workloads import WORKLOADS

UNARY: Final = tuple(WORKLOADS)


@dataclass(frozen=True, slots=True)
class Target:
    """`under`: the way whose figure is the measure; none: the amount is in the figure's own unit."""

    name: str
    subjects: tuple[str, ...]
    figure: str
    at_most: float
    under: str | None = None
    sizes: tuple[int, ...] = ()

    def speaks_of(self, case: Case) -> bool:
        return case.subject in self.subjects and (not self.sizes or case.size in self.sizes)

    def found(self, samples: Samples, case: Case) -> Spread | None:
        """What the run showed; None where it measured too little."""
        if self.under is None:
            return figure(samples, case, GREENROOM, self.figure)
        return ratio(samples, case, self.figure, GREENROOM, self.under)


@dataclass(frozen=True, slots=True)
class Judged:
    """One target in one case."""

    target: Target
    case: Case
    found: Spread

    @property
    def met(self) -> bool:
        return self.found.median <= self.target.at_most

    @property
    def in_words(self) -> str:
        if self.met:
            return "met"
        return f"missed by {(self.found.median / self.target.at_most - 1) * 100:.0f} %"


TARGETS: Final[Sequence[Target]] = (
    Target("CPU a call / grpc-proxy's", UNARY, "cpu_us", 0.45, GRPC_PROXY),
    Target("CPU a call / haproxy's", UNARY, "cpu_us", 1.8, HAPROXY),
    Target("p50 / haproxy's", UNARY, "p50_us", 1.2, HAPROXY, sizes=(1,)),
    Target("KiB a connection", (idle.SUBJECT,), "memory_kib_per_connection", 10),
    Target("gated p50 / direct", gated.SUBJECTS, "p50_us", 3, DIRECT, sizes=(1,)),
    Target("verdict-to-visible / Put-to-visible", (visible.SUBJECT,), "p50_us", 4, DIRECT),
    Target("seconds to ready with 2,000 held", (start_up.SUBJECT,), "seconds", 5, sizes=(2000,)),
)


def judge(samples: Samples) -> Iterator[Judged]:
    """Each target in each case that was measured."""
    for target in TARGETS:
        for case in cases(samples):
            if target.speaks_of(case) and (found := target.found(samples, case)) is not None:
                yield Judged(target, case, found)
