"""A child process of a test: started in a group of its own, logged to a file, and always ended by its own id.

Rule: a process that ends before it is ready fails the test at once, with the end of its log.
"""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self, TypeVar

from tests.support.waiting import wait_for

Fact = TypeVar("Fact")

START_SECONDS = 90
STOP_SECONDS = 20
LOG_TAIL_LINES = 30
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def interrupts_wait() -> Iterator[None]:
    """Ctrl-C in the block is heard after it: of a child that is just being made nobody knows yet, to end it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    heard_by = {number: signal.signal(number, lambda given, _: came.append(given)) for number in INTERRUPTS}
    try:
        yield
    finally:
        for number, handler in heard_by.items():
            signal.signal(number, handler)
    for given in came:
        signal.raise_signal(given)


class Process:
    """One child; `with` ends it. Subclasses say what `ready` means by overriding it."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
        self.name = name
        self.command = list(command)
        self.log_path = folder / f"{name}.log"
        self.environment = environment
        self.child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.kill()
            raise

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        assert self.child is not None, f"{self.name} was never started"
        return self.child.pid

    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def start(self) -> Self:
        self.spawn()
        self.ready()
        return self

    def spawn(self, *more_arguments: str, stdin: int = subprocess.DEVNULL, pass_fds: Sequence[int] = ()) -> None:
        with self.log_path.open("ab") as log, interrupts_wait():
            self.child = subprocess.Popen(
                [*self.command, *more_arguments],
                stdin=stdin,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment,
                pass_fds=pass_fds,
                start_new_session=True,
            )

    def ready(self) -> None:
        """Returns when the process can be used."""

    def wait_ready(self, probe: Callable[[], Fact], what: str, *, timeout_seconds: float = START_SECONDS) -> Fact:
        def asked() -> Fact:
            assert self.child is not None
            status = self.child.poll()
            assert status is None, f"{self.name} ended with status {status} before {what}"
            return probe()

        try:
            return wait_for(asked, timeout_seconds, f"{self.name} {what}")
        except AssertionError as error:
            error.add_note(self.log_tail())
            raise

    def log_tail(self) -> str:
        return "\n".join(self.log().splitlines()[-LOG_TAIL_LINES:])

    def stop(self) -> int:
        """Asks it to end (SIGTERM) and returns its exit status; AssertionError when it stays."""
        assert self.child is not None
        self._signal(signal.SIGTERM)
        try:
            return self.child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"{self.name} still ran {STOP_SECONDS} s after SIGTERM:\n{self.log_tail()}") from error

    def send_signal(self, number: signal.Signals) -> None:
        """To the whole group: SIGSTOP stalls it with its connections open, SIGCONT lets it go on."""
        self._signal(number)

    def kill(self) -> None:
        """SIGKILL to the whole group; nothing happens when it has ended already."""
        if self.child is not None:
            self._signal(signal.SIGKILL)
            self.child.wait()

    def _signal(self, number: signal.Signals) -> None:
        # The group's leader is not reaped before `wait`, so its id cannot have been given to somebody else.
        assert self.child is not None
        if self.child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.child.pid, number)
