"""Commands that leave descendants behind, and the question whether those are gone."""

from pathlib import Path

from tests.support.waiting import wait_for

DAEMON = """
import os, signal, sys, time
folder, way = sys.argv[1:]
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        with open(f"{folder}/daemon.new", "w") as file:
            file.write(f"{os.getpid()}")
        os.rename(f"{folder}/daemon.new", f"{folder}/daemon")
        while True:
            time.sleep(60)
    os._exit(0)
with open(f"{folder}/command", "w") as file:
    file.write(f"{os.getpid()}")
if way == "stay":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(60)
while not os.path.exists(f"{folder}/daemon"):
    time.sleep(0.01)
sys.exit(4)
"""
"""A program: arguments are a folder for the pids `command` and `daemon`, and whether the command stays or exits with 4.
The daemon has forked twice, is in a session of its own, and ignores what may be ignored.
"""
GENERATIONS = """
import os, sys, time
folder, left = sys.argv[1], int(sys.argv[2])
while left and os.fork() == 0:
    os.setsid()
    left -= 1
with open(f"{folder}/{left}", "w") as file:
    file.write(f"{os.getpid()}")
time.sleep(600)
"""
"""A program: arguments are a folder for the pids, `0` to N, and N, how many generations come after the command."""
SLEEPING_SHELL = "echo $$ > {pid_file}; while :; do sleep 60; done"


def wait_pid(path: Path) -> int:
    """The process id that a program writes there."""
    return int(wait_for(lambda: path.exists() and path.read_text().strip(), 20, f"{path.name} is written"))


def gone(pid: int) -> bool:
    """Whether no process has the id, once it had the time of a reaper to be taken note of."""
    return bool(wait_for(lambda: not runs(pid), 10, f"{pid} has ended"))


def runs(pid: int) -> bool:
    """Whether the process runs at this moment; one that only waits to be taken note of does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != b"Z"
