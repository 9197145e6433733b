"""Loopback ports for processes that tests start.

The rule: a port is below the kernel's ephemeral range, so that no outgoing connection can take it between its choice
and its use, and it is marked as taken for as long as this process lives, so that two test runs never choose the same.
"""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

PORTS = range(10_000, 32_000)
OTHERS = range(23_800, 23_900)
"""Of the previews in deploy/, which its tests have as they stand there."""
ATTEMPTS = 200

_taken: set[int] = set()
_marks: list[int] = []


def free_port() -> int:
    """A port that nobody listens on; OSError when none is found."""
    for _ in range(ATTEMPTS):
        port = random.choice(PORTS)
        if port not in _taken and port not in OTHERS and _can_bind(port) and _mark(port):
            _taken.add(port)
            return port
    raise OSError(f"no free port in {PORTS.start} to {PORTS.stop - 1} after {ATTEMPTS} attempts")


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _mark(port: int) -> bool:
    """Locks the port's byte of a file that all runs of this user share; the kernel drops the lock with the process."""
    if not _marks:
        path = Path(tempfile.gettempdir()) / f"greenroom-test-ports-{os.getuid()}"
        _marks.append(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    try:
        fcntl.lockf(_marks[0], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True
