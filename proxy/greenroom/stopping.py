"""The orderly stop: a signal cancels the program once, and what hangs then is not waited for for ever."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

STOP_SECONDS = 10.0
"""After a signal everything is over by then, whatever hangs: supervisors kill after that."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stopped_by_signals(log: Any) -> Iterator[asyncio.Event]:
    """SIGTERM and SIGINT cancel the task that runs the block, once; the event says that they did."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    stopping = asyncio.Event()
    patience: list[asyncio.TimerHandle] = []

    def stop(number: signal.Signals) -> None:
        if not stopping.is_set():
            log.info("stopping", signal=number.name)
            stopping.set()
            patience.append(loop.call_later(STOP_SECONDS, _give_up, log))
            task.cancel()

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        yield stopping
    finally:
        for timer in patience:
            timer.cancel()
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)


def _give_up(log: Any) -> None:
    """Nobody waits for longer. The kernel ends the embedded etcd with this process."""
    log.error("stop.took.too.long", seconds=STOP_SECONDS)
    os._exit(1)
