"""Runs of pytest, each in a process of its own: one is shown as it goes, and others beside it when they are over.

The rule: after Ctrl-C nothing more is started. The terminal sends it to each pytest as well, which then ends in good
order all that it had started; here nobody is ended, since that would cut this short.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import IO

from setup_common import ENVIRONMENT, ROOT

PASSED = 0
INTERRUPTED = 2
"""pytest's exit code after Ctrl-C."""
NOTHING_COLLECTED = 5
"""pytest's exit code where the options leave no test: no failure where another run has some."""
WORDS = {PASSED: "passed", INTERRUPTED: "interrupted", NOTHING_COLLECTED: "no test of it was asked for"}


@dataclass(frozen=True, slots=True)
class Run:
    """`arguments` are for pytest; `environment` comes on top of this process's."""

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """`code` is pytest's exit code; `output` is what it said, unless that was shown already."""

    name: str
    code: int
    seconds: float
    output: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {WORDS.get(self.code, 'FAILED')} ({self.seconds:.0f} s)"


class Runner:
    """Starts runs until Ctrl-C; those that would come after it are interrupted before they begin."""

    def __init__(self, interrupted: threading.Event) -> None:
        self._interrupted = interrupted

    def show(self, run: Run) -> Outcome:
        """The run's output appears as it comes."""
        return self._pytest(run, None)

    def show_beside(self, run: Run, others: Sequence[Run], at_once: int) -> list[Outcome]:
        """Shows `run`, and meanwhile carries out the others, `at_once` at a time; theirs is shown afterwards."""
        with ThreadPoolExecutor(at_once) as pool:
            meanwhile = [pool.submit(self._keep, other) for other in others]
            outcomes = [self.show(run)]
            for other in meanwhile:
                outcomes.append(other.result())
                print(f"\n{outcomes[-1].output}{outcomes[-1]}", flush=True)
        return outcomes

    def _keep(self, run: Run) -> Outcome:
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
            outcome = self._pytest(run, said)
            said.seek(0)
            return replace(outcome, output=said.read())

    def _pytest(self, run: Run, said: IO[str] | None) -> Outcome:
        if self._interrupted.is_set():
            return Outcome(run.name, INTERRUPTED, 0)
        started = time.monotonic()
        command = [str(ENVIRONMENT / "bin" / "python"), "-m", "pytest", *run.arguments]
        environment = {**os.environ, **run.environment}
        error = subprocess.STDOUT if said else None
        code = subprocess.run(command, cwd=ROOT, env=environment, stdout=said, stderr=error).returncode
        # One that was only starting knows nothing of Ctrl-C yet and ends in another way.
        return Outcome(run.name, INTERRUPTED if self._interrupted.is_set() else code, time.monotonic() - started)


@contextmanager
def until_interrupted() -> Iterator[Runner]:
    """A runner that Ctrl-C stops."""
    interrupted = threading.Event()
    # A function, not SIG_IGN: that would be inherited.
    before = signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    try:
        yield Runner(interrupted)
    finally:
        signal.signal(signal.SIGINT, before)


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """INTERRUPTED if any was, else that of the first which failed, else 0; NOTHING_COLLECTED if none had a test."""
    codes = [outcome.code for outcome in outcomes]
    if INTERRUPTED in codes:
        return INTERRUPTED
    failures = [code for code in codes if code not in (PASSED, NOTHING_COLLECTED)]
    return failures[0] if failures else min(codes)
