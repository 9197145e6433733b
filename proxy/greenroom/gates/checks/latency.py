"""`check latency`: the time to the first token and between tokens, over some requests, against limits.

The rule: noise makes slower, never faster. So limits that are kept are kept, however busy the machine was; a limit that
is not, where the requests are too far apart (see `spread`), says nothing yet: inconclusive.
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from queue import Empty, SimpleQueue
from statistics import median
from time import monotonic
from typing import Final

from greenroom.errors import CheckFailed, CheckInconclusive
from greenroom.gates.checks.asking import Asker
from greenroom.gates.checks.chats import CHATS, event_said, request, user
from greenroom.gates.checks.spread import percentile, spread

PROMPT: Final = "Tell a story about a theatre in which everything goes well in the end."
TOGETHER_MS: Final = 1.0
"""Tokens that come closer came together, in one packet: what a user waits for is the time between two of those."""
FIRST, BETWEEN = "time to first token", "time between tokens"


@dataclass(frozen=True, slots=True)
class Limit:
    """What one percentile of one quantity may be."""

    quantity: str
    percent: int
    limit_ms: float


@dataclass(frozen=True, slots=True)
class Latency:
    """What to ask, how often and how many at once, and what is allowed. `warm_up` requests before count for nothing."""

    model: str
    prompt: str
    max_tokens: int
    requests: int
    concurrency: int
    warm_up: int
    limits: Sequence[Limit]
    max_spread: float


@dataclass(frozen=True, slots=True)
class Streamed:
    """One request: when its tokens came, in ms from its start."""

    arrivals_ms: Sequence[float]

    @property
    def gaps_ms(self) -> list[float]:
        """Between two tokens."""
        return [later - earlier for earlier, later in pairwise(self.arrivals_ms)]


@dataclass(frozen=True, slots=True)
class Measured:
    """One quantity over all requests: all its values, and the usual one of each request."""

    quantity: str
    values_ms: Sequence[float]
    usual_ms: Sequence[float]

    @property
    def spread(self) -> float:
        """How far the requests are apart. Within one request tokens may come in bursts: that is no noise."""
        return spread(self.usual_ms)

    def __str__(self) -> str:
        p50, p99 = (percentile(self.values_ms, percent) for percent in (50, 99))
        return f"{self.quantity} p50 {p50:.1f} ms, p99 {p99:.1f} ms, spread {self.spread:.2f}"


def check_latency(asker: Asker, asked: Latency) -> str:
    """Passes where all limits are kept; CheckFailed, CheckInconclusive."""
    for number in range(asked.warm_up):
        _streamed(asker, asked, f"warm-up {number + 1}")
    return judged(asked, _Load(asker, asked).run())


def judged(asked: Latency, streamed: Sequence[Streamed]) -> str:
    """What the requests say; CheckFailed, CheckInconclusive."""
    measured = {one.quantity: one for one in _measured(streamed)}
    figures = "; ".join(map(str, measured.values()))
    if missing := [limit.quantity for limit in asked.limits if limit.quantity not in measured]:
        raise CheckInconclusive(f"no answer had two tokens that came apart, so there is no {missing[0]}; {figures}")
    missed = [limit for limit in asked.limits if _value(measured, limit) > limit.limit_ms]
    if not missed:
        return f"{asked.requests} requests, {asked.concurrency} at once: {figures}"
    told = ", ".join(_missed(measured, limit) for limit in missed)
    if all(measured[limit.quantity].spread > asked.max_spread for limit in missed):
        too_noisy = f"but the requests are too far apart (spread over {asked.max_spread:g})"
        raise CheckInconclusive(f"{told}, {too_noisy}; {figures}")
    raise CheckFailed(f"{told}; {figures}")


def _measured(streamed: Sequence[Streamed]) -> Iterator[Measured]:
    firsts = [one.arrivals_ms[0] for one in streamed]
    yield Measured(FIRST, firsts, firsts)
    gaps = [one.gaps_ms for one in streamed if one.gaps_ms]
    if gaps:
        yield Measured(BETWEEN, [gap for one in gaps for gap in one], [median(one) for one in gaps])


def _value(measured: dict[str, Measured], limit: Limit) -> float:
    return percentile(measured[limit.quantity].values_ms, limit.percent)


def _missed(measured: dict[str, Measured], limit: Limit) -> str:
    return f"{limit.quantity} p{limit.percent} is {_value(measured, limit):.1f} ms, over {limit.limit_ms:g} ms"


def _streamed(asker: Asker, asked: Latency, name: str) -> Streamed:
    # The number comes first: what a worker remembers of a beginning must not make the others faster.
    body = request(asked.model, user(f"({name}) {asked.prompt}"), asked.max_tokens, stream=True)
    started, arrivals = monotonic(), list[float]()
    for event in asker.events(CHATS, body):
        now = 1000 * (monotonic() - started)
        if event_said(event).is_anything and (not arrivals or now - arrivals[-1] >= TOGETHER_MS):
            arrivals.append(now)
    if not arrivals:
        raise CheckFailed(f"request {name}: no token came")
    return Streamed(arrivals)


@dataclass(frozen=True, slots=True)
class _Load:
    """The requests, some at once. The first that fails ends it."""

    asker: Asker
    asked: Latency
    _waiting: "SimpleQueue[int]" = field(default_factory=SimpleQueue)
    _streamed: list[Streamed] = field(default_factory=list)
    _errors: list[BaseException] = field(default_factory=list)

    def run(self) -> list[Streamed]:
        for number in range(1, self.asked.requests + 1):
            self._waiting.put(number)
        # Daemons: a check that is out of time ends without them.
        users = [threading.Thread(target=self._ask, daemon=True) for _ in range(self.asked.concurrency)]
        for one in users:
            one.start()
        for one in users:
            one.join()
        if self._errors:
            raise self._errors[0]
        return self._streamed

    def _ask(self) -> None:
        while not self._errors:
            try:
                number = self._waiting.get_nowait()
                self._streamed.append(_streamed(self.asker, self.asked, f"{number} of {self.asked.requests}"))
            except Empty:
                return
            except BaseException as error:
                self._errors.append(error)  # A thread's outermost frame: `run` raises it.
                return
