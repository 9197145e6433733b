"""What a process has used: processor time and memory.

The rule: user and system time together, of all the process's threads, as /proc/<pid>/stat has it; but read from the
process's own clock, which has nanoseconds where that file has ticks of 10 ms.
"""

import os
import time
from pathlib import Path

# clockid_t of another process's clock, as clock_getcpuclockid(3) makes it: the id's complement, and "scheduler" below.
_SCHEDULER = 2
_PID_SHIFT = 3
_STAT = Path("/proc/stat")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time since the process began."""
    return time.clock_gettime(~pid << _PID_SHIFT | _SCHEDULER)


def busy_seconds() -> float:
    """What all processors together have worked, or were kept from it by the machine's host, since the start."""
    user, nice, system, _, _, *interrupted_and_stolen = map(int, _STAT.read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + sum(interrupted_and_stolen)) / TICKS_PER_SECOND


def memory_kib(pid: int) -> int:
    """Resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "VmRSS":
            return int(value.split()[0])
    raise ProcessLookupError(pid)
