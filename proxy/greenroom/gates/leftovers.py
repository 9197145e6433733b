"""What is left of a command whose guard was itself killed, by the kernel for want of memory or by the command: ended.

A guard's end makes the command's descendants somebody else's children, so they are known by a mark in the environment
that they were started with. The rule: this is for that one case; a descendant that has taken its environment away, or
has another user's rights, is not found.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from greenroom.gates.guard import GIVE_UP_SECONDS, LOOK_SECONDS

MARK: Final = "_GREENROOM_GUARDED"
"""The variable; its value is one run's."""


def end_marked(value: str) -> None:
    """Kills all that has this mark, round by round, since what is killed may just have started more."""
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while time.monotonic() < deadline:
        found = list(_marked(f"{MARK}={value}".encode()))
        if not found:
            return
        for process in found:
            _kill(process)
        time.sleep(LOOK_SECONDS)


def _marked(mark: bytes) -> Iterator[int]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and mark in _environment(folder):
            yield int(folder.name)


def _environment(folder: Path) -> list[bytes]:
    """Nothing of one that has ended, or is another user's."""
    try:
        return (folder / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except OSError:
        return
