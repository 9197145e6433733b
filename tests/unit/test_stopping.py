"""Signals: the first one stops the program in good order, and a second changes nothing."""

import asyncio
import os
import signal

import pytest

from greenroom.stopping import stopped_by_signals


class Log:
    def __init__(self) -> None:
        self.events: list[str] = []

    def info(self, event: str, **_: object) -> None:
        self.events.append(event)


async def test_a_signal_cancels_once_and_says_so() -> None:
    """A second SIGTERM, of an impatient operator, must not cut the orderly stop short."""
    log, steps = Log(), []

    async def served() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.to_thread(lambda: None)
            steps.append("stopped in good order")

    with stopped_by_signals(log) as stopping:
        with pytest.raises(asyncio.CancelledError):
            await served()
        assert stopping.is_set()
    assert steps == ["stopped in good order"]
    assert log.events == ["stopping"]
