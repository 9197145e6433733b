"""What is the operating system's: children that must not outlive their parent, ports for them, open files."""

import ctypes
import os
import random
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from greenroom.errors import StartError

PORTS = range(10_000, 32_000)
"""Below the kernel's range for outgoing connections, which could otherwise take a port just chosen."""
ATTEMPTS = 100

MAX_OPEN_FILES = 65_536
"""Two a client and some more: three times what the relay's bound on connections needs."""

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def die_with_parent(number: signal.Signals) -> Callable[[], None] | None:
    """What a child does before it becomes its program: it asks the kernel for a signal when this process ends.

    None where the kernel has no such thing (it is Linux's own).
    """
    if _LIBC is None:
        return None
    libc, parent = _LIBC, os.getpid()

    def ask() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:
            os._exit(1)  # The parent ended before it was asked.

    return ask


def allow_many_open_files() -> None:
    """Raises this process's own limit as far as it may, as Go's runtime does for etcd.

    The usual 1,024 are for programs that wait by select(); here they would end at some 500 clients.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # a kernel may allow less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def free_port(host: str = "127.0.0.1") -> int:
    """A port of `host` that nothing listens on at the moment; StartError when none is found."""
    for port in random.sample(PORTS, ATTEMPTS):
        if can_bind(host, port):
            return port
    raise StartError(f"no free port on {host} from {PORTS.start} to {PORTS.stop - 1}")


@contextmanager
def reserved_port(host: str = "127.0.0.1") -> Iterator[int]:
    """A free port for a child that takes a while to listen there; nobody who asks here is given it in the block.

    Nor in another process, as long as it is one of this network namespace: the mark is a name of the kernel's in that.
    """
    with socket.socket(socket.AF_UNIX) as mark:
        for port in random.sample(PORTS, ATTEMPTS):
            if can_bind(host, port) and _is_marked(mark, port):
                yield port
                return
    raise StartError(f"no free port on {host} from {PORTS.start} to {PORTS.stop - 1}")


def _is_marked(mark: socket.socket, port: int) -> bool:
    try:
        mark.bind(f"\0greenroom port {port}")
    except OSError:  # Somebody else's child is about to listen there.
        return False
    return True


def can_bind(host: str, port: int) -> bool:
    """Whether the address is this machine's and nothing listens on it."""
    try:
        # A machine need not know IPv6 at all.
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            # As servers do it: former connections that are still being wound up do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except (OSError, TypeError):  # The other one is Python's for what can be no name.
        return False
    return True
